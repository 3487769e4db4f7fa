"""The states of a transaction, and changes to its durable metadata.

    Empty ──► Ongoing ──► PrepareCommit ──► CompleteCommit
                 │                               │
                 └──────► PrepareAbort ───► CompleteAbort

A Prepare state decides the transaction; only the markers remain to be written to the partitions. A
complete transaction is followed by the next transaction (Ongoing) or by a new producer (Empty).
Since KIP-890, an abort without a transaction is possible (PrepareAbort after Empty or Complete).
Upstream: TransactionState, TransactionMetadata.
"""

from collections.abc import Callable, Iterable, Set
from enum import IntEnum
from typing import Final, TypeAlias

from ...offsets.records import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
    TransactionPartitions,
)

TopicPartition: TypeAlias = tuple[str, int]

EPOCH_MAX: Final = 32_767
# The last epoch that a producer may use, because ending its transaction needs another epoch.
LAST_EPOCH: Final = EPOCH_MAX - 1
# The version of the transaction protocol (transaction.version) in which each transaction has a new
# epoch, and Produce adds partitions (KIP-890).
EPOCH_BUMP_VERSION: Final = 2
NO_TIMESTAMP: Final = -1


class TransactionState(IntEnum):
    """A state, with its value in the records of __transaction_state."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def text(self) -> str:
        """The name that Kafka's tools print, such as PrepareCommit."""
        return _TEXTS[self]


_TEXTS: Final = {each: each.name.title().replace("_", "") for each in TransactionState}


EMPTY: Final = TransactionState.EMPTY
ONGOING: Final = TransactionState.ONGOING
PREPARE_COMMIT: Final = TransactionState.PREPARE_COMMIT
PREPARE_ABORT: Final = TransactionState.PREPARE_ABORT
COMPLETE_COMMIT: Final = TransactionState.COMPLETE_COMMIT
COMPLETE_ABORT: Final = TransactionState.COMPLETE_ABORT
DEAD: Final = TransactionState.DEAD
PREPARED: Final = (PREPARE_COMMIT, PREPARE_ABORT)
COMPLETE: Final = (COMPLETE_COMMIT, COMPLETE_ABORT)


class Transaction:
    """The current transaction of a transactional id. `last_epoch` is the epoch before the current
    one, which a retry may send. It is not stored, so a retry after a restart is fenced."""

    __slots__ = ("last_epoch", "metadata", "next_last_epoch", "partitions", "transactional_id")

    def __init__(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        self.transactional_id = transactional_id
        self.last_epoch = self.next_last_epoch = NO_EPOCH
        self.metadata = metadata
        self.partitions = _partitions_of(metadata)

    @property
    def state(self) -> TransactionState:
        return TransactionState(self.metadata.state)

    @property
    def is_idle(self) -> bool:
        return self.state is EMPTY or self.state in COMPLETE

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.metadata.producer_epoch >= LAST_EPOCH

    def apply(self, metadata: TransactionMetadata) -> None:
        if metadata.partitions is not self.metadata.partitions:
            self.partitions = _partitions_of(metadata)
        self.metadata = metadata
        self.last_epoch, self.next_last_epoch = self.next_last_epoch, NO_EPOCH

    # --- the metadata after a change, for `apply`

    def with_producer(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now: int
    ) -> TransactionMetadata:
        """Return the metadata after InitProducerId."""
        self.next_last_epoch = last_epoch
        return self.metadata._replace(
            state=EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            partitions=None,
            start_ms=NO_TIMESTAMP,
            last_update_ms=now,
            previous_producer_id=self.metadata.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )

    def with_partitions(
        self, added: Set[TopicPartition], client_version: int, now: int
    ) -> TransactionMetadata:
        """Return the metadata after AddPartitionsToTxn, which may begin the transaction."""
        metadata = self.metadata
        self.next_last_epoch = self.last_epoch
        return metadata._replace(
            state=ONGOING,
            partitions=_with(metadata.partitions or (), added - self.partitions),
            start_ms=metadata.start_ms if metadata.state == ONGOING else now,
            last_update_ms=now,
            previous_producer_id=metadata.producer_id,
            client_version=client_version,
        )

    def prepared(
        self,
        state: TransactionState,
        client_version: int,
        new_producer_id: Callable[[], int],
        now: int,
    ) -> TransactionMetadata:
        """Return the metadata after EndTxn. Since KIP-890, the epoch changes, so that late requests
        of the transaction are fenced. If the epochs are exhausted, the next transaction gets an id
        from `new_producer_id`."""
        metadata = self.metadata
        epoch, self.next_last_epoch = metadata.producer_epoch, self.last_epoch
        next_producer_id = NO_PRODUCER_ID
        if client_version >= EPOCH_BUMP_VERSION:
            if self.is_epoch_exhausted:
                next_producer_id = new_producer_id()
            self.next_last_epoch = epoch
            epoch = min(epoch + 1, EPOCH_MAX)
        # Since KIP-890, a transaction may be aborted before it has partitions.
        is_ongoing = metadata.state == ONGOING
        return metadata._replace(
            state=state,
            producer_epoch=epoch,
            partitions=metadata.partitions or (),
            start_ms=metadata.start_ms if is_ongoing else now,
            last_update_ms=now,
            previous_producer_id=metadata.producer_id,
            next_producer_id=next_producer_id,
            client_version=client_version,
        )

    def completed(self, now: int) -> TransactionMetadata:
        """Return the metadata after the markers were written."""
        metadata = self.metadata
        producer_id, epoch = metadata.producer_id, metadata.producer_epoch
        if (
            metadata.client_version >= EPOCH_BUMP_VERSION
            and metadata.next_producer_id != NO_PRODUCER_ID
        ):
            producer_id, epoch = metadata.next_producer_id, 0
        self.next_last_epoch = self.last_epoch
        return metadata._replace(
            state=COMPLETE_COMMIT if metadata.state == PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            partitions=(),
            last_update_ms=now,
            previous_producer_id=metadata.producer_id,
            next_producer_id=NO_PRODUCER_ID,
        )


def _partitions_of(metadata: TransactionMetadata) -> frozenset[TopicPartition]:
    return frozenset(
        (topic, index) for topic, indexes in metadata.partitions or () for index in indexes
    )


def _with(
    partitions: Iterable[TransactionPartitions], added: Iterable[TopicPartition]
) -> tuple[TransactionPartitions, ...]:
    """Return the union, sorted. Only topics with an added partition are copied, because a
    transaction may have thousands of topics."""
    by_topic = {each.topic: each.partition_ids for each in partitions}
    new: dict[str, list[int]] = {}
    for topic, index in added:
        new.setdefault(topic, []).append(index)
    for topic, indexes in new.items():
        by_topic[topic] = sorted((*by_topic.get(topic, ()), *indexes))
    return tuple(TransactionPartitions(topic, by_topic[topic]) for topic in sorted(by_topic))
