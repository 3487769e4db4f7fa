"""Groups whose members join, leave, die and stall."""

from collections.abc import Callable

from .adapter import Client, Committed, Partition
from .conftest import MakeConsumer, MakeTopic, NewGroup
from .consumers import Consumers, numbered, partitions_of, until
from .member_process import MemberProcess

MakeMember = Callable[[str], MemberProcess]


def check_delivery(client: Client, consumers: Consumers, topic: str, text: str) -> None:
    """Check that sixty new records are read, each once and by the owner of its partition, and then
    committed."""
    consumers.forget()
    sent = numbered(60, text, partitions=6)
    client.produce(topic, sent)
    consumers.until_count(len(sent))
    assert sorted(consumers.values()) == sorted(m.value or b"" for m in sent)
    for member in consumers.all:
        assert {
            record.topic_partition for record in consumers.records_of(member)
        } == member.assignment()
    for member in consumers.all:
        member.commit()


def test_partitions_are_shared_again_when_a_member_leaves_and_comes_back(
    client: Client, new_topic: MakeTopic, new_group: NewGroup, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    consumers = new_group(topic, 2, 2, 2)
    check_delivery(client, consumers, topic, "before")

    consumers.close(consumers.all[0])
    consumers.until_shared(partitions_of(topic, 6), [3, 3])
    check_delivery(client, consumers, topic, "without it")

    back = consumer(group)
    back.subscribe(topic)
    consumers.add(back)
    consumers.until_shared(partitions_of(topic, 6), [2, 2, 2])
    check_delivery(client, consumers, topic, "after")


def test_a_killed_member_is_replaced_after_its_session_timeout(
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    member_process: MakeMember,
    group: str,
) -> None:
    topic = new_topic(6)
    consumers = Consumers(consumer(group), consumer(group))
    for member in consumers.all:
        member.subscribe(topic)
    victim = member_process(topic)
    consumers.until(
        lambda: len(victim.assignment) == 2, "the member in its process owns two partitions"
    )
    owned = victim.assignment

    victim.kill()
    client.produce(topic, numbered(60, "orphan", partitions=6))
    consumers.until_shared(partitions_of(topic, 6), [3, 3])
    consumers.until_values(f"orphan {number}".encode() for number in range(60))
    assert all(
        any(record.topic_partition == partition for record in consumers.records)
        for partition in owned
    ), "the dead member's partitions were read by the others"
    # With explicit offsets, because records of partitions that moved may have been polled twice.
    for member in consumers.all:
        member.commit(dict.fromkeys(member.assignment(), Committed(10, "")))

    again = member_process(topic)
    consumers.until(lambda: len(again.assignment) == 2, "it owns two partitions again")
    client.produce(topic, numbered(60, "again", partitions=6))

    def received() -> list[str]:
        values = [*(value.decode() for value in consumers.values()), *again.values]
        return [value for value in values if value.startswith("again")]

    consumers.until(lambda: len(received()) >= 60, "all three together have received sixty records")
    assert sorted(received()) == sorted(f"again {number}" for number in range(60))
    assert len(again.values) == 20, "it has started at the committed offsets"


def test_a_stalled_member_is_replaced_and_rejoins_when_it_continues(
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    member_process: MakeMember,
    group: str,
) -> None:
    topic = new_topic(2)
    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe(topic)
    stalled = member_process(topic)
    consumers.until(lambda: len(stalled.assignment) == 1, "each owns one partition")

    stalled.stall()
    consumers.until_shared(partitions_of(topic, 2), [2])
    client.produce(topic, numbered(20, "meanwhile", partitions=2))
    consumers.until_values(f"meanwhile {number}".encode() for number in range(20))
    consumers.all[0].commit()

    stalled.resume()
    consumers.until(
        lambda: (
            len(stalled.assignment) == 1 and not stalled.assignment & consumers.all[0].assignment()
        ),
        "the stalled member owns one partition again",
    )
    client.produce(topic, numbered(20, "awake", partitions=2))
    consumers.until(
        lambda: sum(value.startswith("awake") for value in stalled.values) == 10,
        "the stalled member has read its half",
    )
    # The member could not commit records that it had polled before it was removed.
    consumers.all[0].commit()
    admin = client.admin()
    until(
        lambda: {offset for offset, _ in admin.group_offsets(group).values()} == {20},
        "both partitions are committed to their end offsets",
    )
    admin.close()


def test_each_of_several_groups_receives_all_records(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    groups = [f"{group}-{number}" for number in range(3)]
    of_groups = [Consumers(consumer(name)) for name in groups]
    for consumers in of_groups:
        consumers.all[0].subscribe(topic)
    sent = numbered(20, partitions=2)
    client.produce(topic, sent)
    for number, consumers in enumerate(of_groups):
        consumers.until_count(len(sent))
        assert sorted(consumers.values()) == sorted(m.value or b"" for m in sent)
        consumers.all[0].commit({Partition(topic, 0): Committed(number + 1, "")})
    for number, consumers in enumerate(of_groups):
        assert consumers.all[0].committed(Partition(topic, 0)) == number + 1


def test_added_partitions_are_assigned(
    client: Client, new_topic: MakeTopic, new_group: NewGroup
) -> None:
    topic = new_topic(2)
    consumers = new_group(topic, 1, 1)
    admin = client.admin()
    admin.add_partitions(topic, 4)
    until(lambda: admin.partition_count(topic) == 4, "the topic has four partitions")
    admin.close()
    consumers.until_shared(partitions_of(topic, 4), [2, 2])
    client.produce(topic, numbered(20, partitions=4))
    consumers.until_values(f"record {number}".encode() for number in range(20))
