"""A disk in memory that tears, fills up, forgets and lies, for tests of whatever keeps files.

What was appended, cut, created, renamed or removed is `pending` until its file or its folder
is synced. `crash` drops what is pending, or a part of it, as a power cut does.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..log.memory_files import MemoryFile, MemoryFiles

SECTOR_BYTES = 512


class Crashed(BaseException):
    """Power is gone. Not an Exception, so that nothing under test handles it."""


def _anywhere(_path: Path) -> bool:
    return True


@dataclass(eq=False)
class Fault:
    """`after`: so many calls pass before it. `written`: what a failing append leaves on the disk,
    None for half of it. `met`: how many calls have failed by it."""

    operation: str
    after: int = 0
    error: int = errno.EIO
    written: int | None = 0
    times: int | None = 1
    is_at: Callable[[Path], bool] = _anywhere
    is_last: bool = False
    """Whether the disk takes nothing more from then on, until it is healed."""
    met: int = 0

    def left_of(self, data: bytes) -> bytes:
        return data[: len(data) // 2 if self.written is None else self.written]


class FaultyFiles(MemoryFiles):
    """`operations` lists every call that changes the disk, in order. What a sync could not write is
    not written by the next one either, as on Linux."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[str, str]] = []
        self.paths: list[Path] = []
        """Of each operation."""
        self.crash_at: int | None = None
        self.boots = 1
        self.faults: list[Fault] = []
        self.is_stuck = False
        # Identity of the content a name leads to, for names that a crash would find.
        self._durable_names: dict[Path, bytearray] = {}
        self._durable_folders: set[Path] = set()
        self._pending_renames: list[tuple[Path, Path, bytearray]] = []
        self._durable_bytes: dict[int, bytes] = {}
        self._pending: dict[int, list[tuple[int, bytes | None]]] = {}
        self._contents_by_id: dict[int, bytearray] = {}  # keeps ids unique
        self._noting = threading.Lock()  # files are synced in threads

    def fail(
        self,
        operation: str,
        *,
        after: int = 0,
        error: int = errno.EIO,
        written: int = 0,
        times: int = 1,
    ) -> None:
        """Lets `after` calls of `operation` pass, then fails `times` of them; a failing append
        leaves `written` bytes on the disk."""
        self.faults.append(Fault(operation, after, error, written, times))

    def heal(self) -> None:
        self.faults.clear()
        self.is_stuck = False

    @contextmanager
    def without_faults(self) -> Iterator[None]:
        """For a test that looks at the disk itself."""
        faults, self.faults = self.faults, []
        try:
            yield
        finally:
            self.faults = faults

    def operate(self, operation: str, path: Path) -> Fault | None:
        """Notes a call; raises its fault, or returns it to an append, which has bytes to leave."""
        if self.crash_at is not None and len(self.operations) >= self.crash_at:
            raise Crashed
        self.operations.append((operation, path.name))
        self.paths.append(path)
        if self.is_stuck:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path.name)
        for fault in self.faults:
            if (
                fault.operation == operation
                and (fault.times is None or fault.met < fault.times)
                and fault.is_at(path)
            ):
                if fault.after:
                    fault.after -= 1
                    continue
                fault.met += 1
                self.is_stuck = fault.is_last
                if operation == "append":
                    return fault
                raise OSError(fault.error, os.strerror(fault.error), path.name)
        return None

    def copied(self) -> FaultyFiles:
        """Another disk with all that is on this one, and what is pending. Its faults are the same
        objects; nothing has been locked."""
        twin = FaultyFiles()
        known = [*self._contents_by_id.values(), *self.contents.values()]
        known += [*self._durable_names.values(), *(each for _, _, each in self._pending_renames)]
        copies = {id(content): bytearray(content) for content in known}
        ids = {before: id(copy) for before, copy in copies.items()}
        twin.contents = {path: copies[id(each)] for path, each in self.contents.items()}
        twin.folders = set(self.folders)
        twin.boots = self.boots
        twin.operations, twin.paths = list(self.operations), list(self.paths)
        twin.faults = list(self.faults)
        twin._durable_names = {path: copies[id(each)] for path, each in self._durable_names.items()}
        twin._durable_folders = set(self._durable_folders)
        twin._pending_renames = [
            (path, target, copies[id(each)]) for path, target, each in self._pending_renames
        ]
        twin._durable_bytes = {ids[key]: data for key, data in self._durable_bytes.items()}
        twin._pending = {ids[key]: list(writes) for key, writes in self._pending.items()}
        twin._contents_by_id = {ids[key]: copies[key] for key in self._contents_by_id}
        return twin

    # what files report

    def pend(self, content: bytearray, position: int, data: bytes | None) -> None:
        with self._noting:
            self._contents_by_id[id(content)] = content
            self._pending.setdefault(id(content), []).append((position, data))

    def settle(self, content: bytearray) -> None:
        self._contents_by_id[id(content)] = content
        self._durable_bytes[id(content)] = bytes(content)
        self._pending.pop(id(content), None)

    def sync(self, content: bytearray) -> None:
        """What is pending is durable from now on."""
        with self._noting:
            self._contents_by_id[id(content)] = content
            data = bytearray(self._durable_bytes.get(id(content), b""))
            for position, written in self._pending.get(id(content), ()):
                if written is None:
                    del data[position:]
                else:
                    _put(data, position, written)
            self._durable_bytes[id(content)] = bytes(data)
            self._pending.pop(id(content), None)

    def forget(self, content: bytearray) -> None:
        """A sync of it has failed."""
        with self._noting:
            pending = self._pending.get(id(content), [])
            pending[:] = [write for write in pending if write[1] is None]

    # the file system

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        if create and path not in self.contents:
            self.operate("create", path)
        elif any(fault.operation == "open" for fault in self.faults):
            # Only counted where a test asks for it: opening changes nothing on the disk.
            self.operate("open", path)
        super().open(path, create=create, read_only=read_only)
        return FaultyFile(self, path, self.contents[path])

    def make_folder(self, folder: Path) -> None:
        self.operate("make_folder", folder)
        super().make_folder(folder)

    def replace(self, path: Path, data: bytes) -> None:
        self.operate("replace", path)
        super().replace(path, data)
        self.settle(self.contents[path])
        self._durable_names[path] = self.contents[path]

    def rename(self, path: Path, target: Path) -> None:
        self.operate("rename", path)
        if path in self.contents:
            self._pending_renames.append((path, target, self.contents[path]))
        super().rename(path, target)

    def remove(self, path: Path) -> None:
        self.operate("remove", path)
        super().remove(path)

    def remove_folder(self, folder: Path) -> None:
        self.operate("remove_folder", folder)
        super().remove_folder(folder)

    def sync_folder(self, folder: Path) -> None:
        self.operate("sync_folder", folder)
        super().sync_folder(folder)
        self._pending_renames = [each for each in self._pending_renames if each[0].parent != folder]
        gone = [p for p in self._durable_names if p.parent == folder and p not in self.contents]
        for path in gone:
            del self._durable_names[path]
        for path in [p for p in self._durable_folders if p.parent == folder]:
            if path not in self.folders:
                self._durable_folders.discard(path)
                for inside in [p for p in self._durable_names if p.is_relative_to(path)]:
                    del self._durable_names[inside]
        for path, content in tuple(self.contents.items()):
            # A folder that was renamed takes along what was durable inside it.
            carried = path.is_relative_to(folder) and any(
                content is known for known in self._durable_names.values()
            )
            if path.parent == folder or carried:
                self._durable_names[path] = content
        self._durable_folders.update(p for p in self.folders if p.parent == folder)

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def crash(self, chance: random.Random | None = None) -> None:
        """Power cut and restart. Without `chance` all that was not synced is gone; with it,
        any of the unsynced sectors, cuts and names may have reached the disk."""
        survivors: dict[Path, bytearray] = {}
        names = dict(self._durable_names)
        folders = set(self._durable_folders)
        if chance is not None:
            for folder in sorted(self.folders):
                if folder not in folders and chance.random() < 0.5:
                    folders.add(folder)
            for path, content in self.contents.items():
                # A name that another content has taken leads to the one or to the other.
                if names.get(path) is not content and chance.random() < 0.5:
                    names[path] = content
            left = {id(content) for content in self.contents.values()}
            for path, content in sorted(names.items()):
                gone = path not in self.contents and id(content) not in left
                if gone and chance.random() < 0.5:
                    del names[path]
            self._rename_some(names, chance)
        for path, content in names.items():
            if path.parent in folders or path.parent.parent == path.parent:
                survivors[path] = self._after_crash(content, chance)
        self.contents = survivors
        self.folders = folders | {parent for path in survivors for parent in path.parents}
        self.locked.clear()
        self.crash_at = None
        self.boots += 1
        self.heal()
        self._durable_names = dict(survivors)
        self._durable_folders = set(self.folders)
        self._pending_renames.clear()
        self._durable_bytes.clear()
        self._pending.clear()
        self._contents_by_id.clear()
        for content in survivors.values():
            self.settle(content)

    def _rename_some(self, names: dict[Path, bytearray], chance: random.Random) -> None:
        """Each is whole or not at all; of several, a later one may be there without an earlier."""
        for path, target, content in self._pending_renames:
            if chance.random() < 0.5:
                if names.get(path) is content:
                    del names[path]
                names[target] = content

    def _after_crash(self, content: bytearray, chance: random.Random | None) -> bytearray:
        data = bytearray(self._durable_bytes.get(id(content), b""))
        if chance is None:
            return data
        for position, written in self._pending.get(id(content), []):
            if written is None:
                if chance.random() < 0.5:
                    del data[position:]
                continue
            for start in range(0, len(written), SECTOR_BYTES):
                if chance.random() < 0.7:
                    part = written[start : start + SECTOR_BYTES]
                    part = part[: chance.randint(0, len(part))] if chance.random() < 0.2 else part
                    _put(data, position + start, part)
        return data


def _put(data: bytearray, position: int, part: bytes) -> None:
    """As pwrite: zeros fill what lies between the end and `position`."""
    data.extend(bytes(max(0, position - len(data))))
    data[position : position + len(part)] = part


class FaultyFile(MemoryFile):
    __slots__ = ("_files", "_path")

    def __init__(self, files: FaultyFiles, path: Path, data: bytearray) -> None:
        super().__init__(data)
        self._files = files
        self._path = path

    def append(self, data: bytes) -> None:
        fault = self._files.operate("append", self._path)
        if fault is not None:
            part = fault.left_of(data)
            self._data[self.size : self.size + len(part)] = part
            self._files.pend(self._data, self.size, part)
            raise OSError(fault.error, os.strerror(fault.error), self._path.name)
        self._files.pend(self._data, self.size, data)
        # Like pwrite: what a failed write left beyond the new end stays there.
        self._data[self.size : self.size + len(data)] = data
        self.size += len(data)

    def write_again(self, position: int) -> None:
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
            self._files.forget(self._data)
            raise
        self._files.sync(self._data)

    def truncate(self, size: int) -> None:
        self._files.operate("truncate", self._path)
        self._files.pend(self._data, size, None)
        super().truncate(size)
