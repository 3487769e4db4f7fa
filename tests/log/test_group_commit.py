"""Group commit: appends that share a flush are written, synced and acknowledged together."""

import errno
from typing import Any

import pytest
from kohort.log.errors import RecordsTooLarge
from kohort.log.group_commit import BATCH_BYTES_MAX, Durability
from kohort.log.log import Log
from kohort.log.records import records
from kohort.testing.faults.files import FaultyFiles
from support.log import NewRecord, build
from support.write_ahead import DATA, Broker, disk


def new_broker(durability: Durability, sync_seconds: float = 1) -> Broker:
    return Broker(disk(), durability=durability, has_write_ahead=False, sync_seconds=sync_seconds)


def batch_values(log: Log) -> list[list[bytes | None]]:
    return [[record.value for record in records(batch)] for _, batch in log.batches()]


def one_batch() -> bytes:
    return build([NewRecord(b"key", b"value", 1_000)], base_offset=0)


def syncs_of(files: FaultyFiles) -> int:
    return sum(operation == "sync" for operation, _ in files.operations)


def test_appends_of_one_turn_share_a_batch() -> None:
    broker = new_broker("os")
    log = broker.logs["a-0"]
    broker.append("a-0", "one")
    broker.append("a-0", "two")
    assert broker.results == {}
    broker.run_due()
    assert batch_values(log) == [[b"one", b"two"]]
    assert broker.results == {"one": None, "two": None}


def test_durability_os_writes_without_syncing() -> None:
    broker = new_broker("os")
    broker.append("a-0", "one")
    broker.run_due()
    assert syncs_of(broker.files) == 0


def test_with_durability_os_only_requested_logs_are_synced() -> None:
    broker = new_broker("os")
    topic = broker.logs["b-0"]
    broker.append("a-0", "commit")
    topic.append(one_batch())
    broker.group_commit.sync(topic, broker.record("record"))
    broker.run_due()
    assert list(broker.results) == ["commit"], "must not wait for the sync of another log"
    assert [each.left for each in broker.pool] == [[topic.sync]]
    broker.append("a-0", "later")
    broker.finish_syncs()
    assert list(broker.results) == ["commit", "record"]
    assert syncs_of(broker.files) == 1
    broker.run_due()
    assert list(broker.results) == ["commit", "record", "later"]
    assert syncs_of(broker.files) == 1


def test_with_durability_os_a_failed_sync_is_reported_to_its_callback() -> None:
    broker = new_broker("os")
    topic = broker.logs["b-0"]
    topic.append(one_batch())
    broker.files.fail("sync")
    broker.group_commit.sync(topic, broker.record("record"))
    broker.run_due()
    broker.finish_syncs()
    ((value, error),) = broker.results.items()
    assert value == "record"
    assert isinstance(error, OSError)


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_appends_to_a_log_that_is_closed_during_the_flush_fail(durability: Durability) -> None:
    """A log is closed when the creation of its topic is undone, or when it is reopened and
    truncated."""
    broker = new_broker(durability)
    failing, closed = broker.logs["a-0"], broker.logs["b-0"]
    broker.append("a-0", "undone")
    broker.group_commit.on_durable(failing, lambda _error: closed.close())
    broker.append("b-0", "written")
    broker.files.fail("sync" if durability == "fsync" else "append")
    broker.run_due()
    broker.finish_syncs()
    assert [value for value, error in broker.results.items() if error is None] == []
    assert list(broker.results) == ["undone", "written"]


@pytest.mark.parametrize("durability", ["fsync", "os"])
def test_appends_to_a_log_that_is_closed_before_the_flush_fail(durability: Durability) -> None:
    broker = new_broker(durability)
    log = broker.logs["a-0"]
    broker.append("a-0", "one")
    log.close()
    broker.run_due()
    ((value, error),) = broker.results.items()
    assert value == "one"
    assert "is closed" in str(error)
    assert batch_values(Log.open(DATA / "a-0", broker.files)) == []


