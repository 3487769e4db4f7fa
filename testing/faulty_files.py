"""A disk in memory that tears, fills up, forgets and lies, for tests of whatever keeps files.

What was appended, cut, created, renamed or removed is `pending` until its file or its folder
is synced. `crash` drops what is pending, or a part of it, as a power cut does.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..log.memory_files import MemoryFile, MemoryFiles
from .platter import Platter

# A broker that runs for days must not fill the memory with what its disk has done.
CALLS_MAX = 100_000
# So many renames to one name that no sync has made durable are remembered: after a crash one of
# them has happened, and each is half as likely as the one after it.
RENAMES_MAX = 32


class Crashed(BaseException):
    """Power is gone. Not an Exception, so that nothing under test handles it."""


def _anywhere(_path: Path) -> bool:
    return True


@dataclass(eq=False)
class FileFault:
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
    """What a sync could not write is not written by the next one either, as on Linux."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: deque[tuple[str, Path]] = deque(maxlen=CALLS_MAX)
        """The last ones that changed the disk, in order."""
        self.count = 0
        """How many calls have changed the disk."""
        self._counting = threading.Lock()  # files are synced in threads
        self.crash_at: int | None = None
        """The power goes in place of the call after so many."""
        self.boots = 1
        self.faults: list[FileFault] = []
        self.is_stuck = False
        # Identity of the content a name leads to, for names that a crash would find.
        self._durable_names: dict[Path, bytearray] = {}
        self._durable_folders: set[Path] = set()
        self._pending_renames: list[tuple[Path, Path, bytearray]] = []
        self.platter = Platter()

    @property
    def operations(self) -> list[tuple[str, str]]:
        """`calls`, by the names of their files."""
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
        """Lets `after` calls of `operation` pass, then fails `times` of them; a failing append
        leaves `written` bytes on the disk."""
        self.faults.append(FileFault(operation, after, error, written, times))

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

    def operate(self, operation: str, path: Path) -> FileFault | None:
        """Notes a call; raises its fault, or returns it to an append, which has bytes to leave."""
        if self.crash_at is not None and self.count >= self.crash_at:
            raise Crashed
        with self._counting:
            self.calls.append((operation, path))
            self.count += 1
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
        known = [*self.platter.contents, *self._named()]
        copies = {id(content): bytearray(content) for content in known}
        twin.contents = {path: copies[id(each)] for path, each in self.contents.items()}
        twin.folders = set(self.folders)
        twin.boots = self.boots
        twin.calls, twin.count = self.calls.copy(), self.count
        twin.faults = list(self.faults)
        twin._durable_names = {path: copies[id(each)] for path, each in self._durable_names.items()}
        twin._durable_folders = set(self._durable_folders)
        twin._pending_renames = [
            (path, target, copies[id(each)]) for path, target, each in self._pending_renames
        ]
        twin.platter = self.platter.copied(copies)
        return twin

    def _named(self) -> list[bytearray]:
        """What a name leads to, or may lead to after a crash."""
        renamed = [each for _, _, each in self._pending_renames]
        return [*self.contents.values(), *self._durable_names.values(), *renamed]

    def _let_go(self, contents: Iterable[bytearray]) -> None:
        """Of these, which have lost a name, what has none left is gone for good."""
        named = {id(each) for each in self._named()}
        self.platter.let_go(each for each in contents if id(each) not in named)

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
        before = [each[path] for each in (self.contents, self._durable_names) if path in each]
        super().replace(path, data)
        self.platter.settle(self.contents[path])
        self._durable_names[path] = self.contents[path]
        self._let_go(before)

    def rename(self, path: Path, target: Path) -> None:
        self.operate("rename", path)
        before = [self.contents[target]] if target in self.contents else []
        if path in self.contents:
            before += self._note_rename(path, target)
        super().rename(path, target)
        self._let_go(before)

    def _note_rename(self, path: Path, target: Path) -> list[bytearray]:
        """Returns what is remembered no more."""
        self._pending_renames.append((path, target, self.contents[path]))
        to_same = [each for each in self._pending_renames if each[1] == target]
        if len(to_same) <= RENAMES_MAX:
            return []
        self._pending_renames.remove(to_same[0])
        return [to_same[0][2]]

    def remove(self, path: Path) -> None:
        self.operate("remove", path)
        before = [self.contents[path]] if path in self.contents else []
        super().remove(path)
        self._let_go(before)

    def remove_folder(self, folder: Path) -> None:
        self.operate("remove_folder", folder)
        before = tuple(self.contents.values())
        super().remove_folder(folder)
        self._let_go(before)

    def sync_folder(self, folder: Path) -> None:
        self.operate("sync_folder", folder)
        super().sync_folder(folder)
        before = self._named()
        self._pending_renames = [each for each in self._pending_renames if each[0].parent != folder]
        gone = [p for p in self._durable_names if p.parent == folder and p not in self.contents]
        for path in gone:
            del self._durable_names[path]
        for path in [p for p in self._durable_folders if p.parent == folder]:
            if path not in self.folders:
                self._durable_folders.discard(path)
                for inside in [p for p in self._durable_names if p.is_relative_to(path)]:
                    del self._durable_names[inside]
        durable = {id(content) for content in self._durable_names.values()}
        for path, content in tuple(self.contents.items()):
            # A folder that was renamed takes along what was durable inside it.
            carried = id(content) in durable and path.is_relative_to(folder)
            if path.parent == folder or carried:
                self._durable_names[path] = content
        self._durable_folders.update(p for p in self.folders if p.parent == folder)
        self._let_go(before)

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
                survivors[path] = self.platter.after_crash(content, chance)
        self.contents = survivors
        self.folders = folders | {parent for path in survivors for parent in path.parents}
        self.locked.clear()
        self.crash_at = None
        self.boots += 1
        self.heal()
        self._durable_names = dict(survivors)
        self._durable_folders = set(self.folders)
        self._pending_renames.clear()
        self.platter = Platter()
        for content in survivors.values():
            self.platter.settle(content)

    def _rename_some(self, names: dict[Path, bytearray], chance: random.Random) -> None:
        """Each is whole or not at all; of several, a later one may be there without an earlier."""
        for path, target, content in self._pending_renames:
            if chance.random() < 0.5:
                if names.get(path) is content:
                    del names[path]
                names[target] = content


class FaultyFile(MemoryFile):
    __slots__ = ("_files", "_path")

    def __init__(self, files: FaultyFiles, path: Path, data: bytearray) -> None:
        super().__init__(data)
        self._files = files
        self._path = path
        files.platter.know(data)

    def append(self, data: bytes) -> None:
        fault = self._files.operate("append", self._path)
        if fault is not None:
            part = fault.left_of(data)
            self._files.platter.write(self._data, self.size, part)
            raise OSError(fault.error, os.strerror(fault.error), self._path.name)
        # Like pwrite: what a failed write left beyond the new end stays there.
        self._files.platter.write(self._data, self.size, data)
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
            self._files.platter.forget(self._data)
            raise
        self._files.platter.sync(self._data)

    def truncate(self, size: int) -> None:
        self._files.operate("truncate", self._path)
        self._files.platter.cut(self._data, size)
        super().truncate(size)
