"""A file system in memory that fails, fills up, tears writes and loses unsynced data.

Appends, truncations, creations, renames and removals are pending until the file or its folder is
synced. `crash` drops all or some pending changes, like a power cut. As on Linux, data that a failed
sync did not write is lost, even if the next sync succeeds.
"""

from __future__ import annotations

import errno
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...log.memory_files import ByPath, MemoryFile, MemoryFiles

# The list of disk calls must not fill the memory of a broker that runs for days.
CALLS_MAX = 100_000
# The maximum number of pending renames to one name. A crash applies each with probability 1/2, and
# the last one applied wins, so the oldest hardly ever does.
RENAMES_MAX = 32

SECTOR_BYTES = 512


class Crashed(BaseException):
    """The power is off. Not an Exception, so that the code under test does not handle it."""


@dataclass(eq=False)
class FileFault:
    """Lets `after` calls of an operation succeed and fails the next `times` calls (None: all). A
    failing append leaves `written` of its bytes on the disk (None: half of them)."""

    operation: str
    after: int = 0
    error: int = errno.EIO
    written: int | None = 0
    times: int | None = 1
    matches: Callable[[Path], bool] = lambda _path: True
    breaks_disk: bool = False
    """Whether all later calls fail, until `heal`."""
    delay_s: float = 0
    """If positive, the calls take longer instead of failing."""
    fired: int = 0
    """The number of calls to which the fault was applied."""

    def __post_init__(self) -> None:
        if self.after < 0 or (self.written or 0) < 0:
            raise ValueError("after and written must not be negative")

    def torn(self, data: bytes) -> bytes:
        return data[: len(data) // 2 if self.written is None else self.written]


class FaultyFiles(MemoryFiles):
    def __init__(self) -> None:
        super().__init__()
        self.calls: deque[tuple[str, Path]] = deque(maxlen=CALLS_MAX)
        """The last calls of operations that change the disk, in order, including failed calls."""
        self.count = 0
        """The number of all calls, including those no longer in `calls`."""
        self._counting = threading.Lock()  # files are synced in threads
        self._naming = threading.RLock()  # and so are folders, while files are created
        self.crash_at: int | None = None
        """If set, all calls after this number of calls raise Crashed."""
        self.boots = 1
        self.faults: list[FileFault] = []
        self.is_broken = False
        # The files and folders whose names survive a crash.
        self._durable_names: dict[Path, bytearray] = {}
        self._durable_folders: set[Path] = set()
        self._pending_renames: list[tuple[Path, Path, bytearray]] = []
        self.image = DurableImage()

    @property
    def operations(self) -> list[tuple[str, str]]:
        """`calls`, with file names instead of paths."""
        return [(operation, path.name) for operation, path in list(self.calls)]

    def fail(
        self,
        operation: str,
        *,
        after: int = 0,
        error: int = errno.EIO,
        written: int = 0,
        times: int = 1,
    ) -> None:
        """Add a FileFault."""
        self.faults.append(FileFault(operation, after, error, written, times))

    def heal(self) -> None:
        self.faults.clear()
        self.is_broken = False

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """Suspend the faults while the test itself uses the disk."""
        suspended = self.faults, self.is_broken
        self.faults, self.is_broken = [], False
        try:
            yield
        finally:
            self.faults, self.is_broken = suspended

    def operate(self, operation: str, path: Path) -> FileFault | None:
        """Record a call, and raise the error of a fault that applies to it. A fault of an append is
        returned instead, because the caller has to write some bytes first."""
        if self.crash_at is not None and self.count >= self.crash_at:
            raise Crashed
        with self._counting:
            self.calls.append((operation, path))
            self.count += 1
        if self.is_broken:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path.name)
        for fault in self.faults:
            if (
                fault.operation == operation
                and (fault.times is None or fault.fired < fault.times)
                and fault.matches(path)
            ):
                if fault.after:
                    fault.after -= 1
                    continue
                fault.fired += 1
                if fault.delay_s:
                    time.sleep(fault.delay_s)
                    continue
                self.is_broken = fault.breaks_disk
                if operation == "append":
                    return fault
                raise OSError(fault.error, os.strerror(fault.error), path.name)
        return None

    def copy(self) -> FaultyFiles:
        """Copy the disk with its pending changes. The copy shares the fault objects, but not the
        file locks."""
        copy = FaultyFiles()
        buffers = [*self.image.buffers, *self._reachable()]
        copies = {id(buffer): bytearray(buffer) for buffer in buffers}
        copy.contents.update((path, copies[id(each)]) for path, each in self.contents.items())
        copy.folders.update(self.folders)
        copy.boots = self.boots
        copy.calls, copy.count = self.calls.copy(), self.count
        copy.faults = list(self.faults)
        copy._durable_names = {path: copies[id(each)] for path, each in self._durable_names.items()}
        copy._durable_folders = set(self._durable_folders)
        copy._pending_renames = [
            (path, target, copies[id(each)]) for path, target, each in self._pending_renames
        ]
        copy.image = self.image.copy(copies)
        return copy

    def _reachable(self) -> list[bytearray]:
        """Return buffers that have a name, or will have one after a crash."""
        renamed = [each for _, _, each in self._pending_renames]
        return [*self.contents.values(), *self._durable_names.values(), *renamed]

    def _forget_unreachable(self, buffers: Iterable[bytearray]) -> None:
        """Drop the buffers that have lost their last name."""
        reachable = {id(each) for each in self._reachable()}
        self.image.drop(each for each in buffers if id(each) not in reachable)

    # --- the file system

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        if create and path not in self.contents:
            self.operate("create", path)
        elif any(fault.operation == "open" for fault in self.faults):
            # Opening a file does not change the disk, so it is recorded only while a fault of this
            # operation is set.
            self.operate("open", path)
        with self._naming:
            super().open(path, create=create, read_only=read_only)
            return FaultyFile(self, path, self.contents[path])

    def make_folder(self, folder: Path) -> None:
        self.operate("make_folder", folder)
        with self._naming:
            super().make_folder(folder)

    def replace(self, path: Path, data: bytes) -> None:
        self.operate("replace", path)
        with self._naming:
            before = [each[path] for each in (self.contents, self._durable_names) if path in each]
            super().replace(path, data)
            self.image.store(self.contents[path])
            self._durable_names[path] = self.contents[path]
            self._forget_unreachable(before)

    def rename(self, path: Path, target: Path) -> None:
        self.operate("rename", path)
        with self._naming:
            before = [self.contents[target]] if target in self.contents else []
            if path in self.contents:
                before += self._add_pending_rename(path, target)
            super().rename(path, target)
            self._forget_unreachable(before)

    def _add_pending_rename(self, path: Path, target: Path) -> list[bytearray]:
        """Add a pending rename. Beyond RENAMES_MAX, drop the oldest rename to the same name, and
        return its buffer."""
        self._pending_renames.append((path, target, self.contents[path]))
        same_target = [each for each in self._pending_renames if each[1] == target]
        if len(same_target) <= RENAMES_MAX:
            return []
        self._pending_renames.remove(same_target[0])
        return [same_target[0][2]]

    def remove(self, path: Path) -> None:
        self.operate("remove", path)
        with self._naming:
            before = [self.contents[path]] if path in self.contents else []
            super().remove(path)
            self._forget_unreachable(before)

    def remove_folder(self, folder: Path) -> None:
        self.operate("remove_folder", folder)
        with self._naming:
            before = tuple(self.contents.values())
            super().remove_folder(folder)
            self._forget_unreachable(before)

    def sync_folder(self, folder: Path) -> None:
        self.operate("sync_folder", folder)
        with self._naming:
            super().sync_folder(folder)
            before = self._reachable()
            durable = {id(buffer) for buffer in self._durable_names.values()}
            self._pending_renames = [
                each for each in self._pending_renames if each[0].parent != folder
            ]
            gone = [p for p in self._durable_names if p.parent == folder and p not in self.contents]
            for path in gone:
                del self._durable_names[path]
            for path in [p for p in self._durable_folders if p.parent == folder]:
                if path not in self.folders:
                    self._durable_folders.discard(path)
                    for inside in [p for p in self._durable_names if p.is_relative_to(path)]:
                        del self._durable_names[inside]
            for path, buffer in tuple(self.contents.items()):
                # The durable files in a renamed folder remain durable.
                was_durable = id(buffer) in durable and path.is_relative_to(folder)
                if path.parent == folder or was_durable:
                    self._durable_names[path] = buffer
            self._durable_folders.update(p for p in self.folders if p.parent == folder)
            self._forget_unreachable(before)

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def crash(self, chance: random.Random | None = None) -> None:
        """Simulate a power cut and a restart. Without `chance`, all pending changes are lost; with
        it, each pending sector, truncation and name may have reached the disk."""
        survivors: dict[Path, bytearray] = {}
        names = dict(self._durable_names)
        folders = set(self._durable_folders)
        if chance is not None:
            for folder in sorted(self.folders):
                if folder not in folders and chance.random() < 0.5:
                    folders.add(folder)
            for path, buffer in self.contents.items():
                # A name whose buffer changed refers to the old or the new buffer.
                if names.get(path) is not buffer and chance.random() < 0.5:
                    names[path] = buffer
            current = {id(buffer) for buffer in self.contents.values()}
            for path, buffer in sorted(names.items()):
                is_removed = path not in self.contents and id(buffer) not in current
                if is_removed and chance.random() < 0.5:
                    del names[path]
            self._apply_some_renames(names, chance)
        for path, buffer in names.items():
            if path.parent in folders or path.parent.parent == path.parent:
                survivors[path] = self.image.after_crash(buffer, chance)
        self.contents = ByPath(survivors)
        folders.update(parent for path in survivors for parent in path.parents)
        self.folders = ByPath(dict.fromkeys(sorted(folders)))
        self.locked.clear()
        self.crash_at = None
        self.boots += 1
        self.heal()
        self._durable_names = dict(survivors)
        self._durable_folders = set(self.folders)
        self._pending_renames.clear()
        self.image = DurableImage()
        for buffer in survivors.values():
            self.image.store(buffer)

    def _apply_some_renames(self, names: dict[Path, bytearray], chance: random.Random) -> None:
        """Apply a random subset of the pending renames. Each rename is atomic, and a later rename
        may take effect without an earlier one."""
        for path, target, buffer in self._pending_renames:
            if chance.random() < 0.5:
                if names.get(path) is buffer:
                    del names[path]
                names[target] = buffer


