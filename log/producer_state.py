"""Which producers wrote to a log and how their transactions ended, told from the batches' headers
and the markers. Kafka keeps files for it (.snapshot, .txnindex); here it is read when it is needed,
which only a log with such producers asks for.

Upstream: ProducerStateManager, CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from .batch import BatchHeader, records
from .reader import LogReader
from .tasks import CooperativeTask

ABORT: Final = 0
COMMIT: Final = 1

_MARKER = Struct(">hh")  # version, type
_STEP_BYTES = 256 * 1024
# As much as a small batch costs: its header has to be read, and little else.
_HEADER_COSTS_BYTES = 4 * 1024


class LastOfProducer(NamedTuple):
    """`data_offset`: where the last batch of its epoch ends; None when it has only a marker."""

    data_offset: int | None
    epoch: int
    timestamp: int


class AbortedTransaction(NamedTuple):
    """`first_offset` is that of its first record, `last_offset` that of its marker."""

    first_offset: int
    producer_id: int
    last_offset: int


class Writers(NamedTuple):
    aborted: list[AbortedTransaction]
    first_unstable_offset: int | None
    """Where the first transaction begins that has not ended; None when all have."""
    last: dict[int, LastOfProducer]
    """By producer id."""

    def active(self, now_ms: int, expiration_ms: int) -> dict[int, LastOfProducer]:
        return {
            producer_id: last
            for producer_id, last in self.last.items()
            if now_ms - last.timestamp < expiration_ms
        }


def marker_type(batch: bytes) -> int | None:
    """ABORT or COMMIT or another kind of a control batch; None of one that was emptied."""
    for record in records(batch):
        if record.key is not None and len(record.key) >= _MARKER.size:
            kind: int = _MARKER.unpack_from(record.key)[1]
            return kind
    return None


def writers_of(log: LogReader) -> CooperativeTask[Writers]:
    """Raises OSError, LogError."""
    aborted: list[AbortedTransaction] = []
    begun: dict[int, int] = {}
    last: dict[int, LastOfProducer] = {}
    read = 0
    for header, batch in log.batches():
        read += len(batch) + _HEADER_COSTS_BYTES
        if read >= _STEP_BYTES:
            read = 0
            yield None
        producer_id = header.producer_id
        if producer_id < 0:
            continue
        if not header.is_control:
            last[producer_id] = LastOfProducer(
                header.last_offset, header.producer_epoch, header.max_timestamp
            )
            if header.is_transactional:
                begun.setdefault(producer_id, header.base_offset)
            continue
        first_offset = begun.pop(producer_id, None)
        if first_offset is not None and marker_type(batch) == ABORT:
            aborted.append(AbortedTransaction(first_offset, producer_id, header.last_offset))
        before = last.get(producer_id)
        data_offset = None
        if before is not None and before.epoch == header.producer_epoch:
            data_offset = before.data_offset
        last[producer_id] = LastOfProducer(data_offset, header.producer_epoch, header.max_timestamp)
    return Writers(aborted, min(begun.values(), default=None), last)


class Transactions:
    """What becomes of the transactions that a walk over a log meets, batch by batch."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._to_come = sorted(aborted, reverse=True)
        # Producer id -> whether records of its aborted transaction were met.
        self._aborted: dict[int, bool] = {}
        self._committed: set[int] = set()

    def meets(self, header: BatchHeader) -> bool:
        """Whether this batch of records belongs to a transaction that was aborted."""
        self._reach(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted[header.producer_id] = True
            return True
        self._committed.add(header.producer_id)
        return False

    def meets_marker(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether nobody needs this control batch any more: of its transaction nothing is left."""
        self._reach(header.last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            return not self._aborted.pop(header.producer_id, False)
        if kind == COMMIT:
            if header.producer_id in self._committed:
                self._committed.remove(header.producer_id)
                return False
            return True
        return False

    def _reach(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            self._aborted.setdefault(self._to_come.pop().producer_id, False)
