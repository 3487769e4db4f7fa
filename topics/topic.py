"""Topics and their partitions, with log, producer state, delayed fetches and leader.

All nodes share one data directory. Replicas determine which nodes can lead a partition, as in
Kafka, but all of them use the same log, so a replica that is up is never behind.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..log.checkpoint import PartitionCheckpoints
from ..log.errors import LogError
from ..log.files import Files
from ..log.log import Log, LogConfig, WriteAheadSource
from ..log.segment import segment_bytes_in
from .configs.effective import Configs, TopicSettings
from .delayed_fetch import DelayedFetches
from .names import is_internal, is_reserved
from .registry_log import Assignment

NO_LEADER: Final = -1
UNKNOWN_EPOCH: Final = -1


class Nodes:
    """The nodes of this process, with ids in port order. Initially, all nodes are up."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = tuple(ids)
        self.up = set(self.ids)

    @property
    def quorum_leader_id(self) -> int:
        """The id of the KRaft cluster's only controller. It is the first node, even while this node
        is stopped, because the topic registry keeps running."""
        return self.ids[0]

    def replicas(self, index: int, assignment: Assignment) -> tuple[int, ...]:
        """Return the replicas of a partition, preferred leader first: the nodes of the topic's
        `assignment` that exist. (Other nodes may have written the data folder.) If none of them
        exists, every node is a replica."""
        assigned = assignment[index] if index < len(assignment) else ()
        return tuple(id_ for id_ in assigned if id_ in self.ids) or rotated(self.ids, index)

    def in_sync(self, replicas: tuple[int, ...]) -> tuple[int, ...]:
        """Return the replicas that are up."""
        return tuple(id_ for id_ in replicas if id_ in self.up)

    def elect(self, candidates: Iterable[int]) -> int:
        """Return the first candidate that is up, or NO_LEADER if none is up."""
        return next((id_ for id_ in candidates if id_ in self.up), NO_LEADER)


def rotated(ids: tuple[int, ...], index: int) -> tuple[int, ...]:
    """Return the replicas of the partition with this index if every node has a replica. The nodes
    take turns as the preferred leader."""
    first = index % len(ids)
    return ids[first:] + ids[:first]


class PartitionDeleted(LogError):
    """The partition was deleted while a request or a task was using it."""


