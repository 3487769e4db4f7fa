"""Commands to the transaction coordinator and their results, independent of request versions."""

from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from ...offsets.records import NO_EPOCH, NO_PRODUCER_ID, TransactionRecord
from ...protocol.errors import ErrorCode
from ..outcome import LogLine
from .states import TopicPartition, TransactionState


class InitProducerId(NamedTuple):
    """Initialize a producer. `expected_id` and `expected_epoch` are set by a producer that
    continues after an error (KIP-360), and are otherwise negative."""

    transactional_id: str
    timeout_ms: int
    expected_id: int = NO_PRODUCER_ID
    expected_epoch: int = NO_EPOCH


class AddPartitions(NamedTuple):
    """Add partitions to a transaction. With `verify_only`, no partitions are added, and partitions
    that are not in the transaction fail with TRANSACTION_ABORTABLE."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Collection[TopicPartition]
    client_version: int = 0
    verify_only: bool = False


class EndTransaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    client_version: int = 0


class DescribeTransaction(NamedTuple):
    transactional_id: str


TransactionCommand: TypeAlias = (
    InitProducerId | AddPartitions | EndTransaction | DescribeTransaction
)


class ProducerResult(NamedTuple):
    """The result of InitProducerId and EndTransaction."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


class PartitionsResult(NamedTuple):
    """The result of AddPartitions. `missing` contains the partitions that failed verification,
    because they are not in the transaction."""

    error: ErrorCode
    missing: Collection[TopicPartition] = ()


class TransactionDescription(NamedTuple):
    """The description of a transaction. `start_ms` is -1 before the producer's first
    transaction."""

    error: ErrorCode
    transactional_id: str
    state: TransactionState = TransactionState.EMPTY
    timeout_ms: int = 0
    start_ms: int = 0
    last_update_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: Collection[TopicPartition] = ()


TransactionResult: TypeAlias = ProducerResult | PartitionsResult | TransactionDescription


class Markers(NamedTuple):
    """The markers to be written to the partitions of a prepared transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    partitions: Collection[TopicPartition]


class TransactionEvent(NamedTuple):
    """A change of a transaction's state. `cause` is text, as in Kafka's log. `partitions` contains
    the transaction's partitions, both before and after the change."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state_from: str
    state_to: str
    cause: str
    partitions: Collection[TopicPartition] = ()


class TransactionOutcome(NamedTuple):
    """Records to append and apply, events to publish, and, once the records are durable, markers to
    write and then the reply to send; a command always has a reply."""

    records: tuple[TransactionRecord, ...] = ()
    reply: TransactionResult | None = None
    markers: tuple[Markers, ...] = ()
    events: tuple[TransactionEvent | LogLine, ...] = ()


def transaction_error(command: TransactionCommand, error: ErrorCode) -> TransactionResult:
    """Return the result of a command that failed with `error`."""
    match command:
        case InitProducerId() | EndTransaction():
            return ProducerResult(error)
        case AddPartitions():
            return PartitionsResult(error)
        case DescribeTransaction(transactional_id):
            return TransactionDescription(error, transactional_id)
