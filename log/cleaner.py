"""Compaction of a log's closed segments: keeps the newest record of each key, with its offset.

A run first builds an OffsetMap of the dirty section, then rewrites all segments below the section's
end, merging small segments, and swaps the new segments in. The active segment is not touched. If a
run is aborted, the segments that it has already swapped in stay in the log. cleanup.py decides
which part of a log is cleanable. Upstream: Cleaner, MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from ..protocol.primitives import varint
from .batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    assemble,
    check_crc,
    read_header,
)
from .cache_files import remove_cache_files
from .codecs import compress, decompress, decompress_few
from .errors import CleaningStopped, CorruptBatch
from .log import Log
from .producer_state import (
    LastBatch,
    ProducerHistory,
    TransactionTracker,
    marker_type,
    read_producer_history,
)
from .records import RawRecord, raw_records
from .segment import OFFSET_SPAN_MAX, Segment, segment_number
from .segment_swap import CLEANED, SWAP
from .tasks import CooperativeTask, in_thread

# Limits of a step, in bytes of batches and in records. A step takes about 300 µs.
STEP_BYTES: Final = 16 * 1024
STEP_RECORDS: Final = 128
# Fixed cost of a batch, expressed in record bytes.
BATCH_COST_BYTES: Final = 256
# Write in blocks and sync periodically, so that no commit waits for the sync of a whole segment.
WRITE_BYTES: Final = 256 * 1024
SYNC_BYTES: Final = 8 * 1024 * 1024
# Smaller batches are (de)compressed inline, which usually takes well under a millisecond.
IN_THREAD_BYTES: Final = 8 * 1024


class CleanerConfig(NamedTuple):
    """Kafka's cleaner configs and the time of the run. Times are in ms."""

    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    dedupe_buffer_bytes: int
    producer_expiration_ms: int


class CleaningResult(NamedTuple):
    """`end_offset` is the first dirty offset of the next run."""

    end_offset: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def clean(
    log: Log,
    first_dirty: int,
    first_uncleanable: int,
    config: CleanerConfig,
    on_read: Callable[[int], None] = lambda _bytes: None,
) -> CooperativeTask[CleaningResult]:
    """Compact the log below first_uncleanable. Records below first_dirty are already clean. Stops
    early when the offset map is full (dedupe_buffer_bytes). After each read, `on_read` is called
    with the number of bytes read.

    Raises CleaningStopped, OSError, and LogError for a corrupt batch. That batch's segment is not
    replaced, because a new checksum would hide the corruption.
    """
    yield from log.finish_swap()
    run = _CleanerRun(log, first_uncleanable, config, on_read)
    newest = yield from run.build_offset_map(first_dirty)
    if newest.latest_offset < first_dirty:
        return CleaningResult(first_dirty, 0, 0, 0, 0)  # an open transaction blocks the rest
    run.filter.newest = newest
    end_offset = newest.latest_offset + 1
    for group in group_segments(log, end_offset, first_uncleanable, config.segment_bytes):
        yield from run.clean(group)
    return CleaningResult(end_offset, *run.counts, *run.sizes)


def group_segments(
    log: Log, end_offset: int, first_uncleanable: int, segment_bytes: int
) -> Iterator[list[Segment]]:
    """Yield groups of closed segments that fit into one segment (upstream:
    Cleaner.groupSegmentsBySize)."""
    group: list[Segment] = []
    size = 0
    for segment, following in pairwise(log.segments):
        if segment.base_offset >= end_offset:
            break
        # Upstream: Cleaner.lastOffsetForFirstSegment.
        last_offset = min(following.base_offset, first_uncleanable) - 1
        if group and (
            size + segment.size > segment_bytes
            or (segment.size and last_offset - group[0].base_offset > OFFSET_SPAN_MAX)
        ):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


class OffsetMap:
    """The newest offset of each key, in limited memory. The `newest` dict is accessed directly for
    speed. Whole keys cannot collide, unlike the hashes in Kafka's SkimpyOffsetMap."""

    # Memory per key in CPython 3.11 in addition to the key's bytes: 33 bytes for the object header,
    # 32 for the int, up to 105 for the dict (before it grows).
    ENTRY_BYTES: Final = 170

    def __init__(self, bytes_max: int) -> None:
        self.newest: dict[bytes, int] = {}
        self.latest_offset = -1
        """The offset up to which all keys were added. Records after this offset are retained."""
        self._bytes_left = bytes_max

    @property
    def is_full(self) -> bool:
        return self._bytes_left <= 0

    def put(self, key: bytes, offset: int) -> None:
        """Add a key. Offsets must be passed in increasing order."""
        newest = self.newest
        count = len(newest)
        newest[key] = offset
        if len(newest) != count:
            self._bytes_left -= len(key) + self.ENTRY_BYTES


