"""A stretch of a partition's log, fetch by fetch: sound batches, and where the next one begins.

Logs change while they are read: retention moves their start, compaction takes batches out of their
middle, and a new leader may know of less than the one before it.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, Protocol

from ...log.batch import HEADER_BYTES, check
from ...log.errors import CorruptBatch, UnsupportedMagic
from ...topics.names import OFFSETS_TOPIC
from .batches import Chunk, walk
from .source import SourceError, Split
from .wire_cluster import (
    EARLIEST,
    LATEST,
    PATIENCE_SECONDS,
    Fetched,
    OutOfRange,
    TopicPartition,
)

__all__ = ["behind", "chunks_of"]

# What an answer may hold: enough batches, of some 500 bytes, for the decoder to be at its best.
# Larger answers are no faster, and their rows take ten times as much memory.
FETCH_BYTES: Final = 2 * 1024 * 1024
# How often a broker says that nothing is left before it is believed: compaction may have taken the
# last records of a log.
EMPTY_MAX: Final = 2
# How often a bad batch is asked for before it is left out: what a network did to it passes.
BAD_MAX: Final = 3

# Base offset, length; last offset delta.
_EXTENT: Final = Struct(">qi11xi")
_LENGTH_END: Final = 12

logger = logging.getLogger("kohort.pipeline")


class Reader(Protocol):
    """What is asked of a cluster here."""

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched: ...

    def fetch_ahead(self, topic: str, partition: int, offset: int, max_bytes: int) -> None: ...

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


def chunks_of(
    cluster: Reader, split: Split, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[Chunk]:
    """Batches, of which the first may begin before the split, and the last end behind it. While
    one chunk is made use of the next one is on its way. Raises SourceError."""
    partition, position = split.offsets_partition, split.start
    deadline = time.monotonic() + patience_seconds
    empty = bad = 0
    while position < split.end and empty < EMPTY_MAX:
        try:
            fetched = cluster.fetch(OFFSETS_TOPIC, partition, position, FETCH_BYTES)
        except OutOfRange:
            position = _later_start(cluster, split, position)
            continue
        chunk, reached = _sound(fetched.records, position, split.end)
        if reached > position:
            if reached < split.end:
                cluster.fetch_ahead(OFFSETS_TOPIC, partition, reached, FETCH_BYTES)
            if chunk.starts:
                yield chunk
            position, empty, bad = reached, 0, 0
            deadline = time.monotonic() + patience_seconds
        elif fetched.records:
            bad += 1
            if bad == BAD_MAX:
                position, bad = _behind_bad(fetched.records, split, position), 0
        elif fetched.high_watermark > position:
            empty += 1
        elif time.monotonic() > deadline:
            # A leader that has just been elected may know of less than the one before it.
            raise _cut(split, fetched.high_watermark)


def behind(cluster: Reader, partition: int, offset: int) -> int:
    """The offset behind the batch that holds `offset`, or behind the next one where compaction took
    that: readers who part there know what is missing between the two of them."""
    try:
        fetched = cluster.fetch(OFFSETS_TOPIC, partition, offset, 1)
    except OutOfRange:
        return offset + 1
    if len(fetched.records) < HEADER_BYTES:
        return offset + 1
    base, _, delta = _EXTENT.unpack_from(fetched.records)
    return max(int(base + delta), offset) + 1


def _sound(records: bytes, position: int, end: int) -> tuple[Chunk, int]:
    """The sound batches with offsets from `position` up to `end`, and the offset behind them. What
    lies before is skipped; a batch that is bad, or cut off, ends them."""
    chunk, _ = walk(records, _skipped(records, position))
    starts = chunk.starts
    reached = position
    while starts:
        base, _, delta = _EXTENT.unpack_from(records, starts[-1])
        if base < end:
            return chunk, max(int(base + delta) + 1, reached)
        reached = end
        starts.pop()
    return chunk, reached


def _skipped(records: bytes, position: int) -> int:
    """Where batches are no longer of before `position`."""
    at = 0
    while len(records) - at >= HEADER_BYTES:
        base, length, delta = _EXTENT.unpack_from(records, at)
        if base + delta >= position or length < HEADER_BYTES - _LENGTH_END:
            break
        at += _LENGTH_END + length
    return at


def _behind_bad(records: bytes, split: Split, position: int) -> int:
    """The offset behind the bad batch that an answer begins with. Raises SourceError."""
    at = _skipped(records, position)
    where = f"Partition {split.offsets_partition} of {OFFSETS_TOPIC}"
    try:
        check(records, at, len(records))
    except UnsupportedMagic as flaw:
        raise SourceError(f"{where} has batches that cannot be read: {flaw.reason}.") from None
    except CorruptBatch as flaw:
        if len(records) - at >= HEADER_BYTES:
            base, length, delta = _EXTENT.unpack_from(records, at)
            if HEADER_BYTES <= _LENGTH_END + length <= len(records) - at:
                logger.warning(
                    "%s: the batch at offset %d is left out: %s", where, base, flaw.reason
                )
                return max(int(base + delta), position) + 1
        raise SourceError(f"{where} has no batch at offset {position}: {flaw.reason}.") from None
    raise SourceError(f"{where} is answered with nothing but what lies before offset {position}.")


def _later_start(cluster: Reader, split: Split, position: int) -> int:
    """Where the log begins now: what was to be read has been taken away meanwhile."""
    place = OFFSETS_TOPIC, split.offsets_partition
    begin, end = (cluster.offsets({place: when}).get(place) for when in (EARLIEST, LATEST))
    if begin is None or begin <= position:
        raise _cut(split, end)
    return begin


def _cut(split: Split, end: int | None) -> SourceError:
    return SourceError(
        f"Partition {split.offsets_partition} of {OFFSETS_TOPIC} ends at offset {end or 0}, and was"
        f" to be read up to {split.end}: it was cut off or made anew; read it into a new lake."
    )
