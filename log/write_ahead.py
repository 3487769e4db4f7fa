"""The write-ahead log: one file for what many logs append in a flush, so that one sync makes all of
it durable. Syncing thirty files takes about twenty times as long, or ten times in threads.

The batches are in the logs' own files too, where they are read, but these need not be synced yet.
The write-ahead log is read only when a log has lost acknowledged batches: at the start after a
power loss, or when its own file could not be synced. A full file is replaced by another one, and
removed once the logs have synced their files. A broker that was stopped leaves none.

A file has entries: size and CRC-32C of the rest, then for each batch the name of its log's folder
and the batch itself. A torn entry ends the file; its requests were never acknowledged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from crc32c import crc32c

from .batch import LENGTH_END
from .files import File, Files
from .log import Log

PREFIX: Final = "write-ahead."
# The size at which a file is full. A start after a crash reads two such files at most, 75 ms each,
# and the forty syncs that retire one are needed once in a hundred thousand commits.
BYTES_MAX: Final = 16 * 1024 * 1024

_ENTRY: Final = Struct(">iI")
_NAME: Final = Struct(">H")
_BATCH: Final = Struct(">qi")  # base offset, size of the rest

_log = logging.getLogger("kohort.log")


class Syncable(Protocol):
    """A log, or the write-ahead log of many."""

    def sync(self) -> None:
        """Return when everything written before is durable. Raises OSError."""


class SyncAll(Protocol):
    def __call__(
        self, what: Sequence[Syncable], done: Callable[[Sequence[OSError | None]], None], /
    ) -> None:
        """Sync each in a thread; then call `done` with all results, on the event loop."""


class WriteAheadLog:
    """Of the logs in `folder`. Opening it reads what a crash has left; raises OSError."""

    def __init__(self, folder: Path, files: Files, bytes_max: int = BYTES_MAX) -> None:
        self._folder = folder
        self._files = files
        self._bytes_max = bytes_max
        self.is_usable = True
        """False from a failure until all logs have synced their own files."""
        self._file: File | None = None
        self._durable_bytes = 0  # of the file
        # The logs that need our files, by the names of their folders. `_retiring`: those that are
        # syncing their own files at the moment, so that the full file can be removed.
        self._retiring: dict[str, Log] | None = None
        self._logs: dict[str, Log] = {}
        # What a crash has left: batches by the name of the log's folder.
        self._left: dict[str, list[bytes]] = {}
        found = self._list()
        self._left_paths = _whole(found)
        # The number of a file whose torn end was kept is not used again either.
        self._number = max((number for number, _ in found), default=0)
        for path in self._left_paths:
            for name, batch in self._read(path):
                self._left.setdefault(name, []).append(batch)
        if not self._left:
            self._remove_left()

    def _list(self) -> list[tuple[int, Path]]:
        """(number, path) of the files, the oldest first; torn ends that were kept are included."""
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
        """Write what logs have appended after their durable end. On OSError call `fail`."""
        parts: list[bytes] = []
        for log, batch in batches:
            self._logs[log.folder.name] = log
            name = log.folder.name.encode()
            parts += (_NAME.pack(len(name)), name, batch)
        assert parts, "an empty entry would end the file"
        body = b"".join(parts)
        file = self._file or self._open_next()
        file.append(_ENTRY.pack(len(body), crc32c(body)) + body)

    def _open_next(self) -> File:
        self._number += 1
        self._durable_bytes = 0
        self._file = self._files.open(self._path, create=True)
        self._files.sync_folder(self._folder)
        return self._file

    def sync(self) -> None:
        """May run in a thread; meanwhile only a retirement may end. On OSError call `fail`."""
        assert self._file is not None, "nothing was written"
        self._file.sync()
        self._durable_bytes = self._file.size

    def fail(self, error: OSError) -> None:
        """A write or sync has failed. Its requests must not reappear after a restart, so what was
        not synced is truncated now, or removed with the file once all logs have synced."""
        _log.error(
            "%s failed; each log syncs its own file until it recovers: %s", self._path, error
        )
        self.is_usable = False
        if self._file is not None:
            try:
                self._file.truncate(self._durable_bytes)
                self._file.sync()
            except OSError as second:
                _log.error("%s may still contain failed writes: %s", self._path, second)

    def rotate(self, sync_all: SyncAll) -> None:
        """If the file is full or has failed, have the logs sync their own files, then remove it.
        Called between flushes. One file retires at a time; the next may grow meanwhile."""
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
            # The flush itself has succeeded.
            _log.error("%s cannot be replaced by another file yet: %s", self._path, error)
            self.is_usable = False
            return
        logs, self._logs = self._logs, {}
        self._retiring = logs

        def done(results: Sequence[OSError | None]) -> None:
            if self._retiring is not logs:
                return  # closed meanwhile
            self._retiring = None
            if any(results):
                # The file is still needed: for recover(), or at the next start.
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
        """Sync the logs' own files, which must still be open, and remove ours. If that fails they
        are left to the next start."""
        logs = (self._retiring or {}) | self._logs
        self._logs, self._retiring = {}, None
        if self._file is not None:
            self._file.close()
            self._file = None
        try:
            for log in logs.values():
                if log.failed is not None:
                    self._logs = {log.folder.name: log}  # recover() calls `replay`
                    log.recover()
                log.sync()
        except OSError as error:
            _log.error(
                "The write-ahead log in %s is left to the next start: %s", self._folder, error
            )
        else:
            self._remove(self._own_paths())

    def _own_paths(self) -> list[Path]:
        return [path for path in _whole(self._list()) if path not in self._left_paths]

    # --- reading

    # What a log calls: see log.WriteAheadSource.

    def has_batches_for(self, name: str) -> bool:
        return name in self._left

    def restore(self, log: Log) -> None:
        name = log.folder.name
        if name in self._left:
            _append_missing(log, self._left[name])
            log.sync()
            del self._left[name]
            if not self._left:
                self._remove_left()
        for logs in (self._logs, self._retiring or {}):
            if name in logs:
                logs[name] = log  # replaces the object that was open before
        self.replay(log)

    def replay(self, log: Log) -> None:
        name = log.folder.name
        if name in self._logs or (self._retiring and name in self._retiring):
            found = (each for path in self._own_paths() for each in self._read(path))
            _append_missing(log, [batch for folder, batch in found if folder == name])

    def _read(self, path: Path) -> Iterator[tuple[str, bytes]]:
        """(name of the log's folder, batch), in the order in which they were written."""
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
        # Zeros were preallocated.
        if path in self._left_paths and data.count(0, start) != len(data) - start:
            self._keep(path, data[start:])

    def _keep(self, path: Path, torn: bytes) -> None:
        kept = path.with_name(f"{path.name}.cut")
        _log.warning(
            "%s: its last %d bytes are torn. They are kept in %s", path, len(torn), kept.name
        )
        self._files.replace(kept, torn)

    def _remove_left(self) -> None:
        paths, self._left_paths = self._left_paths, []
        self._remove(paths)

    def _remove(self, paths: Sequence[Path]) -> None:
        """The files are no longer needed. One that cannot be removed does no harm at the next
        start: the logs have all its batches."""
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
    """Syncs the own files of a log, up to what is durable in the write-ahead log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._durable_offset = log.synced_offset

    def sync(self) -> None:
        # Not further: a flush may be in progress, and may still fail.
        self._log.sync(up_to=self._durable_offset)
        if self._log.closed:
            self._log.close()  # the files that the sync has opened


def _append_missing(log: Log, batches: Iterable[bytes]) -> None:
    restored = 0
    for batch in batches:
        base_offset, _ = _BATCH.unpack_from(batch)
        if base_offset > log.end_offset:
            _log.error(
                "%s: records %d to %d are lost: its files were changed",
                log.folder,
                log.end_offset,
                base_offset - 1,
            )
            log.end_offset = base_offset
        if base_offset == log.end_offset:
            log.append(batch)
            restored += 1
    if restored:
        _log.info("%s: restored %d batches from the write-ahead log", log.folder, restored)
