"""A real `kohort serve` whose disk is full, whose files are taken away or not to be read: no commit
is acknowledged that is not there afterwards, and the operator is told why."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.committing import Connection, Promises, commit_of, committed, connected, make_topic
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from processes import Served, kohort, serving

pytestmark = pytest.mark.crash

GROUP = Promises("billing")
# Of each of the broker's files. A commit takes some 300 bytes.
FULL_BYTES = 16 * 1024


@contextlib.contextmanager
def broker_on(folder: Path) -> Iterator[Served]:
    with serving(
        folder, "--port", "0", "--data-dir", folder / "data", "--events", "off",
        "-o", "offsets.topic.num.partitions=1",
    ) as served:  # fmt: skip
        yield served


def commit(connection: Connection, offset: int) -> ErrorCode:
    answer = connection.ask(commit_of(GROUP, offset), OffsetCommitResponse)
    (error,) = {p.error_code for topic in answer.topics for p in topic.partitions}
    return error


def committed_now(broker: Served) -> set[int]:
    with connected(broker) as connection:
        return {each.committed_offset for each in committed(connection, GROUP.group_id).values()}


def commit_until_refused(connection: Connection) -> int:
    """The last offset that was acknowledged; each is larger by one."""
    for offset in range(1, 10_000):
        error = commit(connection, offset)
        if error is not ErrorCode.none:
            assert error is ErrorCode.not_coordinator
            return offset - 1
    raise AssertionError("nothing was refused")


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """For processes that are begun meanwhile; more than that is EFBIG to them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_is_full_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with file_size_limit(FULL_BYTES):
            broker = stack.enter_context(broker_on(tmp_path))
        with connected(broker) as connection:
            make_topic(connection)
            last = commit_until_refused(connection)
            assert last > 10
            assert commit(connection, 20_000) is not ErrorCode.none
        assert committed_now(broker) == {last}
        assert broker.stop() == 0
        said = broker.errors.read_text()
    assert "Writing to" in said
    assert "File too large" in said
    assert "Traceback" not in said
    with broker_on(tmp_path) as broker:
        assert committed_now(broker) == {last}
        with connected(broker) as connection:
            assert commit(connection, last + 1) is ErrorCode.none
        assert broker.stop() == 0
    assert kohort("log", "verify", tmp_path / "data").returncode == 0


def test_a_log_that_was_removed_under_the_broker_takes_no_commit(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker:
        with connected(broker) as connection:
            make_topic(connection)
            assert commit(connection, 1) is ErrorCode.none
            (log,) = tmp_path.glob("data/__consumer_offsets-0/*.log")
            log.unlink()
            assert commit(connection, 2) is ErrorCode.not_coordinator
            assert commit(connection, 3) is ErrorCode.not_coordinator
        assert broker.stop() == 0
        said = broker.errors.read_text()
    assert "the file was removed while it was in use" in said
    assert "Partition 0 of the offsets topic cannot be loaded: " in said
    assert "Traceback" not in said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_log_that_may_not_be_read_is_named_and_served_when_it_may(tmp_path: Path) -> None:
    with broker_on(tmp_path) as broker, connected(broker) as connection:
        make_topic(connection)
        assert commit(connection, 1) is ErrorCode.none
        assert broker.stop() == 0
    (log,) = tmp_path.glob("data/__consumer_offsets-0/*.log")
    log.chmod(0)
    with broker_on(tmp_path) as broker:
        with connected(broker) as connection:
            assert commit(connection, 2) is ErrorCode.not_coordinator
        assert "Permission denied" in broker.errors.read_text()
        assert broker.stop() == 0
    log.chmod(0o644)
    with broker_on(tmp_path) as broker:
        assert committed_now(broker) == {1}
