"""Group commit: what is gathered together is written together, and told of together."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kohort.log.batch import NewRecord, build
from kohort.log.errors import RecordsTooLarge
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability, GroupCommit
from kohort.log.log import Log
from kohort.log.records import records
from kohort.testing.faulty_files import FaultyFiles
from support.log import sync_each


class Loop:
    """An event loop's `call_soon`, turned by hand; and threads that sync when they are told to."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.syncs: list[tuple[Sequence[Log], Callable[[Sequence[OSError | None]], None]]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.due.append(callback)

    def turn(self) -> None:
        due, self.due = self.due, []
        for callback in due:
            callback()

    def sync_all(
        self, logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        self.syncs.append((logs, done))

    def finish_syncs(self) -> None:
        syncs, self.syncs = self.syncs, []
        for logs, done in syncs:
            done(sync_each(logs))


class World:
    def __init__(self, durability: Durability) -> None:
        self.loop = Loop()
        self.files = FaultyFiles()
        self.group_commit = GroupCommit(
            durability=durability,
            call_soon=self.loop.call_soon,
            sync_all=self.loop.sync_all,
            seconds=lambda: 0.0,  # syncs are quick, however busy the machine is
        )
        self.told: list[tuple[str, OSError | None]] = []

    def log(self, name: str) -> Log:
        return Log.open(Path("/data") / name, self.files)

    def append(self, log: Log, word: str) -> None:
        self.group_commit.append(log, [(b"key", word.encode())], 1_000)
        self.group_commit.on_durable(log, lambda error: self.told.append((word, error)))

    @property
    def words_told(self) -> list[str]:
        return [word for word, _ in self.told]


def words(log: Log) -> list[list[bytes | None]]:
    return [[record.value for record in records(batch)] for _, batch in log.batches()]


def one_batch() -> bytes:
    return build([NewRecord(b"key", b"value", 1_000)], base_offset=0)


def syncs_of(files: FaultyFiles) -> int:
    return sum(operation == "sync" for operation, _ in files.operations)


def test_what_gathers_in_one_turn_is_one_batch() -> None:
    world = World("os")
    log = world.log("a-0")
    world.append(log, "one")
    world.append(log, "two")
    assert world.told == []
    world.loop.turn()
    assert words(log) == [[b"one", b"two"]]
    assert world.told == [("one", None), ("two", None)]


def test_durability_os_writes_and_does_not_sync() -> None:
    world = World("os")
    world.append(world.log("a-0"), "one")
    world.loop.turn()
    assert syncs_of(world.files) == 0


def test_under_durability_os_only_what_is_asked_to_be_synced_is() -> None:
    world = World("os")
    group, topic = world.log("a-0"), world.log("b-0")
    world.append(group, "commit")
    topic.append(one_batch())
    world.group_commit.sync(topic, lambda error: world.told.append(("record", error)))
    world.loop.turn()
    assert world.words_told == ["commit"], "it does not wait for another log's sync"
    assert [logs for logs, _ in world.loop.syncs] == [[topic]]
    world.append(group, "later")
    world.loop.finish_syncs()
    assert world.words_told == ["commit", "record"]
    assert syncs_of(world.files) == 1
    world.loop.turn()
    assert world.words_told == ["commit", "record", "later"]
    assert syncs_of(world.files) == 1


def test_under_durability_os_a_failed_sync_is_told_to_who_asked_for_it() -> None:
    world = World("os")
    topic = world.log("b-0")
    topic.append(one_batch())
    world.files.fail("sync")
    world.group_commit.sync(topic, lambda error: world.told.append(("record", error)))
    world.loop.turn()
    world.loop.finish_syncs()
    ((word, error),) = world.told
    assert word == "record"
    assert isinstance(error, OSError)


def test_under_durability_none_nothing_is_synced_whoever_asks() -> None:
    world = World("none")
    topic = world.log("a-0")
    topic.append(one_batch())
    world.group_commit.sync(topic, lambda error: world.told.append(("record", error)))
    world.loop.turn()
    assert world.told == [("record", None)]
    assert syncs_of(world.files) == 0


def test_nobody_is_told_before_the_sync_is_over() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.turn()
    assert world.told == []
    assert world.group_commit.is_pending(log)
    world.loop.finish_syncs()
    assert world.told == [("one", None)]
    assert log.synced_offset == 1
    assert not world.group_commit.is_pending(log)


def test_all_that_comes_during_a_sync_shares_the_next_one() -> None:
    world = World("fsync")
    log, other = world.log("a-0"), world.log("b-0")
    world.append(log, "one")
    world.loop.turn()
    for word in ("two", "three", "four"):
        world.append(log, word)
    world.append(other, "five")
    world.loop.turn()
    assert len(world.loop.syncs) == 1, "a second round began before the first was over"
    world.loop.finish_syncs()
    world.loop.turn()
    assert len(world.loop.syncs) == 1
    assert set(world.loop.syncs[0][0]) == {log, other}
    world.loop.finish_syncs()
    assert world.words_told == ["one", "two", "three", "four", "five"]
    assert words(log) == [[b"one"], [b"two", b"three", b"four"]]


def test_who_asks_while_nothing_is_pending_is_told_at_once() -> None:
    world = World("fsync")
    world.group_commit.on_durable(
        world.log("a-0"), lambda error: world.told.append(("at once", error))
    )
    assert world.told == [("at once", None)]


def test_who_asks_during_a_sync_is_told_with_it_and_not_with_the_next() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.turn()
    world.group_commit.on_durable(log, lambda error: world.told.append(("reader", error)))
    world.loop.finish_syncs()
    assert world.words_told == ["one", "reader"]


def test_a_failed_write_refuses_all_of_its_log_and_nothing_of_others() -> None:
    world = World("os")
    log, other = world.log("a-0"), world.log("b-0")
    world.append(log, "lost")
    world.append(log, "lost too")
    world.append(other, "kept")
    world.files.fail("append", error=errno.ENOSPC, written=30)
    world.loop.turn()
    told: dict[str, Any] = dict(world.told)
    assert told["kept"] is None
    assert told["lost"].errno == told["lost too"].errno == errno.ENOSPC
    assert words(log) == []
    assert words(other) == [[b"kept"]]


def test_a_write_that_fails_at_its_second_batch_takes_the_first_back() -> None:
    world = World("os")
    log = world.log("a-0")
    world.group_commit.append(log, [(b"key", bytes(BATCH_BYTES_MAX))], 1_000)
    world.append(log, "second batch")
    world.files.fail("append", after=1)
    world.loop.turn()
    assert world.told[0][1] is not None
    assert log.end_offset == 0


def test_a_full_batch_is_followed_by_another() -> None:
    world = World("os")
    log = world.log("a-0")
    world.group_commit.append(log, [(b"key", bytes(BATCH_BYTES_MAX))], 1_000)
    world.append(log, "next")
    world.loop.turn()
    assert [len(batch) for batch in words(log)] == [1, 1]


def test_records_that_find_no_room_beside_others_get_a_batch_of_their_own() -> None:
    world = World("os")
    log = world.log("a")
    for value in (b"x" * 60, b"y" * 60):
        world.group_commit.append(log, [(b"key", value)], 1_000, 200)
    world.loop.turn()
    assert [header.count for header, _ in log.batches()] == [1, 1]


def test_records_that_are_too_large_for_a_batch_are_refused_and_leave_nothing_behind() -> None:
    world = World("os")
    log = world.log("a")
    fitting = [(b"key", b"x" * 50), (b"key", b"y" * 50)]
    size = len(build([NewRecord(key, value, 2_000) for key, value in fitting]))
    world.append(log, "before")
    with pytest.raises(RecordsTooLarge, match=f"a batch of {size} bytes exceeds {size - 1}"):
        world.group_commit.append(log, fitting, 2_000, size - 1)
    world.append(log, "after")
    world.loop.turn()
    ((header, batch),) = log.batches()
    assert [record.value for record in records(batch)] == [b"before", b"after"]
    assert header.max_timestamp == 1_000
    world.group_commit.append(log, fitting, 2_000, size)
    world.loop.turn()
    assert log.end_offset == 4


def test_a_failed_sync_is_told_to_those_of_its_log_alone() -> None:
    world = World("fsync")
    log, other = world.log("a-0"), world.log("b-0")
    world.append(log, "lost")
    world.append(other, "kept")
    world.loop.turn()
    world.files.fail("sync")
    world.loop.finish_syncs()
    told: dict[str, Any] = dict(world.told)
    assert told["lost"].errno == errno.EIO
    assert told["kept"] is None


def test_what_is_abandoned_is_refused_and_never_written() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.turn()
    world.append(log, "rests on one")
    world.group_commit.fail_pending(log, OSError(errno.EIO, "lost"))
    world.loop.finish_syncs()
    world.loop.turn()
    told: dict[str, Any] = dict(world.told)
    assert told["rests on one"].errno == errno.EIO
    assert words(log) == [[b"one"]]


def test_a_quick_sync_of_one_log_is_done_on_the_spot() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "measures how long a sync takes")
    world.loop.turn()
    world.loop.finish_syncs()
    world.append(log, "two")
    world.loop.turn()
    assert world.loop.syncs == []
    assert log.synced_offset == 2


