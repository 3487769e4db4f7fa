"""The offsets log of a running broker: any Kafka since 0.11, or kohort.

Partitions are read from their leaders as raw batches, including those of open and aborted
transactions, without joining a group or committing offsets. Logs may change while they are read:
retention moves the start, compaction removes batches, and a new leader may have fewer batches.
"""

import logging
import time
from collections.abc import Collection, Iterator
from typing import Final

import pyarrow as pa

from ...log.batch import HEADER_BYTES, check, read_header
from ...log.errors import CorruptBatch, UnsupportedMagic
from ...topics.names import OFFSETS_TOPIC
from ..diagnosis.group_history import LogEnd
from .batches import Chunk, walk
from .decoding import decode, within
from .log_ends import samples_of_broker
from .source import SPLIT_BYTES, Positions, SourceError, Split, TimeSpan, fair_shares, unread
from .wire_cluster import EARLIEST, LATEST, RETRY_SECONDS, Cluster, OutOfRange

# Measured size of a commit record with its share of a batch; brokers report offsets, not bytes.
RECORD_BYTES: Final = 87
# Enough batches (of about 500 bytes) for vectorized decoding. Larger responses are not faster, and
# decoded rows take ten times as much memory as the response.
FETCH_BYTES: Final = 2 * 1024 * 1024
# Number of empty responses below the high watermark before a partition is considered read, because
# compaction may have removed the last records.
EMPTY_MAX: Final = 2
# Number of fetches of a corrupt batch before it is skipped. Corruption in transit is temporary.
CORRUPTED_MAX: Final = 3

logger = logging.getLogger("kohort.pipeline")


