"""The coordinator of the transactional ids in one partition of __transaction_state. It encodes
nothing, reads no clock and does no I/O.

`handle`, `tick` and `markers_written` make decisions, and return a TransactionOutcome. Only `apply`
changes durable state, both live and on load. The Prepare record decides a transaction: once it is
durable, the caller writes the markers, calls `markers_written`, and replies. Upstream:
TransactionCoordinator, TransactionStateManager.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Any, Final, NamedTuple

from ...offsets.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionRecord,
)
from ...protocol.errors import ErrorCode
from ..deadlines import Deadlines
from .commands import (
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    Markers,
    PartitionsResult,
    ProducerResult,
    TransactionCommand,
    TransactionDescription,
    TransactionEvent,
    TransactionOutcome,
    TransactionResult,
)
from .states import (
    COMPLETE,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    EMPTY,
    EPOCH_BUMP_VERSION,
    LAST_EPOCH,
    NO_TIMESTAMP,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    TopicPartition,
    Transaction,
    TransactionState,
)

_NONE: Final = ErrorCode.none
NOTHING: Final = TransactionOutcome()
# Limits the tombstones per outcome, so that many expired ids do not block other requests.
EXPIRED_PER_STEP: Final = 500
# Delay before a transaction times out again if handling its timeout raised an exception.
RETRY_MS: Final = 1_000


class TransactionConfig(NamedTuple):
    """Kafka's configs `transaction.max.timeout.ms` and `transactional.id.expiration.ms`."""

    max_timeout_ms: int
    id_expiration_ms: int


