"""A segment that a broker may be writing: its valid batches, and the position of an offset in it.

`blocks` verifies every byte and skips corrupted batches like `kohort log`; `hops` reads only
headers to find a position, which is verified before use.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Any, Final, NamedTuple

import numpy as np

from ...log.batch import HEADER_BYTES, LENGTH_END, MAGIC, check_crc, check_extent, read_header
from ...log.codecs import decompress
from ...log.errors import CorruptBatch, InvalidRecord
from ...log.files import File
from ...log.records import raw_records
from ...log.recovery import ValidBatch, header_at, scan_segment
from .batches import Chunk, headers_of, walk

# About ten thousand batches of six commits: enough for vectorized decoding.
BLOCK_BYTES: Final = 4 * 1024 * 1024
# Base offset, length, magic, last offset delta.
_EXTENT: Final = Struct(">qi4xb6xi")
# Kafka's .index: relative offsets and positions, both ascending.
_INDEX_ENTRY: Final = np.dtype([("offset", ">u4"), ("position", ">u4")])


class Block(NamedTuple):
    """Adjacent valid batches with ascending offsets. For each batch: its position in the file, its
    base offset, the offset after it, and its size."""

    chunk: Chunk
    positions: Any
    bases: Any
    nexts: Any
    sizes: Any

    def cut(self, first: int, end: int) -> "Block":
        chunk = self.chunk._replace(starts=self.chunk.starts[first:end])
        return Block(chunk, *(column[first:end] for column in self[1:]))

    def last(self) -> "Hop":
        return Hop(*(int(column[-1]) for column in self[1:]))


class Hop(NamedTuple):
    """A batch, according to its header."""

    position: int
    base_offset: int
    next_offset: int
    size: int

    @property
    def end(self) -> int:
        return self.position + self.size


def blocks(file: File, position: int, lowest: int) -> Iterator[Block]:
    """Yield the valid batches from `position` on; `lowest`: the smallest offset that they may
    have. Raises OSError, and UnsupportedMagic for batches written before Kafka 0.11."""
    while position < file.size:
        block = _block(file, position, lowest)
        if not len(block.sizes):
            flawed = next(scan_segment(file, lowest, position=position, offset=lowest), None)
            if flawed is None:
                return  # zeros: preallocated space
            if not isinstance(flawed, ValidBatch):
                if flawed.next_offset is None:
                    return
                position, lowest = flawed.end, flawed.next_offset
                continue
            # The offsets of this batch and the next contradict each other: the next one is invalid.
            block = _of(Chunk(flawed.batch, [0]), position)
        yield block
        position, lowest = block.last().end, block.last().next_offset


def _block(file: File, position: int, lowest: int) -> Block:
    """Return the leading batches whose offsets do not contradict each other."""
    data = file.read(position, BLOCK_BYTES)
    chunk, _ = walk(data)
    if not chunk.starts:
        header = header_at(file, position)
        if header is not None and header.size > len(data):
            chunk, _ = walk(file.read(position, header.size))
    block = _of(chunk, position)
    wrong = np.flatnonzero(block.bases < np.concatenate(([lowest], block.nexts[:-1])))
    # Either of two contradicting offsets may be wrong, because the checksum does not cover them.
    return block.cut(0, max(int(wrong[0]) - 1, 0)) if len(wrong) else block


def _of(chunk: Chunk, position: int) -> Block:
    headers = headers_of(chunk)
    bases = headers["base_offset"].astype(np.int64)
    return Block(
        chunk,
        position + np.array(chunk.starts, np.int64),
        bases,
        bases + headers["last_offset_delta"] + 1,
        headers["batch_length"].astype(np.int64) + LENGTH_END,
    )


def hops(file: File, position: int) -> Iterator[Hop]:
    """Yield the batches according to their headers, up to the first invalid header."""
    unpack = _EXTENT.unpack_from
    while file.size - position >= HEADER_BYTES:
        data = file.read(position, BLOCK_BYTES)
        at, last = 0, len(data) - HEADER_BYTES
        while at <= last:
            base_offset, length, magic, delta = unpack(data, at)
            size = length + LENGTH_END
            if magic != MAGIC or size < HEADER_BYTES or delta < 0 or position + size > file.size:
                return
            yield Hop(position, base_offset, base_offset + delta + 1, size)
            at += size
            position += size


def first_offset_at(file: File, position: int) -> int | None:
    """Return the base offset of the batch at `position`; None if no valid batch begins there."""
    try:
        header = read_header(file.read(position, HEADER_BYTES))
        batch = file.read(position, min(header.size, file.size - position))
        check_crc(batch, 0, check_extent(batch, 0, len(batch)))
    except (CorruptBatch, struct_error):
        return None
    return header.base_offset


def records_end(file: File, hop: Hop) -> int:
    """Return the offset after the last record of a batch. Compaction may have removed records at
    the end of the batch; they are counted as missing before the next record read."""
    batch = file.read(hop.position, hop.size)
    header = read_header(batch)
    if header.count == header.last_offset_delta + 1:
        return hop.next_offset
    try:
        data = batch[HEADER_BYTES:]
        if header.codec:
            data = decompress(header.codec, memoryview(data))
        deltas = [record.offset_delta for record in raw_records(data, header.count)]
    except InvalidRecord:
        deltas = [0]  # the row that reports it has the base offset
    return hop.base_offset + (deltas[-1] + 1 if deltas else 0)


def indexed(path: Path, file: File, *, offset: int = 0, position: int = 0) -> int:
    """Return the position of a batch from Kafka's index of a segment; 0 without a usable entry. The
    batch is shortly before `offset` (relative to the base offset), or at or shortly before
    `position`."""
    try:
        data = path.with_suffix(".index").read_bytes()
    except OSError:
        return 0
    entries = np.frombuffer(data, _INDEX_ENTRY, len(data) // _INDEX_ENTRY.itemsize)
    positions = entries["position"].astype(np.int64)
    # The index of a live segment is preallocated and ends with zeros.
    back = np.flatnonzero(np.diff(positions) <= 0)
    used = int(back[0]) + 1 if len(back) else len(positions)
    # An entry contains the last offset of the batch at its position.
    before = np.searchsorted(entries["offset"][:used].astype(np.int64), offset)
    at_or_before = np.searchsorted(positions[:used], position, side="right")
    number = max(int(before), int(at_or_before)) - 1
    found = int(positions[number]) if number >= 0 else 0
    return found if found and first_offset_at(file, found) is not None else 0
