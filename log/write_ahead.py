"""One file for what many logs are given in a round, so that one sync makes all of it durable: to
sync thirty files takes some twenty times as long, or ten times in threads.

What stands in it is in the logs' own files as well, where everybody reads it, but those need not be
synced yet. It is read when a log has lost what was acknowledged: at the start after a power loss,
or when its own file could not be synced. When it is full another is begun, and it goes once the
logs have synced their files. A broker that was stopped leaves none.

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
# Then another file is begun. A start after a crash reads two of this size at most, 75 ms each, and
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
        """Not after a failure, until all logs have synced their own files: as long each does."""
        self._file: File | None = None
        self._durable_bytes = 0  # of the file
        # Of which logs our files are needed, by the names of their folders: those that are syncing
        # their own files just now, so that what was full before can go, and all others.
        self._retiring: dict[str, Log] | None = None
        self._logs: dict[str, Log] = {}
        # What a crash has left, by the folder's name of its log.
        self._left: dict[str, list[bytes]] = {}
        found = self._found()
        self._left_in = _whole(found)
        # Nor is the number of one taken again whose torn end is kept.
        self._number = max((number for number, _ in found), default=0)
        for path in self._left_in:
            for name, batch in self._read(path):
                self._left.setdefault(name, []).append(batch)
        if not self._left:
            self._let_go_of_left()

    def _found(self) -> list[tuple[int, Path]]:
        """What is there with its number, the oldest first; torn ends that are kept as well."""
        names = [each for each in self._files.list(self._folder) if each.startswith(PREFIX)]
        numbers = [each.split(".")[1] for each in names]
        return sorted(
            (int(number), self._folder / name)
            for number, name in zip(numbers, names, strict=True)
            if number.isdecimal()
        )

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
        assert parts, "an entry of nothing would end the file"
        body = b"".join(parts)
        (self._file or self._begun()).append(_ENTRY.pack(len(body), crc32c(body)) + body)

    def _begun(self) -> File:
        self._number += 1
        self._durable_bytes = 0
        self._file = self._files.open(self._path, create=True)
        self._files.sync_folder(self._folder)
        return self._file

    def sync(self) -> None:
        """May run in another thread; nothing else is called meanwhile but what ends a retirement.
        Raises OSError: then call `fail`."""
        assert self._file is not None, "nothing was written"
        self._file.sync()
        self._durable_bytes = self._file.size

    def fail(self, error: OSError) -> None:
        """Writing or syncing has failed. Who is refused must not find it later, so what was not
        synced goes: now, or with the file, once all logs have synced their own."""
        _log.error("%s failed, each log syncs its own file for now: %s", self._path, error)
        self.is_usable = False
        if self._file is not None:
            try:
                self._file.truncate(self._durable_bytes)
                self._file.sync()
            except OSError as refusal:
                _log.error("%s may have what was refused: %s", self._path, refusal)

    def make_room(self, sync_all: SyncAll) -> None:
        """Nothing is being written or synced here: if the file is full, or has failed, let the
        logs sync their own files, and then it goes. One at a time; the next may grow meanwhile."""
        is_full = self._file is not None and self._file.size >= self._bytes_max
        if self._retiring is not None or (self.is_usable and not is_full):
            return
        if not any(log.failed for log in self._logs.values()):
            self._retire(sync_all)

    def _retire(self, sync_all: SyncAll) -> None:
        try:
            file, self._file = self._file, None
            if file is not None:
                file.close()
            paths = self._own_paths()
        except OSError as error:
            # Those who wait for this round hear how it ended all the same.
            _log.error("%s cannot be left for another file yet: %s", self._path, error)
            self.is_usable = False
            return
        logs, self._logs = self._logs, {}
        self._retiring = logs

        def done(outcomes: Sequence[OSError | None]) -> None:
            if self._retiring is not logs:
                return  # closed meanwhile
            self._retiring = None
            if any(outcomes):
                # What was written ahead of it is needed: to recover it, or at the next start.
                self.is_usable = False
                self._logs = logs | self._logs
            else:
                self._remove(paths)
                self.is_usable = self.is_usable or self._file is None

        if logs:
            sync_all([_OwnFiles(log) for log in logs.values()], done)
        else:
            done(())

    def close(self) -> None:
        """The logs, which are still open, sync their own files; then nothing is left to be read.
        What could not be synced is left to the next start."""
        logs = (self._retiring or {}) | self._logs
        self._logs, self._retiring = {}, None
        if self._file is not None:
            self._file.close()
            self._file = None
        try:
            for log in logs.values():
                if log.failed is not None:
                    self._logs = {log.folder.name: log}  # it asks for what it has lost
                    log.recover()
                log.sync()
        except OSError as error:
            _log.error("What was written ahead in %s stays, for: %s", self._folder, error)
        else:
            self._remove(self._own_paths())

    def _own_paths(self) -> list[Path]:
        return [path for path in _whole(self._found()) if path not in self._left_in]

    # --- reading

    def has_left(self, name: str) -> bool:
        """Whether there is something for the log whose folder has this name, once it is opened."""
        return name in self._left

    def restore(self, log: Log) -> None:
        """The log was opened: give it what a crash took, and make it durable there. Raises OSError;
        then it may be tried again."""
        name = log.folder.name
        if name in self._left:
            _give_back(log, self._left[name])
            log.sync()
            del self._left[name]
            if not self._left:
                self._let_go_of_left()
        for logs in (self._logs, self._retiring or {}):
            if name in logs:
                logs[name] = log  # it is another one from now on
        self.give_back(log)

    def give_back(self, log: Log) -> None:
        """Give the log what it has lost since the start. Raises OSError."""
        name = log.folder.name
        if name in self._logs or (self._retiring and name in self._retiring):
            found = (each for path in self._own_paths() for each in self._read(path))
            _give_back(log, [batch for of, batch in found if of == name])

    def _read(self, path: Path) -> Iterator[tuple[str, bytes]]:
        """The name of a log's folder and one of its batches, as they were written."""
        data = self._files.read_bytes(path)
        start = 0
        while len(data) - start > _ENTRY.size:
            size, crc = _ENTRY.unpack_from(data, start)
            at = start + _ENTRY.size
            end = at + size
            if not at < end <= len(data) or crc32c(memoryview(data)[at:end]) != crc:
                break
            while at < end:
                (length,) = _NAME.unpack_from(data, at)
                at += _NAME.size
                name = data[at : at + length].decode()
                at += length
                _, size = _BATCH.unpack_from(data, at)
                yield name, data[at : at + LENGTH_END + size]
                at += LENGTH_END + size
            start = end
        # Zeros are room that was allocated ahead.
        if path in self._left_in and data.count(0, start) != len(data) - start:
            self._keep(path, data[start:])

    def _keep(self, path: Path, torn: bytes) -> None:
        aside = path.with_name(f"{path.name}.cut")
        _log.warning(
            "%s: its last %d bytes are torn. They are kept in %s", path, len(torn), aside.name
        )
        self._files.replace(aside, torn)

    def _let_go_of_left(self) -> None:
        paths, self._left_in = self._left_in, []
        self._remove(paths)

    def _remove(self, paths: Sequence[Path]) -> None:
        """All of it is durable in the logs' own files. Where one stays, the next start passes over
        it: the logs are longer by then."""
        if not paths:
            return
        try:
            for path in paths:
                self._files.remove(path)
            self._files.sync_folder(self._folder)
        except OSError as error:
            _log.warning("%s cannot be removed: %s", paths[0], error)


def _whole(found: Iterable[tuple[int, Path]]) -> list[Path]:
    """Without the torn ends."""
    return [path for number, path in found if path.name == f"{PREFIX}{number}"]


class _OwnFiles:
    """A log whose own files sync what so far is only written ahead."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._durable_offset = log.synced_offset

    def sync(self) -> None:
        # A round may be under way, which can be refused yet: what is beyond is not told of.
        self._log.sync(up_to=self._durable_offset)
        if self._log.closed:
            self._log.close()  # the files that were opened for it


def _give_back(log: Log, batches: Iterable[bytes]) -> None:
    given = 0
    for batch in batches:
        base_offset, _ = _BATCH.unpack_from(batch)
        if base_offset > log.end_offset:
            lost = f"{log.end_offset} to {base_offset - 1}"
            _log.error("%s: its records %s are lost: it was changed", log.folder, lost)
            log.end_offset = base_offset
        if base_offset == log.end_offset:
            log.append(batch)
            given += 1
    if given:
        _log.info("%s: batches that it had lost and are back: %d", log.folder, given)
