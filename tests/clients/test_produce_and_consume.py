"""Records that are produced are consumed unchanged, in order, with every codec."""

import time

import pytest

from .adapter import Client, Message, Partition
from .conftest import MakeConsumer, MakeTopic
from .consumers import Consumers, numbered, partitions_of


def test_records_are_consumed_unchanged(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    now_ms = int(time.time() * 1000)
    sent = [
        Message(b"value", b"key", 0, now_ms, (("header", b"one"), ("header", b"two"))),
        Message(b"", b"empty value", 0, now_ms + 1),
        Message(None, b"tombstone", 0, now_ms + 2),
        Message("ключ ⟂ 🙂".encode(), None, 0, now_ms + 3),
    ]
    assert client.produce(topic, sent) == [(0, 0), (0, 1), (0, 2), (0, 3)]

    consumers = Consumers(consumer())
    consumers.all[0].assign(Partition(topic, 0))
    consumers.until_count(len(sent))
    received = [
        Message(r.value, r.key, r.partition, r.timestamp_ms, r.headers) for r in consumers.records
    ]
    assert received == sent
    assert [record.offset for record in consumers.records] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_are_consumed_with_each_compression_codec(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, codec: str | None
) -> None:
    if codec is not None and codec not in client.codecs:
        pytest.skip(f"{client.name} does not support {codec}")
    topic = new_topic()
    # The values are repetitive, because some libraries do not compress batches that stay large.
    sent = [Message(f"{number} ".encode() * 300, partition=0) for number in range(50)]
    client.produce(topic, sent, codec=codec)

    consumers = Consumers(consumer())
    consumers.all[0].assign(Partition(topic, 0))
    consumers.until_count(len(sent))
    assert consumers.values() == [message.value for message in sent]


def test_records_of_one_key_keep_their_partition_and_their_order(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(4)
    sent = [Message(str(n).encode(), key=f"key {n % 7}".encode()) for n in range(140)]
    stored = client.produce(topic, sent)
    partitions: dict[bytes | None, set[int]] = {}
    for message, (partition, _) in zip(sent, stored, strict=True):
        partitions.setdefault(message.key, set()).add(partition)
    assert all(len(of_key) == 1 for of_key in partitions.values())

    consumers = Consumers(consumer(group))
    consumers.all[0].subscribe(topic)
    consumers.until_count(len(sent))
    for key in partitions:
        values = [record.value for record in consumers.records if record.key == key]
        assert values == [message.value for message in sent if message.key == key]


def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic(2)
    for producer in range(2):
        sent = numbered(200, f"producer {producer}", partitions=2)
        stored = client.produce(topic, sent, idempotent=True)
        assert sorted(stored) == [
            (partition, producer * 100 + n) for partition in (0, 1) for n in range(100)
        ]

    consumers = Consumers(consumer())
    consumers.all[0].assign(*partitions_of(topic, 2))
    consumers.until_count(400)
    for partition in (0, 1):
        received = [record for record in consumers.records if record.partition == partition]
        assert [record.offset for record in received] == list(range(200))
        expected = [
            f"producer {producer} {n}".encode()
            for producer in range(2)
            for n in range(partition, 200, 2)
        ]
        assert [record.value for record in received] == expected


def test_a_record_of_almost_a_megabyte_is_consumed(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    value = bytes(range(256)) * 3_900  # below the libraries' own limit of 1,000,000 bytes
    client.produce(topic, [Message(value, partition=0), Message(b"next", partition=0)])
    consumers = Consumers(consumer())
    consumers.all[0].assign(Partition(topic, 0))
    consumers.until_count(2)
    assert consumers.values() == [value, b"next"]


def test_a_waiting_fetch_returns_as_soon_as_records_are_produced(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    consumers = Consumers(consumer(fetch_max_wait_ms=5_000))
    consumers.all[0].assign(Partition(topic, 0))
    for number in range(5):
        client.produce(topic, [Message(str(number).encode(), partition=0)])
        consumers.until_count(number + 1)
    assert consumers.values() == [b"0", b"1", b"2", b"3", b"4"]
