"""Schedules the snapshots of offsets partitions (offsets/snapshot.py)."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic

from ...coordinator.coordinator import Coordinator
from ...log.log import Log
from ...log.tasks import CooperativeTask
from ...offsets.records import GroupMetadataRecord, OffsetsRecord
from ...offsets.snapshot import SnapshotWriter
from ...offsets.spill import UnreadableBlock
from ...offsets.store import OffsetsStore
from ..event_loop.scheduler import Scheduler
from ..event_loop.timers import Clock, Timers
from .context import CoordinatorContext, CoordinatorState

_log = logging.getLogger("kohort.coordinator")

# These are not Final, because tests lower them and a compiled build inlines Final values.

# A snapshot is due after this many appended records, whose replay takes about 50 ms.
EVERY_RECORDS = 10_000
# Minimum interval between snapshots, because writing 20,000 offsets takes about 30 ms, and hundreds
# of thousands of commits may arrive per second.
EVERY_MS = 60_000
# When the broker stops, it writes no snapshot for a log tail shorter than this, which the next
# start replays.
AT_STOP_RECORDS = 1_000
# Time limit for snapshots when the broker stops. The remaining partitions are skipped.
AT_STOP_SECONDS = 0.5


class Snapshots:
    """Writes snapshots when due. `corrupted(context, error)` is called when evicted offsets cannot
    be read."""

    def __init__(
        self,
        store: OffsetsStore,
        clock: Clock,
        timers: Timers,
        scheduler: Scheduler,
        corrupted: Callable[[CoordinatorContext, OSError], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers
        self._scheduler = scheduler
        self._corrupted = corrupted
        self.every_records = EVERY_RECORDS

    def schedule(self, context: CoordinatorContext) -> None:
        """Schedule a snapshot, unless one is pending. Called when the log has grown by
        `every_records` since the last snapshot."""
        if not self._store.is_persistent:
            return
        if context.snapshot is None and context.snapshot_timer is None:
            due_ms = max(self._clock.now_ms(), context.snapshot_ms + EVERY_MS)
            context.snapshot_timer = self._timers.call_at(due_ms, partial(self._begin, context))

    def _begin(self, context: CoordinatorContext) -> None:
        context.snapshot_timer = None
        if context.state is CoordinatorState.ACTIVE:
            # Only offsets that are pending now are missing both from the snapshot and from the log
            # after its start. Offsets of transactions that begin later are in that part of the log.
            is_complete = not context.coordinator.pending_offsets
            writer = self._open(context)
            if writer is not None:
                self._scheduler.spawn(self._write(context, writer, is_complete=is_complete))

    def _open(self, context: CoordinatorContext) -> SnapshotWriter | None:
        log, coordinator = context.log, context.coordinator
        assert log is not None
        context.snapshot_ms = self._clock.now_ms()
        if coordinator.pending_offsets and not context.offsets.has_spill_file:
            # With open transactions, a snapshot is incomplete. It could only replace a spill file.
            return None
        try:
            metadata = _group_metadata(coordinator)
            writer = self._store.begin_snapshot(log, context.offsets, metadata)
        except OSError as error:
            self._fail(context, error)
            return None
        context.snapshot = writer
        return writer

    def _write(
        self, context: CoordinatorContext, writer: SnapshotWriter, *, is_complete: bool
    ) -> CooperativeTask[None]:
        try:
            for _ in writer.steps:
                yield None
                if context.snapshot is not writer:
                    return
        except UnreadableBlock as error:
            self._corrupted(context, error)
            return
        except OSError as error:
            self._fail(context, error)
            return
        if not is_complete:
            self._abandon(context)  # evicted groups can still be read from the removed file
            return
        assert context.log is not None
        # The snapshot may contain records that are not durable yet.
        self._store.on_durable(context.log, partial(self._finish, context, writer))

    def _finish(
        self, context: CoordinatorContext, writer: SnapshotWriter, error: OSError | None
    ) -> None:
        if context.snapshot is not writer:
            return
        assert context.log is not None
        try:
            if error is None:
                self._publish(context, context.log, writer)
                context.log.write_manifest()
            else:
                self._fail(context, error)
        except FileNotFoundError:
            # Compaction also removes an unpublished snapshot.
            self._abandon(context)
        except OSError as failure:
            self._fail(context, failure)

    def _fail(self, context: CoordinatorContext, error: OSError) -> None:
        _log.warning(
            "Failed to write the snapshot of partition %d of __consumer_offsets: %s",
            context.partition,
            error,
        )
        self._abandon(context)

    def drop(self, context: CoordinatorContext) -> None:
        """Stop writing, and close the context's offsets."""
        if context.snapshot_timer is not None:
            context.snapshot_timer.cancel()
            context.snapshot_timer = None
        self._abandon(context)
        context.offsets.close()

    def _abandon(self, context: CoordinatorContext) -> None:
        writer, context.snapshot = context.snapshot, None
        if writer is not None:
            with suppress(OSError):  # the next snapshot replaces the file
                writer.abandon()

    def write_all(self, contexts: Iterable[CoordinatorContext]) -> None:
        """Write snapshots before the broker stops. All records must be durable."""
        if not self._store.is_persistent:
            return
        until = monotonic() + AT_STOP_SECONDS
        for context in contexts:
            log = context.log
            if log is None or context.state is not CoordinatorState.ACTIVE:
                continue
            try:
                self._write_at_stop(context, log, until)
                # Writing the manifest takes less than a millisecond.
                if log.end_offset - log.manifest_end_offset >= AT_STOP_RECORDS:
                    log.write_manifest()
            except OSError as error:
                self._fail(context, error)

    def _write_at_stop(self, context: CoordinatorContext, log: Log, until: float) -> None:
        replay_from = context.snapshot_end if self._store.has_snapshot(log) else log.start_offset
        if log.end_offset - replay_from < AT_STOP_RECORDS or monotonic() > until:
            return
        if context.coordinator.pending_offsets:
            return
        self._abandon(context)
        writer = self._open(context)
        if writer is None:
            return
        for _ in writer.steps:
            if monotonic() > until:
                return
        self._publish(context, log, writer)

    def _publish(self, context: CoordinatorContext, log: Log, writer: SnapshotWriter) -> None:
        writer.finish(log.end_offset)
        context.snapshot, context.snapshot_end = None, writer.start_offset


def _group_metadata(coordinator: Coordinator) -> Iterator[OffsetsRecord]:
    """Yield the records of every group, except offsets. Groups may change during the iteration."""
    groups = coordinator.groups
    for group_id in list(groups):
        group = groups.get(group_id)
        if group is not None and group.stored is not None:
            yield GroupMetadataRecord(group_id, group.stored)
    for consumer_group in list(coordinator.consumer_groups.values()):
        yield from list(consumer_group.records())
    # For share and streams groups, only the record keys are needed.
    for other in list(coordinator.other_groups.groups.values()):
        for tombstone in other.tombstones():
            yield tombstone._replace(value=b"")
