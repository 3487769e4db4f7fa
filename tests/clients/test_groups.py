"""Members share the partitions of a topic, also when one leaves, dies or stalls."""

from collections.abc import Callable

from .adapter import Client, Committed, Place
from .driven import Driven
from .member import MemberProcess
from .stories import Audience, numbered, places, until

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]
MakeMember = Callable[[str], MemberProcess]


def three_members(consumer: MakeConsumer, group: str, topic: str) -> Audience:
    audience = Audience(*(consumer(group) for _ in range(3)))
    for member in audience.consumers:
        member.subscribe(topic)
    audience.until_shared(places(topic, 6), [2, 2, 2])
    return audience


def each_once(client: Client, audience: Audience, topic: str, text: str) -> None:
    """Sixty new records are read, each once and by the owner of its partition; then committed."""
    audience.forget()
    sent = numbered(60, text, partitions=6)
    client.produce(topic, sent)
    audience.until_count(len(sent))
    assert sorted(audience.values()) == sorted(m.value or b"" for m in sent)
    for member in audience.consumers:
        assert {record.place for record in audience.of(member)} == member.assignment()
    for member in audience.consumers:
        member.commit()


def test_three_members_share_six_partitions_and_see_each_record_once(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    audience = three_members(consumer, group, topic)
    each_once(client, audience, topic, "shared")
    owners = {member.assignment() for member in audience.consumers}
    assert sorted(len(owned) for owned in owners) == [2, 2, 2]


def test_a_member_that_leaves_hands_over_and_shares_again_when_it_comes_back(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(6)
    audience = three_members(consumer, group, topic)
    each_once(client, audience, topic, "before")

    audience.leave(audience.consumers[0])
    audience.until_shared(places(topic, 6), [3, 3])
    each_once(client, audience, topic, "while it is away")

    back = consumer(group)
    back.subscribe(topic)
    audience.add(back)
    audience.until_shared(places(topic, 6), [2, 2, 2])
    each_once(client, audience, topic, "after")


def test_a_member_that_dies_is_missed_after_its_session_and_comes_back(
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    member_process: MakeMember,
    group: str,
) -> None:
    topic = new_topic(6)
    audience = Audience(consumer(group), consumer(group))
    for member in audience.consumers:
        member.subscribe(topic)
    victim = member_process(topic)
    audience.until(lambda: len(victim.assignment) == 2, "the member in its process owns two")
    owned = victim.assignment

    victim.kill()
    # What comes into a dead member's partitions waits there for their next owner.
    client.produce(topic, numbered(60, "orphan", partitions=6))
    audience.until_shared(places(topic, 6), [3, 3])
    audience.until_values(f"orphan {number}".encode() for number in range(60))
    assert all(any(record.place == place for record in audience.records) for place in owned), (
        "the dead member's partitions were read by the others"
    )
    # All of them, whoever read them: what moved with the rebalance may be on its way a second time.
    for member in audience.consumers:
        member.commit(dict.fromkeys(member.assignment(), Committed(10, "")))

    again = member_process(topic)
    audience.until(lambda: len(again.assignment) == 2, "it owns two again")
    client.produce(topic, numbered(60, "again", partitions=6))

    def got() -> list[str]:
        values = [*(value.decode() for value in audience.values()), *again.values]
        return [value for value in values if value.startswith("again")]

    audience.until(lambda: len(got()) >= 60, "sixty records among all three")
    assert sorted(got()) == sorted(f"again {number}" for number in range(60))
    assert len(again.values) == 20, "it began at the committed offsets"


def test_a_member_that_stalls_is_replaced_and_joins_again_when_it_wakes(
    client: Client,
    new_topic: MakeTopic,
    consumer: MakeConsumer,
    member_process: MakeMember,
    group: str,
) -> None:
    topic = new_topic(2)
    audience = Audience(consumer(group))
    audience.consumers[0].subscribe(topic)
    sleeper = member_process(topic)
    audience.until(lambda: len(sleeper.assignment) == 1, "each owns one")

    sleeper.stall()
    audience.until_shared(places(topic, 2), [2])
    client.produce(topic, numbered(20, "meanwhile", partitions=2))
    audience.until_values(f"meanwhile {number}".encode() for number in range(20))
    audience.consumers[0].commit()

    sleeper.wake()
    audience.until(
        lambda: (
            len(sleeper.assignment) == 1
            and not sleeper.assignment & audience.consumers[0].assignment()
        ),
        "the sleeper owns one again",
    )
    client.produce(topic, numbered(20, "awake", partitions=2))
    audience.until(
        lambda: sum(value.startswith("awake") for value in sleeper.values) == 10,
        "the sleeper reads its half",
    )
    # What it may still have had in hand when it woke, it could not commit: it was out of the group.
    audience.consumers[0].commit()
    admin = client.admin()
    until(
        lambda: {offset for offset, _ in admin.group_offsets(group).values()} == {20},
        "both partitions are committed to their ends",
    )
    admin.close()


def test_several_groups_each_get_all_records_of_a_topic(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    groups = [f"{group}-{number}" for number in range(3)]
    audiences = [Audience(consumer(name)) for name in groups]
    for audience in audiences:
        audience.consumers[0].subscribe(topic)
    sent = numbered(20, partitions=2)
    client.produce(topic, sent)
    for number, audience in enumerate(audiences):
        audience.until_count(len(sent))
        assert sorted(audience.values()) == sorted(m.value or b"" for m in sent)
        # Each group's offsets are its own.
        audience.consumers[0].commit({Place(topic, 0): Committed(number + 1, "")})
    for number, audience in enumerate(audiences):
        assert audience.consumers[0].committed(Place(topic, 0)) == number + 1


def test_consumers_without_a_group_take_nothing_from_each_other(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(10, partitions=1))
    for _ in range(2):
        audience = Audience(consumer())
        audience.consumers[0].assign(Place(topic, 0))
        audience.until_count(10)
        assert [record.offset for record in audience.records] == list(range(10))


def test_added_partitions_are_shared_out_too(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    audience = Audience(consumer(group), consumer(group))
    for member in audience.consumers:
        member.subscribe(topic)
    audience.until_shared(places(topic, 2), [1, 1])
    admin = client.admin()
    admin.add_partitions(topic, 4)
    until(lambda: admin.partition_count(topic) == 4, "four partitions are there")
    admin.close()
    audience.until_shared(places(topic, 4), [2, 2])
    client.produce(topic, numbered(20, partitions=4))
    audience.until_values(f"record {number}".encode() for number in range(20))