def test_with_durability_none_nothing_is_synced_even_on_request() -> None:
    broker = new_broker("none")
    topic = broker.logs["a-0"]
    topic.append(one_batch())
    broker.group_commit.sync(topic, broker.record("record"))
    broker.run_due()
    assert broker.results == {"record": None}
    assert syncs_of(broker.files) == 0


def test_callbacks_wait_for_the_sync() -> None:
    broker = new_broker("fsync")
    log = broker.logs["a-0"]
    broker.append("a-0", "one")
    broker.run_due()
    assert broker.results == {}
    assert broker.group_commit.is_pending(log)
    broker.finish_syncs()
    assert broker.results == {"one": None}
    assert log.synced_offset == 1
    assert not broker.group_commit.is_pending(log)


def test_appends_during_a_sync_share_the_next_flush() -> None:
    broker = new_broker("fsync")
    log, other = broker.logs["a-0"], broker.logs["b-0"]
    broker.append("a-0", "one")
    broker.run_due()
    for value in ("two", "three", "four"):
        broker.append("a-0", value)
    broker.append("b-0", "five")
    broker.run_due()
    assert len(broker.pool) == 1, "a second flush began before the first had ended"
    broker.finish_syncs()
    broker.run_due()
    assert len(broker.pool) == 1
    assert set(broker.pool[0].left) == {log.sync, other.sync}
    broker.finish_syncs()
    assert list(broker.results) == ["one", "two", "three", "four", "five"]
    assert batch_values(log) == [[b"one"], [b"two", b"three", b"four"]]


def test_on_durable_calls_back_at_once_if_nothing_is_pending() -> None:
    broker = new_broker("fsync")
    broker.group_commit.on_durable(broker.logs["a-0"], broker.record("at once"))
    assert broker.results == {"at once": None}


def test_on_durable_during_a_sync_is_called_at_its_end() -> None:
    broker = new_broker("fsync")
    log = broker.logs["a-0"]
    broker.append("a-0", "one")
    broker.run_due()
    broker.group_commit.on_durable(log, broker.record("reader"))
    broker.finish_syncs()
    assert list(broker.results) == ["one", "reader"]


def test_a_failed_write_fails_all_appends_to_its_log_and_no_others() -> None:
    broker = new_broker("os")
    log, other = broker.logs["a-0"], broker.logs["b-0"]
    broker.append("a-0", "lost")
    broker.append("a-0", "lost too")
    broker.append("b-0", "kept")
    broker.files.fail("append", error=errno.ENOSPC, written=30)
    broker.run_due()
    results: dict[str, Any] = broker.results
    assert results["kept"] is None
    assert results["lost"].errno == results["lost too"].errno == errno.ENOSPC
    assert batch_values(log) == []
    assert batch_values(other) == [[b"kept"]]


def test_a_failed_second_batch_removes_the_first() -> None:
    broker = new_broker("os")
    log = broker.logs["a-0"]
    broker.group_commit.append(log, [(b"key", bytes(BATCH_BYTES_MAX))], 1_000)
    broker.append("a-0", "second batch")
    broker.files.fail("append", after=1)
    broker.run_due()
    assert broker.results["second batch"] is not None
    assert log.end_offset == 0


def test_a_full_batch_is_followed_by_another() -> None:
    broker = new_broker("os")
    log = broker.logs["a-0"]
    broker.group_commit.append(log, [(b"key", bytes(BATCH_BYTES_MAX))], 1_000)
    broker.append("a-0", "next")
    broker.run_due()
    assert [len(batch) for batch in batch_values(log)] == [1, 1]


def test_records_that_exceed_the_batch_limit_begin_another_batch() -> None:
    broker = new_broker("os")
    log = broker.logs["a-0"]
    for value in (b"x" * 60, b"y" * 60):
        broker.group_commit.append(log, [(b"key", value)], 1_000, 200)
    broker.run_due()
    assert [header.count for header, _ in log.batches()] == [1, 1]


