"""Logs that are written ahead of, on a disk that fails, and a pool of threads that waits until it
is told to go on."""

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from kohort.log.group_commit import Durability, GroupCommit
from kohort.log.log import Log, LogConfig
from kohort.log.write_ahead import PREFIX, Syncable, WriteAheadLog
from kohort.testing.faulty_files import FaultyFiles
from support.log import values

DATA = Path("/data")
NAMES = ("a-0", "a-1", "b-0")


class Pooled:
    """A call of the pool: what is to be synced one after the other, and who is told then."""

    def __init__(self, what: Sequence[Syncable], done: Callable[[Sequence[OSError | None]], None]):
        self.left = list(what)
        self.outcomes: list[OSError | None] = []
        self._done = done

    def step(self) -> bool:
        """One sync, or telling of all; False once that is done."""
        if not self.left:
            self._done(self.outcomes)
            return False
        try:
            self.left.pop(0).sync()
        except OSError as error:
            self.outcomes.append(error)
        else:
            self.outcomes.append(None)
        return True

    def finish(self) -> None:
        while self.step():
            pass

    def fail(self) -> None:
        self._done([OSError(errno.EIO, "sync failed") for _ in self.left])


class Broker:
    """One life of what writes to a disk. What the pool of threads is to do waits in `pool`."""

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
        self.pool: list[Pooled] = []
        self.ahead = WriteAheadLog(DATA, files, bytes_max)
        self.seconds = 0.0
        self.group_commit = GroupCommit(
            durability=durability,
            call_soon=self.due.append,
            sync_all=lambda what, done: self.pool.append(Pooled(what, done)),
            write_ahead=self.ahead,
            seconds=self._next_second,
        )
        config = LogConfig(segment_bytes=segment_bytes, sync_at_open=durability == "fsync")
        self.logs = {
            name: Log.open(DATA / name, files, config, write_ahead=self.ahead) for name in NAMES
        }
        self.told: dict[str, OSError | None] = {}

    def _next_second(self) -> float:
        # So each sync takes so long that the next is given to the pool.
        self.seconds += 1
        return self.seconds

    def append(self, name: str, word: str) -> None:
        log = self.logs[name]
        self.group_commit.append(log, [(b"key", word.encode())], 1_000)
        self.group_commit.on_durable(log, lambda error: self.told.update({word: error}))

    def run_due(self) -> None:
        due = self.due.copy()
        self.due.clear()
        for callback in due:
            callback()

    def turn(self) -> None:
        while self.due or self.pool:
            self.run_due()
            while self.pool:
                self.pool.pop(0).finish()

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
    return [name for name in files.list(DATA) if name.startswith(PREFIX) and name[-1] != "t"]


def disk() -> FaultyFiles:
    files = FaultyFiles()
    files.make_folder(DATA)
    files.sync_folder(DATA.parent)
    return files
