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
from kohort.broker.cluster import Cluster, Node
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.context import CoordinatorCodec, CoordinatorContext
from kohort.broker.event_log import EventLog, EventPublisher
from kohort.broker.fetch_sessions import FetchSessionCache
from kohort.broker.meta_properties import cluster_id_of
from kohort.broker.runtime import CoordinatorRuntime
from kohort.broker.scheduler import Scheduler
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.decision import GroupConfig
from kohort.coordinator.outcome import GroupEvent
from kohort.log.batch import BatchBuilder
from kohort.log.files import DiskFiles
from kohort.log.group_commit import GroupCommit
from kohort.log.log import Log
from kohort.offsets.partitioner import partition_for
from kohort.offsets.store import OffsetsStore
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.topics.configs import Configs
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import Topics, TopicsView
from kohort.topics.topic import Nodes
from support.schedule import Schedule

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
        self._check_interval_ms = check_interval_ms
        self._timers = Turns(schedule)
        self._scheduler = Scheduler(partial(schedule.after, 0), self._no_threads, slice_seconds=0)
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
        self.cluster = Cluster(cluster_id, self.topics, self._scheduler)
        for node_id in self.topics.nodes.ids:
            node = self.cluster.nodes[node_id] = self._node(node_id)
            node.coordinators.on_cleaned_up = self.cluster.check_cleaned_up
        self.topics.on_deleted = self.cluster.topic_deleted
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

    def _node(self, node_id: int) -> Node:
        def partition(index: int) -> Any:
            return self.topics.partition(OFFSETS_TOPIC, index)

        timers: Any = self._timers
        return Node(
            node_id=node_id,
            cluster=self.cluster,
            address=("truth", node_id),
            config=CONFIG,
            configs=self.topics.configs,
            group_config=self._config,
            clock=self._schedule,
            timers=timers,
            client_timers=timers,
            group_commit=self._group_commit,
            topics=self.topics,
            view=TopicsView(self.topics),
            fetch_sessions=FetchSessionCache(8, Random(0).randrange),
            coordinators=CoordinatorRuntime(
                store=OffsetsStore(
                    partitions=OFFSETS_PARTITIONS,
                    partition=partition,
                    group_commit=self._group_commit,
                    files=self._files,
                ),
                cache=OffsetsCache(0),
                clock=self._schedule,
                timers=timers,
                scheduler=self._scheduler,
                new_context=lambda index: CoordinatorContext(
                    index,
                    *self._new_coordinator(index),
                    EventPublisher("", [self._events.listener(node_id), self._hear]),
                    partition(index).delayed_fetches,
                ),
                new_coordinator=self._new_coordinator,
                leads=lambda index: partition(index).leader_id == node_id,
                deleted_topics=self.cluster.deleted_topics,
                retention_check_interval_ms=self._check_interval_ms,
            ),
        )

    def _new_coordinator(self, _partition: int) -> tuple[Coordinator, OffsetsTable]:
        offsets = OffsetsTable()
        codec = CoordinatorCodec()
        return Coordinator(self._config, lambda: str(self._new_id()), codec, offsets), offsets

    def _new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    @staticmethod
    def _no_threads(
        work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        raise AssertionError("no task needs a thread")

    @staticmethod
    def _sync(logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None]) -> None:
        raise AssertionError("nothing is synced under durability none")
