"""Producer state of a log: sequence numbers and transactions.

The state is derived from the batches of the log, when they are appended and when the log is opened.
Upstream: ProducerStateManager, ProducerAppendInfo, TransactionIndex, CleanedTransactionMetadata.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from .batch import BatchHeader
from .errors import InvalidProducerEpoch, InvalidTransaction, OutOfOrderSequence
from .records import records
from .tasks import CooperativeTask

# A client has at most five batches in flight.
BATCHES_REMEMBERED: Final = 5
SEQUENCE_MAX: Final = 2**31 - 1
# Maximum number of verifications in progress (1.5 MB). The maximum is reached only if partitions
# cannot be added to transactions. Then the oldest verifications are dropped, and their clients must
# abort.
VERIFYING_MAX: Final = 10_000
# Maximum number of ended transactions whose markers are not yet visible to readers. Older
# transactions are merged, and become visible together.
UNDECIDED_MAX: Final = 1_000
# Since this version of the transaction protocol, markers have a new epoch (KIP-890).
EPOCH_BUMP_VERSION: Final = 2
NO_EPOCH: Final = -1
NO_SEQUENCE: Final = -1

ABORT: Final = 0
COMMIT: Final = 1

_MARKER = Struct(">hh")  # version, type
_MARKER_VALUE = Struct(">hi")  # version, coordinator epoch
_STEP_BYTES = 256 * 1024
# Cost of reading a header, expressed in record bytes.
_HEADER_COST_BYTES = 4 * 1024


class EndMarker(NamedTuple):
    """The record of a control batch that ends a transaction. `kind` is ABORT, COMMIT or another
    number. `transaction_version`, 0 if unknown, comes from the request to write the marker and is
    not stored."""

    kind: int
    coordinator_epoch: int
    transaction_version: int = 0


def read_marker(batch: bytes) -> EndMarker | None:
    """Return the record of a control batch, or None if compaction has emptied the batch."""
    for record in records(batch):
        if record.key is not None and len(record.key) >= _MARKER.size:
            kind: int = _MARKER.unpack_from(record.key)[1]
            value = record.value or b""
            epoch = _MARKER_VALUE.unpack_from(value)[1] if len(value) >= _MARKER_VALUE.size else -1
            return EndMarker(kind, epoch)
    return None


def marker_type(batch: bytes) -> int | None:
    """Return the type of a control batch (such as ABORT), or None if compaction emptied it."""
    marker = read_marker(batch)
    return None if marker is None else marker.kind


def encode_marker(marker: EndMarker) -> tuple[bytes, bytes]:
    """Return the key and value of a control record."""
    return _MARKER.pack(0, marker.kind), _MARKER_VALUE.pack(0, marker.coordinator_epoch)


# --- producers (KIP-98, KIP-679) and their open transactions


class BatchMetadata(NamedTuple):
    """Metadata of an appended batch, for detecting duplicates."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    max_timestamp: int


class AbortedTransaction(NamedTuple):
    """An aborted transaction, from its first record (`first_offset`) to its marker (`last_offset`).
    `last_stable_offset` is the last stable offset of the log when the marker was appended."""

    first_offset: int
    producer_id: int
    last_offset: int
    last_stable_offset: int = 0


class Verification:
    """The verification of a producer whose first batches arrived before the partition was part of
    its transaction. Contains the epoch and the lowest sequence number of these batches. If `adds`
    is true, the Produce requests add the partition (KIP-890).

    The batches may be appended only while this is the producer's current verification, because a
    marker that is written in the meantime ends the transaction. Upstream: VerificationStateEntry,
    VerificationGuard."""

    __slots__ = ("adds", "epoch", "lowest_sequence")

    def __init__(self, header: BatchHeader, *, adds: bool) -> None:
        self.epoch = header.producer_epoch
        self.lowest_sequence = header.base_sequence
        self.adds = adds


