"""A segment is a file of adjacent batches, named after its base offset in 20 digits, with an index.

This module finds batches and iterates over them. log.py locates segments, and recovery.py validates
them after a crash. Upstream: LogSegment, OffsetIndex, TimeIndex.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from .batch import (
    CRC_START,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_AT,
    BatchHeader,
    check_extent,
    read_header,
)
from .errors import CorruptBatch, LogError
from .files import SEGMENT_BYTES_MAX, File, Files
from .producer_state import ProducerStates

# Bytes read at a time. Larger batches are read separately.
CHUNK_BYTES: Final = 1024 * 1024
# Bytes read to find one batch. Two index entries are rarely further apart.
SEEK_BYTES: Final = 8 * 1024
# Up to this size, a message in a format from before Kafka 0.11 is recognized.
OLD_MESSAGE_BYTES_MAX: Final = 128 * 1024 * 1024
# Reads of at least this size are returned as a FileSlice. For smaller reads, opening the file would
# cost more than copying.
SLICE_BYTES_MIN: Final = 2 * 1024 * 1024
# Kafka's index offsets are 31-bit deltas from the base offset.
OFFSET_SPAN_MAX: Final = 0x7FFFFFFF
INDEX_ENTRY_BYTES: Final = 16

_OFFSETS: Final = Struct(">q15xi")  # base offset, last offset delta
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17

# --- file names


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def base_offset_of(name: str) -> int | None:
    """Return the base offset in a segment's file name, or None if the file is not a segment."""
    stem, _, suffix = name.partition(".")
    is_segment = suffix == "log" and len(stem) == 20 and stem.isascii() and stem.isdigit()
    return int(stem) if is_segment else None


def segment_bytes_in(folder: Path, files: Files) -> int:
    """Return the total size of the segments of a log that is not open; 0 if `folder` is missing."""
    size = 0
    for name in files.list(folder):
        if base_offset_of(name) is not None:
            file = files.open(folder / name, read_only=True)
            size += file.size
            file.close()
    return size


# --- batches in a file


class BatchLocation(NamedTuple):
    """A batch in a file. `buffer` contains the batch's header at `start`, and the whole batch if it
    fits."""

    position: int
    size: int
    buffer: bytes
    start: int


