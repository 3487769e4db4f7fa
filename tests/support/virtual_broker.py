"""Brokers without an event loop, sockets or threads, and virtual time: callbacks and tasks run in
the order of their deadlines, and the clock jumps to each."""

import types
from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID, uuid4

from kohort.broker.build import coordinator_partition, leads_partition, new_quotas, new_transactions
from kohort.broker.build import group_config as new_group_config
from kohort.broker.client_telemetry import ClientTelemetry
from kohort.broker.cluster import Cluster, Node
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.listeners import Listener, SecurityProtocol
from kohort.broker.event_log import EventPublisher
from kohort.broker.event_loop.scheduler import Scheduler
from kohort.broker.event_loop.timers import Timer
from kohort.broker.fetch_sessions import FetchSessionCache
from kohort.broker.runtime.runtime import CoordinatorRuntime
from kohort.broker.security.security import Security, new_security
from kohort.broker.topic_metadata import ClusterTopics
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.deadlines import Deadlines
from kohort.coordinator.decision import GroupConfig
from kohort.log.files import Files
from kohort.log.group_commit import Durability, GroupCommit
from kohort.log.write_ahead import WriteAheadLog
from kohort.offsets.coordinator_topic import partition_for
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.topics.configs.effective import Configs
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import TopicRegistry
from kohort.topics.topic import Nodes, Partition
from kohort.topics.topics_view import TopicsView
from support.coordinator import new_coordinator
from support.runtime import new_runtime, no_time, run_now

LISTENER = Listener("PLAINTEXT", "broker.test", 9092, SecurityProtocol.PLAINTEXT)


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


Register = Callable[[Callable[[Any], None]], None]
"""Receives a callback to call once, when the wait is over."""


@types.coroutine
def wait(register: Register) -> Generator[Register, Any, Any]:
    return (yield register)


class Tasks:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.failure: BaseException | None = None
        """The exception of the first task that failed."""

    def start_task(self, coroutine: Coroutine[Any, Any, Any]) -> "Task":
        task = Task(self, coroutine)
        self._schedule.after(0, lambda: task.resume(None))
        return task

    async def sleep(self, ms: float) -> None:
        await wait(lambda wake: self._schedule.after(round(ms), lambda: wake(None)))