def test_bytes_appended_directly_are_synced_when_asked_for() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.loop.turn()
    world.loop.finish_syncs()
    world.group_commit.sync(log, lambda error: world.told.append(("direct", error)))
    world.loop.turn()
    world.loop.finish_syncs()
    assert world.words_told == ["one", "direct"]


def test_idle_is_told_after_the_last_round() -> None:
    world = World("fsync")
    log = world.log("a-0")
    world.append(log, "one")
    world.group_commit.when_idle(lambda: world.told.append(("idle", None)))
    world.loop.turn()
    world.append(log, "two")
    world.loop.finish_syncs()
    assert "idle" not in world.words_told
    world.loop.turn()
    world.loop.finish_syncs()
    assert world.words_told == ["one", "two", "idle"]


def test_one_who_fails_when_told_keeps_nobody_else_from_hearing_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: OSError | None) -> None:
        raise ValueError("a fault of the one who is told")

    world = World("fsync")
    a, b = world.log("a-0"), world.log("b-0")
    world.group_commit.append(a, [(b"key", b"first")], 1_000)
    world.group_commit.on_durable(a, fail)
    world.append(a, "beside it")
    world.append(b, "of another log")
    world.loop.turn()
    world.append(a, "in the next round")
    world.loop.finish_syncs()
    assert world.words_told == ["beside it", "of another log"]
    world.loop.turn()
    world.loop.finish_syncs()
    assert world.words_told[2:] == ["in the next round"]
    assert "a fault of the one who is told" in caplog.text
