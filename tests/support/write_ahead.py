"""Logs with a group commit on a faulty disk, and a thread pool that is run step by step."""

import errno
import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

from kohort.log.group_commit import Durability, GroupCommit
from kohort.log.log import Log, LogConfig
from kohort.log.write_ahead import PREFIX, WriteAheadLog
from kohort.testing.faults.files import FaultyFiles
from support.log import sync_each, values

DATA = Path("/data")
NAMES = ("a-0", "a-1", "b-0")


class Pooled:
    """A pending call of the pool: the functions that sync, and the callback."""

    def __init__(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ):
        self.left = list(syncs)
        self.results: list[OSError | None] = []
        self._done = done

    def step(self) -> bool:
        """Run one sync, or the callback after the last one; then return False."""
        if not self.left:
            self._done(self.results)
            return False
        self.results += sync_each([self.left.pop(0)])
        return True

    def finish(self) -> None:
        while self.step():
            pass

    def fail(self) -> None:
        self._done([OSError(errno.EIO, "sync failed") for _ in self.left])


class Broker:
    """One run of the storage layer. `pool` contains the pending work of the thread pool, and
    `results` the values whose callbacks were called, in order. With `sync_seconds`, the next sync
    goes to the pool; with 0, that of a single log runs inline."""

    def __init__(
        self,
        files: FaultyFiles,
        *,
        durability: Durability = "fsync",
        bytes_max: int = 1 << 20,
        segment_bytes: int = 1 << 20,
        has_write_ahead: bool = True,
        sync_seconds: float = 1,
    ) -> None:
        self.files = files
        self.due: list[Callable[[], None]] = []
        self.pool: list[Pooled] = []
        self.ahead = WriteAheadLog(DATA, files, bytes_max)
        seconds = itertools.count(step=sync_seconds)
        write_ahead = self.ahead if has_write_ahead else None
        self.group_commit = GroupCommit(
            durability=durability,
            call_soon=self.due.append,
            sync_all=lambda syncs, done: self.pool.append(Pooled(syncs, done)),
            write_ahead=write_ahead,
            seconds=lambda: next(seconds),
        )
        config = LogConfig(segment_bytes=segment_bytes, sync_at_open=durability == "fsync")
        self.logs = {
            name: Log.open(DATA / name, files, config, write_ahead=write_ahead) for name in NAMES
        }
        self.results: dict[str, OSError | None] = {}

    def append(self, name: str, value: str) -> None:
        log = self.logs[name]
        self.group_commit.append(log, [(b"key", value.encode())], 1_000)
        self.group_commit.on_durable(log, self.record(value))

    def record(self, value: str) -> Callable[[OSError | None], None]:
        """Return a callback that stores its result; a second call is stored as `VALUE, again`."""

        def called(error: OSError | None) -> None:
            self.results[f"{value}, again" if value in self.results else value] = error

        return called

    def run_due(self) -> None:
        due = self.due.copy()
        self.due.clear()
        for callback in due:
            callback()

    def finish_syncs(self) -> None:
        pool = self.pool.copy()
        self.pool.clear()
        for each in pool:
            each.finish()

    def iterate(self) -> None:
        while self.due or self.pool:
            self.run_due()
            self.finish_syncs()

    def flush(self, value: str, names: Sequence[str] = NAMES) -> None:
        """Append to several logs and finish the flush."""
        for name in names:
            self.append(name, f"{value} {name}")
        self.iterate()

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
