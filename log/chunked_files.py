"""Files in memory that grow without moving: durability `none`, by the hundred megabytes.

A bytearray that grows is copied to where there is room, and leaves a hole behind: with the logs of
a million offsets these come to a good part of what is used. Here what is written stays where it
is, in chunks, and only the last one of a file grows.
"""

from __future__ import annotations

from pathlib import Path

from .memory_files import MemoryFile, MemoryFiles

# Fifty logs have half of one each that is not full.
CHUNK_BYTES = 32 * 1024


class Chunks(bytearray):
    """What a file holds. As a bytearray it is the last chunk, which is never full."""

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

    def cut(self, size: int) -> None:
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
            self._chunks.cut(self.size)
        self._chunks.add(data)
        self.size += len(data)

    def read(self, position: int, size: int) -> bytes:
        return self._chunks.read(position, max(0, min(size, self.size - position)))

    def truncate(self, size: int) -> None:
        self._chunks.cut(size)
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
        if not isinstance(content, Chunks):  # a lock's
            content = self.contents[path] = Chunks(content)
        return content
