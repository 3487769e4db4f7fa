"""Compaction of a log's closed segments: of each key the newest record stays, at its offset.

One run reads the dirty part, noting where each key was last seen, then writes everything up to
there anew, several small segments into one, and swaps that in. The active segment is never
touched, and a run that cannot end changes nothing but what it has swapped in already. Batch by
batch: filtering.py; the swap: swapping.py. Upstream: Cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from .batch import BatchHeader, check_crc, read_header
from .cache_files import remove_cache_files
from .errors import CleaningStopped, CorruptBatch
from .filtering import CleanerConfig, Filter, payload_of
from .log import Log
from .offset_map import OffsetMap
from .producer_state import Transactions, marker_type
from .raw_records import raw_records
from .segment import Segment, number_of
from .swapping import CLEANED, SWAP
from .tasks import CooperativeTask

# A step is over after so many bytes of batches, which take some 300 us, or so many records.
STEP_BYTES = 16 * 1024
STEP_RECORDS = 128
# What is to be done for each batch takes as long as so many more bytes of records.
BATCH_COSTS_BYTES = 256
# What is kept is gathered up to this size before it is written, and synced now and then, so that no
# sync of a commit has to wait for a whole segment.
WRITE_BYTES = 256 * 1024
SYNC_BYTES = 8 * 1024 * 1024
OFFSETS_MAX = 0x7FFFFFFF


class Cleaned(NamedTuple):
    """What a run has done. `end_offset`: where the next one finds the first dirty record."""

    end_offset: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int


def clean(
    log: Log,
    first_dirty: int,
    first_uncleanable: int,
    terms: CleanerConfig,
    read: Callable[[int], None] = lambda _bytes: None,
) -> CooperativeTask[Cleaned]:
    """Compacts what is below `first_uncleanable`; what is below `first_dirty` was compacted before
    (dirtiness.py tells both). Ends earlier where the memory for keys does. `read` is told of bytes
    that were read.

    Raises CleaningStopped, OSError, and LogError for a batch that is damaged: nothing of its
    segment is exchanged then, as a new checksum would hide the damage.
    """
    yield from log.finish_swap()
    run = _Run(log, first_uncleanable, terms, read)
    newest = yield from run.newest_from(first_dirty)
    if newest.latest_offset < first_dirty:
        return Cleaned(first_dirty, 0, 0, 0, 0)  # nothing but an open transaction
    run.filter.newest = newest
    for group in groups_of(log, newest.latest_offset + 1, first_uncleanable, terms.segment_bytes):
        yield from run.clean(group)
    return Cleaned(newest.latest_offset + 1, *run.counts, *run.sizes)


def groups_of(
    log: Log, end_offset: int, first_uncleanable: int, segment_bytes: int
) -> Iterator[list[Segment]]:
    """The closed segments that begin below `end_offset`, in runs that fit into one segment each."""
    segments = log.segments
    ends = [segment.base_offset for segment in segments[1:]]
    group: list[Segment] = []
    size = 0
    for segment, end in zip(segments[:-1], ends, strict=True):
        if segment.base_offset >= end_offset:
            break
        # Upstream: Cleaner.lastOffsetForFirstSegment.
        last_offset = min(end, first_uncleanable) - 1
        if group and (
            size + segment.size > segment_bytes
            or (segment.size and last_offset - group[0].base_offset > OFFSETS_MAX)
        ):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size
    if group:
        yield group


class _Run:
    def __init__(
        self, log: Log, first_uncleanable: int, terms: CleanerConfig, read: Callable[[int], None]
    ) -> None:
        self._log = log
        self._openings = log.openings
        self._read = read
        self._upper = first_uncleanable
        self._key_bytes_max = terms.dedupe_buffer_bytes
        self.filter = Filter(log, first_uncleanable, terms)
        self.counts = [0, 0]
        self.sizes = [0, 0]

    # --- where each key was last seen

    def newest_from(self, first_dirty: int) -> CooperativeTask[OffsetMap]:
        newest = OffsetMap(self._key_bytes_max)
        segments = self._log.segments
        transactions = Transactions(())
        read = 0
        for number in range(number_of(segments, first_dirty), len(segments)):
            segment = segments[number]
            if segment.base_offset >= self._upper or number == len(segments) - 1:
                break
            self._log.number_of_closed((segment,))
            for header, batch in self._sound_batches(segment, first_dirty):
                read += len(batch) + BATCH_COSTS_BYTES
                if read >= STEP_BYTES:
                    read = 0
                    yield None
                if header.producer_id >= 0 and self.filter.writers is None:
                    yield from self.filter.learn_writers()
                    self._upper = self.filter.upper
                    transactions = Transactions(self.filter.aborted_since(first_dirty))
                if header.base_offset >= self._upper:
                    return newest
                if header.is_control:
                    transactions.meets_marker(header, marker_type(batch))
                elif not transactions.meets(header):
                    whole = yield from self._note_keys(newest, header, batch, first_dirty)
                    if not whole:
                        return newest
                newest.latest_offset = header.last_offset
            # Where offsets are missing, up to the next segment.
            end = min(segments[number + 1].base_offset, self._upper)
            newest.latest_offset = max(newest.latest_offset, end - 1)
        return newest

    def _note_keys(
        self, newest: OffsetMap, header: BatchHeader, batch: bytes, first_dirty: int
    ) -> CooperativeTask[bool]:
        """Whether there was memory for all keys of the batch."""
        payload = yield from payload_of(header, batch)
        base_offset = header.base_offset
        # One batch at least: the next run would end here as well.
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

    # --- what stays

    def clean(self, group: Sequence[Segment]) -> CooperativeTask[None]:
        log = self._log
        cleaned = Segment(
            log.folder,
            log.files,
            group[0].base_offset,
            log.config.index_interval_bytes,
            suffix=CLEANED,
        )
        try:
            yield from self._fill(cleaned, group)
            log.number_of_closed(group)
            yield from remove_cache_files(log.folder, log.files)
            cleaned.rename(SWAP)
            yield partial(log.files.sync_folder, log.folder)
            while not log.exchange(group, cleaned):
                yield None
        except Exception:
            self._discard(cleaned)
            raise
        finally:
            with suppress(OSError):
                cleaned.close()
        self.sizes[0] += sum(segment.size for segment in group)
        self.sizes[1] += cleaned.size
        yield from log.finish_swap()

    def _discard(self, cleaned: Segment) -> None:
        # Whoever has opened the folder meanwhile deals with what was left in it: a swap may be all
        # that is there, if the disk refused to end it.
        if not self._log.closed and self._log.openings == self._openings:
            with suppress(OSError):
                self._log.files.remove(cleaned.path)

    def _fill(self, cleaned: Segment, group: Sequence[Segment]) -> CooperativeTask[None]:
        output = _Output(cleaned)
        read = 0
        for segment in group:
            self._log.number_of_closed(group)
            for header, batch in self._sound_batches(segment, segment.base_offset):
                read += len(batch) + BATCH_COSTS_BYTES
                if read >= STEP_BYTES:
                    read = 0
                    yield None
                    self._check()
                kept, count = yield from self.filter.of(header, batch)
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
            raise CleaningStopped(f"{self._log.folder} was closed under its compaction")

    def _sound_batches(self, segment: Segment, offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        for header, batch in segment.batches(offset):
            try:
                check_crc(batch, 0, len(batch))
            except CorruptBatch as error:
                raise CorruptBatch(
                    error.position, f"{segment.path}: offset {header.base_offset}: {error.reason}"
                ) from error
            self._read(len(batch))
            yield header, batch


class _Output:
    """The file of a cleaned segment."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._file = segment.opened(create=True)
        self._file.truncate(0)  # what an earlier run left there
        self._gathered: list[bytes] = []
        self._gathered_bytes = self._unsynced_bytes = 0

    def put(self, batch: bytes) -> bool:
        """Whether it is time for a sync."""
        header = read_header(batch)
        timestamp = header.max_timestamp if header.count else -1
        self._segment.note(
            header.base_offset, header.next_offset, len(batch), timestamp, header.leader_epoch
        )
        self._gathered.append(batch)
        self._gathered_bytes += len(batch)
        if self._gathered_bytes >= WRITE_BYTES:
            self._write()
        return self._unsynced_bytes >= SYNC_BYTES

    def finish(self) -> None:
        if self._gathered:
            self._write()
        self._file.truncate(self._segment.size)  # gives back what was allocated ahead

    def sync(self) -> None:
        self._unsynced_bytes = 0
        self._file.sync()

    def _write(self) -> None:
        self._file.append(b"".join(self._gathered))
        self._unsynced_bytes += self._gathered_bytes
        self._gathered, self._gathered_bytes = [], 0
