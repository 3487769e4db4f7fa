"""What is written ahead of several logs makes their records durable by one sync, and a crash at any
time gives back all that was acknowledged."""

import errno
import logging
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from batches import batch, values
from kohort.log.log import Log, LogConfig
from kohort.log.rounds import Durability, Rounds
from kohort.log.write_ahead import PREFIX, Durable, WriteAhead
from kohort.testing.faulty_files import FaultyFiles

DATA = Path("/data")
NAMES = ("a-0", "a-1", "b-0")


class Broker:
    """One life of what writes to a disk. Syncs in threads come to their end in `turn`."""

    def __init__(
        self,
        files: FaultyFiles,
        *,
        durability: Durability = "fsync",
        bytes_max: int = 1 << 20,
        segment_bytes: int = 1 << 20,
    ) -> None:
        self.files = files
        self.due: list[Callable[[], None]] = []
        self.ahead = WriteAhead(DATA, files, bytes_max)
        self.rounds = Rounds(
            durability=durability,
            call_soon=self.due.append,
            sync_all=self._sync_all,
            write_ahead=self.ahead,
        )
        config = LogConfig(segment_bytes=segment_bytes, sync_at_open=durability == "fsync")
        self.logs = {
            name: Log.open(DATA / name, files, config, write_ahead=self.ahead) for name in NAMES
        }
        self.told: dict[str, OSError | None] = {}

    def _sync_all(
        self, what: Sequence[Durable], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        outcomes: list[OSError | None] = []
        for each in what:
            try:
                each.sync()
            except OSError as error:
                outcomes.append(error)
            else:
                outcomes.append(None)
        self.due.append(lambda: done(outcomes))

    def append(self, name: str, word: str) -> None:
        log = self.logs[name]
        self.rounds.append(log, [(b"key", word.encode())], 1_000)
        self.rounds.then(log, lambda error: self.told.update({word: error}))

    def turn(self) -> None:
        while self.due:
            due = self.due.copy()
            self.due.clear()
            for callback in due:
                callback()

    def round(self, word: str, names: Sequence[str] = NAMES) -> None:
        """Append to several logs at once, and have it settled."""
        for name in names:
            self.append(name, f"{word} {name}")
        self.turn()

    def stop(self) -> None:
        self.ahead.close()
        for log in self.logs.values():
            log.close()

    def words(self, name: str) -> list[str]:
        return [(value or b"").decode() for value in values(self.logs[name])]


def left(files: FaultyFiles) -> list[str]:
    return [name for name in files.list(DATA) if name.startswith(PREFIX)]


def syncs_of(files: FaultyFiles, since: int = 0) -> list[str]:
    return [name for operation, name in files.operations[since:] if operation == "sync"]


def disk() -> FaultyFiles:
    files = FaultyFiles()
    files.make_folder(DATA)
    files.sync_folder(DATA.parent)
    return files


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


def test_a_full_file_stays_when_a_log_cannot_sync_and_what_comes_then_is_synced_by_each() -> None:
    files = disk()
    broker = Broker(files, bytes_max=100)
    files.fail("sync", after=1)  # the first is of what is written ahead
    broker.round("one")
    assert broker.told == {f"one {name}": None for name in NAMES}
    assert left(files) == [f"{PREFIX}1"]
    failed = [name for name, log in broker.logs.items() if log.failed]
    assert len(failed) == 1
    broker.logs[failed[0]].recover()
    broker.round("two")
    assert left(files) == [f"{PREFIX}1"]
    files.crash()
    assert Broker(files).words(failed[0]) == [f"one {failed[0]}", f"two {failed[0]}"]


def test_a_broker_that_is_stopped_leaves_nothing_to_be_read() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    broker.stop()
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"]


def test_what_cannot_be_synced_at_the_stop_is_left_to_the_next_start() -> None:
    files = disk()
    broker = Broker(files)
    broker.round("one")
    files.fail("sync")
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
    assert not broker.ahead.is_usable
    broker.round("three")
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


def test_a_refused_record_is_cut_off_even_if_it_was_synced_by_the_way() -> None:
    files = disk()
    log = Broker(files).logs["a-0"]
    log.append(batch(0, text="told"))
    log.sync()
    log.append(batch(1, text="refused"))
    log.sync()  # for the sake of the file before, which is full
    log.refuse(1, OSError(errno.EIO, "what was written ahead could not be synced"))
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


def test_a_broker_of_durability_os_gives_back_what_one_of_fsync_had_acknowledged() -> None:
    files = disk()
    Broker(files).round("one")
    files.crash()
    assert Broker(files, durability="os").words("a-0") == ["one a-0"]
    assert left(files) == []
    files.crash()
    assert Broker(files).words("a-0") == ["one a-0"], "it was synced before it was let go"


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
    assert "its records 0 to 0 are lost" in caplog.text
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


class Chaos:
    """Rounds on a disk that fails now and then, and what of them was acknowledged."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.files = disk()
        self.bytes_max = self.chance.choice([200, 2_000])
        self.segment_bytes = self.chance.choice([300, 1 << 20])
        self.acknowledged: dict[str, list[str]] = {name: [] for name in NAMES}
        self.numbers = 0

    def live(self) -> None:
        broker = Broker(self.files, bytes_max=self.bytes_max, segment_bytes=self.segment_bytes)
        self.check(broker)
        for _ in range(self.chance.randint(1, 12)):
            if self.chance.random() < 0.3:
                self.break_something()
            self.round(broker)
            self.files.heal()
            for log in broker.logs.values():
                if log.failed is not None:
                    log.recover()
            self.check(broker)
        if self.chance.random() < 0.2:
            broker.stop()
        if self.chance.random() < 0.7:
            self.files.crash(self.chance)

    def break_something(self) -> None:
        operation = self.chance.choice(["append", "sync", "truncate", "create", "sync_folder"])
        after, written = self.chance.randint(0, 4), self.chance.randint(0, 99)
        self.files.fail(operation, after=after, written=written)

    def round(self, broker: Broker) -> None:
        said: dict[str, str] = {}
        for name in self.chance.sample(NAMES, self.chance.randint(1, len(NAMES))):
            self.numbers += 1
            said[name] = f"{self.numbers}"
            broker.append(name, said[name])
        broker.turn()
        for name, word in said.items():
            if broker.told[word] is None:
                self.acknowledged[name].append(word)

    def check(self, broker: Broker) -> None:
        assert {name: broker.words(name) for name in NAMES} == self.acknowledged


@pytest.mark.parametrize("seed", range(60))
def test_whatever_fails_and_whenever_the_power_goes_only_what_was_acknowledged_is_there(
    seed: int,
) -> None:
    chaos = Chaos(seed)
    for _ in range(6):
        chaos.live()
