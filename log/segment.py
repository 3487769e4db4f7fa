"""One segment: a file of batches back to back, named by its first offset in 20 digits.
Finding and walking batches is here; which segment to ask, and what survives, is log.py's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from .batch import HEADER_BYTES, BatchHeader, Record, check_extent, read_header, records
from .config import LogConfig
from .errors import CorruptBatch, InvalidRecord, LogError
from .files import File, Files
from .header import CRC_START
from .index import SparseIndex

# What a walk holds in memory at once; larger batches are read on their own.
CHUNK_BYTES: Final = 1024 * 1024

# Kafka counts bytes of a segment in 31 bits, and so does its index and ours.
SEGMENT_BYTES_MAX: Final = 0x7FFFFFFF
# What is read to find one batch: enough for the stretch between two index entries.
SEEK_BYTES: Final = 8 * 1024

_OFFSETS: Final = Struct(">q15xi")
_STORED_CRC: Final = Struct(">I")


class Place(NamedTuple):
    """A batch found in a file. `buffer` holds its header at `at`, and all if there is room."""

    position: int
    size: int
    buffer: bytes
    at: int


def walk(file: File, position: int, end: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Place]:
    """The batches from `position` to `end`, read in chunks.

    Raises CorruptBatch (its position is the file's) where no batch can begin or one is cut off.
    """
    while position < end:
        chunk = file.read(position, min(chunk_bytes, end - position))
        if len(chunk) < HEADER_BYTES:
            raise CorruptBatch(position, f"{len(chunk)} bytes are left, a batch has at least 61")
        at = 0
        while len(chunk) - at >= HEADER_BYTES:
            try:
                # Judged by where the file ends, not by where the chunk does.
                size = check_extent(chunk, at, end - position + at)
            except CorruptBatch as error:
                if at:
                    break  # judged again with a whole chunk behind it
                raise type(error)(position, error.reason) from None
            if at and at + size > len(chunk):
                break
            yield Place(position, size, chunk, at)
            position += size
            at += size


def check_place(file: File, place: Place) -> None:
    """Raises CorruptBatch when the checksum is wrong; a batch larger than a chunk is read in
    chunks, so that a forged length cannot take memory."""
    stored: int = _STORED_CRC.unpack_from(place.buffer, place.at + 17)[0]
    last = place.at + place.size
    computed = crc32c(memoryview(place.buffer)[place.at + CRC_START : last])
    position = place.position + len(place.buffer) - place.at
    while position < place.position + place.size:
        chunk = file.read(position, min(CHUNK_BYTES, place.position + place.size - position))
        if not chunk:
            break
        computed = crc32c(chunk, computed)
        position += len(chunk)
    if stored != computed:
        raise CorruptBatch(place.position, f"checksum {computed:08x} instead of {stored:08x}")


def last_offset(place: Place) -> int:
    base_offset, delta = _OFFSETS.unpack_from(place.buffer, place.at)
    return int(base_offset + delta)


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


def base_offset_of(name: str) -> int | None:
    """None for every file that is not a segment: Kafka's indexes, checkpoints, strangers."""
    stem = name.removesuffix(".log")
    if stem == name or len(stem) != 20 or not (stem.isascii() and stem.isdigit()):
        return None
    return int(stem)


def number_of(segments: Sequence[Segment], offset: int) -> int:
    """Which of the segments holds `offset`, or would."""
    if segments and offset >= segments[-1].base_offset:
        return len(segments) - 1
    return max(0, bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1)


def bytes_in(folder: Path, files: Files) -> int:
    """Of all segments of a log that nobody has open; 0 while it has no folder."""
    size = 0
    for name in files.list(folder):
        if base_offset_of(name) is not None:
            file = files.open(folder / name, read_only=True)
            size += file.size
            file.close()
    return size


class Segment:
    """`size` and `end_offset` are what is known good; `dirty` means written since the last sync.
    `surveyed_end`: up to which offset a survey beside the log may tell of it (survey.py)."""

    __slots__ = (
        "_files",
        "_index_interval_bytes",
        "_read_only",
        "base_offset",
        "dirty",
        "end_offset",
        "epochs",
        "file",
        "first_timestamp",
        "index",
        "last_epoch",
        "max_timestamp",
        "max_timestamp_position",
        "path",
        "size",
        "surveyed_end",
    )

    def __init__(
        self,
        folder: Path,
        files: Files,
        base_offset: int,
        index_interval_bytes: int,
        *,
        read_only: bool = False,
        suffix: str = "",
    ) -> None:
        """`suffix`: of a file on its way into the log or out of it (swapping.py)."""
        self._files = files
        self._index_interval_bytes = index_interval_bytes
        self._read_only = read_only
        self.path = folder / (segment_name(base_offset) + suffix)
        self.base_offset = base_offset
        self.file: File | None = None
        self.dirty = False
        self.surveyed_end = 0
        self._forget()

    def _forget(self) -> None:
        self.size = 0
        self.end_offset = self.base_offset
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.max_timestamp_position = -1
        self.last_epoch = -1
        # (leader epoch, its first offset here): nearly always one.
        self.epochs: list[tuple[int, int]] = []
        self.index = SparseIndex(self.base_offset, self._index_interval_bytes)

    def opened(self, *, create: bool = False) -> File:
        if self.file is None:
            self.file = self._files.open(self.path, create=create, read_only=self._read_only)
        return self.file

    def close(self) -> None:
        if self.file is not None:
            file, self.file = self.file, None
            file.close()

    def rename(self, suffix: str) -> None:
        path = self.path.with_name(segment_name(self.base_offset) + suffix)
        self._files.rename(self.path, path)
        self.path = path

    def scan(self, *, check_crcs: bool) -> CorruptBatch | None:
        """Learns from its file what follows on what is known of the segment, up to the first bad
        byte, which it reports."""
        file = self.opened()
        if file.size > SEGMENT_BYTES_MAX:
            raise LogError(f"{self.path} is larger than 2 GiB: no segment of Kafka's or ours")
        try:
            for place in walk(file, self.size, file.size):
                header = read_header(place.buffer, place.at)
                if header.base_offset < self.end_offset or header.last_offset_delta < 0:
                    return CorruptBatch(
                        place.position,
                        f"offsets {header.base_offset}..{header.last_offset} "
                        f"where {self.end_offset} comes next",
                    )
                if header.last_offset - self.base_offset > 0x7FFFFFFF:
                    return CorruptBatch(place.position, f"offset {header.last_offset} is too far")
                if check_crcs:
                    check_place(file, place)
                self.note(
                    header.base_offset,
                    header.next_offset,
                    place.size,
                    # What compaction emptied has no record of that time to be found.
                    header.max_timestamp if header.count else -1,
                    header.leader_epoch,
                )
        except CorruptBatch as flaw:
            return flaw
        return None

    def is_full(self, config: LogConfig, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Whether a batch of `size` bytes belongs into the next segment: Kafka's
        LogSegment.shouldRoll, its clock replaced by the batches' own timestamps."""
        if not self.size:
            return False
        return (
            self.size + size > config.segment_bytes
            or last_offset - self.base_offset > 0x7FFFFFFF
            or (
                self.first_timestamp >= 0
                and max_timestamp - self.first_timestamp > config.segment_ms
            )
        )

    def note(
        self, base_offset: int, next_offset: int, size: int, max_timestamp: int, leader_epoch: int
    ) -> None:
        """A batch of `size` bytes now lies at the segment's end."""
        position = self.size
        self.index.note(base_offset, position, self.max_timestamp)
        if not position:
            self.first_timestamp = max_timestamp
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_position = position
        if leader_epoch > self.last_epoch:
            self.last_epoch = leader_epoch
            self.epochs.append((leader_epoch, base_offset))
        self.size = position + size
        self.end_offset = next_offset

    def truncate(self, size: int) -> None:
        """Keeps the first `size` bytes, which must end with a batch."""
        self.opened().truncate(size)
        self.dirty = True
        if size < self.size:
            # Running maxima cannot be taken back, so what is left is walked again: a rare thing.
            self._forget()
            flaw = self.scan(check_crcs=False)
            assert flaw is None, flaw

    def place_of(self, offset: int, end: int | None = None) -> Place | None:
        """The first batch before byte `end` whose last offset is `offset` or higher."""
        start = self.index.at_or_before_offset(offset)
        for place in walk(self.opened(), start, self.size if end is None else end, SEEK_BYTES):
            if last_offset(place) >= offset:
                return place
        return None

    def read(self, offset: int, max_bytes: int, minimum_one: bool, end: int) -> bytes | None:
        """Whole batches from the one that holds `offset` on, none beyond byte `end`; None when
        the segment has no such batch. Nothing is decoded, and long answers are read in one call.
        """
        first = self.place_of(offset, end)
        if first is None:
            return None
        limit = first.position + max_bytes
        stop = end
        if limit < end:
            stop = first.position
            start = max(stop, self.index.at_or_before_position(limit))
            for place in walk(self.opened(), start, end, SEEK_BYTES):
                if place.position + place.size > limit:
                    break
                stop = place.position + place.size
            stop = max(stop, start)
            if stop == first.position and minimum_one:
                stop += first.size
        size = stop - first.position
        if first.at + size <= len(first.buffer):
            return first.buffer[first.at : first.at + size]
        return self.opened().read(first.position, size)

    def whole(self, place: Place, file: File | None = None) -> bytes:
        """All bytes of a batch that was found."""
        if place.at + place.size <= len(place.buffer):
            return place.buffer[place.at : place.at + place.size]
        return (file or self.opened()).read(place.position, place.size)

    def batches(self, start_offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch from the one that contains `start_offset` on, read through a file of its
        own."""
        file = self._files.open(self.path, read_only=True)
        try:
            position = self.index.at_or_before_offset(start_offset)
            for place in walk(file, position, self.size):
                header = read_header(place.buffer, place.at)
                if header.last_offset >= start_offset:
                    yield header, self.whole(place, file)
        finally:
            file.close()

    def first_record_since(self, timestamp: int, start_offset: int) -> Record | None:
        """The first record from `start_offset` on with that timestamp or a later one."""
        start = self.index.before_timestamp(timestamp)
        for place in walk(self.opened(), start, self.size):
            if read_header(place.buffer, place.at).max_timestamp >= timestamp:
                for record in records(self.whole(place)):
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return record
        return None

    def latest_record(self) -> Record:
        """The first record that has the segment's largest timestamp."""
        place = next(walk(self.opened(), self.max_timestamp_position, self.size))
        for record in records(self.whole(place)):
            if record.timestamp == self.max_timestamp:
                return record
        raise InvalidRecord(
            f"the batch at byte {place.position} of {self.path} has no record of its timestamp"
        )