class WireSource:
    """A `Source`. `bootstrap`: HOST:PORT of one or more brokers, separated by commas;
    `command_config`: a file with client properties."""

    def __init__(
        self,
        bootstrap: str,
        command_config: str | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._bootstrap, self._command_config = bootstrap, command_config
        self._retry_seconds = retry_seconds

    def cluster_id(self, timeout_seconds: float | None = None) -> str:
        with self._cluster(timeout_seconds) as cluster:
            return cluster.cluster_id

    def topic_ids(self) -> dict[str, str]:
        with self._cluster() as cluster:
            return cluster.topic_names()

    def log_ends(self, topics: Collection[str] | None, past: TimeSpan | None) -> Iterator[LogEnd]:
        with self._cluster() as cluster:
            yield from samples_of_broker(cluster, topics, past)

    def log_id(self) -> str | None:
        with self._cluster() as cluster:
            return cluster.topic_id(OFFSETS_TOPIC)

    def starts(self) -> dict[int, int]:
        return self._offsets(EARLIEST)

    def ends(self) -> dict[int, int]:
        return {partition: end for partition, end in self._offsets(LATEST).items() if end > 0}

    def limited(
        self, start: Positions, end: Positions, *, records_max: int, bytes_max: int
    ) -> dict[int, int]:
        begins = {**self.starts(), **start}
        pending = unread(begins, end)
        records = min(records_max, bytes_max // RECORD_BYTES)
        found = dict(end)
        if records < sum(pending.values()):
            with self._cluster() as cluster:
                for partition, share in fair_shares(pending, records).items():
                    last = begins[partition] + max(share, 1) - 1
                    found[partition] = min(_batch_end(cluster, partition, last), end[partition])
        return found

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        begins = {**self.starts(), **start}
        records = max(split_bytes // RECORD_BYTES, 1)
        found = []
        with self._cluster() as cluster:
            for partition in unread(begins, end):
                begin, upto = begins[partition], end[partition]
                while upto - begin > records:
                    border = min(_batch_end(cluster, partition, begin + records - 1), upto)
                    found.append(Split(partition, begin, border))
                    begin = border
                if begin < upto:
                    found.append(Split(partition, begin, upto))
        return found

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        with self._cluster() as cluster:
            chunks = chunks_of(cluster, split, self._retry_seconds)
            for rows in decode(chunks, split.offsets_partition, split.start):
                yield within(rows, split.start, split.end)

    def _cluster(self, response_seconds: float | None = None) -> Cluster:
        return Cluster(
            self._bootstrap,
            self._command_config,
            retry_seconds=self._retry_seconds,
            response_seconds=response_seconds,
        )

    def _offsets(self, timestamp: int) -> dict[int, int]:
        with self._cluster() as cluster:
            partitions = cluster.topics([OFFSETS_TOPIC]).get(OFFSETS_TOPIC)
            if partitions is None:
                raise SourceError(
                    f"{self._bootstrap} has no topic {OFFSETS_TOPIC} yet: start a consumer with a "
                    "group id first."
                )
            found = cluster.offsets({(OFFSETS_TOPIC, index): timestamp for index in partitions})
        return {index: offset for (_, index), offset in sorted(found.items()) if offset is not None}


def chunks_of(
    cluster: Cluster, split: Split, retry_seconds: float = RETRY_SECONDS
) -> Iterator[Chunk]:
    """Yield the batches of a split; the first may begin before it and the last end after it. The
    next fetch is sent while a chunk is processed. Raises SourceError."""
    partition, position = split.offsets_partition, split.start
    deadline = time.monotonic() + retry_seconds
    empty = corrupted = 0
    while position < split.end and empty < EMPTY_MAX:
        try:
            fetched = cluster.fetch(OFFSETS_TOPIC, partition, position, FETCH_BYTES)
        except OutOfRange:
            position = _new_start(cluster, split, position)
            continue
        chunk, reached = _valid_batches(fetched.records, position, split.end)
        if reached > position:
            if reached < split.end:
                cluster.prefetch(OFFSETS_TOPIC, partition, reached, FETCH_BYTES)
            if chunk.starts:
                yield chunk
            position, empty, corrupted = reached, 0, 0
            deadline = time.monotonic() + retry_seconds
        elif fetched.records:
            corrupted += 1
            if corrupted == CORRUPTED_MAX:
                position, corrupted = _after_corrupted(fetched.records, split, position), 0
        elif fetched.high_watermark > position:
            empty += 1
        elif time.monotonic() > deadline:
            # Until the deadline, a newly elected leader may not have the previous high watermark.
            raise _truncated(split, fetched.high_watermark)


def _batch_end(cluster: Cluster, partition: int, offset: int) -> int:
    """Return the offset after the batch with `offset`, or after the next batch if compaction has
    removed that batch, so that a split beginning there counts missing records correctly."""
    try:
        fetched = cluster.fetch(OFFSETS_TOPIC, partition, offset, 1)
    except OutOfRange:
        return offset + 1
    if len(fetched.records) < HEADER_BYTES:
        return offset + 1
    return max(read_header(fetched.records).next_offset, offset + 1)


def _valid_batches(records: bytes, position: int, end: int) -> tuple[Chunk, int]:
    """Return the batches from `position` to `end`, up to the first corrupted or incomplete one, and
    the offset after them."""
    chunk, _ = walk(records, _skip_before(records, position))
    reached = position
    while chunk.starts:
        last = read_header(records, chunk.starts[-1])
        if last.base_offset < end:
            return chunk, max(last.next_offset, reached)
        reached = end
        chunk.starts.pop()
    return chunk, reached


def _skip_before(records: bytes, position: int) -> int:
    """Return the index of the first batch that is not entirely before `position`."""
    at = 0
    while len(records) - at >= HEADER_BYTES:
        header = read_header(records, at)
        if header.last_offset >= position or header.size < HEADER_BYTES:
            break
        at += header.size
    return at


def _after_corrupted(records: bytes, split: Split, position: int) -> int:
    """Return the offset after the corrupted batch at the beginning of a response. Raises
    SourceError."""
    at = _skip_before(records, position)
    where = f"Partition {split.offsets_partition} of {OFFSETS_TOPIC}"
    try:
        check(records, at, len(records))
    except UnsupportedMagic as flaw:
        raise SourceError(f"{where} has unsupported batches: {flaw.reason}.") from None
    except CorruptBatch as flaw:
        if len(records) - at >= HEADER_BYTES:
            header = read_header(records, at)
            if HEADER_BYTES <= header.size <= len(records) - at:
                offset = header.base_offset
                logger.warning("%s: skipping batch at offset %d: %s", where, offset, flaw.reason)
                return max(header.next_offset, position + 1)
        raise SourceError(f"{where} has no batch at offset {position}: {flaw.reason}.") from None
    raise SourceError(f"{where}: the broker only returned batches before offset {position}.")


def _new_start(cluster: Cluster, split: Split, position: int) -> int:
    """Return the log start offset if it has moved beyond `position`. Raises SourceError
    otherwise."""
    tp = OFFSETS_TOPIC, split.offsets_partition
    begin, end = (cluster.offsets({tp: timestamp}).get(tp) for timestamp in (EARLIEST, LATEST))
    if begin is None or begin <= position:
        raise _truncated(split, end)
    return begin


def _truncated(split: Split, end: int | None) -> SourceError:
    return SourceError(
        f"Partition {split.offsets_partition} of {OFFSETS_TOPIC} ends at offset {end or 0}, before "
        f"{split.end}: it was truncated or recreated; read it into a new lake."
    )
