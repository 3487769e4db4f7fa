"""A disk that accepts no more bytes, and a log that nobody reads: rejected requests must not fill
the log, and log lines must not stop the broker."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.commits import GroupCommits, error_of_commit
from support.broker import batch
from support.wire import Client

from .conftest import FULL, Target

REFUSED = 2000 if FULL else 100
BAD_FRAMES = 20_000 if FULL else 1_000
FILE_BYTES_MAX = 32 * 1024


def commit(client: Client, offset: int) -> str:
    request = GroupCommits("billing").request(offset)
    return error_of_commit(client.call("OffsetCommit", 8, **request))


def limit_files(target: Target, size: int) -> None:
    """Limit the size of the broker's files. A write beyond the limit fails with EFBIG."""
    resource.prlimit(target.broker.process.pid, resource.RLIMIT_FSIZE, (size, -1))


def test_a_full_disk_is_logged_once_and_its_end_too(attack):
    target = attack("--events", "off")
    with target.client() as client:
        client.create_topics("orders", partitions=3)
        assert commit(client, 1) == "none"
        limit_files(target, FILE_BYTES_MAX)
        refused = {"kafka_storage_error": 0, "not_coordinator": 0, "none": 0}
        while min(refused["kafka_storage_error"], refused["not_coordinator"]) < REFUSED:
            refused[client.produce(batch(b"x" * 999), acks=1)["error_code"]] += 1
            refused[commit(client, 2)] += 1
        limit_files(target, -1)
        while len(lines := errors(target)) < 4:
            client.produce(batch(b"x" * 999), acks=1)
            commit(client, 3)
    for line in lines[:2]:
        assert "Writing to" in line
        assert "File too large" in line
    for line in lines[2:]:
        assert "works again after" in line


def errors(target: Target) -> list[str]:
    return [line for line in target.log.splitlines() if "ERROR" in line or "WARN" in line]


@pytest.fixture
def unread_log(tmp_path: Path) -> Iterator[None]:
    """The broker's standard error is a pipe that is not read."""
    path = tmp_path / "stderr"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield
    os.close(reader)


@pytest.mark.usefixtures("unread_log")
def test_a_log_that_nobody_reads_stops_nothing(attack):
    """The end of the process is not delayed either. The pipe holds 64 KiB, about 500 lines."""
    target = attack()
    for _ in range(BAD_FRAMES):
        with target.client() as client:
            client.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            with pytest.raises(ConnectionError):
                client.receive_frame()
