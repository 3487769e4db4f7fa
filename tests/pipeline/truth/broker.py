"""Our broker with everything but sockets: on a real folder, in a time that jumps.

What lies in the folder afterwards is what `kohort serve` leaves behind: logs, the registry of
topics, the event log.
"""

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from kohort.broker.build import group_config
from kohort.broker.cluster import Cluster
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.context import CoordinatorCodec
from kohort.broker.event_log import EventLog, EventPublisher
from kohort.broker.meta_properties import cluster_id_of
from kohort.broker.scheduler import Scheduler
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.decision import GroupConfig
from kohort.coordinator.outcome import GroupEvent
from kohort.log.batch import BatchBuilder
from kohort.log.files import DiskFiles
from kohort.log.group_commit import GroupCommit
from kohort.log.log import Log
from kohort.offsets.partitioner import partition_for
from kohort.offsets.table import OffsetsTable
from kohort.topics.configs import Configs
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import Topics
from kohort.topics.topic import Nodes
from support.virtual_time import ClusterParts, Schedule, run_in_thread

CONFIG = BrokerConfig({})
# A dozen groups share them as fifty would be shared by some hundreds.
OFFSETS_PARTITIONS = 3


class Turns:
    """The schedule as the broker's timers."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.now_ms = schedule.now_ms
        self.call_at = schedule.at


class TruthBroker:
    """`hear` is told what its coordinators decide, in the middle of it."""

    def __init__(
        self,
        folder: Path,
        schedule: Schedule,
        chance: Random,
        hear: Callable[[GroupEvent], None],
        *,
        nodes: int = 1,
        config: GroupConfig | None = None,
        check_interval_ms: int = 600_000,
    ) -> None:
        self._schedule, self._chance, self._hear = schedule, chance, hear
        self._config = config or group_config(CONFIG)
        self._scheduler = Scheduler(partial(schedule.after, 0), run_in_thread, slice_seconds=0)
        self._files = DiskFiles()
        folder.mkdir(parents=True, exist_ok=True)
        cluster_id = cluster_id_of(folder, self._files, 1)
        self._group_commit = GroupCommit(
            durability="none", call_soon=partial(schedule.after, 0), sync_all=self._sync
        )
        self.topics = Topics(
            folder=folder,
            files=self._files,
            group_commit=self._group_commit,
            configs=Configs(CONFIG, 1),
            nodes=Nodes(range(1, nodes + 1)),
            new_id=self._new_id,
            now_ms=schedule.now_ms,
            call_soon=self._scheduler.call,
        )
        self._events = EventLog(
            folder,
            self._files,
            cluster_id=cluster_id,
            now_ms=schedule.now_ms,
            call_soon=partial(schedule.after, 0),
            files_max=0,
        )
        self.cluster = self._new_cluster(cluster_id, check_interval_ms)
        self.topics.create(OFFSETS_TOPIC, OFFSETS_PARTITIONS, {})
        # With their coordinators begin the sweeps for what has expired.
        for node in self.cluster.nodes.values():
            node.coordinators.load(range(OFFSETS_PARTITIONS))

    def close(self) -> None:
        for node in self.cluster.nodes.values():
            node.coordinators.close()
        self._events.close()
        self.topics.close()

    def submit(self, node_id: int, command: Any, respond: Callable[[Any], None]) -> int:
        groups = self.cluster.nodes[node_id].coordinators
        return groups.submit(command, lambda _context, result: respond(result), None)

    def forget(self, node_id: int, ticket: int) -> None:
        """Whoever waited for this answer has lost its connection."""
        self.cluster.nodes[node_id].coordinators.forget(ticket)

    def coordinator_of(self, group_id: str) -> int:
        """The id of the node."""
        return self._offsets(group_id).leader_id

    def move_coordinator(self, group_id: str) -> None:
        """To the next node."""
        at = self.coordinator_of(group_id)
        index = partition_for(group_id, OFFSETS_PARTITIONS)
        self.cluster.move(OFFSETS_TOPIC, index, at % len(self.cluster.nodes) + 1)

    def group(self, group_id: str) -> Any:
        """What its coordinator knows of it; None: nothing."""
        index = partition_for(group_id, OFFSETS_PARTITIONS)
        shard = self.cluster.nodes[self.coordinator_of(group_id)].coordinators.contexts.get(index)
        return None if shard is None else shard.coordinator.groups.get(group_id)

    def produce(self, topic: str, partition: int, count: int) -> None:
        """So many records, with the time that it is."""
        found = self.topics.partition(topic, partition)
        assert found is not None, f"there is no {topic}-{partition}"
        batch = BatchBuilder()
        batch.add_all([(b"k", b"v")] * count, self._schedule.now_ms())
        found.log.append(batch.finish(found.log.end_offset))

    def end(self, topic: str, partition: int) -> int:
        found = self.topics.partition(topic, partition)
        return 0 if found is None else found.log.end_offset

    def _offsets(self, group_id: str) -> Any:
        return self.topics.partition(OFFSETS_TOPIC, partition_for(group_id, OFFSETS_PARTITIONS))

    def _new_cluster(self, cluster_id: str, check_interval_ms: int) -> Cluster:
        return ClusterParts(
            topics=self.topics,
            files=self._files,
            schedule=self._schedule,
            timers=Turns(self._schedule),
            scheduler=self._scheduler,
            group_commit=self._group_commit,
            group_config=self._config,
            offsets_partitions=OFFSETS_PARTITIONS,
            retention_check_interval_ms=check_interval_ms,
            new_coordinator=self._new_coordinator,
            publisher=self._publisher,
        ).build(cluster_id)

    def _publisher(self, node_id: int, _partition: int) -> EventPublisher:
        return EventPublisher("", [self._events.listener(node_id), self._hear])

    def _new_coordinator(self, _partition: int) -> tuple[Coordinator, OffsetsTable]:
        offsets = OffsetsTable()
        codec = CoordinatorCodec()
        return Coordinator(self._config, lambda: str(self._new_id()), codec, offsets), offsets

    def _new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    @staticmethod
    def _sync(logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None]) -> None:
        raise AssertionError("nothing is synced under durability none")
