"""The snapshot of an offsets partition, a disposable file next to the log that makes loading fast.

On load, only the log tail after the snapshot is replayed, and offsets are read on demand. The file
consists of blocks (spill.py), an index and a footer. The table may change while the snapshot is
written, so the snapshot contains all records up to its start offset and some later records. Replay
is idempotent, so replaying from the start offset yields the correct state, provided that the log
has not been truncated below the snapshot's end.

Snapshots are never synced. A snapshot that is torn, or newer than the log, is removed.
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
    temporary_name,
    unframe,
)
from ..log.files import File, Files
from ..protocol.primitives import Reader, string
from .spill import Extent
from .table import OffsetsTable

# Number of offsets and groups in a step of the writer. A step takes about 3 ms.
STEP_OFFSETS: Final = 2_500
_MAGIC: Final = b"kohort\x00\x01"
# Footer: log end offsets before and after writing; position, size and CRC of the index.
_FOOTER: Final = Struct(">qqqqI")
_COUNT: Final = Struct(">I")
_LENGTH: Final = Struct(">H")
_EXTENT: Final = Struct(">qII")


class Snapshot(NamedTuple):
    start_offset: int
    """The offset from which the log must be replayed."""
    extents: Mapping[str, Extent]
    topics: Set[str]
    metadata: list[tuple[bytes, bytes]]
    """Key and value of the newest metadata record of each group."""
    file: File


def open_snapshot(
    folder: Path, files: Files, start_offset: int, end_offset: int
) -> Snapshot | None:
    """Open the snapshot, if it is valid for a log with this start and end offset. A snapshot that
    is unreadable or belongs to another state of the log is removed. Raises OSError if the removal
    fails."""
    path = folder / OFFSETS_SNAPSHOT
    if not files.exists(path):
        return None
    with suppress(OSError):  # an unreadable snapshot is removed like a torn one
        file = files.open(path)
        try:
            found = _read(file)
        except OSError:
            found = None
        # Checked on every load, because a truncation of the log can no longer be detected after
        # further records have been appended.
        if found is not None:
            snapshot, snapshot_end = found
            if start_offset <= snapshot.start_offset and snapshot_end <= end_offset:
                return snapshot
        file.close()
    files.remove(path)
    return None


def _read(file: File) -> tuple[Snapshot, int] | None:
    """Return the snapshot and the log end offset when the snapshot was completed. Raises
    OSError."""
    size = _FOOTER.size + FRAME_OVERHEAD_BYTES
    try:
        footer = unframe(_MAGIC, file.read(max(file.size - size, 0), size))
        start_offset, end_offset, position, index_size, index_crc = _FOOTER.unpack(footer)
    except (InvalidCacheFile, struct_error):
        return None
    index = file.read(position, index_size)
    if len(index) != index_size or crc32c(index) != index_crc:
        return None
    fields = Reader(index, flexible=False)
    take, int32 = fields.take, fields.int32
    topics = {fields.string() for _ in range(int32())}
    metadata = [(take(int32()), take(int32())) for _ in range(int32())]
    # Written for speed, because there may be a hundred thousand groups.
    extents: dict[str, Extent] = {}
    count = int32()
    at = fields.position
    for _ in range(count):
        start = at + _LENGTH.size
        end = start + _LENGTH.unpack_from(index, at)[0]
        extents[index[start:end].decode()] = Extent(file, *_EXTENT.unpack_from(index, end))
        at = end + _EXTENT.size
    return Snapshot(start_offset, extents, topics, metadata, file), end_offset


class SnapshotWriter:
    """Writes the snapshot of the log in `folder`. The caller runs all `steps`, then calls `finish`.
    `start_offset` is the current end of the log. `metadata` yields the key and the value of each
    group's metadata record. Raises OSError."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        start_offset: int,
        table: OffsetsTable,
        metadata: Iterator[tuple[bytes, bytes]],
        step_offsets: int | None = None,
    ) -> None:
        self._step_offsets = step_offsets or STEP_OFFSETS
        self._folder = folder
        self._files = files
        self.start_offset = start_offset
        self._file = create_unpublished(folder, files, OFFSETS_SNAPSHOT)
        self._has_started = False
        self._index: list[bytes] = []
        self.steps = self._write(table, metadata)
        """Writing steps of about 3 ms each. The table may change between steps. Raises OSError."""

    def _write(
        self, table: OffsetsTable, metadata: Iterator[tuple[bytes, bytes]]
    ) -> Generator[None]:
        self._has_started = True
        work = 0
        for done in self._write_entries(table, metadata):
            work += done
            if work >= self._step_offsets:
                work = 0
                yield

    def _write_entries(
        self, table: OffsetsTable, metadata: Iterator[tuple[bytes, bytes]]
    ) -> Iterator[int]:
        """Write the blocks and build the index. Yield the cost of each entry, in offsets."""
        extents: dict[str, Extent] = {}
        for group_id, extent in table.write(self._file):
            extents[group_id] = extent
            yield extent.offsets + 1
        index = self._index
        index += (_COUNT.pack(len(table.topics)), *map(string, table.topics))
        records: list[bytes] = []
        for key, value in metadata:
            records += (_COUNT.pack(len(key)), key, _COUNT.pack(len(value)), value)
            yield 1 + len(value) // 100
        index += (_COUNT.pack(len(records) // 4), *records, _COUNT.pack(len(extents)))
        for group_id, (_, position, size, count) in extents.items():
            index += (string(group_id), _EXTENT.pack(position, size, count))
            yield 1

    def finish(self, end_offset: int) -> None:
        """Publish the snapshot. The log must be durable up to `end_offset`. Raises OSError."""
        index = b"".join(self._index)
        footer = _FOOTER.pack(
            self.start_offset, end_offset, self._file.size, len(index), crc32c(index)
        )
        self._file.append(index + frame(_MAGIC, footer))
        publish(self._folder, self._files, OFFSETS_SNAPSHOT)

    def abandon(self) -> None:
        """Delete the unfinished snapshot. Groups that were evicted to it remain readable. Raises
        OSError."""
        self.steps.close()
        if not self._has_started:
            self._file.close()  # once writing has started, the table owns the file
        self._files.remove(self._folder / temporary_name(OFFSETS_SNAPSHOT))