class _CleanerRun:
    def __init__(
        self,
        log: Log,
        first_uncleanable: int,
        config: CleanerConfig,
        on_read: Callable[[int], None],
    ) -> None:
        self._log = log
        self._load_count = log.load_count
        self._on_read = on_read
        self._key_bytes_max = config.dedupe_buffer_bytes
        self.filter = _RetentionFilter(log, first_uncleanable, config)
        self.counts = [0, 0]
        self.sizes = [0, 0]

    # --- reading keys

    def build_offset_map(self, first_dirty: int) -> CooperativeTask[OffsetMap]:
        newest = OffsetMap(self._key_bytes_max)
        segments = self._log.segments
        transactions = TransactionTracker(())
        cost = 0
        for number in range(segment_number(segments, first_dirty), len(segments)):
            segment = segments[number]
            if segment.base_offset >= self.filter.end or number == len(segments) - 1:
                break
            self._log.position_of_closed((segment,))
            for header, batch in self._verified_batches(segment, first_dirty):
                cost += len(batch) + BATCH_COST_BYTES
                if cost >= STEP_BYTES:
                    cost = 0
                    yield None
                if header.producer_id >= 0 and self.filter.producers is None:
                    producers = yield from self.filter.load_producers()
                    aborted = (t for t in producers.aborted if t.last_offset >= first_dirty)
                    transactions = TransactionTracker(aborted)
                if header.base_offset >= self.filter.end:
                    return newest
                if header.is_control:
                    transactions.on_control_batch(header, marker_type(batch))
                elif not transactions.on_batch(header):
                    has_all = yield from self._add_keys(newest, header, batch, first_dirty)
                    if not has_all:
                        return newest
                newest.latest_offset = header.last_offset
            # Account for offsets at the end of a segment that were removed by compaction.
            end = min(segments[number + 1].base_offset, self.filter.end)
            newest.latest_offset = max(newest.latest_offset, end - 1)
        return newest

    def _add_keys(
        self, newest: OffsetMap, header: BatchHeader, batch: bytes, first_dirty: int
    ) -> CooperativeTask[bool]:
        """Add the keys of a batch. Return False if the map is full."""
        payload = yield from _decompressed(header, batch)
        base_offset = header.base_offset
        # Always take at least one batch. Otherwise, no run would make progress.
        may_end = newest.latest_offset >= 0
        for number, record in enumerate(raw_records(payload, header.count)):
            if number % STEP_RECORDS == STEP_RECORDS - 1:
                yield None
            key, offset = record.key, base_offset + record.offset_delta
            if key is not None and offset >= first_dirty:
                if newest.is_full and may_end:
                    return False
                newest.put(key, offset)
        return True

    # --- writing retained records

    def clean(self, group: Sequence[Segment]) -> CooperativeTask[None]:
        """Replace the segments with a segment that contains only the retained batches."""
        log = self._log
        cleaned = Segment(
            log.folder,
            log.files,
            group[0].base_offset,
            log.config.index_interval_bytes,
            suffix=CLEANED,
        )
        try:
            yield from self._write(cleaned, group)
            log.position_of_closed(group)
            yield from remove_cache_files(log.folder, log.files)
            cleaned.rename(SWAP)
            yield partial(log.files.sync_folder, log.folder)
            while not log.replace_segments(group, cleaned):
                yield None
            if self.filter.removed_markers:
                log.producers.forget_aborted(self.filter.removed_markers)
        except Exception:
            self._discard(cleaned)
            raise
        finally:
            with suppress(OSError):  # on success, the file was synced
                cleaned.close()
        self.sizes[0] += sum(segment.size for segment in group)
        self.sizes[1] += cleaned.size
        yield from log.finish_swap()

    def _discard(self, cleaned: Segment) -> None:
        # If the log was reopened during the run, reopening has removed the file or completed the
        # swap. If a disk error interrupted the swap, the file may be the only copy of its records.
        if not self._log.closed and self._log.load_count == self._load_count:
            with suppress(OSError):  # opening the log removes it
                self._log.files.remove(cleaned.path)

    def _write(self, cleaned: Segment, group: Sequence[Segment]) -> CooperativeTask[None]:
        output = _SegmentWriter(cleaned)
        cost = 0
        for segment in group:
            self._log.position_of_closed(group)
            for header, batch in self._verified_batches(segment, segment.base_offset):
                cost += len(batch) + BATCH_COST_BYTES
                if cost >= STEP_BYTES:
                    cost = 0
                    yield None
                    self._check()
                kept, count = yield from self.filter.apply(header, batch)
                self.counts[0] += header.count
                self.counts[1] += count
                if kept is not None and output.put(kept):
                    yield output.sync
                    self._check()
        output.finish()
        yield output.sync
        self._check()

    def _check(self) -> None:
        if self._log.closed or self._log.failed is not None:
            raise CleaningStopped(f"{self._log.folder} was closed or failed during compaction")

    def _verified_batches(
        self, segment: Segment, offset: int
    ) -> Iterator[tuple[BatchHeader, bytes]]:
        for header, batch in segment.batches(offset):
            try:
                check_crc(batch, 0, len(batch))
            except CorruptBatch as error:
                raise CorruptBatch(
                    error.position, f"{segment.path}: offset {header.base_offset}: {error.reason}"
                ) from error
            self._on_read(len(batch))
            yield header, batch


