"""Group commit: appends that share a flush are written, synced and acknowledged together."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kohort.log.errors import RecordsTooLarge
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability, GroupCommit
from kohort.log.log import Log
from kohort.log.records import records
from kohort.testing.faults.files import FaultyFiles
from support.log import NewRecord, build, sync_each


class Loop:
    """A manual event loop, and threads that sync when `finish_syncs` is called."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.syncs: list[
            tuple[Sequence[Callable[[], None]], Callable[[Sequence[OSError | None]], None]]
        ] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def iterate(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()

    def sync_all(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        self.syncs.append((syncs, done))

    def finish_syncs(self) -> None:
        syncs, self.syncs = self.syncs, []
        for each, done in syncs:
            done(sync_each(each))


class World:
    def __init__(self, durability: Durability) -> None:
        self.loop = Loop()
        self.files = FaultyFiles()
        self.group_commit = GroupCommit(
            durability=durability,
            call_soon=self.loop.call_soon,
            sync_all=self.loop.sync_all,
            seconds=lambda: 0.0,  # syncs are considered fast, however busy the machine is
        )
        self.results: list[tuple[str, OSError | None]] = []

    def log(self, name: str) -> Log:
        return Log.open(Path("/data") / name, self.files)

    def append(self, log: Log, value: str) -> None:
        self.group_commit.append(log, [(b"key", value.encode())], 1_000)
        self.group_commit.on_durable(log, lambda error: self.results.append((value, error)))

    @property
    def acknowledged(self) -> list[str]:
        """The values whose callbacks were called."""
        return [value for value, _ in self.results]


def batch_values(log: Log) -> list[list[bytes | None]]:
    return [[record.value for record in records(batch)] for _, batch in log.batches()]


def one_batch() -> bytes:
    return build([NewRecord(b"key", b"value", 1_000)], base_offset=0)


def syncs_of(files: FaultyFiles) -> int:
    return sum(operation == "sync" for operation, _ in files.operations)


def test_appends_of_one_turn_share_a_batch() -> None:
    world = World("os")
    log = world.log("a-0")
    world.append(log, "one")
    world.append(log, "two")
    assert world.results == []
    world.loop.iterate()
    assert batch_values(log) == [[b"one", b"two"]]
    assert world.results == [("one", None), ("two", None)]


def test_durability_os_writes_without_syncing() -> None:
    world = World("os")
    world.append(world.log("a-0"), "one")
    world.loop.iterate()
    assert syncs_of(world.files) == 0


def test_with_durability_os_only_requested_logs_are_synced() -> None:
    world = World("os")
    group, topic = world.log("a-0"), world.log("b-0")
    world.append(group, "commit")
    topic.append(one_batch())
    world.group_commit.sync(topic, lambda error: world.results.append(("record", error)))
    world.loop.iterate()
    assert world.acknowledged == ["commit"], "must not wait for the sync of another log"
    assert [each for each, _ in world.loop.syncs] == [[topic.sync]]
    world.append(group, "later")
    world.loop.finish_syncs()
    assert world.acknowledged == ["commit", "record"]
    assert syncs_of(world.files) == 1
    world.loop.iterate()
    assert world.acknowledged == ["commit", "record", "later"]
    assert syncs_of(world.files) == 1


def test_with_durability_os_a_failed_sync_is_reported_to_its_callback() -> None:
    world = World("os")
    topic = world.log("b-0")
    topic.append(one_batch())
    world.files.fail("sync")
    world.group_commit.sync(topic, lambda error: world.results.append(("record", error)))
    world.loop.iterate()
    world.loop.finish_syncs()
    ((value, error),) = world.results
    assert value == "record"
    assert isinstance(error, OSError)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_appends_to_a_log_that_is_closed_during_the_flush_fail(durability: Durability) -> None:
    """The log of a topic whose creation is undone, or one that is truncated when it is reopened."""
    world = World(durability)
    failing, closed = world.log("a-0"), world.log("b-0")
    world.append(failing, "undone")
    world.group_commit.on_durable(failing, lambda _error: closed.close())
    world.append(closed, "written")
    world.files.fail("sync" if durability == "fsync" else "append")
    world.loop.iterate()
    world.loop.finish_syncs()
    assert [value for value, error in world.results if error is None] == []
    assert world.acknowledged == ["undone", "written"]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_appends_to_a_log_that_is_closed_before_the_flush_fail(durability: Durability) -> None:
    world = World(durability)
    log = world.log("a-0")
    world.append(log, "one")
    log.close()
    world.loop.iterate()
    ((value, error),) = world.results
    assert value == "one"
    assert "is closed" in str(error)
    assert batch_values(world.log("a-0")) == []


def test_with_durability_none_nothing_is_synced_even_on_request() -> None:
    world = World("none")
    topic = world.log("a-0")
    topic.append(one_batch())
    world.group_commit.sync(topic, lambda error: world.results.append(("record", error)))
    world.loop.iterate()
    assert world.results == [("record", None)]
    assert syncs_of(world.files) == 0


def test_callbacks_wait_for_the_sync() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.iterate()
    assert world.results == []
    assert world.group_commit.is_pending(log)
    world.loop.finish_syncs()
    assert world.results == [("one", None)]
    assert log.synced_offset == 1
    assert not world.group_commit.is_pending(log)


def test_appends_during_a_sync_share_the_next_flush() -> None:
    world = World("fsync")
    log, other = world.log("a-0"), world.log("b-0")
    world.append(log, "one")
    world.loop.iterate()
    for value in ("two", "three", "four"):
        world.append(log, value)
    world.append(other, "five")
    world.loop.iterate()
    assert len(world.loop.syncs) == 1, "a second flush began before the first had ended"
    world.loop.finish_syncs()
    world.loop.iterate()
    assert len(world.loop.syncs) == 1
    assert set(world.loop.syncs[0][0]) == {log.sync, other.sync}
    world.loop.finish_syncs()
    assert world.acknowledged == ["one", "two", "three", "four", "five"]
    assert batch_values(log) == [[b"one"], [b"two", b"three", b"four"]]


def test_on_durable_calls_back_at_once_if_nothing_is_pending() -> None:
    world = World("fsync")
    world.group_commit.on_durable(
        world.log("a-0"), lambda error: world.results.append(("at once", error))
    )
    assert world.results == [("at once", None)]


def test_on_durable_during_a_sync_is_called_at_its_end() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.iterate()
    world.group_commit.on_durable(log, lambda error: world.results.append(("reader", error)))
    world.loop.finish_syncs()
    assert world.acknowledged == ["one", "reader"]


def test_a_failed_write_fails_all_appends_to_its_log_and_no_others() -> None:
    world = World("os")
    log, other = world.log("a-0"), world.log("b-0")
    world.append(log, "lost")
    world.append(log, "lost too")
    world.append(other, "kept")
    world.files.fail("append", error=errno.ENOSPC, written=30)
    world.loop.iterate()
    results: dict[str, Any] = dict(world.results)
    assert results["kept"] is None
    assert results["lost"].errno == results["lost too"].errno == errno.ENOSPC
    assert batch_values(log) == []
    assert batch_values(other) == [[b"kept"]]


def test_a_failed_second_batch_removes_the_first() -> None:
    world = World("os")
    log = world.log("a-0")
    world.group_commit.append(log, [(b"key", bytes(BATCH_BYTES_MAX))], 1_000)
    world.append(log, "second batch")
    world.files.fail("append", after=1)
    world.loop.iterate()
    assert world.results[0][1] is not None
    assert log.end_offset == 0


def test_a_full_batch_is_followed_by_another() -> None:
    world = World("os")
    log = world.log("a-0")
    world.group_commit.append(log, [(b"key", bytes(BATCH_BYTES_MAX))], 1_000)
    world.append(log, "next")
    world.loop.iterate()
    assert [len(batch) for batch in batch_values(log)] == [1, 1]


def test_records_that_exceed_the_batch_limit_begin_another_batch() -> None:
    world = World("os")
    log = world.log("a")
    for value in (b"x" * 60, b"y" * 60):
        world.group_commit.append(log, [(b"key", value)], 1_000, 200)
    world.loop.iterate()
    assert [header.count for header, _ in log.batches()] == [1, 1]


def test_records_too_large_for_any_batch_are_rejected_and_leave_nothing() -> None:
    world = World("os")
    log = world.log("a")
    fitting = [(b"key", b"x" * 50), (b"key", b"y" * 50)]
    size = len(build([NewRecord(key, value, 2_000) for key, value in fitting]))
    world.append(log, "before")
    with pytest.raises(RecordsTooLarge, match=f"a batch of {size} bytes exceeds {size - 1}"):
        world.group_commit.append(log, fitting, 2_000, size - 1)
    world.append(log, "after")
    world.loop.iterate()
    ((header, batch),) = log.batches()
    assert [record.value for record in records(batch)] == [b"before", b"after"]
    assert header.max_timestamp == 1_000
    world.group_commit.append(log, fitting, 2_000, size)
    world.loop.iterate()
    assert log.end_offset == 4


def test_a_failed_sync_fails_only_its_log() -> None:
    world = World("fsync")
    log, other = world.log("a-0"), world.log("b-0")
    world.append(log, "lost")
    world.append(other, "kept")
    world.loop.iterate()
    world.files.fail("sync")
    world.loop.finish_syncs()
    results: dict[str, Any] = dict(world.results)
    assert results["lost"].errno == errno.EIO
    assert results["kept"] is None


def test_fail_pending_fails_appends_that_are_never_written() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.iterate()
    world.append(log, "depends on one")
    world.group_commit.fail_pending(log, OSError(errno.EIO, "lost"))
    world.loop.finish_syncs()
    world.loop.iterate()
    results: dict[str, Any] = dict(world.results)
    assert results["depends on one"].errno == errno.EIO
    assert batch_values(log) == [[b"one"]]


def test_a_fast_sync_of_one_log_runs_inline() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "measures the duration of a sync")
    world.loop.iterate()
    world.loop.finish_syncs()
    world.append(log, "two")
    world.loop.iterate()
    assert world.loop.syncs == []
    assert log.synced_offset == 2


def test_bytes_appended_directly_are_synced_on_request() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.iterate()
    world.loop.finish_syncs()
    world.group_commit.sync(log, lambda error: world.results.append(("direct", error)))
    world.loop.iterate()
    world.loop.finish_syncs()
    assert world.acknowledged == ["one", "direct"]


def test_when_idle_is_called_after_the_last_flush() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.group_commit.when_idle(lambda: world.results.append(("idle", None)))
    world.loop.iterate()
    world.append(log, "two")
    world.loop.finish_syncs()
    assert "idle" not in world.acknowledged
    world.loop.iterate()
    world.loop.finish_syncs()
    assert world.acknowledged == ["one", "two", "idle"]


def test_a_callback_that_raises_does_not_affect_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: OSError | None) -> None:
        raise ValueError("the callback failed")

    world = World("fsync")
    a, b = world.log("a-0"), world.log("b-0")
    world.group_commit.append(a, [(b"key", b"first")], 1_000)
    world.group_commit.on_durable(a, fail)
    world.append(a, "same log")
    world.append(b, "other log")
    world.loop.iterate()
    world.append(a, "next flush")
    world.loop.finish_syncs()
    assert world.acknowledged == ["same log", "other log"]
    world.loop.iterate()
    world.loop.finish_syncs()
    assert world.acknowledged[2:] == ["next flush"]
    assert "the callback failed" in caplog.text
