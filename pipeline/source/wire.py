"""An offsets log behind a broker: of any Kafka since 0.11, or of kohort.

Partitions are read from their leaders as consumers do it, but raw: whole batches, those of open
and aborted transactions too. Nothing is joined and nothing committed; the broker sees a reader.
"""

import time
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final, Protocol

import pyarrow as pa

from ...log.batch import HEADER_BYTES, check_extent
from ...topics.names import OFFSETS_TOPIC
from .decoding import decode, within
from .source import SPLIT_BYTES, Positions, SourceError, Split, shares
from .wire_cluster import (
    EARLIEST,
    LATEST,
    PATIENCE_SECONDS,
    Cluster,
    Fetched,
    OutOfRange,
    TopicPartition,
)

__all__ = ["WireSource", "chunks_of"]

# What an answer may hold: enough batches, of some 500 bytes, for the decoder to be at its best.
# Larger answers are no faster, and their rows take ten times as much memory.
FETCH_BYTES: Final = 2 * 1024 * 1024
# A record of a commit with its share of a batch, as measured; brokers tell offsets, not bytes.
RECORD_BYTES: Final = 87
# How often a broker says that nothing is left before it is believed: compaction may have taken the
# last records of a log.
EMPTY_MAX: Final = 2
# Base offset, length; last offset delta.
_EXTENT: Final = Struct(">qi11xi")
_LENGTH_END: Final = 12


class Reader(Protocol):
    """What is asked of a cluster here."""

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched: ...

    def fetch_ahead(self, topic: str, partition: int, offset: int, max_bytes: int) -> None: ...

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]: ...


class WireSource:
    """`bootstrap`: HOST:PORT of some brokers, parted by commas."""

    def __init__(self, bootstrap: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._bootstrap = bootstrap
        self._patience_seconds = patience_seconds

    def starts(self) -> dict[int, int]:
        return self._offsets(EARLIEST)

    def ends(self) -> dict[int, int]:
        return {partition: end for partition, end in self._offsets(LATEST).items() if end > 0}

    def limited(
        self, start: Positions, end: Positions, *, records_max: int | None, bytes_max: int | None
    ) -> dict[int, int]:
        begins = {**self.starts(), **start}
        waiting = {
            partition: upto - begins[partition]
            for partition, upto in end.items()
            if upto > begins.get(partition, upto)
        }
        limits = [records_max, None if bytes_max is None else bytes_max // RECORD_BYTES]
        records = min((each for each in limits if each is not None), default=None)
        if records is None or records >= sum(waiting.values()):
            return dict(end)
        found = {partition: upto for partition, upto in end.items() if partition not in waiting}
        with self._cluster() as cluster:
            for partition, share in shares(waiting, records).items():
                last = begins[partition] + max(share, 1) - 1
                found[partition] = min(_behind(cluster, partition, last), end[partition])
        return found

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        begins = {**self.starts(), **start}
        records = max(split_bytes // RECORD_BYTES, 1)
        found = []
        with self._cluster() as cluster:
            for partition, upto in end.items():
                begin = begins.get(partition, upto)
                while upto - begin > records:
                    border = min(_behind(cluster, partition, begin + records - 1), upto)
                    found.append(Split(partition, begin, border))
                    begin = border
                if begin < upto:
                    found.append(Split(partition, begin, upto))
        return found

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        with self._cluster() as cluster:
            chunks = chunks_of(cluster, split, self._patience_seconds)
            for rows in decode(chunks, split.offsets_partition, split.start):
                yield within(rows, split.start, split.end)

    def _cluster(self) -> Cluster:
        return Cluster(self._bootstrap, patience_seconds=self._patience_seconds)

    def _offsets(self, when: int) -> dict[int, int]:
        with self._cluster() as cluster:
            partitions = cluster.topics([OFFSETS_TOPIC]).get(OFFSETS_TOPIC)
            if partitions is None:
                raise SourceError(
                    f"{self._bootstrap} has no {OFFSETS_TOPIC} yet: no group was ever there; start"
                    " a consumer with a group id first."
                )
            found = cluster.offsets({(OFFSETS_TOPIC, index): when for index in partitions})
        return {index: offset for (_, index), offset in sorted(found.items()) if offset is not None}


def chunks_of(
    cluster: Reader, split: Split, patience_seconds: float = PATIENCE_SECONDS
) -> Iterator[bytes]:
    """Whole batches, of which the first may begin before the split, and the last end behind it.
    While one chunk is made use of the next one is on its way."""
    partition, position = split.offsets_partition, split.start
    deadline = time.monotonic() + patience_seconds
    empty = 0
    while position < split.end and empty < EMPTY_MAX:
        try:
            fetched = cluster.fetch(OFFSETS_TOPIC, partition, position, FETCH_BYTES)
        except OutOfRange:
            position = _later_start(cluster, split, position)
            continue
        chunk, behind = _whole(fetched.records, position, split.end)
        if behind > position:
            if behind < split.end:
                cluster.fetch_ahead(OFFSETS_TOPIC, partition, behind, FETCH_BYTES)
            if chunk:
                yield chunk
            position, empty = behind, 0
            deadline = time.monotonic() + patience_seconds
        elif fetched.high_watermark > position:
            empty += 1
        elif time.monotonic() > deadline:
            # A leader that has just been elected may know of less than the one before it.
            raise _cut(split, fetched.high_watermark)


def _behind(cluster: Reader, partition: int, offset: int) -> int:
    """The offset behind the batch that holds `offset`, or behind the next one where compaction took
    that: readers who part there know what is missing between the two of them."""
    try:
        fetched = cluster.fetch(OFFSETS_TOPIC, partition, offset, 1)
    except OutOfRange:
        return offset + 1
    return max(_whole(fetched.records, offset)[1], offset + 1)


def _whole(records: bytes, position: int, end: int | None = None) -> tuple[bytes, int]:
    """The whole batches with offsets from `position` up to `end`, and the offset behind them. What
    lies before is skipped, a last one that is cut off too. Raises CorruptBatch."""
    begin = at = 0
    behind, size = position, len(records)
    while size - at >= HEADER_BYTES:
        base, length, delta = _EXTENT.unpack_from(records, at)
        if end is not None and base >= end:
            behind = end
            break
        stop = at + _LENGTH_END + length
        if stop > size and at and length >= HEADER_BYTES:
            break
        check_extent(records, at, size)
        at = stop
        if base + delta < position:
            begin = stop
        else:
            behind = base + delta + 1
    return records[begin:at], behind


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
