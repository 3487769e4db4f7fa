"""Beginning and end offsets, offsets by timestamp, seek, auto.offset.reset."""

import time

from .adapter import Client, Message, Partition
from .conftest import MakeConsumer, MakeTopic
from .consumers import Consumers, numbered


def test_beginning_and_end_offsets_of_empty_and_filled_partitions(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic(2)
    client.produce(topic, numbered(7, partitions=1))
    reader = consumer()
    assert reader.beginning_offset(Partition(topic, 0)) == 0
    assert reader.end_offset(Partition(topic, 0)) == 7
    assert reader.beginning_offset(Partition(topic, 1)) == 0
    assert reader.end_offset(Partition(topic, 1)) == 0


def test_the_offset_for_a_time_is_that_of_the_first_record_not_before_it(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    start_ms = int(time.time() * 1000) - 60_000
    for batch in range(3):
        client.produce(
            topic,
            [
                Message(b"x", partition=0, timestamp_ms=start_ms + 10_000 * batch + 1_000 * n)
                for n in range(5)
            ],
        )
    reader = consumer()
    assert reader.offset_for_time(partition, start_ms - 1) == 0
    assert reader.offset_for_time(partition, start_ms) == 0
    assert reader.offset_for_time(partition, start_ms + 1) == 1
    assert reader.offset_for_time(partition, start_ms + 4_000) == 4
    assert reader.offset_for_time(partition, start_ms + 4_001) == 5
    assert reader.offset_for_time(partition, start_ms + 12_500) == 8
    assert reader.offset_for_time(partition, start_ms + 24_000) == 14
    assert reader.offset_for_time(partition, start_ms + 24_001) is None


def test_seek_reads_again_or_skips_records(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    client.produce(topic, numbered(50, partitions=1))
    consumers = Consumers(consumer())
    consumers.all[0].assign(partition)
    consumers.until_count(50)
    for offset in (45, 0, 49, 7):
        consumers.forget()
        consumers.all[0].seek(partition, offset)
        consumers.until_count(50 - offset)
        assert [record.offset for record in consumers.records] == list(range(offset, 50))


def test_a_new_group_with_latest_receives_only_new_records(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    client.produce(topic, numbered(10, "old", partitions=1))
    consumers = Consumers(consumer(group, auto_offset_reset="latest"))
    consumers.all[0].subscribe(topic)
    consumers.until_shared([partition], [1])
    # Produce until a record arrives, because the library does not report the lookup of the offset.
    consumers.until(
        lambda: bool(consumers.records) or _produce_one(client, topic, consumers), "one is received"
    )
    assert b"new" in consumers.values()[:1]


def _produce_one(client: Client, topic: str, consumers: Consumers) -> bool:
    client.produce(topic, [Message(b"new", partition=0)])
    return bool(consumers.records)


def test_an_offset_beyond_the_end_is_reset(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    partition = Partition(topic, 0)
    client.produce(topic, numbered(5, partitions=1))
    consumers = Consumers(consumer(auto_offset_reset="earliest"))
    consumers.all[0].assign(partition)
    consumers.until_count(5)
    consumers.forget()
    consumers.all[0].seek(partition, 1_000)
    consumers.until_count(5)
    assert [record.offset for record in consumers.records] == list(range(5))