class TransactionCoordinator:
    """The transactional ids of one partition. `new_producer_id` allocates a producer id; the
    allocation is durable before a reply contains the id."""

    def __init__(self, config: TransactionConfig, new_producer_id: Callable[[], int]) -> None:
        self._config = config
        self._new_producer_id = new_producer_id
        self._transactions: dict[str, Transaction] = {}
        self.transactions: Mapping[str, Transaction] = self._transactions
        """The transactions by transactional id, for inspection."""
        self._timeouts = Deadlines[str]()
        self._decide: Mapping[type, Callable[[Any, int], TransactionOutcome]] = {
            InitProducerId: self._init_producer_id,
            AddPartitions: self._add_partitions,
            EndTransaction: self._end,
            DescribeTransaction: self._describe,
        }

    # --- decisions

    def handle(self, command: TransactionCommand, now: int) -> TransactionOutcome:
        """Decide `command`. The outcome contains the reply."""
        return self._decide[type(command)](command, now)

    def tick(self, now: int) -> TransactionOutcome:
        """Abort the first transaction that has timed out at `now`, if any."""
        popped = self._timeouts.pop_due(now)
        if popped is None:
            return NOTHING
        transactional_id, _ = popped
        # Cancelled when the record is applied. Until then, an unexpected exception must not leave
        # the transaction open forever.
        self._timeouts.set(transactional_id, now + RETRY_MS)
        transaction = self._transactions[transactional_id]
        return self._fence_and_abort(transaction, now, "timed out")

    def next_deadline(self) -> int | None:
        """Return a lower bound for the time of the next call to tick(), or None."""
        return self._timeouts.earliest()

    def abort(self, transactional_id: str, now: int) -> TransactionOutcome:
        """Abort an ongoing transaction and fence its producer. For tests."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or transaction.state is not ONGOING:
            return NOTHING
        return self._fence_and_abort(transaction, now, "aborted by request")

    def expire(self, transactional_id: str) -> TransactionOutcome:
        """Remove a transactional id without an open or prepared transaction. For tests."""
        transaction = self._transactions.get(transactional_id)
        if transaction is None or not transaction.is_idle:
            return NOTHING
        return _expired([transaction])

    def markers_written(self, markers: Markers, now: int) -> TransactionOutcome:
        """Complete a transaction whose markers are in all partitions."""
        transaction = self._transactions.get(markers.transactional_id)
        if (
            transaction is None
            or transaction.state not in PREPARED
            or transaction.metadata.producer_id != markers.producer_id
            or transaction.metadata.producer_epoch != markers.producer_epoch
        ):
            return NOTHING
        return self._changed(transaction, transaction.completed(now), "markers written")

    def expired_ids(self, now: int) -> Iterator[TransactionOutcome]:
        """Remove expired transactional ids in steps. Yield the outcome of each step."""
        expired_before = now - self._config.id_expiration_ms
        expired: list[Transaction] = []
        for transactional_id in list(self._transactions):
            transaction = self._transactions.get(transactional_id)
            if transaction is None:
                continue
            if transaction.is_idle and transaction.metadata.last_update_ms <= expired_before:
                expired.append(transaction)
            if len(expired) >= EXPIRED_PER_STEP:
                yield _expired(expired)
                expired = []
        if expired:
            yield _expired(expired)

    # --- InitProducerId

    def _init_producer_id(self, command: InitProducerId, now: int) -> TransactionOutcome:
        transactional_id, timeout_ms, expected_id, expected_epoch = command
        if not 0 < timeout_ms <= self._config.max_timeout_ms:
            return _reply(ProducerResult(ErrorCode.invalid_transaction_timeout))
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(
                transactional_id,
                TransactionMetadata(
                    self._new_producer_id(), NO_EPOCH, timeout_ms, EMPTY, None, now, NO_TIMESTAMP
                ),
            )
            self._transactions[transactional_id] = transaction
        metadata, state = transaction.metadata, transaction.state
        if state in PREPARED:
            return _reply(ProducerResult(ErrorCode.concurrent_transactions))
        is_expected = expected_id != NO_PRODUCER_ID
        if is_expected and not _is_current(transaction, expected_id, expected_epoch):
            return _reply(ProducerResult(ErrorCode.producer_fenced))
        if state is ONGOING:
            # The client retries, and then gets a new epoch.
            concurrent = ProducerResult(ErrorCode.concurrent_transactions)
            cause = "a new producer was initialized"
            return self._fence_and_abort(transaction, now, cause, concurrent)
        producer_id, epoch, last_epoch = metadata.producer_id, metadata.producer_epoch, NO_EPOCH
        if transaction.is_epoch_exhausted and (not is_expected or expected_epoch == epoch):
            producer_id, epoch, last_epoch = self._new_producer_id(), 0, NO_EPOCH
            if is_expected:
                last_epoch = metadata.producer_epoch
        elif not is_expected:
            epoch += 1
        elif epoch in (NO_EPOCH, expected_epoch):
            epoch, last_epoch = epoch + 1, epoch
        elif expected_epoch == transaction.last_epoch:
            last_epoch = expected_epoch  # a retry
        else:
            return _reply(ProducerResult(ErrorCode.producer_fenced))
        changed = transaction.with_producer(producer_id, epoch, last_epoch, timeout_ms, now)
        result = ProducerResult(_NONE, producer_id, epoch)
        return self._changed(transaction, changed, "producer initialized", result)

    # --- AddPartitionsToTxn, AddOffsetsToTxn, and transactional batches

    def _add_partitions(self, command: AddPartitions, now: int) -> TransactionOutcome:
        transaction = self._transactions.get(command.transactional_id)
        error = _NONE
        if transaction is None:
            error = ErrorCode.invalid_producer_id_mapping
        elif transaction.state in PREPARED:
            # The producer may already have a new id, which takes effect with the markers.
            error = ErrorCode.concurrent_transactions
        elif command.producer_id != transaction.metadata.producer_id:
            error = ErrorCode.invalid_producer_id_mapping
        elif command.producer_epoch != transaction.metadata.producer_epoch:
            error = ErrorCode.producer_fenced
        if transaction is None or error is not _NONE:
            return _reply(PartitionsResult(error))
        added = set(command.partitions)
        if command.verify_only:
            # Complete transactions have no partitions.
            return _reply(PartitionsResult(_NONE, added - transaction.partitions))
        if transaction.state is ONGOING and added <= transaction.partitions:
            return _reply(PartitionsResult(_NONE))
        changed = transaction.with_partitions(added, command.client_version, now)
        result = PartitionsResult(_NONE)
        return self._changed(transaction, changed, "partitions added", result, added)

    # --- EndTxn

    def _end(self, command: EndTransaction, now: int) -> TransactionOutcome:
        transaction = self._transactions.get(command.transactional_id)
        if transaction is None:
            return _reply(ProducerResult(ErrorCode.invalid_producer_id_mapping))
        bumps = command.client_version >= EPOCH_BUMP_VERSION
        error, is_decided = (_validate_end_v2 if bumps else _validate_end_v1)(transaction, command)
        metadata = transaction.metadata
        if error is not _NONE:
            return _reply(ProducerResult(error))
        if is_decided:
            result = ProducerResult(_NONE, metadata.producer_id, metadata.producer_epoch)
            return _reply(result)
        state = PREPARE_COMMIT if command.commit else PREPARE_ABORT
        prepared = transaction.prepared(state, command.client_version, self._new_producer_id, now)
        if prepared.next_producer_id == NO_PRODUCER_ID:
            result = ProducerResult(_NONE, prepared.producer_id, prepared.producer_epoch)
        else:
            result = ProducerResult(_NONE, prepared.next_producer_id, 0)
        return self._prepared(transaction, prepared, "ended", result)

    def _fence_and_abort(
        self,
        transaction: Transaction,
        now: int,
        cause: str,
        reply: TransactionResult | None = None,
    ) -> TransactionOutcome:
        """Abort an ongoing transaction with a new epoch, which fences its producer."""
        prepared = transaction.prepared(
            PREPARE_ABORT, EPOCH_BUMP_VERSION, self._new_producer_id, now
        )
        return self._prepared(transaction, prepared, cause, reply)

    def _prepared(
        self,
        transaction: Transaction,
        prepared: TransactionMetadata,
        cause: str,
        reply: TransactionResult | None,
    ) -> TransactionOutcome:
        """Commit or abort. The reply waits for the first attempt to write the markers."""
        outcome = self._changed(transaction, prepared, cause, reply)
        return outcome._replace(markers=(_markers(transaction, prepared),))

    def _changed(
        self,
        transaction: Transaction,
        metadata: TransactionMetadata,
        cause: str,
        reply: TransactionResult | None = None,
        added: Set[TopicPartition] = frozenset(),
    ) -> TransactionOutcome:
        record = TransactionRecord(transaction.transactional_id, metadata)
        event = TransactionEvent(
            transaction.transactional_id,
            metadata.producer_id,
            metadata.producer_epoch,
            transaction.state.text,
            TransactionState(metadata.state).text,
            cause,
            transaction.partitions | added if added else transaction.partitions,
        )
        return TransactionOutcome((record,), reply, (), (event,))

    # --- queries

    def _describe(self, command: DescribeTransaction, _now: int) -> TransactionOutcome:
        transactional_id = command.transactional_id
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            not_found = ErrorCode.transactional_id_not_found
            return _reply(TransactionDescription(not_found, transactional_id))
        metadata = transaction.metadata
        description = TransactionDescription(
            _NONE,
            transactional_id,
            transaction.state,
            metadata.timeout_ms,
            metadata.start_ms,
            metadata.last_update_ms,
            metadata.producer_id,
            metadata.producer_epoch,
            transaction.partitions,
        )
        return _reply(description)

    # --- durable state

    def apply(self, record: TransactionRecord) -> None:
        """Apply a record of the last decision, or of the log that is being loaded."""
        transactional_id, metadata = record
        if metadata is None:
            self._transactions.pop(transactional_id, None)
            self._timeouts.cancel(transactional_id)
            return
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            transaction = Transaction(transactional_id, metadata)
            self._transactions[transactional_id] = transaction
        else:
            transaction.apply(metadata)
        if metadata.state == ONGOING:
            self._timeouts.set(transactional_id, metadata.start_ms + metadata.timeout_ms)
        else:
            self._timeouts.cancel(transactional_id)

    def loaded(self) -> TransactionOutcome:
        """Return the markers of the transactions that are still prepared at the end of the log."""
        return TransactionOutcome(
            markers=tuple(
                _markers(transaction, transaction.metadata)
                for transaction in self._transactions.values()
                if transaction.state in PREPARED
            )
        )


def _markers(transaction: Transaction, prepared: TransactionMetadata) -> Markers:
    producer = prepared.producer_id, prepared.producer_epoch
    is_commit = prepared.state == PREPARE_COMMIT
    return Markers(transaction.transactional_id, *producer, is_commit, transaction.partitions)


def _expired(transactions: Iterable[Transaction]) -> TransactionOutcome:
    records, events = [], []
    for each in transactions:
        transactional_id, metadata = each.transactional_id, each.metadata
        records.append(TransactionRecord(transactional_id, None))
        producer = metadata.producer_id, metadata.producer_epoch
        event = TransactionEvent(transactional_id, *producer, each.state.text, DEAD.text, "expired")
        events.append(event)
    return TransactionOutcome(tuple(records), events=tuple(events))


def _is_current(transaction: Transaction, producer_id: int, epoch: int) -> bool:
    """Whether the producer id in InitProducerId is the current one, or the previous one with an
    exhausted epoch. An epoch of the current producer id is checked later."""
    metadata = transaction.metadata
    if metadata.producer_epoch == NO_EPOCH or producer_id == metadata.producer_id:
        return True
    return producer_id == metadata.previous_producer_id and epoch >= LAST_EPOCH


def _validate_end_v1(transaction: Transaction, command: EndTransaction) -> tuple[ErrorCode, bool]:
    """Return the error, and whether the transaction has already ended in this way. Upstream:
    endTransactionWithTV1."""
    metadata, state = transaction.metadata, transaction.state
    if command.producer_id != metadata.producer_id:
        return ErrorCode.invalid_producer_id_mapping, False
    if command.producer_epoch != metadata.producer_epoch:
        return ErrorCode.producer_fenced, False
    if state in PREPARED:
        return ErrorCode.concurrent_transactions, False
    if state is ONGOING:
        return _NONE, False
    if state is not (COMPLETE_COMMIT if command.commit else COMPLETE_ABORT):
        return ErrorCode.invalid_txn_state, False
    return _NONE, True


def _validate_end_v2(transaction: Transaction, command: EndTransaction) -> tuple[ErrorCode, bool]:
    """Like _validate_end_v1, for clients whose epoch increases with each transaction (KIP-890). A
    retry contains the epoch before the current one. Upstream: endTransaction."""
    metadata, state = transaction.metadata, transaction.state
    if state in PREPARED:
        # The producer may already have a new id, which takes effect with the markers.
        return ErrorCode.concurrent_transactions, False
    epoch = command.producer_epoch
    retries_overflow = (
        metadata.previous_producer_id == command.producer_id
        and epoch == LAST_EPOCH
        and metadata.producer_epoch == 0
    )
    retries_bump = metadata.producer_epoch == epoch + 1
    if command.producer_id != metadata.producer_id and not retries_overflow:
        return ErrorCode.invalid_producer_id_mapping, False
    is_current = epoch == metadata.producer_epoch
    if state in COMPLETE:
        is_current = is_current or retries_bump or retries_overflow
    if not is_current:
        return ErrorCode.producer_fenced, False
    if state is ONGOING:
        return _NONE, False
    if retries_bump or retries_overflow:
        is_same = (state is COMPLETE_COMMIT) is command.commit
        return (_NONE if is_same else ErrorCode.invalid_txn_state), True
    # Without a transaction, an abort only bumps the epoch.
    return (ErrorCode.invalid_txn_state if command.commit else _NONE), False


def _reply(result: TransactionResult) -> TransactionOutcome:
    return TransactionOutcome(reply=result)
