"""Virtual time: callbacks run in the order of their deadlines, and the clock jumps to each. A
broker's nodes can run on it, without an event loop, sockets or threads."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from kohort.broker.cluster import Cluster, Node
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.context import CoordinatorContext
from kohort.broker.fetch_sessions import FetchSessionCache
from kohort.broker.runtime import CoordinatorRuntime
from kohort.broker.scheduler import Scheduler
from kohort.broker.timers import Timer
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.deadlines import Deadlines
from kohort.coordinator.decision import GroupConfig
from kohort.log.files import Files
from kohort.log.group_commit import GroupCommit
from kohort.offsets.store import OffsetsStore
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import TopicRegistry, TopicsView


class Schedule:
    def __init__(self) -> None:
        self.start_ms = self._now_ms = 1_700_000_000_000
        self._deadlines: Deadlines[Timer] = Deadlines()

    def now_ms(self) -> int:
        return self._now_ms

    wall_ms = now_ms

    def seconds(self) -> float:
        return self._now_ms / 1000

    def at(self, ms: int, callback: Callable[[], None]) -> Timer:
        """Callbacks with the same deadline run in the order in which they were scheduled."""
        timer = Timer(self._deadlines, ms, callback)
        self._deadlines.set(timer, max(ms, self._now_ms))
        return timer

    def after(self, ms: int, callback: Callable[[], None]) -> Timer:
        return self.at(self._now_ms + ms, callback)

    def next_due(self, until_ms: int) -> Callable[[], None] | None:
        """Advance to the next callback due by `until_ms` and return it. Without one, advance to
        `until_ms` and return None."""
        popped = self._deadlines.pop_due(until_ms)
        if popped is not None:
            timer, self._now_ms = popped
            return timer.callback
        self._now_ms = max(self._now_ms, until_ms)
        return None


@dataclass(frozen=True, kw_only=True)
class ClusterParts:
    """The parts from which `build` makes a cluster with all its nodes, as broker/build.py does."""

    topics: TopicRegistry
    files: Files
    schedule: Schedule
    timers: Any
    scheduler: Scheduler
    group_commit: GroupCommit
    group_config: GroupConfig
    offsets_partitions: int
    retention_check_interval_ms: int
    new_coordinator: Callable[[int], tuple[Coordinator, OffsetsTable]]
    publisher: Callable[[int, int], Any]
    """publisher(node id, partition)"""

    def build(self, cluster_id: str) -> Cluster:
        cluster = Cluster(cluster_id, self.topics, self.scheduler)
        for node_id in self.topics.nodes.ids:
            cluster.nodes[node_id] = self._node(cluster, node_id)
        self.topics.on_deleted = cluster.topic_deleted
        return cluster

    def _node(self, cluster: Cluster, node_id: int) -> Node:
        return Node(
            node_id=node_id,
            cluster=cluster,
            address=(cluster.id, node_id),
            config=BrokerConfig({}),
            configs=self.topics.configs,
            group_config=self.group_config,
            clock=self.schedule,
            timers=self.timers,
            client_timers=self.timers,
            group_commit=self.group_commit,
            topics=self.topics,
            view=TopicsView(self.topics),
            fetch_sessions=FetchSessionCache(8, Random(0).randrange),
            coordinators=self._runtime(cluster, node_id),
        )

    def _runtime(self, cluster: Cluster, node_id: int) -> CoordinatorRuntime:
        def partition(index: int) -> Any:
            return self.topics.partition(OFFSETS_TOPIC, index)

        def new_context(index: int) -> CoordinatorContext:
            coordinator, offsets = self.new_coordinator(index)
            publisher, fetches = self.publisher(node_id, index), partition(index).delayed_fetches
            return CoordinatorContext(index, coordinator, offsets, publisher, fetches)

        runtime = CoordinatorRuntime(
            store=OffsetsStore(
                partitions=self.offsets_partitions,
                partition=partition,
                group_commit=self.group_commit,
                files=self.files,
            ),
            cache=OffsetsCache(0),
            clock=self.schedule,
            timers=self.timers,
            scheduler=self.scheduler,
            new_context=new_context,
            new_coordinator=self.new_coordinator,
            leads=lambda index: partition(index).leader_id == node_id,
            deleted_topics=cluster.deleted_topics,
            retention_check_interval_ms=self.retention_check_interval_ms,
        )
        runtime.on_cleaned_up = cluster.check_cleaned_up
        return runtime


def run_in_thread(
    _work: Callable[[], object], _done: Callable[[BaseException | None], None]
) -> None:
    raise AssertionError("no task needs a thread")