class _SegmentWriter:
    """Writes the file of a cleaned segment."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._file = segment.open(create=True)
        self._file.truncate(0)  # left by an earlier run
        self._buffer: list[bytes] = []
        self._buffer_bytes = self._unsynced_bytes = 0

    def put(self, batch: bytes) -> bool:
        """Append a batch, and return whether a sync is due."""
        header = read_header(batch)
        timestamp = header.max_timestamp if header.count else NO_TIMESTAMP
        self._segment.add_batch(
            header.base_offset, header.next_offset, len(batch), timestamp, header.leader_epoch
        )
        self._buffer.append(batch)
        self._buffer_bytes += len(batch)
        if self._buffer_bytes >= WRITE_BYTES:
            self._write()
        return self._unsynced_bytes >= SYNC_BYTES

    def finish(self) -> None:
        if self._buffer:
            self._write()
        self._file.truncate(self._segment.size)  # drop preallocated space

    def sync(self) -> None:
        self._unsynced_bytes = 0
        self._file.sync()

    def _write(self) -> None:
        self._file.append(b"".join(self._buffer))
        self._unsynced_bytes += self._buffer_bytes
        self._buffer, self._buffer_bytes = [], 0


class _RetentionFilter:
    """Decides which records are retained. `newest` must be set before use. `end` is the upper bound
    of the run, before the first open transaction."""

    def __init__(self, log: Log, first_uncleanable: int, config: CleanerConfig) -> None:
        self.newest = OffsetMap(0)
        self.producers: ProducerHistory | None = None
        self.end = first_uncleanable
        self._log = log
        self._config = config
        self._transactions = TransactionTracker(())
        self._last: dict[int, LastBatch] = {}
        # Offsets of the markers that are not retained.
        self.removed_markers: set[int] = set()

    def load_producers(self) -> CooperativeTask[ProducerHistory]:
        producers = self.producers = yield from read_producer_history(self._log.batches())
        expired_before_ms = self._config.now_ms - self._config.producer_expiration_ms
        self._last = {
            producer_id: last
            for producer_id, last in producers.last.items()
            if last.timestamp > expired_before_ms
        }
        self._transactions = TransactionTracker(producers.aborted)
        if producers.first_unstable_offset is not None:
            self.end = min(self.end, producers.first_unstable_offset)
        return producers

    def apply(self, header: BatchHeader, batch: bytes) -> CooperativeTask[tuple[bytes | None, int]]:
        """Return (retained batch or None, number of retained records)."""
        if header.producer_id >= 0 and self.producers is None:
            yield from self.load_producers()
        now_ms, horizon_ms = self._config.now_ms, header.delete_horizon_ms
        if header.is_control:
            is_useless = self._transactions.on_control_batch(header, marker_type(batch))
            discard = is_useless and horizon_ms is not None and horizon_ms <= now_ms
            if discard:
                self.removed_markers.add(header.base_offset)
        else:
            is_useless = False
            discard = self._transactions.on_batch(header)
        keep_empty = self._is_last_of_producer(header) or header.next_offset == self.end
        if discard and not keep_empty:
            return None, 0
        payload = yield from _decompressed(header, batch)
        kept: list[RawRecord] = []
        has_tombstones = False
        if not discard:
            kept, has_tombstones = yield from self._select(header, payload)
        if not kept:
            return (_empty_batch(header) if keep_empty else None), 0
        if (has_tombstones or is_useless) and horizon_ms is None:
            horizon_ms = now_ms + self._config.delete_retention_ms
        elif len(kept) == header.count:
            return batch, header.count
        return (yield from _rebuild_batch(header, payload, kept, horizon_ms)), len(kept)

    def _select(
        self, header: BatchHeader, payload: bytes
    ) -> CooperativeTask[tuple[list[RawRecord], bool]]:
        """Return the retained records, and whether they include a tombstone."""
        kept = []
        has_tombstones = False
        base_offset, newest = header.base_offset, self.newest.newest
        latest_offset = self.newest.latest_offset
        horizon_ms = header.delete_horizon_ms
        keep_tombstones = horizon_ms is None or self._config.now_ms < horizon_ms
        for number, record in enumerate(raw_records(payload, header.count)):
            if number % STEP_RECORDS == STEP_RECORDS - 1:
                yield None
            offset, key = base_offset + record.offset_delta, record.key
            if header.is_control or offset > latest_offset:
                keep = True
            elif key is None:
                keep = False
            else:
                keep = (record.has_value or keep_tombstones) and offset >= newest.get(key, -1)
            if keep:
                kept.append(record)
                has_tombstones |= not record.has_value
        return kept, has_tombstones

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the batch must be kept, because it has its producer's last sequence or epoch."""
        last = self._last.get(header.producer_id)
        if header.producer_id < 0 or last is None:
            return False
        if last.data_offset is not None:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch


