"""Whatever fails beside what is written ahead, or in it: what was acknowledged is there, and what
was refused is not."""

import errno
import threading
from pathlib import Path
from typing import Any

import pytest
from kohort.log.log import Log
from kohort.log.write_ahead import PREFIX
from kohort.testing.faulty_files import FaultyFiles
from support.log import batch, values
from support.write_ahead import DATA, NAMES, Broker, Pooled, disk, left


def test_a_full_file_stays_until_a_log_that_could_not_sync_is_recovered_from_it() -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    files.fail("sync", after=1)  # the first is of what is written ahead
    broker.round("one")
    assert broker.told == {f"one {name}": None for name in NAMES}
    (failed,) = (name for name, log in broker.logs.items() if log.failed)
    broker.round("two", [name for name in NAMES if name != failed])
    assert left(files) == [f"{PREFIX}1"]
    assert not broker.ahead.is_usable
    broker.logs[failed].recover()
    broker.round("three")
    assert left(files) == []
    assert broker.ahead.is_usable
    files.crash()
    assert Broker(files).words(failed) == [f"one {failed}", f"three {failed}"]


def test_a_stop_recovers_a_log_that_could_not_sync() -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    files.fail("sync", after=1)
    broker.round("one")
    broker.stop()
    assert left(files) == []
    files.crash()
    assert {name: Broker(files).words(name) for name in NAMES} == {
        name: [f"one {name}"] for name in NAMES
    }


def test_what_cannot_be_synced_at_the_stop_is_left_to_the_next_start() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    files.fail("sync", times=5)
    broker.stop()
    assert left(files) == [f"{PREFIX}1"]
    files.crash()
    assert [Broker(files).words(name) for name in NAMES] == [[f"one {name}"] for name in NAMES]


def test_where_writing_ahead_fails_nobody_is_refused() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    files.fail("append", after=3, error=errno.ENOSPC, written=20)
    broker.round("two")
    assert not any(broker.told.values())
    assert left(files) == [], "each has synced its own"
    broker.round("three")
    assert left(files) == [f"{PREFIX}2"]
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0", "three a-0"]


def test_where_its_sync_fails_all_are_refused_and_find_nothing_later() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    files.fail("sync")
    broker.round("two")
    refused = [broker.told[f"two {name}"] for name in NAMES]
    assert all(isinstance(error, OSError) for error in refused)
    for log in broker.logs.values():
        assert log.failed is not None
        log.recover()
    broker.round("three", ["a-0"])
    files.crash()
    broker = Broker(files)
    assert broker.words("a-0") == ["one a-0", "three a-0"]
    assert broker.words("b-0") == ["one b-0"]


def retiring(files: FaultyFiles) -> tuple[Broker, Pooled, Pooled]:
    """A broker whose first file is full, whose logs are about to sync their own, and which has a
    round under way that is written ahead in another file."""
    broker = Broker(files, bytes_max=100)
    for name in ("a-0", "a-1"):
        broker.append(name, f"one {name}")
    broker.run_due()
    broker.pool.pop().finish()
    (retirement,) = broker.pool
    for name in ("a-1", "b-0"):
        broker.append(name, f"two {name}")
    broker.run_due()
    (round_,) = (each for each in broker.pool if each is not retirement)
    broker.pool.clear()
    return broker, retirement, round_


def test_a_log_that_cannot_sync_its_own_file_does_not_touch_a_round_under_way() -> None:
    files = disk()
    broker, retirement, round_ = retiring(files)
    files.fail("sync")
    retirement.finish()
    round_.finish()
    assert broker.told == dict.fromkeys(["one a-0", "one a-1", "two a-1", "two b-0"])
    files.crash()
    assert Broker(files).words("a-1") == ["one a-1", "two a-1"]


def test_what_a_retirement_syncs_by_the_way_is_shown_to_nobody_and_may_be_refused() -> None:
    files = disk()
    broker, retirement, round_ = retiring(files)
    retirement.finish()
    assert broker.logs["a-1"].synced_offset == 1
    round_.fail()
    assert broker.told["two a-1"] is not None
    for name in ("a-1", "b-0"):
        broker.logs[name].recover()
    broker.round("three")
    assert Broker(files).words("a-1") == ["one a-1", "three a-1"], "nor after a SIGKILL"


@pytest.mark.interpreted
def test_recovering_a_log_beside_a_retirement_keeps_nothing_of_what_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = disk()
    broker, retirement, round_ = retiring(files)
    round_.fail()
    log, load = broker.logs["a-1"], Log._load
    threads: list[threading.Thread] = []

    def loading(self: Log, *args: Any, **how: Any) -> None:
        if self is log and not threads:
            threads.append(threading.Thread(target=retirement.finish))
            threads[0].start()
        load(self, *args, **how)

    monkeypatch.setattr(Log, "_load", loading)
    log.recover()
    threads[0].join(30)
    assert broker.words("a-1") == ["one a-1"]
    assert log.synced_offset == 1


def test_what_could_not_be_cut_off_goes_once_the_logs_are_well() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    files.fail("sync")
    files.fail("truncate")
    broker.round("two")
    assert broker.told["two a-0"] is not None
    for log in broker.logs.values():
        log.recover()
    broker.round("three", ["a-1"])
    assert left(files) == []
    assert Broker(files).words("a-0") == ["one a-0"]


def test_a_refused_record_is_cut_off_even_if_it_was_synced_by_the_way() -> None:
    files = disk()
    log = Broker(files).logs["a-0"]
    log.append(batch(0, text="told"))
    log.sync()
    log.append(batch(1, text="refused"))
    log.sync()  # for the sake of the file before, which is full
    log.fail_from(1, OSError(errno.EIO, "what was written ahead could not be synced"))
    log.recover()
    assert values(log) == [b"told 0"]
    files.crash()
    assert Broker(files).words("a-0") == ["told 0"]


def test_a_log_whose_file_lost_what_was_acknowledged_gets_it_back_while_the_broker_runs() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    log = broker.logs["a-0"]
    path = DATA / "a-0" / ("0" * 20 + ".log")
    files.contents[path].clear()  # the system could not write it, and has forgotten it
    log.failed = OSError(errno.EIO, "lost")
    log.recover()
    assert broker.words("a-0") == ["one a-0"]
    broker.round("two")
    assert broker.words("a-0") == ["one a-0", "two a-0"]


def test_who_waits_for_a_round_hears_of_it_though_the_folder_cannot_be_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    with monkeypatch.context() as patch:

        def refuse(_: Path) -> list[str]:
            raise OSError(errno.EIO, "no list")

        patch.setattr(files, "list", refuse)
        broker.round("one")
    assert broker.told == {f"one {name}": None for name in NAMES}
    assert not broker.ahead.is_usable
    broker.round("two")
    assert broker.ahead.is_usable
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0"]
