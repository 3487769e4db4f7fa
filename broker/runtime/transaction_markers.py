"""Writes the markers of decided transactions to their partitions.

The nodes of a process share their logs, so there are no requests between nodes, unlike in Kafka.
WriteTxnMarkers uses the same functions. Upstream: TransactionMarkerChannelManager,
KafkaApis.handleWriteTxnMarkersRequest.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, Protocol

from ...coordinator.transactions.commands import Markers
from ...coordinator.transactions.states import TopicPartition
from ...log.batch import BatchBuilder, BatchProducer
from ...log.errors import SYNCING, WRITING, InvalidProducerEpoch, InvalidTransaction, LogError
from ...log.group_commit import GroupCommit
from ...log.log import Log
from ...log.producer_state import ABORT, COMMIT, EndMarker, encode_marker
from ...log.tasks import CooperativeTask
from ...protocol.errors import ErrorCode
from ...topics.names import OFFSETS_TOPIC
from ...topics.registry import TopicRegistry
from ...topics.topic import Partition, PartitionDeleted
from ..event_loop.scheduler import Scheduler
from ..event_loop.timers import Clock, Timers
from ..gather import Gather
from .context import RETRY_FAILED_MS

_log = logging.getLogger("kohort.transactions")

# Time between attempts to write a marker while the disk fails or the partition has no leader
# (upstream: request.timeout.ms and retries of the sender).
RETRY_MS: Final = 100

# Number of partitions that are synced or get their marker in one step, which takes about 2 ms if
# their logs have to be opened.
PARTITIONS_PER_STEP: Final = 10

Written = Callable[[ErrorCode], None]
"""written(error): called once the marker is as durable as `kohort.durability` requires."""

EndOffsets = Callable[[int, BatchProducer, EndMarker, Written], ErrorCode | None]
"""end_offsets(partition, producer, marker, written): write a marker to an offsets partition. Return
an error instead of calling `written`, or None."""


class Done(Protocol):
    """Called with True once all markers are written, and with False after each failed attempt, when
    a test holds the markers back, and when they are no longer needed."""

    def __call__(self, *, is_complete: bool) -> None: ...


def marker_error(log: Log, producer: BatchProducer, marker: EndMarker) -> ErrorCode:
    """Validate an end marker against the producer's state in the log. Return the error or NONE."""
    try:
        log.producers.validate_marker(producer.producer_id, producer.epoch, marker, log.folder.name)
    except InvalidProducerEpoch:
        return ErrorCode.invalid_producer_epoch
    except InvalidTransaction:
        return ErrorCode.transaction_coordinator_fenced
    return ErrorCode.none