@dataclass(eq=False, repr=False)
class Partition:
    """A partition. Its log is opened on first use, because a broker may have many unused
    partitions. Methods that access the log may raise OSError or LogError."""

    name: str
    """The name in Kafka's messages and folder names: `orders-0`."""
    index: int
    data_folder: Path
    files: Files
    settings: TopicSettings
    checkpoints: PartitionCheckpoints
    replicas: tuple[int, ...]
    """Node ids, preferred leader first."""
    isr: tuple[int, ...]
    """The in-sync replicas, which are up; empty if there is no leader."""
    leader_id: int
    """The leader's node id, or NO_LEADER."""
    durable_reads_only: bool
    """Whether readers see only records that survive a power loss."""
    leader_epoch: int = 0
    """Incremented with each election, even if the leader remains the same."""
    elr: tuple[int, ...] = ()
    """The eligible leader replicas (KIP-966): those that were in sync when fewer than the topic's
    `min_isr` remained in sync. Such a replica may lead once it is up again."""
    last_known_elr: tuple[int, ...] = ()
    """The last leader, if the partition has no leader now."""
    delayed_fetches: DelayedFetches = field(default_factory=DelayedFetches)
    unflushed_records: int = 0
    awaiting_sync: list[int] = field(default_factory=list)
    """Base offsets, in order, of the batches that await a sync before they are acknowledged.
    Readers see only earlier batches."""
    flush_is_scheduled: bool = False
    """Whether the flush.ms timer is set."""
    is_deleted: bool = False
    """Whether the log must not be opened again. The folder may belong to a new partition."""
    opened_log: Log | None = None
    """The log, if it is open."""
    _write_ahead: WriteAheadSource | None = None
    _truncate_to: int | None = None
    _rewrite_from: int | None = None

    def configure(self, settings: TopicSettings, leader_id: int, leader_epoch: int) -> None:
        self.settings, self.leader_id, self.leader_epoch = settings, leader_id, leader_epoch
        if self.opened_log is not None:
            self.opened_log.config = self._log_config()

    @property
    def min_isr(self) -> int:
        """Minimum number of in-sync replicas for writes with acks=all (upstream:
        Partition.effectiveMinIsr)."""
        return min(self.settings.min_insync_replicas, len(self.replicas))

    def set_isr(self, isr: tuple[int, ...], min_isr: int) -> None:
        """Replace the in-sync replicas. `min_isr` is the topic's. If `isr` is empty, `leader_id`
        must still be the last leader (upstream: PartitionChangeBuilder.maybePopulateTargetElr)."""
        if not isr and not self.isr:
            return  # there was no leader before
        former = {*self.elr, *self.isr}.difference(isr)
        self.elr = () if len(isr) >= min_isr else tuple(sorted(former))
        self.last_known_elr = () if isr else (self.leader_id,)
        self.isr = isr

    def begin_isr(self, leader_id: int) -> None:
        """Make a new leader the only in-sync replica. If it was not an eligible leader replica, the
        election was unclean, and no replica remains eligible (upstream:
        PartitionChangeBuilder.tryElection)."""
        others = tuple(each for each in self.elr if each != leader_id)
        self.elr = others if leader_id in self.elr else ()
        self.isr, self.last_known_elr = (leader_id,), ()

    def use_write_ahead(self, write_ahead: WriteAheadSource | None) -> None:
        self._write_ahead = write_ahead
        if self.opened_log is not None:
            self.opened_log.write_ahead = write_ahead

    @property
    def folder(self) -> Path:
        # Not an attribute, because joining the paths would take half of the time to create 10,000
        # partitions.
        return self.data_folder / self.name

    @property
    def log(self) -> Log:
        if self.opened_log is None:
            if self.is_deleted:
                raise PartitionDeleted(f"{self.name} was deleted")
            self.opened_log = Log.open(
                self.folder,
                self.files,
                self._log_config(),
                start_offset=self.checkpoints.start_offsets.get(self.name),
                truncate_to=self._truncate_to,
                rewrite_from=self._rewrite_from,
                write_ahead=self._write_ahead,
            )
            self._truncate_to = self._rewrite_from = None
            newest, _ = self.opened_log.leader_epochs()[-1]
            if newest > self.leader_epoch:
                # An election record was lost, or Kafka wrote the log. Epochs must not be reused.
                self.configure(self.settings, self.leader_id, newest + 1)
        return self.opened_log

    def reopen(self, end_offset: int | None = None) -> Log:
        """Reopen the log from its files. The caller ensures that nothing uses the open log. Batches
        from `end_offset` on are truncated, because their producers received an error. If the
        truncation fails, the next opening retries it, and the log must not be used before that."""
        if end_offset is not None:
            self._truncate_to = end_offset
        self.close()
        return self.log

    @property
    def size(self) -> int:
        """Size of the log in bytes, without opening it."""
        if self.opened_log is not None:
            return self.opened_log.size
        return segment_bytes_in(self.folder, self.files)

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def high_watermark(self) -> int:
        """End offset for readers, which is the log's end, or its durable end if
        `durable_reads_only`, but at most the first offset in `awaiting_sync`."""
        end = self.log.synced_offset if self.durable_reads_only else self.log.end_offset
        return min(end, self.awaiting_sync[0]) if self.awaiting_sync else end

    @property
    def last_stable_offset(self) -> int:
        """End offset for readers with read_committed, below which all transactions have ended."""
        high_watermark = self.high_watermark
        first_unstable = self.log.producers.first_unstable_offset(high_watermark)
        if first_unstable is None:
            return high_watermark
        # The first records of an open transaction may have been deleted.
        return min(max(first_unstable, self.start_offset), high_watermark)

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (the largest epoch <= `epoch`, its end offset), both UNKNOWN_EPOCH if unknown. An
        epoch older than all known epochs ends at the start of the first one. Upstream:
        LeaderEpochFileCache.endOffsetFor."""
        epochs = self.log.leader_epochs()
        if epoch == epochs[-1][0]:
            return epoch, self.log.end_offset
        later = next((offset for each, offset in epochs if each > epoch), None)
        if epoch == UNKNOWN_EPOCH or later is None:
            return UNKNOWN_EPOCH, UNKNOWN_EPOCH
        return max((each for each, _ in epochs if each <= epoch), default=epoch), later

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch at `offset`, or UNKNOWN_EPOCH below the first known epoch."""
        epochs = self.log.leader_epochs()
        return max((epoch for epoch, begin in epochs if begin <= offset), default=UNKNOWN_EPOCH)

    def close_failed(self) -> None:
        """Close the log after a failed write or sync. The next opening truncates the batches in
        `awaiting_sync`, whose producers received an error, and rewrites other unsynced batches."""
        log, awaiting_sync = self.opened_log, self.awaiting_sync
        self.close()
        if log is not None:
            self._rewrite_from = log.synced_offset
        if log is not None and awaiting_sync:
            self._truncate_to = max(awaiting_sync[0], log.synced_offset)
            self.awaiting_sync = []

    def close(self) -> None:
        """Close the files, which are reopened on next use."""
        if self.opened_log is not None:
            self.opened_log.close()
        self.opened_log = None

    def delete(self) -> None:
        """Remove the log and its folder."""
        self.is_deleted = True
        # A log need not be opened and recovered to be deleted.
        log = self.opened_log or Log(self.folder, self.files, LogConfig(), read_only=True)
        self.opened_log = None
        log.delete()
        self.checkpoints.remove(self.name)

    def _log_config(self) -> LogConfig:
        settings, segment_ms = self.settings, self.settings.segment_ms
        if settings.compacted:
            # The active segment cannot be compacted, so max.compaction.lag.ms also rolls segments
            # (upstream: LogConfig.maxSegmentMs).
            segment_ms = min(segment_ms, settings.max_compaction_lag_ms)
        # As in Kafka, ordinary topics are not synced by default, even when they are opened.
        return LogConfig(
            segment_bytes=settings.segment_bytes,
            segment_ms=segment_ms,
            index_interval_bytes=settings.index_interval_bytes,
            max_message_bytes=settings.max_message_bytes,
            leader_epoch=self.leader_epoch,
            sync_at_open=self.durable_reads_only,
            reports_gaps=not (settings.compacted or self.name in self.checkpoints.cleaned_offsets),
        )


