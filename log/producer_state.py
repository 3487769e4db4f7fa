"""What producers wrote to a log and how their transactions ended.

Kafka keeps it in files (.snapshot, .txnindex). Here it is read from the log when it is needed,
which only a log with such producers requires. Upstream: ProducerStateManager,
CleanedTransactionMetadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from .batch import BatchHeader
from .log import Log
from .records import records
from .tasks import CooperativeTask

ABORT: Final = 0
COMMIT: Final = 1

_MARKER = Struct(">hh")  # version, type
_STEP_BYTES = 256 * 1024
# Reading a header costs as much as so many bytes of records.
_HEADER_COST_BYTES = 4 * 1024


class LastBatch(NamedTuple):
    """Of a producer. `data_offset`: where the last data batch of its epoch ends; None when the
    epoch has only a marker."""

    data_offset: int | None
    epoch: int
    timestamp: int


class AbortedTransaction(NamedTuple):
    """`first_offset` is that of its first record, `last_offset` that of its marker."""

    first_offset: int
    producer_id: int
    last_offset: int


class ProducerHistory(NamedTuple):
    """`first_unstable_offset`: of the first open transaction, if any; `last`: by producer id."""

    aborted: list[AbortedTransaction]
    first_unstable_offset: int | None
    last: dict[int, LastBatch]

    def active(self, now_ms: int, expiration_ms: int) -> dict[int, LastBatch]:
        """`last`, without the producers that have expired."""
        return {
            producer_id: last
            for producer_id, last in self.last.items()
            if now_ms - last.timestamp < expiration_ms
        }


def marker_type(batch: bytes) -> int | None:
    """The type of a control batch: ABORT, COMMIT or another; None if compaction emptied it."""
    for record in records(batch):
        if record.key is not None and len(record.key) >= _MARKER.size:
            kind: int = _MARKER.unpack_from(record.key)[1]
            return kind
    return None


def read_producer_history(log: Log) -> CooperativeTask[ProducerHistory]:
    """Raises OSError, LogError."""
    aborted: list[AbortedTransaction] = []
    open_since: dict[int, int] = {}
    last: dict[int, LastBatch] = {}
    cost = 0
    for header, batch in log.batches():
        cost += len(batch) + _HEADER_COST_BYTES
        if cost >= _STEP_BYTES:
            cost = 0
            yield None
        producer_id = header.producer_id
        if producer_id < 0:
            continue
        if not header.is_control:
            last[producer_id] = LastBatch(
                header.last_offset, header.producer_epoch, header.max_timestamp
            )
            if header.is_transactional:
                open_since.setdefault(producer_id, header.base_offset)
            continue
        first_offset = open_since.pop(producer_id, None)
        if first_offset is not None and marker_type(batch) == ABORT:
            aborted.append(AbortedTransaction(first_offset, producer_id, header.last_offset))
        before = last.get(producer_id)
        data_offset = None
        if before is not None and before.epoch == header.producer_epoch:
            data_offset = before.data_offset
        last[producer_id] = LastBatch(data_offset, header.producer_epoch, header.max_timestamp)
    return ProducerHistory(aborted, min(open_since.values(), default=None), last)


class TransactionTracker:
    """Whether the batches of a log, passed in order, belong to aborted transactions.
    Upstream: CleanedTransactionMetadata."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, reverse=True)
        # Producer id -> whether records of its aborted transaction have been seen.
        self._aborted: dict[int, bool] = {}
        self._committed: set[int] = set()

    def on_batch(self, header: BatchHeader) -> bool:
        """Whether this data batch belongs to an aborted transaction."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._aborted[header.producer_id] = True
            return True
        self._committed.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, kind: int | None) -> bool:
        """Whether this control batch is useless: no record of its transaction is left."""
        self._advance(header.last_offset)
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

    def _advance(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            self._aborted.setdefault(self._upcoming.pop().producer_id, False)