class Task:
    def __init__(self, tasks: Tasks, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._tasks, self._coroutine = tasks, coroutine
        self.is_over = False

    def resume(self, value: Any) -> None:
        if self.is_over:
            return
        try:
            register = self._coroutine.send(value)
        except StopIteration:
            self.is_over = True
        except BaseException as failure:
            self.is_over = True
            self._tasks.failure = self._tasks.failure or failure
        else:
            if not self.is_over:
                register(self.resume)

    def kill(self) -> None:
        """Stop the task. A task may stop itself."""
        self.is_over = True
        if not self._coroutine.cr_running:  # type: ignore[attr-defined]
            self._coroutine.close()


class VirtualBroker:
    """The topics and nodes of a broker, built as by broker/build.py. Subclasses define when
    callbacks run, what happens to synced files, and which ids and events there are."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        timers: Any,
        *,
        cluster_id: str = "kqTQaMhSSk2QIGlhVrdiyw",
        nodes: int = 1,
        config: BrokerConfig | None = None,
        configs: Configs | None = None,
        group_config: GroupConfig | None = None,
        offsets_partitions: int,
        retention_check_interval_ms: int = 600_000,
        durability: Durability,
        write_ahead: WriteAheadLog | None = None,
        seconds: Callable[[], float] = no_time,
    ) -> None:
        self.timers, self.clock = timers, timers.clock
        self.files, self.config = files, config or BrokerConfig({})
        self._group_config = group_config or new_group_config(self.config)
        self._offsets_partitions = offsets_partitions
        self._retention_check_interval_ms = retention_check_interval_ms
        self.group_commit = GroupCommit(
            durability=durability,
            call_soon=self.call_soon,
            sync_all=self.sync_all,
            write_ahead=write_ahead,
            seconds=seconds,
        )
        self.scheduler = Scheduler(
            self.call_soon, self.run_in_thread, seconds=no_time, slice_seconds=0
        )
        self.topics = self.new_topics(
            folder=folder,
            files=files,
            group_commit=self.group_commit,
            configs=configs or Configs(self.config, self.config.node_id),
            nodes=Nodes(range(1, nodes + 1)),
            new_id=self.new_id,
            now_ms=self.clock.now_ms,
            call_soon=self.scheduler.call,
        )
        self._view = TopicsView(self.topics)
        self.cluster = cluster = Cluster(cluster_id, self.topics, self.scheduler)
        security = new_security(
            self.config, self.topics, new_quotas(self.config, self.topics, self.clock.now_ms)
        )
        for node_id in self.topics.nodes.ids:
            cluster.nodes[node_id] = self._node(node_id, security)
        self.topics.on_deleted = cluster.topic_deleted

    # --- hooks for subclasses

    def call_soon(self, callback: Callable[[], None]) -> None:
        raise NotImplementedError

    def run_in_thread(
        self, work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        run_now(work, done)

    def sync_all(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        raise AssertionError("nothing is synced under durability none")

    def new_topics(self, **parts: Any) -> TopicRegistry:
        return TopicRegistry(**parts)

    def new_id(self) -> UUID:
        raise NotImplementedError

    def new_member_id(self) -> str:
        return str(self.new_id())

    def publisher(self, _node_id: int, _partition: int) -> Any:
        return EventPublisher("")

    # --- queries

    def offsets_partition(self, index: int) -> Partition:
        return coordinator_partition(self.topics, OFFSETS_TOPIC, index)

    def leader_of(self, group_id: str) -> int:
        """The node that coordinates the group, or NO_LEADER."""
        return self.offsets_partition(self.partition_of(group_id)).leader_id

    def context_of(self, group_id: str, node_id: int | None = None) -> Any:
        """A node's CoordinatorContext for the group's partition; by default the coordinator's."""
        node = self.cluster.nodes.get(self.leader_of(group_id) if node_id is None else node_id)
        return node and node.coordinators.contexts.get(self.partition_of(group_id))

    def partition_of(self, group_id: str) -> int:
        return partition_for(group_id, self._offsets_partitions)

    # --- the parts of a node

    def new_coordinator(self, _partition: int) -> tuple[Coordinator, OffsetsTable]:
        offsets = OffsetsTable()
        coordinator = new_coordinator(
            self._group_config,
            self.new_member_id,
            offsets,
            ClusterTopics(self._view),
            self.topics.configs.consumer_group,
        )
        return coordinator, offsets

    def _node(self, node_id: int, security: Security) -> Node:
        markers, transactions = new_transactions(
            *(node_id, self.config, self.topics, self.group_commit, self.timers, self.scheduler),
            *(self.clock, partial(self.cluster.leader_of, OFFSETS_TOPIC)),
        )
        configs = self.topics.configs.at(node_id)
        return Node(
            node_id=node_id,
            cluster=self.cluster,
            addresses={LISTENER.name: (LISTENER.host, LISTENER.port + node_id - 1)},
            config=self.config,
            configs=configs,
            group_config=self._group_config,
            clock=self.clock,
            timers=self.timers,
            client_timers=self.timers,
            group_commit=self.group_commit,
            topics=self.topics,
            view=self._view,
            fetch_sessions=FetchSessionCache(8, Random(0).randrange),
            telemetry=ClientTelemetry(configs, self.clock, uuid4),
            security=security,
            coordinators=self._runtime(node_id),
            transactions=transactions,
            markers=markers,
        )

    def _runtime(self, node_id: int) -> CoordinatorRuntime:
        runtime = new_runtime(
            partitions=self._offsets_partitions,
            partition=self.offsets_partition,
            group_commit=self.group_commit,
            timers=self.timers,
            scheduler=self.scheduler,
            cache=OffsetsCache(0),
            coordinator=self.new_coordinator,
            delayed_fetches=lambda index: self.offsets_partition(index).delayed_fetches,
            deleted_topics=self.cluster.deleted_topics,
            publisher=partial(self.publisher, node_id),
            leads=partial(leads_partition, node_id, self.offsets_partition),
            check_interval_ms=self._retention_check_interval_ms,
        )
        runtime.on_cleaned_up = self.cluster.check_cleaned_up
        return runtime


class ScheduledBroker(VirtualBroker):
    """A broker whose callbacks and timers run in virtual time. It is its own `timers`."""

    def __init__(self, folder: Path, files: Files, schedule: Schedule, **parts: Any) -> None:
        self.schedule = self.clock = schedule
        self.now_ms = schedule.now_ms
        super().__init__(folder, files, self, seconds=schedule.seconds, **parts)

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.schedule.after(0, callback)

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        return self.schedule.at(deadline_ms, callback)

    def run_in_thread(
        self, work: Callable[[], object], done: Callable[[BaseException | None], None]
    ) -> None:
        run_now(work, lambda error: self.call_soon(partial(done, error)))
