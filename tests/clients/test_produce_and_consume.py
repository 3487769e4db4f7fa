"""Records go in by one call and come out by another, as they were, in order, in every codec."""

import time
from collections.abc import Callable

import pytest

from .adapter import Client, Message, Place
from .driven import Driven
from .stories import Audience, numbered, places

MakeTopic = Callable[..., str]
MakeConsumer = Callable[..., Driven]


def test_what_is_produced_is_consumed_as_it_was(
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

    audience = Audience(consumer())
    audience.consumers[0].assign(Place(topic, 0))
    audience.until_count(len(sent))
    got = [
        Message(r.value, r.key, r.partition, r.timestamp_ms, r.headers) for r in audience.records
    ]
    assert got == sent
    assert [record.offset for record in audience.records] == [0, 1, 2, 3]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_each_compression_codec_comes_through(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, codec: str | None
) -> None:
    if codec is not None and codec not in client.codecs:
        pytest.skip(f"{client.name} has no {codec}")
    topic = new_topic()
    # Repetitive, so that a library which keeps only what got smaller really compresses.
    sent = [Message(f"{number} ".encode() * 300, partition=0) for number in range(50)]
    client.produce(topic, sent, codec=codec)

    audience = Audience(consumer())
    audience.consumers[0].assign(Place(topic, 0))
    audience.until_count(len(sent))
    assert audience.values() == [message.value for message in sent]


def test_records_of_one_key_keep_their_partition_and_their_order(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(4)
    sent = [Message(str(n).encode(), key=f"key {n % 7}".encode()) for n in range(140)]
    placed = client.produce(topic, sent)
    partitions: dict[bytes | None, set[int]] = {}
    for message, (partition, _) in zip(sent, placed, strict=True):
        partitions.setdefault(message.key, set()).add(partition)
    assert all(len(of_key) == 1 for of_key in partitions.values())

    audience = Audience(consumer(group))
    audience.consumers[0].subscribe(topic)
    audience.until_count(len(sent))
    for key in partitions:
        values = [record.value for record in audience.records if record.key == key]
        assert values == [message.value for message in sent if message.key == key]


def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic(2)
    for round_number in range(2):  # the second producer gets an id of its own
        sent = numbered(200, f"round {round_number}", partitions=2)
        placed = client.produce(topic, sent, idempotent=True)
        assert sorted(placed) == [
            (partition, round_number * 100 + n) for partition in (0, 1) for n in range(100)
        ]

    audience = Audience(consumer())
    audience.consumers[0].assign(*places(topic, 2))
    audience.until_count(400)
    for partition in (0, 1):
        got = [record for record in audience.records if record.partition == partition]
        assert [record.offset for record in got] == list(range(200))
        expected = [
            f"round {round_number} {n}".encode()
            for round_number in range(2)
            for n in range(partition, 200, 2)
        ]
        assert [record.value for record in got] == expected


def test_a_record_of_almost_a_megabyte_comes_through(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    value = bytes(range(256)) * 3_900  # below the libraries' own limit of 1,000,000 bytes
    client.produce(topic, [Message(value, partition=0), Message(b"after it", partition=0)])
    audience = Audience(consumer())
    audience.consumers[0].assign(Place(topic, 0))
    audience.until_count(2)
    assert audience.values() == [value, b"after it"]


def test_a_waiting_consumer_gets_what_is_produced_later(
    client: Client, new_topic: MakeTopic, consumer: MakeConsumer
) -> None:
    topic = new_topic()
    audience = Audience(
        consumer(fetch_max_wait_ms=5_000)
    )  # the broker shall not let it wait so long
    audience.consumers[0].assign(Place(topic, 0))
    for number in range(5):
        client.produce(topic, [Message(str(number).encode(), partition=0)])
        audience.until_count(number + 1)
    assert audience.values() == [b"0", b"1", b"2", b"3", b"4"]