class MarkerWriter:
    """Writes markers to all partitions. `end_offsets` also commits or drops the transaction's
    offsets (CoordinatorRuntime.end_transaction)."""

    def __init__(
        self,
        topics: TopicRegistry,
        group_commit: GroupCommit,
        clock: Clock,
        timers: Timers,
        scheduler: Scheduler,
        end_offsets: EndOffsets,
    ) -> None:
        self._topics = topics
        self._group_commit = group_commit
        self._clock = clock
        self._timers = timers
        self._scheduler = scheduler
        self._end_offsets = end_offsets
        self._is_closed = False
        # Test hook that returns whether the markers are held back. `resume` writes them.
        self.holds: Callable[[Markers, Callable[[], None]], bool] = lambda _markers, _resume: False

    # --- records of a transaction

    def must_sync(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether `sync` has to be called before the transaction is committed."""
        return self._group_commit.durability == "fsync" and any(
            topic != OFFSETS_TOPIC for topic, _ in partitions
        )

    def sync(
        self, partitions: Collection[TopicPartition], synced: Callable[[OSError | None], None]
    ) -> None:
        """Sync a transaction's records, except in the offsets topic, which is always synced."""
        found = [
            partition
            for topic, index in partitions
            if topic != OFFSETS_TOPIC
            and (partition := self._topics.partition(topic, index)) is not None
        ]

        def all_synced(errors: list[OSError | None]) -> None:
            synced(next((error for error in errors if error is not None), None))

        results = Gather(len(found), all_synced)

        def sync_all() -> CooperativeTask[None]:
            for place, partition in enumerate(found):
                if place and place % PARTITIONS_PER_STEP == 0:
                    yield None
                self._sync(partition, partial(results.put, place))

        self._scheduler.spawn(sync_all(), eager=True)

    def _sync(self, partition: Partition, synced: Callable[[OSError | None], None]) -> None:
        try:
            log = partition.log
        except PartitionDeleted:
            synced(None)
            return
        except (OSError, LogError) as error:
            self._group_commit.errors.failed(SYNCING, partition.folder, error)
            synced(error if isinstance(error, OSError) else OSError(str(error)))
            return

        def done(error: OSError | None) -> None:
            if error is not None and log is partition.opened_log:
                partition.close_failed()
            synced(error)

        self._group_commit.sync(log, done)

    # --- markers

    def write(
        self,
        markers: Markers,
        coordinator_epoch: int,
        done: Done,
        is_current: Callable[[], bool],
    ) -> None:
        """Write the markers to all partitions. A failed write is retried until it succeeds, its
        partition is deleted, the producer or the coordinator is fenced, or `is_current` returns
        False."""
        partitions = sorted(markers.partitions)
        write_all = partial(self._write, markers, partitions, coordinator_epoch, done, is_current)
        if self.holds(markers, write_all):
            done(is_complete=False)
        else:
            write_all()

    def _write(
        self,
        markers: Markers,
        partitions: Collection[TopicPartition],
        coordinator_epoch: int,
        done: Done,
        is_current: Callable[[], bool],
    ) -> None:
        if self._is_closed or not is_current():
            return

        def all_written(errors: list[ErrorCode]) -> None:
            failed = [
                each
                for each, error in zip(partitions, errors, strict=True)
                if error not in (ErrorCode.none, ErrorCode.unknown_topic_or_partition)
            ]
            fatal = (ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced)
            if any(error in fatal for error in errors):
                _log.info(
                    "TransactionalId %s: the markers are no longer needed, because the producer "
                    "or the coordinator has a newer epoch",
                    markers.transactional_id,
                )
                done(is_complete=False)
            elif failed:
                again = partial(self._write, markers, failed, coordinator_epoch, done, is_current)
                is_unexpected = ErrorCode.unknown_server_error in errors
                delay_ms = RETRY_FAILED_MS if is_unexpected else RETRY_MS
                self._timers.call_at(self._clock.now_ms() + delay_ms, again)
                done(is_complete=False)
            else:
                done(is_complete=True)

        producer = BatchProducer(markers.producer_id, markers.producer_epoch, is_control=True)
        marker = EndMarker(COMMIT if markers.commit else ABORT, coordinator_epoch)
        results = Gather(len(partitions), all_written)

        def write_all() -> CooperativeTask[None]:
            for place, (topic, index) in enumerate(partitions):
                if place and place % PARTITIONS_PER_STEP == 0:
                    yield None
                    if self._is_closed:
                        return
                    if not is_current():
                        done(is_complete=False)
                        return
                self.write_to(topic, index, producer, marker, partial(results.put, place))

        self._scheduler.spawn(write_all(), eager=True)

    def write_to(
        self, topic: str, index: int, producer: BatchProducer, marker: EndMarker, written: Written
    ) -> None:
        """Write a marker to one partition. Unexpected exceptions become UNKNOWN_SERVER_ERROR."""
        partition = self._topics.partition(topic, index)
        error: ErrorCode | None = ErrorCode.unknown_topic_or_partition
        try:
            if topic == OFFSETS_TOPIC and partition is not None:
                error = self._end_offsets(index, producer, marker, written)
            elif partition is not None:
                error = self._append(partition, producer, marker, written)
        except Exception:
            _log.exception("Writing a marker to %s-%d failed", topic, index)
            error = ErrorCode.unknown_server_error
        if error is not None:
            written(error)

    def _append(
        self, partition: Partition, producer: BatchProducer, marker: EndMarker, written: Written
    ) -> ErrorCode | None:
        """Append a marker. Return the result, or None if `written` is called after a sync."""
        try:
            log = partition.log
            if (error := marker_error(log, producer, marker)) is not ErrorCode.none:
                return error
            batch = BatchBuilder(producer)
            batch.add(*encode_marker(marker), self._clock.wall_ms())
            base_offset = log.end_offset
            log.append_built(batch)
        except (OSError, LogError) as error:
            self._group_commit.errors.failed(WRITING, partition.folder, error)
            opened = partition.opened_log
            if opened is not None and opened.failed is not None:
                partition.close_failed()
            return ErrorCode.kafka_storage_error
        if self._group_commit.durability == "fsync" or partition.settings.flush_messages == 1:
            # When the log is closed after a failure, the partition gets a new list.
            awaiting_sync = partition.awaiting_sync
            awaiting_sync.append(base_offset)

            def synced(error: OSError | None) -> None:
                if error is not None:
                    if awaiting_sync is partition.awaiting_sync:
                        partition.close_failed()
                    written(ErrorCode.kafka_storage_error)
                    return
                awaiting_sync.remove(base_offset)
                written(ErrorCode.none)  # first, because a delayed fetch might raise an exception
                partition.delayed_fetches.complete_all()

            self._group_commit.sync(log, synced)
            return None
        partition.delayed_fetches.complete_all()
        return ErrorCode.none

    def close(self) -> None:
        """Write no more markers. Prepared transactions are completed after the next start."""
        self._is_closed = True