def walk_batches(
    file: File, position: int, end: int, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[BatchLocation]:
    """Yield the batches from `position` to `end`, read in chunks. Raises CorruptBatch, with the
    position in the file, if no batch can begin there or if a batch is cut off."""
    while position < end:
        chunk = file.read(position, min(chunk_bytes, end - position))
        if len(chunk) < HEADER_BYTES:
            end = position + len(chunk)  # the file may be shorter
        start = 0
        while not start or len(chunk) - start >= HEADER_BYTES:
            try:
                # The batch may extend beyond the chunk, but not beyond `end`.
                size = check_extent(chunk, start, end - position + start)
            except CorruptBatch as error:
                if start:
                    break  # checked again with the next chunk
                size = LENGTH_END + int.from_bytes(chunk[8:LENGTH_END])
                if (
                    chunk_bytes < size <= min(end - position, OLD_MESSAGE_BYTES_MAX)
                    and chunk[MAGIC_AT] < MAGIC
                ):
                    # Possibly a whole message in a format from before Kafka 0.11.
                    chunk_bytes = size
                    chunk = file.read(position, size)
                    continue
                raise type(error)(position, error.reason) from None
            if start and start + size > len(chunk):
                break
            yield BatchLocation(position, size, chunk, start)
            position += size
            start += size


def read_batch(file: File, batch: BatchLocation) -> bytes:
    """Read the complete batch."""
    if batch.start + batch.size <= len(batch.buffer):
        return batch.buffer[batch.start : batch.start + batch.size]
    return file.read(batch.position, batch.size)


def verify_checksum(file: File, batch: BatchLocation) -> None:
    """Verify a batch's checksum. Large batches are read in chunks so that a corrupt length cannot
    exhaust memory. Raises CorruptBatch."""
    stored: int = _CRC.unpack_from(batch.buffer, batch.start + _CRC_AT)[0]
    end = batch.start + batch.size
    computed = crc32c(memoryview(batch.buffer)[batch.start + CRC_START : end])
    position = batch.position + len(batch.buffer) - batch.start
    while position < batch.position + batch.size:
        chunk = file.read(position, min(CHUNK_BYTES, batch.position + batch.size - position))
        if not chunk:
            break
        computed = crc32c(chunk, computed)
        position += len(chunk)
    if stored != computed:
        raise CorruptBatch(batch.position, f"checksum {computed:08x} instead of {stored:08x}")


def last_offset_of(batch: BatchLocation) -> int:
    base_offset, delta = _OFFSETS.unpack_from(batch.buffer, batch.start)
    return int(base_offset + delta)


def is_zero_from(file: File, position: int) -> bool:
    """Whether the file contains only zeros from `position` on (preallocated space)."""
    while chunk := file.read(position, CHUNK_BYTES):
        if chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True


class FileSlice:
    """Batches that are read when they are sent (upstream: FileRecords.slice). They are read from a
    separate handle, so deleting or replacing the segment does not affect them."""

    __slots__ = ("_file", "_position", "_size", "end_offset_max")

    def __init__(self, file: File, position: int, size: int, end_offset_max: int) -> None:
        """`end_offset_max` is an upper bound on the end offset of the batches."""
        self.end_offset_max = end_offset_max
        self._file = file
        self._position = position
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __bytes__(self) -> bytes:
        return self.read(0, self._size)

    def read(self, start: int, size: int) -> bytes:
        """Return up to `size` bytes from `start`. Raises OSError and LogError."""
        size = min(size, self._size - start)
        data = self._file.read(self._position + start, size)
        if len(data) != size:
            raise LogError("a segment ends before the end of the records being sent")
        return data

    def __del__(self) -> None:
        self._file.close()


# --- the index


class SparseIndex:
    """Positions of batches, one entry per `interval_bytes`, as in Kafka's .index and .timeindex
    files, but in memory. Built by appends or a scan, or read from the manifest
    (segment_manifest.py). An entry takes 16 bytes, so the index of a 1 GiB segment takes 4 MiB at
    Kafka's interval of 4096 bytes."""

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._next_position = 0
        self._offsets = array("I")  # relative to the base offset
        self._positions = array("I")
        # Maximum timestamp of all batches before this entry.
        self._running_max = array("q")

    def add(self, base_offset: int, position: int, max_timestamp_before: int) -> None:
        """Add an entry if one is due. Called for every batch, in order."""
        if position >= self._next_position:
            self._offsets.append(base_offset - self._base_offset)
            self._positions.append(position)
            self._running_max.append(max_timestamp_before)
            self._next_position = position + self._interval_bytes

    @property
    def last_position(self) -> int:
        """Position of the last entry, or 0 if the index is empty."""
        return self._positions[-1] if self._positions else 0

    def to_bytes(self) -> bytes:
        """Return all entries, in native byte order."""
        return b"".join(map(array.tobytes, (self._offsets, self._positions, self._running_max)))

    def load(self, data: bytes) -> None:
        """Replace all entries with the result of an earlier `to_bytes`."""
        count = len(data) // INDEX_ENTRY_BYTES
        offsets, positions, running_max = array("I"), array("I"), array("q")
        offsets.frombytes(data[: 4 * count])
        positions.frombytes(data[4 * count : 8 * count])
        running_max.frombytes(data[8 * count :])
        self._offsets, self._positions, self._running_max = offsets, positions, running_max
        self._next_position = self.last_position + self._interval_bytes if count else 0

    def at_or_before_offset(self, offset: int) -> int:
        """Return the position of the last entry with a base offset up to `offset`, or 0."""
        entry = bisect_right(self._offsets, offset - self._base_offset)
        return self._positions[entry - 1] if entry else 0

    def at_or_before_position(self, position: int) -> int:
        """Return the position of the last entry at or before `position`, or 0."""
        entry = bisect_right(self._positions, position)
        return self._positions[entry - 1] if entry else 0

    def at_or_after_position(self, position: int) -> int | None:
        """Return the base offset of the first entry at or after `position`, or None."""
        entry = bisect_left(self._positions, position)
        return self._base_offset + self._offsets[entry] if entry < len(self._offsets) else None

    def before_timestamp(self, timestamp: int) -> int:
        """Return a position before which no batch has a record at or after `timestamp`."""
        entry = bisect_left(self._running_max, timestamp)
        return self._positions[entry - 1] if entry else 0


# --- the segment


class Segment:
    """A segment file. `size` and `end_offset` are the extent of valid data. `dirty` means that
    there are unsynced writes. The manifest may cover the part up to `manifest_end_offset`."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        base_offset: int,
        index_interval_bytes: int = 4096,
        *,
        read_only: bool = False,
        suffix: str = "",
    ) -> None:
        """`suffix` is the suffix of the file name during a swap."""
        self.files = files
        self._index_interval_bytes = index_interval_bytes
        self._read_only = read_only
        self.path = folder / (segment_name(base_offset) + suffix)
        self.base_offset = base_offset
        self.file: File | None = None
        self.dirty = False
        self.manifest_end_offset = 0
        self.gap: tuple[int, int] | None = None
        """The first missing offset, and the first offset after the gap. Set only by a scan."""
        self._reset()

    def _reset(self) -> None:
        self.size = 0
        self.end_offset = self.base_offset
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.last_epoch = -1
        # (leader epoch, its first offset in the segment), nearly always a single pair.
        self.epochs: list[tuple[int, int]] = []
        self.index = SparseIndex(self.base_offset, self._index_interval_bytes)

    def open(self, *, create: bool = False) -> File:
        """Return the file, opening it if it is closed."""
        if self.file is None:
            self.file = self.files.open(self.path, create=create, read_only=self._read_only)
        return self.file

    def close(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            file.close()

    def rename(self, suffix: str) -> None:
        path = self.path.with_name(segment_name(self.base_offset) + suffix)
        self.files.rename(self.path, path)
        self.path = path

    def add_batch(
        self, base_offset: int, next_offset: int, size: int, max_timestamp: int, leader_epoch: int
    ) -> None:
        """Record that a batch of `size` bytes was written at the end of the segment."""
        position = self.size
        self.index.add(base_offset, position, self.max_timestamp)
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
        if leader_epoch > self.last_epoch:
            self.last_epoch = leader_epoch
            self.epochs.append((leader_epoch, base_offset))
        self.size = position + size
        self.end_offset = next_offset

    def scan(
        self, *, check_crcs: bool, producers: ProducerStates | None = None
    ) -> CorruptBatch | None:
        """Scan the file from `size` on, and return the first corruption. `producers` receives the
        batches that have a producer id. Raises LogError and OSError."""
        file = self.open()
        if file.size > SEGMENT_BYTES_MAX:
            raise LogError(f"{self.path} is {file.size} bytes long, but a segment is at most 2 GiB")
        try:
            for batch in walk_batches(file, self.size, file.size):
                header = read_header(batch.buffer, batch.start)
                if header.base_offset < self.end_offset or header.last_offset_delta < 0:
                    return CorruptBatch(
                        batch.position,
                        f"offsets {header.base_offset}..{header.last_offset} "
                        f"where {self.end_offset} is expected next",
                    )
                if header.last_offset - self.base_offset > OFFSET_SPAN_MAX:
                    return CorruptBatch(
                        batch.position,
                        f"offset {header.last_offset} is too far from the base offset",
                    )
                if header.base_offset > self.end_offset and self.gap is None:
                    self.gap = self.end_offset, header.base_offset
                if check_crcs:
                    verify_checksum(file, batch)
                self.add_batch(
                    header.base_offset,
                    header.next_offset,
                    batch.size,
                    # Batches emptied by compaction have a timestamp but no record with it.
                    header.max_timestamp if header.count else -1,
                    header.leader_epoch,
                )
                if header.producer_id >= 0 and producers is not None:
                    control = read_batch(file, batch) if header.is_control else b""
                    producers.on_batch(header, control)
        except CorruptBatch as corrupt:
            return corrupt
        return None

    def truncate(self, size: int) -> None:
        """Truncate to the first `size` bytes, which must be a batch boundary."""
        self.open().truncate(size)
        self.dirty = True
        if size < self.size:
            # Rescan, because maximum timestamps cannot be recomputed incrementally. This is rare.
            self._reset()
            corrupt = self.scan(check_crcs=False)
            assert corrupt is None, corrupt

    # --- reading

    def find(self, offset: int, end: int | None = None) -> BatchLocation | None:
        """Return the first batch before byte `end` whose last offset is at least `offset`."""
        position = self.index.at_or_before_offset(offset)
        end = self.size if end is None else end
        for batch in walk_batches(self.open(), position, end, SEEK_BYTES):
            if last_offset_of(batch) >= offset:
                return batch
        return None

    def read(
        self, offset: int, max_bytes: int, minimum_one: bool, end: int
    ) -> bytes | FileSlice | None:
        """Return the complete batches before byte `end`, starting with the first whose last offset
        is at least `offset`, or None if there is none. Their total size is at most
        `max_bytes`; if `minimum_one`, the first batch is returned even if it is larger. The batches
        are not decoded. A large result is a FileSlice."""
        first = self.find(offset, end)
        if first is None:
            return None
        limit = first.position + max_bytes
        stop = end
        if limit < end:
            stop = first.position
            position = max(stop, self.index.at_or_before_position(limit))
            for batch in walk_batches(self.open(), position, end, SEEK_BYTES):
                if batch.position + batch.size > limit:
                    break
                stop = batch.position + batch.size
            stop = max(stop, position)
            if stop == first.position and minimum_one:
                stop += first.size
        size = stop - first.position
        if size >= SLICE_BYTES_MIN:
            following = self.index.at_or_after_position(stop)
            end_offset_max = self.end_offset if following is None else following
            file = self.files.open(self.path, read_only=True)
            return FileSlice(file, first.position, size, end_offset_max)
        return read_batch(self.open(), first._replace(size=size))

    def batches(self, start_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the batches whose last offset is at least `start_offset`, using a separate file
        handle."""
        file = self.files.open(self.path, read_only=True)
        try:
            position = self.index.at_or_before_offset(start_offset)
            for batch in walk_batches(file, position, self.size):
                header = read_header(batch.buffer, batch.start)
                if header.last_offset >= start_offset:
                    yield header, read_batch(file, batch)
        finally:
            file.close()


def segment_number(segments: Sequence[Segment], offset: int) -> int:
    """Return the index of the segment that contains, or would contain, `offset`."""
    if segments and offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)
