"""When snapshots of the offsets partitions are written, and how: in turns with everything else."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from time import monotonic

from ..coordinator.coordinator import Coordinator
from ..log.log import Log
from ..offsets.records import GroupMetadataRecord, OffsetsRecord
from ..offsets.snapshot import SnapshotWriter
from ..offsets.spill import UnreadableGroup
from ..offsets.store import OffsetsStore
from .clock import Clock
from .shard import ServedShard, ShardState
from .timers import Timers

_log = logging.getLogger("kohort.coordinator")

# A log that has grown by so many records gets a new one: reading them takes some 50 ms.
EVERY_RECORDS = 10_000
# But not before so long after the last: writing one takes some 30 ms for 20,000 offsets, and
# commits may come by the hundred thousand in a second.
EVERY_MS = 60_000
# At the end of the broker a tail of fewer is left to be read.
AT_END_RECORDS = 1_000
# And it ends without the others when writing them takes longer: it has promised to be quick.
AT_END_SECONDS = 0.5


class Snapshots:
    """`misread(shard, error)` hears that what a table has in files cannot be read."""

    def __init__(
        self,
        store: OffsetsStore,
        clock: Clock,
        timers: Timers,
        misread: Callable[[ServedShard, OSError], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._timers = timers
        self._misread = misread

    def look_at(self, shard: ServedShard) -> None:
        """See to it that there is a snapshot once it is time for one."""
        log = shard.log
        assert log is not None
        if log.end_offset - shard.snapshot_end < EVERY_RECORDS or not self._store.is_kept:
            return
        if shard.snapshot is None and shard.snapshot_timer is None:
            due_ms = max(self._clock.now_ms(), shard.snapshot_ms + EVERY_MS)
            shard.snapshot_timer = self._timers.call_at(due_ms, partial(self._due, shard))

    def _due(self, shard: ServedShard) -> None:
        shard.snapshot_timer = None
        if shard.state is ShardState.ACTIVE:
            self._begin(shard)

    def _begin(self, shard: ServedShard) -> SnapshotWriter | None:
        log, coordinator = shard.log, shard.coordinator
        assert log is not None
        shard.snapshot_end, shard.snapshot_ms = log.end_offset, self._clock.now_ms()
        if coordinator.foreign.pending and not coordinator.table.is_spilt:
            return None  # what an open transaction has committed is only in the log
        try:
            writer = self._store.snapshot(log, coordinator.table, _stored(coordinator))
        except OSError as error:
            self._give_up(shard, error)
            return None
        shard.snapshot = writer
        self._timers.in_turn(partial(self._slice, shard, writer))
        return writer

    def _slice(self, shard: ServedShard, writer: SnapshotWriter) -> None:
        if shard.snapshot is not writer or shard.state is not ShardState.ACTIVE:
            return
        try:
            for _ in writer.slices:
                self._timers.in_turn(partial(self._slice, shard, writer))
                return
        except UnreadableGroup as error:
            self._misread(shard, error)
            return
        except OSError as error:
            self._give_up(shard, error)
            return
        if shard.coordinator.foreign.pending:
            self._abandon(shard)  # the table stands in it, and has let go of what it had spilt
            return
        assert shard.log is not None
        # It may tell of records that are not durable yet.
        self._store.on_durable(shard.log, partial(self._finish, shard, writer))

    def _finish(self, shard: ServedShard, writer: SnapshotWriter, error: OSError | None) -> None:
        if shard.snapshot is not writer:
            return
        assert shard.log is not None
        try:
            if error is None:
                writer.finish(shard.log.end_offset)
                shard.snapshot = None
                shard.log.write_manifest()
            else:
                self._give_up(shard, error)
        except OSError as failure:
            self._give_up(shard, failure)

    def _give_up(self, shard: ServedShard, error: OSError) -> None:
        _log.warning(
            "No snapshot of partition %d of the offsets topic is written now: %s",
            shard.partition,
            error,
        )
        self._abandon(shard)

    def drop(self, shard: ServedShard) -> None:
        """The shard's table is done with."""
        if shard.snapshot_timer is not None:
            shard.snapshot_timer.cancel()
            shard.snapshot_timer = None
        self._abandon(shard)
        shard.coordinator.table.close()

    def _abandon(self, shard: ServedShard) -> None:
        writer, shard.snapshot = shard.snapshot, None
        if writer is not None:
            with suppress(OSError):  # its name is left to the next one
                writer.abandon()

    def write_all(self, shards: Iterable[ServedShard]) -> None:
        """At the end of the broker, when all is durable."""
        if not self._store.is_kept:
            return
        until = monotonic() + AT_END_SECONDS
        for shard in shards:
            log = shard.log
            if log is None or shard.state is not ShardState.ACTIVE:
                continue
            try:
                self._write_at_end(shard, log, until)
                # This takes less than a millisecond.
                if log.end_offset - log.manifest_end_offset >= AT_END_RECORDS:
                    log.write_manifest()
            except OSError as error:
                self._give_up(shard, error)

    def _write_at_end(self, shard: ServedShard, log: Log, until: float) -> None:
        read_else = shard.snapshot_end if self._store.has_snapshot(log) else log.start_offset
        if log.end_offset - read_else < AT_END_RECORDS or monotonic() > until:
            return
        if shard.coordinator.foreign.pending:
            return
        self._abandon(shard)
        writer = self._begin(shard)
        if writer is None:
            return
        for _ in writer.slices:
            if monotonic() > until:
                return
        writer.finish(log.end_offset)
        shard.snapshot = None


def _stored(coordinator: Coordinator) -> Iterator[OffsetsRecord]:
    groups = coordinator.groups
    for group_id in list(groups):
        group = groups.get(group_id)
        if group is not None and group.stored is not None:
            yield GroupMetadataRecord(group_id, group.stored)
    # Of groups of other kinds the keys are all that is ever looked at.
    for foreign in list(coordinator.foreign.groups.values()):
        for tombstone in foreign.tombstones():
            yield tombstone._replace(value=b"")
