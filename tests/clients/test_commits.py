"""Committed offsets: explicit commits, auto-commit, rebalances, restarts."""

from .adapter import Admin, Client, Committed, Partition
from .conftest import MakeConsumer, MakeTopic
from .consumers import BackgroundConsumer, Consumers, numbered, partitions_of


def read(consumer: BackgroundConsumer, topic: str, count: int) -> Consumers:
    consumers = Consumers(consumer)
    consumer.subscribe(topic)
    consumers.until_count(count)
    return consumers


def test_a_restarted_consumer_resumes_at_the_committed_offset(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(20, partitions=1))
    first = read(consumer(group), topic, 20)
    first.all[0].commit({Partition(topic, 0): Committed(12, "")})
    first.close(first.all[0])

    second = read(consumer(group), topic, 8)
    assert [record.offset for record in second.records] == list(range(12, 20))


def test_after_a_rebalance_the_new_owner_continues_at_the_committed_offset(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    client.produce(topic, numbered(20, partitions=2))
    consumers = read(consumer(group), topic, 20)
    consumers.all[0].commit(dict.fromkeys(partitions_of(topic, 2), Committed(4, "")))

    newcomer = consumer(group)
    newcomer.subscribe(topic)
    consumers.add(newcomer)
    consumers.until_shared(partitions_of(topic, 2), [1, 1])
    consumers.until(lambda: len(newcomer.records) >= 6, "it has read the uncommitted records")
    (owned,) = newcomer.assignment()
    assert [(record.topic_partition, record.offset) for record in newcomer.records] == [
        (owned, offset) for offset in range(4, 10)
    ]


def test_a_commit_without_offsets_commits_all_polled_records(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(3)
    client.produce(topic, numbered(30, partitions=3))
    first = read(consumer(group), topic, 30)
    first.all[0].commit()
    assert {
        partition: o.offset for partition, o in admin.group_offsets(group).items()
    } == dict.fromkeys(partitions_of(topic, 3), 10)
    first.close(first.all[0])

    client.produce(topic, numbered(3, "new", partitions=3))
    second = read(consumer(group), topic, 3)
    assert sorted(second.values()) == [b"new 0", b"new 1", b"new 2"]


def test_uncommitted_records_are_read_again(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    client.produce(topic, numbered(10, partitions=1))
    first = read(consumer(group), topic, 10)
    assert first.all[0].committed(Partition(topic, 0)) is None
    first.close(first.all[0])
    second = read(consumer(group), topic, 10)
    assert [record.offset for record in second.records] == list(range(10))


def test_auto_commit_commits_while_the_consumer_polls_and_when_it_closes(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    client.produce(topic, numbered(10, partitions=1))
    first = read(consumer(group, auto_commit=True), topic, 10)
    first.until(
        lambda: admin.group_offsets(group).get(partition, Committed(-1, "")).offset == 10,
        "ten records are auto-committed",
    )

    # The interval is longer than any test, so only closing the consumer can commit.
    first.close(first.all[0])
    client.produce(topic, numbered(5, "more", partitions=1))
    second = read(consumer(group, auto_commit=True, auto_commit_interval_ms=600_000), topic, 5)
    assert [record.offset for record in second.records] == list(range(10, 15))
    second.close(second.all[0])
    assert admin.group_offsets(group)[partition].offset == 15


def test_the_metadata_of_a_commit_are_returned_with_it(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic(2)
    client.produce(topic, numbered(2, partitions=2))
    consumers = read(consumer(group), topic, 2)
    offsets = {
        Partition(topic, 0): Committed(1, "as far as ключ"),
        Partition(topic, 1): Committed(0, ""),
    }
    consumers.all[0].commit(offsets)
    assert admin.group_offsets(group) == offsets


def test_a_consumer_with_manual_assignment_can_commit(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    client.produce(topic, numbered(10, partitions=1))
    first = Consumers(consumer(group))
    first.all[0].assign(partition)
    first.until_count(10)
    first.all[0].commit({partition: Committed(4, "")})
    first.close(first.all[0])

    second = Consumers(consumer(group))
    second.all[0].assign(partition)
    second.until_count(6)
    assert [record.offset for record in second.records] == list(range(4, 10))


def test_commits_beyond_the_end_and_backwards_are_accepted(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str, admin: Admin
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    client.produce(topic, numbered(3, partitions=1))
    consumers = read(consumer(group), topic, 3)
    for offset in (1_000_000, 2, 0):
        consumers.all[0].commit({partition: Committed(offset, "")})
        assert admin.group_offsets(group)[partition].offset == offset


def test_an_unknown_group_has_no_offsets(client: Client, admin: Admin, group: str) -> None:
    assert admin.group_offsets(group) == {}
