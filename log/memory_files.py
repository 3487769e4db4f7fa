"""Files in memory, for durability `none` and for tests.

`MemoryFiles` uses a bytearray per file, which tests may change. `ChunkedFiles` is for hundreds of
megabytes. Growing a bytearray copies it and fragments the heap, so only a file's last chunk grows.
"""

from __future__ import annotations

import errno
import os
from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from pathlib import Path
from typing import Generic, TypeVar

V = TypeVar("V")

# Small, because appends and reads copy the last chunk of a file.
CHUNK_BYTES = 32 * 1024


class MemoryFile:
    """A file handle that shares its bytes with all other handles to the same path, as on disk."""

    __slots__ = ("_data", "size")

    def __init__(self, data: bytearray) -> None:
        self._data = data
        self.size = len(data)

    def append(self, data: bytes) -> None:
        self._data[self.size :] = data
        self.size = len(self._data)

    def read(self, position: int, size: int) -> bytes:
        # Not a memoryview, because an exported buffer would prevent appends.
        return bytes(self._data[position : min(position + size, self.size)])

    def rewrite(self, position: int) -> None:
        pass

    def sync(self) -> None:
        pass

    def truncate(self, size: int) -> None:
        del self._data[size:]
        self.size = size

    def close(self) -> None:
        pass


class ByPath(MutableMapping[Path, V], Generic[V]):
    """Values by path, with an index of the names in each folder, because a broker lists thousands
    of partition folders."""

    def __init__(self, values: Mapping[Path, V] | Iterable[tuple[Path, V]] = ()) -> None:
        self._values: dict[Path, V] = {}
        self._names: dict[Path, set[str]] = {}
        self.update(values)

    def __getitem__(self, path: Path) -> V:
        return self._values[path]

    def __setitem__(self, path: Path, value: V) -> None:
        self._values[path] = value
        self._names.setdefault(path.parent, set()).add(path.name)

    def __delitem__(self, path: Path) -> None:
        del self._values[path]
        names = self._names[path.parent]
        names.remove(path.name)
        if not names:
            del self._names[path.parent]

    def __iter__(self) -> Iterator[Path]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    # The inherited views are slower, because they look up each value by its path.
    def values(self) -> ValuesView[V]:
        return self._values.values()

    def items(self) -> ItemsView[Path, V]:
        return self._values.items()

    def names(self, folder: Path) -> set[str]:
        """Return the names of the paths in a folder."""
        return self._names.get(folder, set())


class MemoryLock:
    __slots__ = ("_files", "_path")

    def __init__(self, files: MemoryFiles, path: Path) -> None:
        self._files = files
        self._path = path

    def write_holder(self, text: str) -> None:
        self._files.contents[self._path] = bytearray(text.encode())

    def is_held(self) -> bool:
        return self._path in self._files.locked

    def release(self) -> None:
        self._files.locked.discard(self._path)


class MemoryFiles:
    """A file system in memory."""

    def __init__(self) -> None:
        self.contents = ByPath[bytearray]()
        self.folders = ByPath[None]()
        self.locked: set[Path] = set()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        del read_only
        if create and path not in self.contents:
            if path.parent not in self.folders:
                raise _missing(path.parent)
            self.contents[path] = bytearray()
        return MemoryFile(self._content(path))

    def list(self, folder: Path) -> list[str]:
        return sorted(self.contents.names(folder) | self.folders.names(folder))

    def exists(self, path: Path) -> bool:
        return path in self.contents or path in self.folders

    def make_folder(self, folder: Path) -> None:
        self.folders.update(dict.fromkeys((folder, *folder.parents)))

    def read_bytes(self, path: Path) -> bytes:
        return bytes(self._content(path))

    def replace(self, path: Path, data: bytes) -> None:
        self.contents[path] = bytearray(data)

    def rename(self, path: Path, target: Path) -> None:
        if path not in self.folders:
            self._content(path)
        for old in tuple(self._tree(path)):
            new = target / old.relative_to(path)
            if old in self.folders:
                self.folders[new] = self.folders.pop(old)
            else:
                self.contents[new] = self.contents.pop(old)

    def remove(self, path: Path) -> None:
        self._content(path)
        del self.contents[path]

    def remove_folder(self, folder: Path) -> None:
        if folder not in self.folders:
            raise _missing(folder)
        for path in tuple(self._tree(folder)):
            if path in self.folders:
                del self.folders[path]
            else:
                del self.contents[path]

    def _tree(self, path: Path) -> Iterator[Path]:
        """Yield all paths inside a folder, then the path itself."""
        if path in self.folders:
            for name in self.list(path):
                yield from self._tree(path / name)
        yield path

    def sync_folder(self, folder: Path) -> None:
        if folder not in self.folders:
            raise _missing(folder)

    def disk_space(self, folder: Path) -> tuple[int, int]:  # noqa: ARG002
        return -1, -1

    def boot_id(self) -> str:
        return ""  # no data survives the process

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


def _missing(path: Path) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))


class Chunks(bytearray):
    """Content of a chunked file. The bytearray itself is the last, incomplete chunk."""

    def __init__(self, data: bytes | bytearray = b"") -> None:
        super().__init__()
        self.full: list[bytes] = []
        self.add(data)

    @property
    def size(self) -> int:
        return len(self.full) * CHUNK_BYTES + len(self)

    def add(self, data: bytes | bytearray) -> None:
        self.extend(data)
        at = 0
        while len(self) - at >= CHUNK_BYTES:
            self.full.append(bytes(self[at : at + CHUNK_BYTES]))
            at += CHUNK_BYTES
        if at:
            self[:] = self[at:]

    def read(self, position: int, size: int) -> bytes:
        first, at = divmod(position, CHUNK_BYTES)
        last = (position + size) // CHUNK_BYTES
        if first == last < len(self.full):
            return self.full[first][at : at + size]
        parts = self.full[first : last + 1]
        if last >= len(self.full):
            parts.append(bytes(self))
        return b"".join(parts)[at : at + size]

    def truncate(self, size: int) -> None:
        number, rest = divmod(size, CHUNK_BYTES)
        if number < len(self.full):
            self[:] = self.full[number]
            del self.full[number:]
        del self[rest:]


class ChunkedFile(MemoryFile):
    __slots__ = ("_chunks",)

    def __init__(self, chunks: Chunks) -> None:
        super().__init__(chunks)
        self._chunks = chunks
        self.size = chunks.size

    def append(self, data: bytes) -> None:
        if self._chunks.size != self.size:
            self._chunks.truncate(self.size)
        self._chunks.add(data)
        self.size += len(data)

    def read(self, position: int, size: int) -> bytes:
        return self._chunks.read(position, max(0, min(size, self.size - position)))

    def truncate(self, size: int) -> None:
        self._chunks.truncate(size)
        self.size = size


class ChunkedFiles(MemoryFiles):
    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> ChunkedFile:
        if create and path not in self.contents:
            super().open(path, create=True, read_only=read_only)
            self.contents[path] = Chunks()
        return ChunkedFile(self._chunks(path))

    def read_bytes(self, path: Path) -> bytes:
        chunks = self._chunks(path)
        return chunks.read(0, chunks.size)

    def replace(self, path: Path, data: bytes) -> None:
        self.contents[path] = Chunks(data)

    def _chunks(self, path: Path) -> Chunks:
        content = self._content(path)
        if not isinstance(content, Chunks):  # written by MemoryLock.write_holder
            content = self.contents[path] = Chunks(content)
        return content
