"""What a partition's records add up to, beside its log, so that after a start only the tail of the
log need be read, and of the groups only those that are asked for.

A file of pieces (cold.py), then the index, then a footer. It is written while the table goes on
being changed, so it is of no single moment: all that was in the log when the writing began is in
it, and some of what came until it ended. Records that are read once more change nothing, the last
word stands; so whoever reads the log from where the writing began has the truth, provided that the
log still has all that it had when the writing ended.

Nothing rests on a snapshot. It is never synced; one that is torn, or that tells of more than the
log has, is ignored.
"""

from collections.abc import Generator, Iterator, Mapping, Set
from contextlib import suppress
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from crc32c import crc32c

from ..log.cache_files import (
    FRAME_OVERHEAD_BYTES,
    OFFSETS_SNAPSHOT,
    InvalidCacheFile,
    create_unpublished,
    frame,
    publish,
    unframe,
    unpublished,
)
from ..log.files import File, Files
from .spill import Place
from .table import OffsetsTable

# Offsets, and groups, between two of which others are served: some 3 ms.
SLICE_OFFSETS: Final = 2_500
_MAGIC: Final = b"kohort\x00\x01"
# Begun, ended, where the index begins, its size, its checksum.
_FOOTER: Final = Struct(">qqqqI")
_COUNT: Final = Struct(">I")
_LENGTH: Final = Struct(">H")
_PLACE: Final = Struct(">qII")


class Snapshot(NamedTuple):
    begun: int
    """The offset from which the log is to be read."""
    places: Mapping[str, Place]
    topics: Set[str]
    stored: list[tuple[bytes, bytes]]
    """Key and value of the newest record of each group's metadata."""
    file: File


def open_snapshot(
    folder: Path, files: Files, start_offset: int, end_offset: int
) -> Snapshot | None:
    """The snapshot of the log in `folder`, which holds these offsets; None, and none is left, if
    there is none that is good for it, or that can be read. Raises OSError where it cannot be
    removed."""
    path = folder / OFFSETS_SNAPSHOT
    if not files.exists(path):
        return None
    with suppress(OSError):  # no word of it is needed
        file = files.open(path)
        try:
            found = _read(file)
        except OSError:
            found = None
        # A log that was cut, then written on, may look as long as it was: now is the time to
        # notice.
        if found is not None:
            snapshot, ended = found
            if start_offset <= snapshot.begun and ended <= end_offset:
                return snapshot
        file.close()
    files.remove(path)
    return None


def _read(file: File) -> tuple[Snapshot, int] | None:
    """The snapshot, and where the log ended when it was complete. Raises OSError."""
    size = _FOOTER.size + FRAME_OVERHEAD_BYTES
    try:
        footer = unframe(_MAGIC, file.read(max(file.size - size, 0), size))
        begun, ended, position, index_size, index_crc = _FOOTER.unpack(footer)
    except (InvalidCacheFile, struct_error):
        return None
    index = file.read(position, index_size)
    if len(index) != index_size or crc32c(index) != index_crc:
        return None
    reader = _Reader(index)
    topics = {reader.string() for _ in range(reader.count())}
    stored = [(reader.data(), reader.data()) for _ in range(reader.count())]
    places = {reader.string(): reader.place(file) for _ in range(reader.count())}
    return Snapshot(begun, places, topics, stored, file), ended


class _Reader:
    """Of an index whose checksum is right."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def count(self) -> int:
        (count,) = _COUNT.unpack_from(self._data, self._at)
        self._at += _COUNT.size
        return int(count)

    def data(self) -> bytes:
        size = self.count()
        self._at += size
        return self._data[self._at - size : self._at]

    def string(self) -> str:
        (size,) = _LENGTH.unpack_from(self._data, self._at)
        self._at += _LENGTH.size + size
        return self._data[self._at - size : self._at].decode()

    def place(self, file: File) -> Place:
        position, size, count = _PLACE.unpack_from(self._data, self._at)
        self._at += _PLACE.size
        return Place(file, position, size, count)


class SnapshotWriter:
    """Writes the snapshot of a partition whose log is in `folder`: first `slices`, to their end,
    then `finish`. `begun`: where the log ends now. `stored`: key and value of each group's
    metadata, looked up when their turn comes."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        begun: int,
        table: OffsetsTable,
        stored: Iterator[tuple[bytes, bytes]],
        slice_offsets: int | None = None,
    ) -> None:
        """Raises OSError."""
        self._slice_offsets = slice_offsets or SLICE_OFFSETS
        self._folder = folder
        self._files = files
        self._begun = begun
        self._file = create_unpublished(folder, files, OFFSETS_SNAPSHOT)
        self._is_begun = False
        self._index: list[bytes] = []
        self.slices = self._write(table, stored)
        """Each `next` takes some 3 ms; others may change the table in between. Raises OSError."""

    def _write(self, table: OffsetsTable, stored: Iterator[tuple[bytes, bytes]]) -> Generator[None]:
        places: dict[str, Place] = {}
        work = 0
        self._is_begun = True
        for group_id, place in table.write(self._file):
            places[group_id] = place
            work += place.offsets + 1
            if work >= self._slice_offsets:
                work = 0
                yield
        index = self._index
        index += (_COUNT.pack(len(table.topics)), *map(_string, table.topics))
        metadata: list[bytes] = []
        for key, value in stored:
            metadata += (_COUNT.pack(len(key)), key, _COUNT.pack(len(value)), value)
            work += 1 + len(value) // 100
            if work >= self._slice_offsets:
                work = 0
                yield
        index += (_COUNT.pack(len(metadata) // 4), *metadata, _COUNT.pack(len(places)))
        for group_id, (_, position, size, count) in places.items():
            index += (_string(group_id), _PLACE.pack(position, size, count))
            work += 1
            if work >= self._slice_offsets:
                work = 0
                yield

    def finish(self, ended: int) -> None:
        """All that is told here is in the log, which ends at `ended` now. Raises OSError."""
        index = b"".join(self._index)
        footer = _FOOTER.pack(self._begun, ended, self._file.size, len(index), crc32c(index))
        self._file.append(index + frame(_MAGIC, footer))
        publish(self._folder, self._files, OFFSETS_SNAPSHOT)

    def abandon(self) -> None:
        """There will be none. What stands in the file is still read from it; its name goes.
        Raises OSError."""
        self.slices.close()
        if not self._is_begun:
            self._file.close()  # else it is the table's
        self._files.remove(self._folder / unpublished(OFFSETS_SNAPSHOT))


def _string(text: str) -> bytes:
    data = text.encode()
    return _LENGTH.pack(len(data)) + data
