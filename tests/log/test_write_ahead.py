"""What is written ahead of several logs makes their records durable by one sync, and is read when a
log has lost them."""

import logging

import pytest
from kohort.log.errors import RecordsTooLarge
from kohort.log.log import Log
from kohort.log.write_ahead import PREFIX
from kohort.testing.faulty_files import FaultyFiles
from support.log import batch
from support.write_ahead import DATA, NAMES, Broker, disk, left


def syncs_of(files: FaultyFiles, since: int = 0) -> list[str]:
    return [name for operation, name in files.operations[since:] if operation == "sync"]


def test_several_logs_of_a_round_need_one_sync_and_a_power_loss_takes_nothing() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    broker.round("two")
    assert syncs_of(files) == [f"{PREFIX}1"] * 2
    assert [log.synced_offset for log in broker.logs.values()] == [2, 2, 2]
    files.crash()
    broker = Broker(files)
    assert {name: broker.words(name) for name in NAMES} == {
        name: [f"one {name}", f"two {name}"] for name in NAMES
    }
    assert left(files) == [], "it is in the logs' own files now"
    files.crash()
    assert Broker(files).words("b-0") == ["one b-0", "two b-0"]


def test_a_log_alone_syncs_its_own_file() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one", ["a-0"])
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"]


def test_a_log_syncs_its_own_file_where_something_before_is_not_durable() -> None:
    files = disk()
    broker = Broker(files)
    broker.logs["a-0"].append(batch(0, text="direct"))
    broker.round("one")
    assert sorted(syncs_of(files)) == ["0" * 20 + ".log", f"{PREFIX}1"]
    files.crash()
    assert Broker(files).words("a-0") == ["direct 0", "one a-0"]


def test_a_full_file_goes_once_the_logs_have_synced_their_own() -> None:
    files = disk()
    broker = Broker(files, bytes_max=500)
    for number in range(5):
        broker.round(f"{number}")
    assert int(left(files)[0].removeprefix(PREFIX)) > 1
    assert len(left(files)) == 1
    files.crash()
    broker = Broker(files)
    assert broker.words("a-1") == [f"{number} a-1" for number in range(5)]


def test_a_broker_that_is_stopped_leaves_nothing_to_be_read() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    broker.stop()
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"]


def test_a_round_of_nothing_but_records_that_are_too_large_is_none() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    for log in broker.logs.values():
        with pytest.raises(RecordsTooLarge):
            broker.group_commit.append(log, [(b"key", bytes(5_000))], 1_000, 100)
    broker.turn()
    broker.round("two")
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0"]


def test_a_log_that_is_opened_anew_takes_the_place_of_the_one_before() -> None:
    files = disk()
    broker = Broker(files, bytes_max=250)
    broker.round("one")
    before = broker.logs["a-0"]
    before.close()
    broker.logs["a-0"] = Log.open(DATA / "a-0", files, before.config, write_ahead=broker.ahead)
    broker.round("two")
    broker.round("three")
    assert all(segment.file is None for segment in before.segments)
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0", "two a-0", "three a-0"]


def test_a_wrong_bit_ends_the_file_and_what_is_behind_it_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = disk()
    broker = Broker(files)
    for word in ("one", "two", "three"):
        broker.round(word)
    files.crash()
    data = files.contents[DATA / f"{PREFIX}1"]
    data[len(data) // 3 + 20] ^= 1
    with caplog.at_level(logging.WARNING):
        assert Broker(files).words("a-0") == ["one a-0"]
    assert "bytes are torn. They are kept in write-ahead.1.cut" in caplog.text
    kept = bytes(files.contents[DATA / f"{PREFIX}1.cut"])
    assert len(kept) > len(data) // 2
    Broker(files).round("four")
    assert left(files) == [f"{PREFIX}2"]
    assert files.contents[DATA / f"{PREFIX}1.cut"] == kept


def test_a_broker_of_durability_os_gives_back_what_one_of_fsync_had_acknowledged() -> None:
    files = disk()
    Broker(files).round("one")
    files.crash()
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"], "it was synced before it was let go"


def test_nor_is_it_lost_after_a_kill_and_then_a_power_loss() -> None:
    files = disk()
    Broker(files).round("one")
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]
    files.crash()
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]


def test_a_torn_entry_ends_the_file() -> None:
    files = disk()
    Broker(files).round("one")
    torn = files.contents[DATA / f"{PREFIX}1"]
    torn += torn[:-1]
    files.crash()  # the first entry is durable, what was added is not
    files.contents[DATA / f"{PREFIX}1"] += torn[len(torn) // 2 :]
    assert Broker(files).words("a-0") == ["one a-0"]


def test_records_behind_some_that_are_lost_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one", ["a-0"])
    broker.round("two")
    files.crash()
    files.contents[DATA / "a-0" / ("0" * 20 + ".log")].clear()
    with caplog.at_level(logging.ERROR):
        broker = Broker(files)
    assert "records 0 to 0 are lost" in caplog.text
    assert broker.words("a-0") == ["two a-0"]
    assert broker.logs["a-0"].end_offset == 2


def test_of_two_files_the_older_one_is_read_first() -> None:
    files = disk()
    broker = Broker(files, bytes_max=300)
    for number in range(12):  # their numbers get a second digit
        broker.round(f"{number}")
    old = {DATA / name: bytearray(files.contents[DATA / name]) for name in left(files)}
    for number in range(12, 14):
        broker.round(f"{number}")
    files.crash()
    files.contents |= old  # as if its removal had been lost
    assert Broker(files).words("a-0") == [f"{number} a-0" for number in range(14)]
