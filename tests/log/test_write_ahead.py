"""The write-ahead log makes records of several logs durable with one sync, and restores records
that a log has lost."""

import logging

import pytest
from kohort.log.errors import RecordsTooLarge
from kohort.log.log import Log
from kohort.log.write_ahead import PREFIX
from kohort.testing.faults.files import FaultyFiles
from support.log import batch
from support.write_ahead import DATA, NAMES, Broker, disk, left


def syncs_of(files: FaultyFiles, since: int = 0) -> list[str]:
    return [name for operation, name in files.operations[since:] if operation == "sync"]


def test_several_logs_need_one_sync_and_a_power_loss_loses_nothing() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    broker.flush("two")
    assert syncs_of(files) == [f"{PREFIX}1"] * 2
    assert [log.synced_offset for log in broker.logs.values()] == [2, 2, 2]
    files.crash()
    broker = Broker(files)
    assert {name: broker.words(name) for name in NAMES} == {
        name: [f"one {name}", f"two {name}"] for name in NAMES
    }
    assert left(files) == [], "must be in the logs' own files now"
    files.crash()
    assert Broker(files).words("b-0") == ["one b-0", "two b-0"]


def test_a_single_log_syncs_its_own_file() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one", ["a-0"])
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"]


def test_a_log_with_earlier_unsynced_bytes_syncs_its_own_file() -> None:
    files = disk()
    broker = Broker(files)
    broker.logs["a-0"].append(batch(0, text="direct"))
    broker.flush("one")
    assert sorted(syncs_of(files)) == ["0" * 20 + ".log", f"{PREFIX}1"]
    files.crash()
    assert Broker(files).words("a-0") == ["direct 0", "one a-0"]


def test_a_full_file_is_removed_once_the_logs_have_synced_their_own() -> None:
    files = disk()
    broker = Broker(files, bytes_max=500)
    for number in range(5):
        broker.flush(f"{number}")
    assert int(left(files)[0].removeprefix(PREFIX)) > 1
    assert len(left(files)) == 1
    files.crash()
    broker = Broker(files)
    assert broker.words("a-1") == [f"{number} a-1" for number in range(5)]


def test_a_stopped_broker_leaves_no_write_ahead_log() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    broker.stop()
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"]


def test_a_flush_with_only_rejected_records_writes_nothing() -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one")
    for log in broker.logs.values():
        with pytest.raises(RecordsTooLarge):
            broker.group_commit.append(log, [(b"key", bytes(5_000))], 1_000, 100)
    broker.iterate()
    broker.flush("two")
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0"]


def test_a_reopened_log_replaces_the_previous_object() -> None:
    files = disk()
    broker = Broker(files, bytes_max=250)
    broker.flush("one")
    before = broker.logs["a-0"]
    before.close()
    broker.logs["a-0"] = Log.open(DATA / "a-0", files, before.config, write_ahead=broker.ahead)
    broker.flush("two")
    broker.flush("three")
    assert all(segment.file is None for segment in before.segments)
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0", "three a-0"]


def test_a_flipped_bit_ends_the_file_and_the_rest_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    broker = Broker(files)
    for word in ("one", "two", "three"):
        broker.flush(word)
    files.crash()
    data = files.contents[DATA / f"{PREFIX}1"]
    data[len(data) // 3 + 20] ^= 1
    with caplog.at_level(logging.WARNING):
        assert Broker(files).words("a-0") == ["one a-0"]
    assert "bytes are torn; saved them to write-ahead.1.cut" in caplog.text
    kept = bytes(files.contents[DATA / f"{PREFIX}1.cut"])
    assert len(kept) > len(data) // 2
    Broker(files).flush("four")
    assert left(files) == [f"{PREFIX}2"]
    assert files.contents[DATA / f"{PREFIX}1.cut"] == kept


def test_durability_os_restores_what_fsync_has_acknowledged() -> None:
    files = disk()
    Broker(files).flush("one")
    files.crash()
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"], "must be synced before the file is removed"


def test_durability_os_keeps_it_after_a_kill_and_a_power_loss() -> None:
    files = disk()
    Broker(files).flush("one")
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]
    files.crash()
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]


def test_a_torn_entry_ends_the_file() -> None:
    files = disk()
    Broker(files).flush("one")
    torn = files.contents[DATA / f"{PREFIX}1"]
    torn += torn[:-1]
    files.crash()  # only the first entry is durable
    files.contents[DATA / f"{PREFIX}1"] += torn[len(torn) // 2 :]
    assert Broker(files).words("a-0") == ["one a-0"]


def test_records_behind_lost_ones_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    broker = Broker(files)
    broker.flush("one", ["a-0"])
    broker.flush("two")
    files.crash()
    files.contents[DATA / "a-0" / ("0" * 20 + ".log")].clear()
    with caplog.at_level(logging.ERROR):
        broker = Broker(files)
    assert "records 0 to 0 are lost" in caplog.text
    assert broker.words("a-0") == ["two a-0"]
    assert broker.logs["a-0"].end_offset == 2


def test_the_older_of_two_files_is_read_first() -> None:
    files = disk()
    broker = Broker(files, bytes_max=300)
    for number in range(12):  # file numbers with two digits
        broker.flush(f"{number}")
    old = {DATA / name: bytearray(files.contents[DATA / name]) for name in left(files)}
    for number in range(12, 14):
        broker.flush(f"{number}")
    files.crash()
    files.contents.update(old)  # as if a crash had undone its removal
    assert Broker(files).words("a-0") == [f"{number} a-0" for number in range(14)]