class Topic:
    """A topic, which only the registry modifies. `overrides` is its dynamic configuration."""

    def __init__(self, name: str, id_: uuid.UUID, configs: Configs) -> None:
        self.name = name
        self.id = id_
        self.is_internal, self.is_reserved = is_internal(name), is_reserved(name)
        self.overrides: Mapping[str, str] = {}
        self.assignment: Assignment = ()
        self.partitions: list[Partition] = []
        self._configs = configs
        self._settings: dict[int, TopicSettings] = {}

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def min_isr(self) -> int:
        """Number of in-sync replicas below which a partition has eligible leader replicas. The
        first partition determines the number for all partitions (upstream:
        ReplicationControlManager.getTopicEffectiveMinIsr)."""
        return self.partitions[0].min_isr

    def settings_at(self, node_id: int) -> TopicSettings:
        """Return the settings of partitions led by this node. Nodes may have different defaults."""
        if node_id not in self._settings:
            self._settings[node_id] = self._configs.at(node_id).settings(self.overrides)
        return self._settings[node_id]

    def configure(
        self, overrides: Mapping[str, str], settings: dict[int, TopicSettings] | None = None
    ) -> None:
        """Set the overrides, and adopt the nodes' current defaults. `settings` is keyed by
        node id, and shared by topics with the same overrides."""
        self.overrides = overrides
        self._settings = {} if settings is None else settings
        for partition in self.partitions:
            before = partition.settings.min_insync_replicas
            self.set_leader(partition, partition.leader_id, partition.leader_epoch)
            if partition.isr and partition.settings.min_insync_replicas != before:
                partition.elr = ()  # upstream: ReplicationControlManager, KIP-966

    def set_leader(self, partition: Partition, leader_id: int, epoch: int) -> None:
        partition.configure(self.settings_at(leader_id), leader_id, epoch)

    def adopt(self, partitions: list[Partition]) -> list[Partition]:
        """After a registry reload, reuse the previous Partition objects. Return the removed
        ones."""
        kept = partitions[: len(self.partitions)]
        for partition, stored in zip(kept, self.partitions, strict=False):
            leader_id, epoch = partition.leader_id, partition.leader_epoch
            if partition.replicas != stored.replicas:
                partition.replicas, partition.isr = stored.replicas, stored.isr
                partition.elr = partition.last_known_elr = ()
            if stored.leader_id == NO_LEADER and leader_id in stored.isr:
                # The node has returned, and only the record of its election was lost.
                stored.leader_id = leader_id
            partition.set_isr(() if stored.leader_id == NO_LEADER else stored.isr, self.min_isr)
            if leader_id != stored.leader_id:
                # Bump the epoch, because clients may have seen the old one with another leader.
                leader_id, epoch = stored.leader_id, max(epoch + 1, stored.leader_epoch)
            self.set_leader(partition, leader_id, epoch)
        self.partitions[: len(kept)] = kept
        return partitions[len(kept) :]