class FaultyFile(MemoryFile):
    __slots__ = ("_files", "_path")

    def __init__(self, files: FaultyFiles, path: Path, data: bytearray) -> None:
        super().__init__(data)
        self._files = files
        self._path = path
        files.image.add(data)

    def append(self, data: bytes) -> None:
        fault = self._files.operate("append", self._path)
        if fault is not None:
            self._files.image.write(self._data, self.size, fault.torn(data))
            raise OSError(fault.error, os.strerror(fault.error), self._path.name)
        # As with pwrite, the rest of an earlier failed write remains beyond the new end.
        self._files.image.write(self._data, self.size, data)
        self.size += len(data)

    def rewrite(self, position: int) -> None:
        if position < self.size:
            size, self.size = self.size, position
            try:
                self.append(bytes(self._data[position:size]))
            finally:
                self.size = size

    def sync(self) -> None:
        try:
            self._files.operate("sync", self._path)
        except OSError:
            self._files.image.drop_writes(self._data)
            raise
        self._files.image.sync(self._data)

    def truncate(self, size: int) -> None:
        self._files.operate("truncate", self._path)
        self._files.image.truncate(self._data, size)
        super().truncate(size)


# --- the durable image

Write = tuple[int, bytes | int | None]
"""A pending write: its position, and either the number of its bytes (if they are still in the
buffer), or the bytes themselves. None instead of bytes means a truncation."""


