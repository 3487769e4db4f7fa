"""A clock that is corrected by hours, and a disk that does not sync."""

import time
from pathlib import Path

import pytest
from kohort.log.batch import split
from kohort.log.records import records
from support.broker import NOW_MS, batch
from support.log import NewRecord, build
from support.wire import Client

from .conftest import FULL, Target

HOUR_MS = 3_600_000
RETRIES = 1000 if FULL else 20

# `kohort serve` on a machine whose system clock is ahead by the seconds in the file `clock`, and
# whose disk fails to sync while the file `eio` exists. Both files are in the test's folder.
FAULTY = """
import errno, os, sys, time
real_ns, real_sync = time.time_ns, os.fdatasync
def time_ns():
    with open("clock") as file:
        return real_ns() + int(file.read() or 0) * 10**9
def fdatasync(fd):
    if os.path.exists("eio"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))
    real_sync(fd)
time.time_ns, os.fdatasync = time_ns, fdatasync
from kohort.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def target(attack, tmp_path: Path) -> Target:
    (tmp_path / "clock").write_text("0")
    return attack("--events", "off", kohort=("-c", FAULTY))


def produce(client: Client, data: bytes) -> tuple[str, int]:
    found = client.produce(data)
    return found["error_code"], found["base_offset"]


def test_timestamps_follow_a_corrected_clock(target, tmp_path: Path) -> None:
    """Sessions are not affected."""
    with target.client() as client:
        client.create_topics("orders")
        for hours in (0, 3, -3):
            (tmp_path / "clock").write_text(str(hours * 3600))
            corrected_ms = time.time_ns() // 1_000_000 + hours * HOUR_MS
            assert produce(client, batch(b"now", at_ms=corrected_ms))[0] == "none"
            # message.timestamp.after.max.ms is an hour.
            future = batch(b"future", at_ms=corrected_ms + 2 * HOUR_MS)
            assert produce(client, future)[0] == "invalid_timestamp"


def test_a_batch_that_is_not_synced_is_neither_served_nor_a_duplicate(target, tmp_path) -> None:
    eio = tmp_path / "eio"
    with target.client() as client:
        client.create_topics("orders", flush_messages="1")
        assert produce(client, batch(b"first")) == ("none", 0)
        id_ = client.call("InitProducerId", 4, transaction_timeout=0)["producer_id"]
        records = [NewRecord(None, b"second", NOW_MS)]
        second = build(records, producer_id=id_, producer_epoch=0, base_sequence=0)
        eio.touch()
        assert {produce(client, second)[0] for _ in range(RETRIES)} == {"kafka_storage_error"}
        assert b"second" not in values(client)  # as in Kafka, the response may be empty
        eio.unlink()
        assert [produce(client, second) for _ in range(2)] == [("none", 1)] * 2
        assert values(client) == [b"first", b"second"]


def values(client: Client) -> list[bytes | None]:
    """Return the values of the records that a consumer receives."""
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "orders", "partitions": [wanted]}]
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    response = client.call("Fetch", 4, replica_id=-1, isolation_level=0, topics=topics, **limits)
    data = response["responses"][0]["partitions"][0]["records"] or b""
    return [each.value for at, _ in split(data) for each in records(data[at:])]
