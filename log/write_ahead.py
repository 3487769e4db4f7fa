"""Write-ahead log: one file to which a flush writes the batches of many logs, so that a single sync
makes them durable. Syncing 30 files would take twenty times as long (ten times with threads).

Batches are also written to the logs' own files, which are used for reading and synced later. The
write-ahead log restores batches that these files have lost: on startup after a crash, and after a
failed sync of a log's own file. A full file is replaced by a new file, and removed once all logs
have synced their own files. A clean shutdown also removes the file.

A file consists of entries: size and CRC-32C of the rest, then, for each batch, its log's folder
name and the batch itself. A torn entry marks the end of the file; its requests were never
acknowledged.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final, TypeAlias

from crc32c import crc32c

from .batch import LENGTH_END
from .errors import LogError
from .files import File, Files
from .log import Log

PREFIX: Final = "write-ahead."
_NUMBERED: Final = re.compile(rf"{re.escape(PREFIX)}(\d+)", re.ASCII)
# Size at which a file is full. After a crash, usually at most two files are read (75 ms each).
# Retiring files takes about forty syncs per 100,000 commits.
BYTES_MAX: Final = 16 * 1024 * 1024

_ENTRY: Final = Struct(">iI")
_NAME: Final = Struct(">H")
_BATCH: Final = Struct(">qi")  # base offset, size of the rest

_log = logging.getLogger("kohort.log")


SyncAll: TypeAlias = Callable[
    [Sequence[Callable[[], None]], Callable[[Sequence[OSError | None]], None]], None
]
"""Calls the functions in threads. Each syncs a file and may raise OSError. Then calls the callback
on the event loop with the error of each function, or None."""


class WriteAheadLog:
    """The write-ahead log of the logs in `folder`. The constructor reads the files that a crash has
    left behind, and raises OSError."""

    def __init__(self, folder: Path, files: Files, bytes_max: int = BYTES_MAX) -> None:
        self._folder = folder
        self._files = files
        self._bytes_max = bytes_max
        self.is_usable = True
        """False after a failure, until all logs have synced their own files."""
        self._file: File | None = None
        self._durable_bytes = 0  # synced size of the current file
        # Logs whose latest batches are durable only here, by folder name. `_retiring` contains logs
        # that are being synced so that the full file can be removed.
        self._retiring: dict[str, Log] | None = None
        self._logs: dict[str, Log] = {}
        # Batches recovered after a crash, by folder name.
        self._leftovers: dict[str, list[bytes]] = {}
        numbered = self._list()
        self._leftover_paths = _complete_files(numbered)
        # File numbers of preserved torn files are not reused.
        self._number = max((number for number, _ in numbered), default=0)
        for path in self._leftover_paths:
            for name, batch in self._read(path):
                self._leftovers.setdefault(name, []).append(batch)
        if not self._leftovers:
            self._remove_leftovers()

    def _list(self) -> list[tuple[int, Path]]:
        """Return (number, path) of the files, oldest first, including preserved torn files."""
        matches = filter(None, map(_NUMBERED.match, self._files.list(self._folder)))
        return sorted((int(match[1]), self._folder / match.string) for match in matches)

    @property
    def _path(self) -> Path:
        return self._folder / f"{PREFIX}{self._number}"

    # --- writing

    def write(self, batches: Iterable[tuple[Log, bytes]]) -> None:
        """Write batches that were appended to the logs and are not durable yet. After an OSError,
        call `fail`."""
        parts: list[bytes] = []
        for log, batch in batches:
            self._logs[log.folder.name] = log
            name = log.folder.name.encode()
            parts += (_NAME.pack(len(name)), name, batch)
        assert parts, "an empty entry would mark the end of the file"
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
        """Sync the current file. May run in a thread. Meanwhile, only the `done` callback of
        `rotate` may run. After an OSError, call `fail`."""
        assert self._file is not None, "nothing was written"
        self._file.sync()
        self._durable_bytes = self._file.size

    def fail(self, error: OSError) -> None:
        """Handle a failed write or sync. Truncate the unsynced bytes, so that the records of the
        rejected requests do not reappear. `rotate` removes the file once all logs have synced."""
        _log.error(
            "Writing ahead to %s failed; each log syncs its own file, and once all have, the "
            "broker begins a new write-ahead file: %s",
            self._path,
            error,
        )
        self.is_usable = False
        if self._file is not None:
            try:
                self._file.truncate(self._durable_bytes)
                self._file.sync()
            except OSError as second:
                _log.error("%s may still contain failed writes: %s", self._path, second)

    def rotate(self, sync_all: SyncAll) -> None:
        """If the file is full or failed, switch to a new file, and remove the old file once the
        logs have synced their own files. Only one file retires at a time."""
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
            # Not raised, because the result of the flush does not depend on it.
            _log.error("%s cannot be replaced with a new file yet: %s", self._path, error)
            self.is_usable = False
            return
        logs, self._logs = self._logs, {}
        self._retiring = logs

        def done(results: Sequence[OSError | None]) -> None:
            if self._retiring is not logs:
                return  # closed in the meantime
            self._retiring = None
            if any(results):
                # The file is still needed by reopen(), or at the next start.
                self.is_usable = False
                self._logs = logs | self._logs
            else:
                self._remove(paths)
                self.is_usable = self.is_usable or self._file is None

        if logs:
            # Only up to this offset, because a later flush may be in progress and may fail.
            sync_all([partial(log.sync, up_to=log.synced_offset) for log in logs.values()], done)
        else:
            done(())

    def close(self) -> None:
        """Sync the logs that have batches here, then remove the files unless a sync failed."""
        logs = (self._retiring or {}) | self._logs
        self._logs, self._retiring = {}, None
        file, self._file = self._file, None
        try:
            if file is not None:
                file.close()
            for log in logs.values():
                if log.failed is not None:
                    self._logs = {log.folder.name: log}  # reopen() calls `replay`
                    log.reopen()
                log.sync()
        except (OSError, LogError) as error:
            _log.error(
                "The write-ahead log in %s is kept for the next start: %s", self._folder, error
            )
        else:
            self._remove(self._own_paths())

    def _own_paths(self) -> list[Path]:
        return [path for path in _complete_files(self._list()) if path not in self._leftover_paths]

    # --- reading

    # Called by logs (see log.WriteAheadSource).

    def has_batches_for(self, name: str) -> bool:
        return name in self._leftovers

    def restore(self, log: Log) -> None:
        name = log.folder.name
        if name in self._leftovers:
            _append_missing(log, self._leftovers[name])
            log.sync()
            del self._leftovers[name]
            if not self._leftovers:
                self._remove_leftovers()
        for logs in (self._logs, self._retiring or {}):
            if name in logs:
                logs[name] = log  # replaces the previous Log object
        self.replay(log)

    def replay(self, log: Log) -> None:
        name = log.folder.name
        if name in self._logs or (self._retiring and name in self._retiring):
            stored = (each for path in self._own_paths() for each in self._read(path))
            _append_missing(log, [batch for folder, batch in stored if folder == name])

    def _read(self, path: Path) -> Iterator[tuple[str, bytes]]:
        """Yield the batches in the order in which they were written, each as (log folder name,
        batch)."""
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
        # Zeros are preallocated space.
        if path in self._leftover_paths and data.count(0, start) != len(data) - start:
            self._preserve_torn_tail(path, data[start:])

    def _preserve_torn_tail(self, path: Path, torn: bytes) -> None:
        kept = path.with_name(f"{path.name}.cut")
        _log.warning("%s: the last %d bytes are torn; saved them to %s", path, len(torn), kept.name)
        self._files.replace(kept, torn)

    def _remove_leftovers(self) -> None:
        paths, self._leftover_paths = self._leftover_paths, []
        self._remove(paths)

    def _remove(self, paths: Sequence[Path]) -> None:
        """Remove obsolete files. A file that remains is harmless, because the logs contain its
        batches."""
        if not paths:
            return
        try:
            for path in paths:
                self._files.remove(path)
            self._files.sync_folder(self._folder)
        except OSError as error:
            _log.warning("%s cannot be removed: %s", paths[0], error)


def _complete_files(numbered: Iterable[tuple[int, Path]]) -> list[Path]:
    """Return the files, excluding preserved torn files."""
    return [path for number, path in numbered if path.name == f"{PREFIX}{number}"]


def _append_missing(log: Log, batches: Iterable[bytes]) -> None:
    restored = 0
    for batch in batches:
        base_offset, _ = _BATCH.unpack_from(batch)
        if base_offset > log.end_offset:
            _log.error(
                "%s: records %d to %d are lost because its files were modified",
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