class DurableImage:
    """The bytes of each file that may survive a power cut: synced bytes and pending writes.

    A buffer contains the current bytes of a file. A buffer that was not added, or was dropped, is
    not restored after a crash. Pending writes refer to the bytes in the buffer instead of copying
    them.
    """

    def __init__(self) -> None:
        self._buffers: dict[int, bytearray] = {}  # keeps the ids unique
        self._durable: dict[int, bytes] = {}
        self._pending: dict[int, list[Write]] = {}
        self._lock = threading.Lock()  # files are synced in threads

    @property
    def buffers(self) -> list[bytearray]:
        return list(self._buffers.values())

    def add(self, buffer: bytearray) -> None:
        with self._lock:
            self._buffers[id(buffer)] = buffer

    def drop(self, buffers: Iterable[bytearray]) -> None:
        """Forget buffers that have no name and will have none after a crash."""
        with self._lock:
            for buffer in buffers:
                for entries in (self._buffers, self._durable, self._pending):
                    entries.pop(id(buffer), None)

    def write(self, buffer: bytearray, position: int, data: bytes) -> None:
        """Write to the buffer; the write is pending."""
        end = position + len(data)
        with self._lock:
            if position < len(buffer) and buffer[position:end] != data:
                self._copy_pending(buffer, position)
            # If the buffer was truncated in the meantime, it ends before `position`, and the data
            # is appended.
            held = len(data) if position <= len(buffer) else data
            buffer[position:end] = data
            self._add_pending(buffer, (position, held))

    def truncate(self, buffer: bytearray, size: int) -> None:
        """Add a pending truncation. The caller truncates the buffer afterwards."""
        with self._lock:
            self._copy_pending(buffer, size)
            self._add_pending(buffer, (size, None))

    def store(self, buffer: bytearray) -> None:
        """Make the whole buffer durable."""
        with self._lock:
            self._buffers[id(buffer)] = buffer
            self._durable[id(buffer)] = bytes(buffer)
            self._pending.pop(id(buffer), None)

    def sync(self, buffer: bytearray) -> None:
        """Make the pending writes durable."""
        with self._lock:
            if id(buffer) not in self._buffers:
                return
            data = bytearray(self._durable.get(id(buffer), b""))
            for position, written in self._pending.pop(id(buffer), ()):
                if written is None:
                    del data[position:]
                else:
                    _put(data, position, _bytes_of(buffer, position, written))
            self._durable[id(buffer)] = bytes(data)

    def drop_writes(self, buffer: bytearray) -> None:
        """Handle a failed sync: pending writes are lost, but truncations are not."""
        with self._lock:
            pending = self._pending.get(id(buffer), [])
            pending[:] = [write for write in pending if write[1] is None]

    def after_crash(self, buffer: bytearray, chance: random.Random | None) -> bytearray:
        """Return the durable bytes; with `chance`, also a random part of the pending changes."""
        data = bytearray(self._durable.get(id(buffer), b""))
        if chance is None:
            return data
        for position, written in self._pending.get(id(buffer), ()):
            if written is None:
                if chance.random() < 0.5:
                    del data[position:]
                continue
            pending = _bytes_of(buffer, position, written)
            for start in range(0, len(pending), SECTOR_BYTES):
                if chance.random() < 0.7:
                    part = pending[start : start + SECTOR_BYTES]
                    part = part[: chance.randint(0, len(part))] if chance.random() < 0.2 else part
                    _put(data, position + start, part)
        return data

    def copy(self, copies: Mapping[int, bytearray]) -> DurableImage:
        """Return a copy of the image. `copies` maps the id of each buffer to its copy."""
        copy = DurableImage()
        with self._lock:
            copy._buffers = {id(copies[key]): copies[key] for key in self._buffers}
            copy._durable = {id(copies[key]): data for key, data in self._durable.items()}
            copy._pending = {id(copies[key]): [*writes] for key, writes in self._pending.items()}
        return copy

    def _add_pending(self, buffer: bytearray, write: Write) -> None:
        if id(buffer) in self._buffers:
            self._pending.setdefault(id(buffer), []).append(write)

    def _copy_pending(self, buffer: bytearray, end: int) -> None:
        """Copy the pending bytes beyond `end`, which the buffer is about to lose."""
        pending = self._pending.get(id(buffer), [])
        for index, (position, written) in enumerate(pending):
            if isinstance(written, int) and position + written > end:
                pending[index] = position, _bytes_of(buffer, position, written)


def _bytes_of(buffer: bytearray, position: int, written: bytes | int) -> bytes:
    return bytes(buffer[position : position + written]) if isinstance(written, int) else written


def _put(data: bytearray, position: int, part: bytes) -> None:
    """Write like pwrite: fill a gap before `position` with zeros."""
    data.extend(bytes(max(0, position - len(data))))
    data[position : position + len(part)] = part
