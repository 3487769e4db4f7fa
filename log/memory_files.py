"""Files that live in memory: durability `none`, and tests that want no disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path


class MemoryFile:
    """Shares its bytes with every other open of the same path, as a real file does."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self.size = len(data)

    def append(self, data: bytes) -> None:
        self._data[self.size :] = data
        self.size = len(self._data)

    def read(self, position: int, size: int) -> bytes:
        # No memoryview: while one is open in a thread that reads, no other thread can append.
        return bytes(self._data[position : min(position + size, self.size)])

    def write_again(self, position: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        del self._data[size:]
        self.size = size

    def close(self) -> None:
        pass


class MemoryLock:
    __slots__ = ("_files", "_path")

    def __init__(self, files: MemoryFiles, path: Path) -> None:
        self._files = files
        self._path = path

    def note(self, text: str) -> None:
        self._files.contents[self._path] = bytearray(text.encode())

    def is_there(self) -> bool:
        return self._path in self._files.locked

    def release(self) -> None:
        self._files.locked.discard(self._path)


class MemoryFiles:
    """A file system in two collections. `contents` is open to tests that bend bytes."""

    def __init__(self) -> None:
        self.contents: dict[Path, bytearray] = {}
        self.folders: set[Path] = set()
        self.locked: set[Path] = set()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        del read_only
        if create and path not in self.contents:
            if path.parent not in self.folders:
                raise _missing(path.parent)
            self.contents[path] = bytearray()
        return MemoryFile(self._content(path))

    def list(self, folder: Path) -> list[str]:
        inside = {path.name for path in self.contents if path.parent == folder}
        return sorted(inside | {path.name for path in self.folders if path.parent == folder})

    def exists(self, path: Path) -> bool:
        return path in self.contents or path in self.folders

    def make_folder(self, folder: Path) -> None:
        self.folders.update((folder, *folder.parents))

    def read_bytes(self, path: Path) -> bytes:
        return bytes(self._content(path))

    def replace(self, path: Path, data: bytes) -> None:
        self.contents[path] = bytearray(data)

    def rename(self, path: Path, target: Path) -> None:
        if path in self.folders:
            for old in filter(_in(path), tuple(self.folders)):
                self.folders.remove(old)
                self.folders.add(target / old.relative_to(path))
            for old in filter(_in(path), tuple(self.contents)):
                self.contents[target / old.relative_to(path)] = self.contents.pop(old)
        else:
            self.contents[target] = self._content(path)
            del self.contents[path]

    def remove(self, path: Path) -> None:
        self._content(path)
        del self.contents[path]

    def remove_folder(self, folder: Path) -> None:
        if folder not in self.folders:
            raise _missing(folder)
        for path in filter(_in(folder), tuple(self.folders)):
            self.folders.remove(path)
        for path in filter(_in(folder), tuple(self.contents)):
            del self.contents[path]

    def sync_folder(self, folder: Path) -> None:
        if folder not in self.folders:
            raise _missing(folder)

    def space(self, folder: Path) -> tuple[int, int]:  # noqa: ARG002
        return -1, -1

    def boot_id(self) -> str:
        return ""  # nothing of this survives the process

    def lock(self, path: Path) -> MemoryLock:
        if path in self.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), str(path))
        self.locked.add(path)
        return MemoryLock(self, path)

    def _content(self, path: Path) -> bytearray:
        try:
            return self.contents[path]
        except KeyError:
            raise _missing(path) from None


def _in(folder: Path) -> Callable[[Path], bool]:
    """Whether a path is the folder or in it; pathlib takes ten times as long to say so."""
    own, inside = str(folder), f"{folder}{os.sep}"
    return lambda path: str(path) == own or str(path).startswith(inside)


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