def test_records_too_large_for_any_batch_are_rejected_and_leave_nothing() -> None:
    broker = new_broker("os")
    log = broker.logs["a-0"]
    fitting = [(b"key", b"x" * 50), (b"key", b"y" * 50)]
    size = len(build([NewRecord(key, value, 2_000) for key, value in fitting]))
    broker.append("a-0", "before")
    with pytest.raises(RecordsTooLarge, match=f"a batch of {size} bytes exceeds {size - 1}"):
        broker.group_commit.append(log, fitting, 2_000, size - 1)
    broker.append("a-0", "after")
    broker.run_due()
    ((header, batch),) = log.batches()
    assert [record.value for record in records(batch)] == [b"before", b"after"]
    assert header.max_timestamp == 1_000
    broker.group_commit.append(log, fitting, 2_000, size)
    broker.run_due()
    assert log.end_offset == 4


def test_a_failed_sync_fails_only_its_log() -> None:
    broker = new_broker("fsync")
    broker.append("a-0", "lost")
    broker.append("b-0", "kept")
    broker.run_due()
    broker.files.fail("sync")
    broker.finish_syncs()
    results: dict[str, Any] = broker.results
    assert results["lost"].errno == errno.EIO
    assert results["kept"] is None


def test_fail_pending_fails_appends_that_are_never_written() -> None:
    broker = new_broker("fsync")
    log = broker.logs["a-0"]
    broker.append("a-0", "one")
    broker.run_due()
    broker.append("a-0", "depends on one")
    broker.group_commit.fail_pending(log, OSError(errno.EIO, "lost"))
    broker.finish_syncs()
    broker.run_due()
    results: dict[str, Any] = broker.results
    assert results["depends on one"].errno == errno.EIO
    assert batch_values(log) == [[b"one"]]


def test_a_fast_sync_of_one_log_runs_inline() -> None:
    broker = new_broker("fsync", sync_seconds=0)
    log = broker.logs["a-0"]
    broker.append("a-0", "measures the duration of a sync")
    broker.run_due()
    broker.finish_syncs()
    broker.append("a-0", "two")
    broker.run_due()
    assert broker.pool == []
    assert log.synced_offset == 2


def test_bytes_appended_directly_are_synced_on_request() -> None:
    broker = new_broker("fsync")
    log = broker.logs["a-0"]
    broker.append("a-0", "one")
    broker.run_due()
    broker.finish_syncs()
    broker.group_commit.sync(log, broker.record("direct"))
    broker.run_due()
    broker.finish_syncs()
    assert list(broker.results) == ["one", "direct"]


def test_when_idle_is_called_after_the_last_flush() -> None:
    broker = new_broker("fsync")
    broker.append("a-0", "one")
    broker.group_commit.when_idle(lambda: broker.results.update({"idle": None}))
    broker.run_due()
    broker.append("a-0", "two")
    broker.finish_syncs()
    assert "idle" not in broker.results
    broker.run_due()
    broker.finish_syncs()
    assert list(broker.results) == ["one", "two", "idle"]


def test_a_callback_that_raises_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: OSError | None) -> None:
        raise ValueError("the callback failed")

    broker = new_broker("fsync")
    a = broker.logs["a-0"]
    broker.group_commit.append(a, [(b"key", b"first")], 1_000)
    broker.group_commit.on_durable(a, fail)
    broker.append("a-0", "same log")
    broker.append("b-0", "other log")
    broker.run_due()
    broker.append("a-0", "next flush")
    broker.finish_syncs()
    assert list(broker.results) == ["same log", "other log"]
    broker.run_due()
    broker.finish_syncs()
    assert list(broker.results)[2:] == ["next flush"]
    assert "the callback failed" in caplog.text
