"""What is left of one batch when its log is compacted. Upstream: Cleaner.cleanInto."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from .batch import HEADER_BYTES, BatchHeader
from .codecs import compress, decompress
from .log import Log
from .offset_map import OffsetMap
from .producer_state import (
    AbortedTransaction,
    LastOfProducer,
    Transactions,
    Writers,
    marker_type,
    writers_of,
)
from .raw_records import RawRecord, raw_records
from .rebuilding import emptied, rebuilt, rebuilt_records
from .tasks import CooperativeTask, outside

STEP_RECORDS = 128
# Less than this much is compressed or decompressed where we stand, in well below a millisecond.
OUTSIDE_BYTES = 8 * 1024


class CleanerConfig(NamedTuple):
    """What a run goes by; times in milliseconds."""

    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    dedupe_buffer_bytes: int
    producer_expiration_ms: int


def payload_of(header: BatchHeader, batch: bytes) -> CooperativeTask[bytes]:
    """The records' bytes, decompressed. Raises InvalidRecord."""
    stored = batch[HEADER_BYTES:]
    if not header.codec:
        return stored
    unpack = partial(decompress, header.codec, memoryview(stored))
    if len(stored) < OUTSIDE_BYTES:
        return unpack()
    return (yield from outside(unpack))


class Filter:
    """`newest` and, where there are producers, `writers` are found out before it is used."""

    def __init__(self, log: Log, first_uncleanable: int, terms: CleanerConfig) -> None:
        self.newest = OffsetMap(0)
        self.writers: Writers | None = None
        self.upper = first_uncleanable
        """Where the run ends at the latest: before the first open transaction."""
        self._log = log
        self._terms = terms
        self._transactions = Transactions(())
        self._last: dict[int, LastOfProducer] = {}

    def aborted_since(self, offset: int) -> list[AbortedTransaction]:
        """Those that ended at `offset` or later."""
        aborted = [] if self.writers is None else self.writers.aborted
        return [each for each in aborted if each.last_offset >= offset]

    def learn_writers(self) -> CooperativeTask[None]:
        writers = self.writers = yield from writers_of(self._log)
        terms = self._terms
        self._last = writers.active(terms.now_ms, terms.producer_expiration_ms)
        self._transactions = Transactions(writers.aborted)
        if writers.first_unstable_offset is not None:
            self.upper = min(self.upper, writers.first_unstable_offset)

    def of(self, header: BatchHeader, batch: bytes) -> CooperativeTask[tuple[bytes | None, int]]:
        """(what is left of the batch, None if nothing, and how many records that has)."""
        if header.producer_id >= 0 and self.writers is None:
            yield from self.learn_writers()
        now_ms, horizon_ms = self._terms.now_ms, header.delete_horizon_ms
        if header.is_control:
            marker_is_useless = self._transactions.meets_marker(header, marker_type(batch))
            discard = marker_is_useless and horizon_ms is not None and horizon_ms <= now_ms
        else:
            marker_is_useless = False
            discard = self._transactions.meets(header)
        keeps_empty = self._is_last_of_producer(header) or header.next_offset == self.upper
        if discard and not keeps_empty:
            return None, 0
        payload = yield from payload_of(header, batch)
        kept: list[RawRecord] = []
        has_tombstones = False
        if not discard:
            kept, has_tombstones = yield from self._kept(header, payload)
        if not kept:
            return (emptied(header) if keeps_empty else None), 0
        if (has_tombstones or marker_is_useless) and horizon_ms is None:
            horizon_ms = now_ms + self._terms.delete_retention_ms
        elif len(kept) == header.count:
            return batch, header.count
        return (yield from self._rebuilt(header, payload, kept, horizon_ms)), len(kept)

    def _kept(
        self, header: BatchHeader, payload: bytes
    ) -> CooperativeTask[tuple[list[RawRecord], bool]]:
        """The records that stay, and whether there are tombstones among them."""
        kept = []
        has_tombstones = False
        base_offset, newest = header.base_offset, self.newest.newest
        latest_offset = self.newest.latest_offset
        horizon_ms = header.delete_horizon_ms
        tombstones_stay = horizon_ms is None or self._terms.now_ms < horizon_ms
        for number, record in enumerate(raw_records(payload, header.count)):
            if number % STEP_RECORDS == STEP_RECORDS - 1:
                yield None
            offset, key = base_offset + record.offset_delta, record.key
            if header.is_control or offset > latest_offset:
                stays = True
            elif key is None:
                stays = False
            else:
                stays = (record.has_value or tombstones_stay) and offset >= newest.get(key, -1)
            if stays:
                kept.append(record)
                has_tombstones |= not record.has_value
        return kept, has_tombstones

    def _rebuilt(
        self, header: BatchHeader, payload: bytes, kept: list[RawRecord], horizon_ms: int | None
    ) -> CooperativeTask[bytes]:
        times, data = yield from rebuilt_records(header, payload, kept, horizon_ms)
        if header.codec:
            pack = partial(compress, header.codec, data)
            data = pack() if len(data) < OUTSIDE_BYTES else (yield from outside(pack))
        return rebuilt(header, times, len(kept), data, horizon_ms)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether the batch tells where its producer's sequence goes on, or its epoch."""
        last = self._last.get(header.producer_id)
        if header.producer_id < 0 or last is None:
            return False
        if last.data_offset is not None:
            return header.last_offset == last.data_offset
        return header.is_control and header.producer_epoch == last.epoch
