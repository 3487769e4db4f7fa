"""Producer state of a partition: sequence numbers and transactions.

Kafka keeps it in files (.snapshot, .txnindex). Here it is read from the log when an idempotent
producer first appends or DescribeProducers is requested. Upstream: ProducerStateManager,
TransactionIndex, CleanedTransactionMetadata.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

from .batch import BatchHeader
from .errors import InvalidProducerEpoch, OutOfOrderSequence
from .files import Files
from .records import records
from .tasks import CooperativeTask

_log = logging.getLogger("kohort.log")

# --- idempotent producers (KIP-98, KIP-679)

# A client has at most five batches in flight.
BATCHES_REMEMBERED: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
NO_EPOCH: Final = -1


class BatchMetadata(NamedTuple):
    """Metadata of an appended batch, for detecting duplicates."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int


class _ProducerState:
    __slots__ = ("batches", "epoch", "last_append_ms")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_REMEMBERED)
        self.last_append_ms = 0


class ProducerStates:
    """The idempotent producers of a partition, updated with each batch appended or read."""

    __slots__ = ("_expiration_ms", "_producers")

    def __init__(self, expiration_ms: Callable[[], int]) -> None:
        self._expiration_ms = expiration_ms
        # In order of the last append, so idle producers come first.
        self._producers: dict[int, _ProducerState] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def active(self, now_ms: int) -> Iterator[tuple[int, int, BatchMetadata]]:
        """Yield (producer id, epoch, last batch) of each producer that has not expired."""
        expiration_ms = self._expiration_ms()
        for producer_id, producer in self._producers.items():
            if now_ms - producer.last_append_ms < expiration_ms:
                yield producer_id, producer.epoch, producer.batches[-1]

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the stored batch that `header` duplicates, among the last five of its producer."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def check_sequence(self, header: BatchHeader, partition: str) -> None:
        """Check the epoch and sequence. Raises InvalidProducerEpoch, OutOfOrderSequence."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch == NO_EPOCH:
            # The producer is new or has expired, or its records were deleted.
            return
        epoch, sequence = header.producer_epoch, header.base_sequence
        if epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {header.producer_id} in {partition} is {epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}"
            )
        last = producer.batches[-1].last_sequence if epoch == producer.epoch else SEQUENCE_MAX
        expected = 0 if last == SEQUENCE_MAX else last + 1
        if sequence != expected:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id} in {partition}: "
                f"{sequence} (incoming seq. number), {expected} (expected)"
            )

    def update(self, header: BatchHeader, base_offset: int, now_ms: int) -> None:
        """Record that a batch was appended at `base_offset`."""
        producers = self._producers
        producer = producers.pop(header.producer_id, None)
        if producer is None:
            self._remove_expired(now_ms)
        if producer is None or producer.epoch != header.producer_epoch:
            producer = _ProducerState(header.producer_epoch)
        producer.last_append_ms = now_ms
        first, last = header.base_sequence, header.last_sequence
        producer.batches.append(BatchMetadata(first, last, base_offset, header.max_timestamp))
        producers[header.producer_id] = producer

    def _remove_expired(self, now_ms: int) -> None:
        # Kafka uses a timer; doing it when a producer is added also bounds memory.
        expiration_ms = self._expiration_ms()
        while self._producers:
            producer_id, oldest = next(iter(self._producers.items()))
            if now_ms - oldest.last_append_ms < expiration_ms:
                return
            del self._producers[producer_id]


# --- transactions

ABORT: Final = 0
COMMIT: Final = 1

_MARKER = Struct(">hh")  # version, type
_TXNINDEX_ENTRY = Struct(">hqqqq")
_STEP_BYTES = 256 * 1024
# Cost of reading a header, expressed in bytes of records.
_HEADER_COST_BYTES = 4 * 1024


class AbortedTransaction(NamedTuple):
    """`first_offset`: first record of the transaction; `last_offset`: its marker."""

    first_offset: int
    producer_id: int
    last_offset: int


def read_transaction_indexes(folder: Path, files: Files) -> tuple[AbortedTransaction, ...]:
    """Return the aborted transactions of a partition written by Kafka, by first offset. Consumers
    with read_committed skip only the records of these.

    Kafka lists them in a `.txnindex` file per segment: an int16 version (0) and four int64, the
    producer id, its first and last offset, and the last stable offset. kohort has no transactions
    and adds none. Entries after an unreadable one are ignored. Raises OSError.
    """
    aborted: list[AbortedTransaction] = []
    for name in files.list(folder):
        if not name.endswith(".txnindex"):
            continue
        data = files.read_bytes(folder / name)
        for at in range(0, len(data), _TXNINDEX_ENTRY.size):
            entry = data[at : at + _TXNINDEX_ENTRY.size]
            if len(entry) < _TXNINDEX_ENTRY.size or entry[:2] != b"\0\0":
                _log.warning("%s is unreadable from byte %d on", folder / name, at)
                break
            _, producer_id, first_offset, last_offset, _ = _TXNINDEX_ENTRY.unpack(entry)
            aborted.append(AbortedTransaction(first_offset, producer_id, last_offset))
    return tuple(sorted(aborted))


class LastBatch(NamedTuple):
    """`data_offset`: end of the last data batch of this epoch; None if there is only a marker."""

    data_offset: int | None
    epoch: int
    timestamp: int


class ProducerHistory(NamedTuple):
    """`first_unstable_offset`: start of the first open transaction; `last`: by producer id."""

    aborted: list[AbortedTransaction]
    first_unstable_offset: int | None
    last: dict[int, LastBatch]


def marker_type(batch: bytes) -> int | None:
    """Return a control batch's type: ABORT, COMMIT or another; None if compaction emptied it."""
    for record in records(batch):
        if record.key is not None and len(record.key) >= _MARKER.size:
            kind: int = _MARKER.unpack_from(record.key)[1]
            return kind
    return None


def read_producer_history(
    batches: Iterable[tuple[BatchHeader, bytes]],
) -> CooperativeTask[ProducerHistory]:
    """Collect the producer state that compaction needs."""
    aborted: list[AbortedTransaction] = []
    open_since: dict[int, int] = {}
    last: dict[int, LastBatch] = {}
    cost = 0
    for header, batch in batches:
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
    """Finds the batches of a log that belong to aborted transactions; the batches are passed in
    order. Upstream: CleanedTransactionMetadata."""

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
        """Whether the marker can be removed: no records of its transaction are left."""
        self._advance(header.last_offset)
        if kind is None:
            return True
        if kind == ABORT:
            return not self._aborted.pop(header.producer_id, False)
        if kind == COMMIT:
            has_records = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not has_records
        return False

    def _advance(self, offset: int) -> None:
        while self._upcoming and self._upcoming[-1].first_offset <= offset:
            self._aborted.setdefault(self._upcoming.pop().producer_id, False)
