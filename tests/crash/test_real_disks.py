"""`kohort serve` with a full disk and with removed or unreadable files: only stored commits are
acknowledged, and the log contains the reason for the failure."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.commits import GroupCommits, committed, create_topic, error_of_commit
from support.running_broker import BrokerProcess, kohort, start_broker
from support.wire import Client

pytestmark = pytest.mark.crash

GROUP = GroupCommits("billing")
# Size limit of each file of the broker. A commit takes about 300 bytes.
FILE_BYTES_MAX = 16 * 1024


@contextlib.contextmanager
def broker_on(folder: Path) -> Iterator[BrokerProcess]:
    with start_broker(
        folder, "--port", "0", "--data-dir", folder / "data", "--events", "off",
        "-o", "offsets.topic.num.partitions=1",
    ) as served:  # fmt: skip
        yield served


def commit(client: Client, offset: int) -> str:
    return error_of_commit(client.call("OffsetCommit", 8, **GROUP.request(offset)))


def committed_offsets(broker: BrokerProcess) -> set[int]:
    with Client(broker.bootstrap) as client:
        partitions = committed(client, GROUP.group_id).values()
        return {partition["committed_offset"] for partition in partitions}


def commit_until_rejected(client: Client) -> int:
    """Commit the offsets 1, 2, 3 …; return the last one that was acknowledged."""
    for offset in range(1, 10_000):
        error = commit(client, offset)
        if error != "none":
            assert error == "not_coordinator"
            return offset - 1
    raise AssertionError("no commit was rejected")


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Limit the files of processes started in this context; writing more fails with EFBIG."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_commits_to_a_full_disk_are_rejected_and_earlier_ones_kept(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with file_size_limit(FILE_BYTES_MAX):
            broker = stack.enter_context(broker_on(tmp_path))
        create_topic(broker)
        with Client(broker.bootstrap) as client:
            last = commit_until_rejected(client)
            assert last > 10
            assert commit(client, 20_000) != "none"
        assert committed_offsets(broker) == {last}
        assert broker.stop() == 0
        log = broker.errors.read_text()
    assert "Writing to" in log
    assert "File too large" in log
    assert "Traceback" not in log
    with broker_on(tmp_path) as broker:
        assert committed_offsets(broker) == {last}
        with Client(broker.bootstrap) as client:
            assert commit(client, last + 1) == "none"
        assert broker.stop() == 0
    assert kohort("log", "verify", tmp_path / "data").returncode == 0


def test_commits_are_rejected_after_the_log_file_was_removed(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker:
        create_topic(broker)
        with Client(broker.bootstrap) as client:
            assert commit(client, 1) == "none"
            (log,) = tmp_path.glob("data/__consumer_offsets-0/*.log")
            log.unlink()
            assert commit(client, 2) == "not_coordinator"
            assert commit(client, 3) == "not_coordinator"
        assert broker.stop() == 0
        text = broker.errors.read_text()
    assert "the file was removed while it was in use" in text
    assert "Failed to load partition 0 of __consumer_offsets: " in text
    assert "Traceback" not in text


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_an_unreadable_log_is_reported_and_served_once_readable(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker:
        create_topic(broker)
        with Client(broker.bootstrap) as client:
            assert commit(client, 1) == "none"
        assert broker.stop() == 0
    (log,) = tmp_path.glob("data/__consumer_offsets-0/*.log")
    log.chmod(0)
    with broker_on(tmp_path) as broker:
        with Client(broker.bootstrap) as client:
            assert commit(client, 2) == "not_coordinator"
        assert "Permission denied" in broker.errors.read_text()
        assert broker.stop() == 0
    log.chmod(0o644)
    with broker_on(tmp_path) as broker:
        assert committed_offsets(broker) == {1}
