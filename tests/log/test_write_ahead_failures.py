"""Failures of the write-ahead log and of other files: acknowledged records are kept, failed ones
are not."""

import errno
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest
from kohort.log.log import Log
from kohort.log.write_ahead import PREFIX
from kohort.testing.faults.files import FaultyFiles
from support.log import batch, values
from support.write_ahead import DATA, NAMES, Broker, Pooled, disk, left


def test_a_full_file_stays_until_a_log_that_could_not_sync_has_recovered() -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    files.fail("sync", after=1)  # the first sync is of the write-ahead log
    broker.flush("one")
    assert broker.results == {f"one {name}": None for name in NAMES}
    (failed,) = (name for name, log in broker.logs.items() if log.failed)
    broker.flush("two", [name for name in NAMES if name != failed])
    assert left(files) == [f"{PREFIX}1"]
    assert not broker.ahead.is_usable
    broker.logs[failed].reopen()
    broker.flush("three")
    assert left(files) == []
    assert broker.ahead.is_usable
    files.crash()
    assert Broker(files).words(failed) == [f"one {failed}", f"three {failed}"]


def test_stopping_recovers_a_log_that_could_not_sync() -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    files.fail("sync", after=1)
    broker.flush("one")
    broker.stop()
    assert left(files) == []
    files.crash()
    assert {name: Broker(files).words(name) for name in NAMES} == {
        name: [f"one {name}"] for name in NAMES
    }


def test_what_cannot_be_synced_at_the_stop_is_left_to_the_next_start() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    files.fail("sync", times=5)
    broker.stop()
    assert left(files) == [f"{PREFIX}1"]
    files.crash()
    assert [Broker(files).words(name) for name in NAMES] == [[f"one {name}"] for name in NAMES]


def test_a_log_that_cannot_be_read_at_the_stop_does_not_prevent_the_stop() -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    files.fail("sync", after=1)
    broker.flush("one")
    (failed,) = (log for log in broker.logs.values() if log.failed)
    (segment,) = failed.segments
    body = struct.pack(">bbii99x", 0, 0, -1, 99)  # a message of Kafka before 0.11
    header = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body))
    files.contents[segment.path][:] = header + body
    broker.stop()
    assert left(files) == [f"{PREFIX}1"]


def test_a_failed_write_ahead_fails_no_append() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    files.fail("append", after=3, error=errno.ENOSPC, written=20)
    broker.flush("two")
    assert not any(broker.results.values())
    assert left(files) == [], "each log has synced its own file"
    broker.flush("three")
    assert left(files) == [f"{PREFIX}2"]
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0", "three a-0"]


def test_a_failed_write_ahead_sync_fails_all_appends_of_the_flush() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    files.fail("sync")
    broker.flush("two")
    errors = [broker.results[f"two {name}"] for name in NAMES]
    assert all(isinstance(error, OSError) for error in errors)
    for log in broker.logs.values():
        assert log.failed is not None
        log.reopen()
    broker.flush("three", ["a-0"])
    files.crash()
    broker = Broker(files)
    assert broker.words("a-0") == ["one a-0", "three a-0"]
    assert broker.words("b-0") == ["one b-0"]


def retiring(files: FaultyFiles) -> tuple[Broker, Pooled, Pooled]:
    """Return a broker whose first file is full and whose logs are about to sync their own files,
    while a flush is being written ahead in another file."""
    broker = Broker(files, bytes_max=100)
    for name in ("a-0", "a-1"):
        broker.append(name, f"one {name}")
    broker.run_due()
    broker.pool.pop().finish()
    (retirement,) = broker.pool
    for name in ("a-1", "b-0"):
        broker.append(name, f"two {name}")
    broker.run_due()
    (flush,) = (each for each in broker.pool if each is not retirement)
    broker.pool.clear()
    return broker, retirement, flush


def test_a_failed_sync_of_a_retirement_does_not_affect_a_flush_in_progress() -> None:
    files = disk()
    broker, retirement, flush = retiring(files)
    files.fail("sync")
    retirement.finish()
    flush.finish()
    assert broker.results == dict.fromkeys(["one a-0", "one a-1", "two a-1", "two b-0"])
    files.crash()
    assert Broker(files).words("a-1") == ["one a-1", "two a-1"]


def test_records_that_a_retirement_has_synced_can_still_fail() -> None:
    files = disk()
    broker, retirement, flush = retiring(files)
    retirement.finish()
    assert broker.logs["a-1"].synced_offset == 1
    flush.fail()
    assert broker.results["two a-1"] is not None
    for name in ("a-1", "b-0"):
        broker.logs[name].reopen()
    broker.flush("three")
    assert Broker(files).words("a-1") == ["one a-1", "three a-1"], "must not return after a SIGKILL"


@pytest.mark.interpreted
def test_recovery_during_a_retirement_keeps_no_failed_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = disk()
    broker, retirement, flush = retiring(files)
    flush.fail()
    log, load = broker.logs["a-1"], Log._load
    threads: list[threading.Thread] = []

    def loading(self: Log, *args: Any, **how: Any) -> None:
        if self is log and not threads:
            threads.append(threading.Thread(target=retirement.finish))
            threads[0].start()
        load(self, *args, **how)

    monkeypatch.setattr(Log, "_load", loading)
    log.reopen()
    threads[0].join(30)
    assert broker.words("a-1") == ["one a-1"]
    assert log.synced_offset == 1


def test_failed_bytes_are_removed_once_the_logs_have_synced() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    files.fail("sync")
    files.fail("truncate")
    broker.flush("two")
    assert broker.results["two a-0"] is not None
    for log in broker.logs.values():
        log.reopen()
    broker.flush("three", ["a-1"])
    assert left(files) == []
    assert Broker(files).words("a-0") == ["one a-0"]


def test_a_failed_record_is_truncated_even_if_it_was_synced() -> None:
    files = disk()
    log = Broker(files).logs["a-0"]
    log.append(batch(0, text="synced"))
    log.sync()
    log.append(batch(1, text="failed"))
    log.sync()  # as a retirement does
    log.mark_failed_from(1, OSError(errno.EIO, "what was written ahead could not be synced"))
    log.reopen()
    assert values(log) == [b"synced 0"]
    files.crash()
    assert Broker(files).words("a-0") == ["synced 0"]


def test_a_log_that_lost_acknowledged_records_gets_them_back() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    log = broker.logs["a-0"]
    path = DATA / "a-0" / ("0" * 20 + ".log")
    files.contents[path].clear()  # as if the operating system had failed to write it
    log.failed = OSError(errno.EIO, "lost")
    log.reopen()
    assert broker.words("a-0") == ["one a-0"]
    broker.flush("two")
    assert broker.words("a-0") == ["one a-0", "two a-0"]


def test_callbacks_are_called_if_the_folder_cannot_be_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    with monkeypatch.context() as patch:

        def fail(_: Path) -> list[str]:
            raise OSError(errno.EIO, "no list")

        patch.setattr(files, "list", fail)
        broker.flush("one")
    assert broker.results == {f"one {name}": None for name in NAMES}
    assert not broker.ahead.is_usable
    broker.flush("two")
    assert broker.ahead.is_usable
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0"]
