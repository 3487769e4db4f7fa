"""One file for what many logs are given in a round, so that one sync makes all of it durable: to
sync thirty files takes some twenty times as long, or ten times in threads.

What stands in it is in the logs' own files as well, where everybody reads it, but those need not be
synced yet. It is read only at the next start, if the broker did not come to its end: then logs get
back what a power loss took from them. When it is full another is begun, and it goes once the logs
have synced their files. A broker that was stopped leaves none.

A file is entries: size and CRC-32C of what follows, then of each batch the name of its log's
folder and the batch itself. One that is torn ends the file: nobody was told of it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from crc32c import crc32c

from .files import File, Files
from .header import LENGTH_END

if TYPE_CHECKING:
    from .log import Log

__all__ = ["BYTES_MAX", "PREFIX", "Durable", "SyncAll", "WriteAhead"]

PREFIX: Final = "write-ahead."
# Then another file is begun. A start after a crash reads two of this size at most, some 20 ms; and
# the forty syncs that end one come once in a hundred thousand commits.
BYTES_MAX: Final = 16 * 1024 * 1024

_ENTRY: Final = Struct(">iI")
_NAME: Final = Struct(">H")
_BATCH: Final = Struct(">qi")  # base offset, size of what follows

_log = logging.getLogger("kohort.log")


class Durable(Protocol):
    """What can be synced: a log, or what is written ahead of many."""

    def sync(self) -> None:
        """Returns when all that was written before is durable. Raises OSError."""


class SyncAll(Protocol):
    def __call__(
        self, what: Sequence[Durable], done: Callable[[Sequence[OSError | None]], None], /
    ) -> None:
        """Sync each in a thread; then, on the event loop, `done` with an outcome for each."""


class WriteAhead:
    """Of the logs in `folder`. Opening it reads what a crash has left; raises OSError."""

    def __init__(self, folder: Path, files: Files, bytes_max: int = BYTES_MAX) -> None:
        self._folder = folder
        self._files = files
        self._bytes_max = bytes_max
        self.is_usable = True
        """Not after a failure: then each log syncs its own file, until the next start."""
        self._file: File | None = None
        self._durable_bytes = 0  # of the file
        # The logs that the file has batches of, by the names of their folders.
        self._logs: dict[str, Log] = {}
        # Those of the file before, while they sync their own.
        self._syncing: dict[str, Log] | None = None
        # What a crash has left, by the folder's name of its log, and where.
        self._left: dict[str, list[bytes]] = {}
        self._left_in = [folder / f"{PREFIX}{number}" for number in self._numbers()]
        self._number = max(self._numbers(), default=0)
        for path in self._left_in:
            for name, batch in _batches(files.read_bytes(path)):
                self._left.setdefault(name, []).append(batch)
        if not self._left:
            self._let_go_of_left()

    def _numbers(self) -> list[int]:
        names = (each for each in self._files.list(self._folder) if each.startswith(PREFIX))
        numbers = (each.removeprefix(PREFIX) for each in names)
        return sorted(int(number) for number in numbers if number.isdecimal())

    @property
    def _path(self) -> Path:
        return self._folder / f"{PREFIX}{self._number}"

    # --- writing

    def write(self, batches: Iterable[tuple[Log, bytes]]) -> None:
        """Write down what logs were given, behind what is durable of each. Raises OSError: then
        call `fail`."""
        parts: list[bytes] = []
        for log, batch in batches:
            self._logs[log.folder.name] = log
            name = log.folder.name.encode()
            parts += (_NAME.pack(len(name)), name, batch)
        body = b"".join(parts)
        (self._file or self._begun()).append(_ENTRY.pack(len(body), crc32c(body)) + body)

    def _begun(self) -> File:
        self._number += 1
        self._durable_bytes = 0
        self._file = self._files.open(self._path, create=True)
        self._files.sync_folder(self._folder)
        return self._file

    def sync(self) -> None:
        """May run in another thread; nothing is written meanwhile. Raises OSError: then call
        `fail`."""
        assert self._file is not None, "nothing was written"
        self._file.sync()
        self._durable_bytes = self._file.size

    def make_room(self, sync_all: SyncAll) -> None:
        """Nothing is being written or synced: if the file is full, begin another."""
        if self._file is not None and self._file.size >= self._bytes_max:
            self._retire(sync_all)

    def _retire(self, sync_all: SyncAll) -> None:
        """The logs sync their own files, and then this one goes. While the one before is still on
        its way it may grow."""
        if self._file is None or self._syncing is not None:
            return
        self._file.close()
        self._file = None
        path = self._path
        logs, self._logs = self._logs, {}
        self._syncing = logs

        def done(outcomes: Sequence[OSError | None]) -> None:
            if self._syncing is not logs:
                return  # closed meanwhile
            self._syncing = None
            if any(outcomes):
                self.is_usable = False  # the file is needed at the next start
            else:
                self._remove([path])
            if not self.is_usable:
                self._retire(sync_all)

        sync_all(list(logs.values()), done)

    def fail(self, error: OSError, sync_all: SyncAll) -> None:
        """Writing or syncing has failed. Who is refused must not find it later, so what was not
        synced goes."""
        _log.error("%s failed, each log syncs its own file from now on: %s", self._path, error)
        self.is_usable = False
        if self._file is not None:
            try:
                self._file.truncate(self._durable_bytes)
                self._file.sync()
            except OSError as refusal:
                _log.error("%s may have what was refused: %s", self._path, refusal)
        self._retire(sync_all)

    def close(self) -> None:
        """The logs, which are still open, sync their own files; then nothing is left to be read.
        What could not be synced is left to the next start."""
        logs = (self._syncing or {}) | self._logs
        self._logs, self._syncing = {}, None
        if self._file is not None:
            self._file.close()
            self._file = None
        try:
            for log in logs.values():
                log.sync()
        except OSError as error:
            _log.error("%s stays, for %s", self._path, error)
            return
        left = {path.name for path in self._left_in}
        names = (f"{PREFIX}{number}" for number in self._numbers())
        self._remove([self._folder / name for name in names if name not in left])

    # --- reading

    def has_left(self, name: str) -> bool:
        """Whether there is something for the log whose folder has this name, once it is opened."""
        return name in self._left

    def restore(self, log: Log) -> None:
        """Give the log what it has lost, and make it durable there. Raises OSError; then it may be
        tried again."""
        name = log.folder.name
        batches = self._left.get(name, [])
        if name in self._logs or (self._syncing and name in self._syncing):
            paths = [self._folder / f"{PREFIX}{number}" for number in self._numbers()]
            found = (each for path in paths for each in _batches(self._files.read_bytes(path)))
            batches = [batch for of, batch in found if of == name]
        restored = 0
        for batch in batches:
            base_offset, _ = _BATCH.unpack_from(batch)
            if base_offset > log.end_offset:
                _log.error(
                    "%s: its records %d to %d are lost: it was changed under the broker",
                    log.folder,
                    log.end_offset,
                    base_offset - 1,
                )
                log.end_offset = base_offset
            if base_offset == log.end_offset:
                log.append(batch)
                restored += 1
        if restored:
            _log.info("%s: batches that a crash took and are back: %d", log.folder, restored)
        if batches:
            log.sync()
        if self._left.pop(name, None) and not self._left:
            self._let_go_of_left()

    def _let_go_of_left(self) -> None:
        paths, self._left_in = self._left_in, []
        self._remove(paths)

    def _remove(self, paths: Sequence[Path]) -> None:
        """What it has is in the logs' own files, so it does no harm where it stays."""
        if not paths:
            return
        try:
            for path in paths:
                self._files.remove(path)
            self._files.sync_folder(self._folder)
        except OSError as error:
            _log.warning("%s cannot be removed: %s", paths[0], error)


def _batches(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The name of a log's folder and one of its batches, as they were written."""
    start = 0
    while len(data) - start > _ENTRY.size:
        size, crc = _ENTRY.unpack_from(data, start)
        at = start + _ENTRY.size
        end = at + size
        # Zeros are room that was allocated ahead.
        if not at < end <= len(data) or crc32c(memoryview(data)[at:end]) != crc:
            return
        while at < end:
            (length,) = _NAME.unpack_from(data, at)
            at += _NAME.size
            name = data[at : at + length].decode()
            at += length
            _, size = _BATCH.unpack_from(data, at)
            yield name, data[at : at + LENGTH_END + size]
            at += LENGTH_END + size
        start = end