# --- batches with removed records, byte-identical to Kafka's

# Base and last offset are preserved, so that offsets never change and sequence numbers can be
# derived. Leader epoch, producer, timestamp type and, unless no records are left, the codec are
# also preserved. Upstream: MemoryRecords.filterTo, buildRetainedRecordsInto;
# DefaultRecordBatch.writeEmptyHeader.


def _decompressed(header: BatchHeader, batch: bytes) -> CooperativeTask[bytes]:
    """Return the decompressed records. Raises InvalidRecord."""
    stored = batch[HEADER_BYTES:]
    if not header.codec:
        return stored
    data = memoryview(stored)
    # A small compressed batch may contain megabytes of records.
    few = decompress_few(header.codec, data) if len(stored) < IN_THREAD_BYTES else None
    if few is not None:
        return few
    return (yield from in_thread(partial(decompress, header.codec, data)))


def _rebuild_batch(
    header: BatchHeader, payload: bytes, kept: Sequence[RawRecord], horizon_ms: int | None
) -> CooperativeTask[bytes]:
    """Return the batch with only the records `kept`. `horizon_ms`, the time when its tombstones may
    be removed, is stored as the base timestamp (KIP-534)."""
    if header.timestamp_type:
        times = [header.max_timestamp] * len(kept)
    else:
        times = [header.base_timestamp + record.timestamp_delta for record in kept]
    base = times[0] if horizon_ms is None else horizon_ms
    # Only `pack`, which may run in a thread, copies records, because a record may take 100 MB.
    stored = memoryview(payload)
    parts: list[bytes | memoryview] = []
    size = 0
    for number, (record, timestamp) in enumerate(zip(kept, times, strict=True)):
        if number % STEP_RECORDS == STEP_RECORDS - 1:
            yield None
        start = b"\0" + varint(timestamp - base)
        length = len(start) + record.end - record.start
        parts += (varint(length) + start, stored[record.start : record.end])
        size += length

    def pack() -> bytes:
        return compress(header.codec, b"".join(parts))

    is_small = not header.codec or size < IN_THREAD_BYTES
    data = pack() if is_small else (yield from in_thread(pack))
    attributes = header.attributes & ~DELETE_HORIZON
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
    header = header._replace(attributes=attributes, base_timestamp=base, max_timestamp=max(times))
    return assemble(header._replace(count=len(kept)), data)


def _empty_batch(header: BatchHeader) -> bytes:
    """Return a header-only batch that preserves offsets and producer state."""
    attributes = header.attributes & ~(DELETE_HORIZON | CODEC_MASK)
    header = header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, count=0)
    return assemble(header, b"")