class ProducerState:
    """A producer of a partition. `first_offset` is the start of its open transaction, or None."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "first_offset",
        "last_append_ms",
        "last_timestamp",
    )

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: deque[BatchMetadata] = deque(maxlen=BATCHES_REMEMBERED)
        self.first_offset: int | None = None
        self.coordinator_epoch = -1
        self.last_append_ms = 0
        self.last_timestamp = -1

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class ProducerStates:
    """The producers of a log, with open and aborted transactions."""

    __slots__ = ("_open", "_producers", "_undecided", "_verifying", "aborted")

    def __init__(self) -> None:
        # In order of the last append, so idle producers come first.
        self._producers: dict[int, ProducerState] = {}
        # First offsets of the open transactions by producer id, lowest first.
        self._open: dict[int, int] = {}
        # First offset and marker offset of transactions whose marker is not visible to readers yet.
        self._undecided: deque[tuple[int, int]] = deque()
        self.aborted: list[AbortedTransaction] = []
        """The aborted transactions, in the order of their markers."""
        self._verifying: dict[int, Verification] = {}

    def __len__(self) -> int:
        return len(self._producers)

    def __bool__(self) -> bool:
        """Whether there is state, which could only be restored by reading all batches again."""
        return bool(self._producers or self.aborted)

    def clear(self) -> None:
        self._producers.clear()
        self._open.clear()
        self._undecided.clear()
        self.aborted.clear()
        self._verifying.clear()

    # --- queries

    def active(self, now_ms: int, expiration_ms: int) -> Iterator[tuple[int, ProducerState]]:
        """Yield (producer id, state) of unexpired producers. Batches may be appended during the
        iteration."""
        for producer_id, producer in tuple(self._producers.items()):
            if producer.first_offset is not None or (
                now_ms - _last_append_ms(producer, now_ms) < expiration_ms
            ):
                yield producer_id, producer

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        producer = self._producers.get(producer_id)
        return (
            producer is not None and producer.first_offset is not None and producer.epoch == epoch
        )

    @property
    def open_transactions(self) -> Collection[tuple[int, int]]:
        """The open transactions, as (producer id, first offset)."""
        return self._open.items()

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Return the first offset of the first transaction that is open, or whose marker is not
        below the high watermark."""
        undecided = self._undecided
        while undecided and undecided[0][1] < high_watermark:
            undecided.popleft()
        first = next(iter(self._open.values()), None)
        if undecided:
            first_undecided = min(each for each, _ in undecided)
            first = first_undecided if first is None else min(first, first_undecided)
        return first

    def aborted_between(self, offset: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that have records from `offset` up to, but excluding,
        `end`, in the order of their markers. Upstream: TransactionIndex.collectAbortedTxns."""
        if not self.aborted:
            return ()  # the usual case
        found = []
        for place in range(self._first_aborted(offset), len(self.aborted)):
            each = self.aborted[place]
            if each.first_offset < end:
                found.append(each)
            if each.last_stable_offset >= end:
                break
        return tuple(found)

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the batch that `header` duplicates among the producer's last five, or None."""
        producer = self._producers.get(header.producer_id)
        if producer is None or producer.epoch != header.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in producer.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return batch
        return None

    def validate(
        self, header: BatchHeader, partition: str, verification: Verification | None = None
    ) -> None:
        """Validate the epoch, the sequence and the transaction of a batch from a client. Raises
        InvalidProducerEpoch, OutOfOrderSequence and InvalidTransaction."""
        producer = self._producers.get(header.producer_id)
        epoch, sequence = header.producer_epoch, header.base_sequence
        if header.is_transactional and not self.has_open_transaction(header.producer_id, epoch):
            current = self._verifying.get(header.producer_id)
            if verification is None or verification is not current:
                raise InvalidTransaction("Record was not part of an ongoing transaction")
        self.validate_epoch(header.producer_id, epoch, partition)
        if producer is None and epoch < NO_EPOCH:
            raise InvalidProducerEpoch(f"Epoch of producer {header.producer_id} is {epoch}")
        self._validate_first_sequence(header, producer, partition)
        if producer is None or producer.epoch == NO_EPOCH:
            # The producer is new or has expired, or its records were deleted.
            return
        last = producer.last_sequence if epoch == producer.epoch else SEQUENCE_MAX
        expected = 0 if last in (SEQUENCE_MAX, NO_SEQUENCE) else last + 1
        if sequence != expected:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id} in {partition}: "
                f"{sequence} (incoming seq. number), {expected} (expected)"
            )
        if producer.first_offset is not None and not header.is_transactional:
            raise InvalidTransaction(
                f"Expected transactional write from producer {header.producer_id} in {partition}"
            )

    def validate_epoch(self, producer_id: int, epoch: int, partition: str) -> None:
        """Raise InvalidProducerEpoch if the producer has written in a newer epoch."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {producer_id} in {partition} is {epoch}, "
                f"which is smaller than the last seen epoch {producer.epoch}"
            )

    def _validate_first_sequence(
        self, header: BatchHeader, producer: ProducerState | None, partition: str
    ) -> None:
        """Reject a batch if an earlier batch was rejected because the partition was not yet in the
        transaction. The client retries the earlier batch, which would then be out of order."""
        verification = self._verifying.get(header.producer_id)
        if verification is None:
            return
        expected = verification.lowest_sequence
        if verification.adds and (producer is None or not producer.batches):
            expected = 0
        if header.base_sequence > expected:
            raise OutOfOrderSequence(
                f"Out of order sequence number for producer {header.producer_id} in {partition}: "
                f"{header.base_sequence} (incoming seq. number), {expected} (expected)"
            )

    def validate_marker(
        self, producer_id: int, epoch: int, marker: EndMarker, partition: str
    ) -> None:
        """Validate an end marker. Raises InvalidProducerEpoch and InvalidTransaction (for an
        earlier coordinator's epoch)."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return
        # Since KIP-890, the marker's epoch is higher than the transaction's epoch. Without an open
        # transaction, a marker may be written again.
        has_own_epoch = (
            marker.transaction_version >= EPOCH_BUMP_VERSION and producer.first_offset is not None
        )
        if epoch < producer.epoch + has_own_epoch:
            raise InvalidProducerEpoch(
                f"Epoch of producer {producer_id} in {partition} is {epoch}, "
                f"which is not higher than the last seen epoch {producer.epoch}"
            )
        coordinator_epoch = marker.coordinator_epoch
        if coordinator_epoch < producer.coordinator_epoch:
            raise InvalidTransaction(
                f"Invalid coordinator epoch for producer {producer_id} in {partition}: "
                f"{coordinator_epoch}, which is smaller than the last seen epoch "
                f"{producer.coordinator_epoch}"
            )

    # --- changes

    def begin_verification(
        self, header: BatchHeader, partition: str, *, adds: bool
    ) -> Verification:
        """Begin to verify a transactional batch, or reuse the verification of an earlier batch. A
        verification is valid until a batch or a marker of the producer is appended. Raises
        InvalidProducerEpoch."""
        producer_id, epoch, sequence = (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
        self.validate_epoch(producer_id, epoch, partition)
        verification = self._verifying.get(producer_id)
        if verification is None:
            if len(self._verifying) >= VERIFYING_MAX:
                del self._verifying[next(iter(self._verifying))]
            verification = self._verifying[producer_id] = Verification(header, adds=adds)
        elif epoch > verification.epoch:
            verification.epoch, verification.lowest_sequence = epoch, sequence
        elif epoch == verification.epoch:
            verification.lowest_sequence = min(sequence, verification.lowest_sequence)
        return verification

    def on_batch(self, header: BatchHeader, batch: bytes, now_ms: int = 0) -> None:
        """Record a batch of the log that has a producer id. `batch` is read only if it is a control
        batch. `now_ms` is 0 if the batch was read from the log; the expiration of its producer is
        then counted from the next call of `active` or `remove_expired`."""
        producers = self._producers
        producer = producers.pop(header.producer_id, None)
        if producer is None:
            producer = ProducerState(header.producer_epoch)
        elif producer.epoch != header.producer_epoch:
            producer.epoch = header.producer_epoch
            producer.batches.clear()
        producers[header.producer_id] = producer
        if header.is_transactional and self._verifying:
            self._verifying.pop(header.producer_id, None)
        producer.last_append_ms = now_ms
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self._on_marker(producer, header, marker)
            return
        if header.base_sequence >= 0:
            first, last = header.base_sequence, header.last_sequence
            producer.batches.append(
                BatchMetadata(first, last, header.base_offset, header.max_timestamp)
            )
        producer.last_timestamp = header.max_timestamp
        if header.is_transactional and producer.first_offset is None:
            producer.first_offset = self._open[header.producer_id] = header.base_offset

    def _on_marker(self, producer: ProducerState, header: BatchHeader, marker: EndMarker) -> None:
        producer.coordinator_epoch = marker.coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        first_offset, producer.first_offset = producer.first_offset, None
        if first_offset is None:
            return
        del self._open[header.producer_id]
        offset = header.base_offset
        undecided = self._undecided
        undecided.append((first_offset, offset))
        if len(undecided) > UNDECIDED_MAX:
            (first, _), (second, second_offset) = undecided.popleft(), undecided.popleft()
            undecided.appendleft((min(first, second), second_offset))
        if marker.kind == ABORT:
            stable = min(next(iter(self._open.values()), offset + 1), offset + 1)
            self.aborted.append(
                AbortedTransaction(first_offset, header.producer_id, offset, stable)
            )

    def forget_aborted(self, markers: Collection[int]) -> None:
        """Forget the aborted transactions whose markers, identified by offset, were removed by
        compaction. Readers would otherwise skip all later records of the producers."""
        self.aborted = [each for each in self.aborted if each.last_offset not in markers]

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Remove the producers that have not appended for `expiration_ms`, except those with an
        open transaction. Kafka uses a timer. Here, every append removes expired producers, which
        limits the memory."""
        expired = []
        for producer_id, producer in self._producers.items():
            was_loaded = not producer.last_append_ms
            if now_ms - _last_append_ms(producer, now_ms) < expiration_ms:
                if was_loaded:
                    continue  # the next producer may also have been read from the log
                break
            if producer.first_offset is None:
                expired.append(producer_id)
        for producer_id in expired:
            del self._producers[producer_id]

    def remove_before(self, offset: int) -> None:
        """Forget the aborted transactions that ended before the start of the log."""
        del self.aborted[: self._first_aborted(offset)]

    def _first_aborted(self, offset: int) -> int:
        """Return the index of the first aborted transaction whose marker is not below `offset`."""
        return bisect_left(self.aborted, offset, key=lambda each: each.last_offset)


def _last_append_ms(producer: ProducerState, now_ms: int) -> int:
    if not producer.last_append_ms:
        producer.last_append_ms = now_ms
    return producer.last_append_ms


# --- compaction


class LastBatch(NamedTuple):
    """The last batch of a producer. `data_offset` is the last offset of the last data batch in this
    epoch, or None if there is only a marker."""

    data_offset: int | None
    epoch: int
    timestamp: int


class ProducerHistory(NamedTuple):
    """`first_unstable_offset` is the start of the first open transaction. `last` is keyed by
    producer id."""

    aborted: list[AbortedTransaction]
    first_unstable_offset: int | None
    last: dict[int, LastBatch]


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
    """Finds the batches of a log that belong to aborted transactions. Batches are passed in order.
    Upstream: CleanedTransactionMetadata."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._upcoming = sorted(aborted, reverse=True)
        # Whether records of an aborted transaction have been seen, by producer id.
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
        """Whether the marker can be removed, because no records of its transaction are left."""
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
