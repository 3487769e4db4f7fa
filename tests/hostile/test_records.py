"""Batches that are small when compressed, with millions of records or an error for each record."""

import time
from contextlib import ExitStack

import pytest
from kohort.log.batch import assemble, read_header
from kohort.log.codecs import compress
from kohort.protocol.budgets import RECORD_ERRORS_MAX
from support.broker import batch

from .conftest import FULL, Target

# The smallest record: null key, null value, no headers.
RECORD = b"\x0c\0\0\0\x01\x01\0"
GZIP, ZSTD = 1, 4


def bomb(count: int, codec: int, max_timestamp: int | None = None) -> bytes:
    """Return a batch of `count` records."""
    header = read_header(batch(b"", at_ms=time.time_ns() // 1_000_000))
    header = header._replace(attributes=codec, count=count, last_offset_delta=count - 1)
    if max_timestamp is not None:
        header = header._replace(max_timestamp=max_timestamp)
    return assemble(header, compress(codec, RECORD * count))


def produce(target: Target, records: bytes, **configs: str) -> dict[str, object]:
    """Return the response of a partition of a topic with these configurations."""
    with target.client() as client:
        client.socket.settimeout(120)
        client.create_topics("orders", **configs)
        return client.produce(records)


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_millions_of_records_in_a_compressed_batch(attack, policy):
    target = attack()
    records = bomb(18_000_000 if FULL else 1_000_000, ZSTD, max_timestamp=2**62)
    response = produce(target, records, cleanup_policy=policy)
    assert response["error_code"] in ("invalid_record", "none")


def test_an_error_for_each_of_a_million_records(attack):
    target = attack()
    response = produce(target, bomb(1_000_000, GZIP), cleanup_policy="compact")
    assert response["error_code"] == "invalid_record"
    assert len(response["record_errors"]) == RECORD_ERRORS_MAX


def test_as_many_valid_records_as_a_batch_may_have(attack):
    target = attack()
    records = bomb(4_000_000 if FULL else 400_000, ZSTD, max_timestamp=2**62)
    assert produce(target, records)["error_code"] == "none"


def test_batches_of_many_clients_that_are_large_when_decompressed(attack):
    """Each batch becomes 32 MiB. The attackers do not wait for their responses."""
    target = attack()
    clients, count = (24, 4_000_000) if FULL else (6, 400_000)
    records = bomb(count, ZSTD, max_timestamp=2**62)
    assert produce(target, bomb(1, ZSTD))["error_code"] == "none"
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    with ExitStack() as closing:
        senders = [closing.enter_context(target.client()) for _ in range(clients)]
        for each in senders:
            each.send("Produce", 9, acks=1, timeout=60_000, topic_data=topics)
        senders[0].socket.settimeout(120)
        response = senders[0].receive()["responses"][0]["partition_responses"][0]
        assert response["error_code"] == "none"
