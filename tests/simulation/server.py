"""The broker of a world: the real registry, nodes, runtimes, rounds, logs and coordinators, put
together as broker/broker.py does it, life after life."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.broker.cluster import Cluster, Node
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.context import CoordinatorCodec, CoordinatorContext, CoordinatorState
from kohort.broker.fetch_sessions import FetchSessionCache
from kohort.broker.runtime import CoordinatorRuntime
from kohort.broker.scheduler import Scheduler
from kohort.broker.timers import Timer
from kohort.coordinator.commands import DescribeGroup
from kohort.coordinator.coordinator import Coordinator
from kohort.coordinator.outcome import Event, EventType, LogLine
from kohort.log.files import finish_deletions
from kohort.log.group_commit import GroupCommit
from kohort.log.log import Log
from kohort.log.write_ahead import WriteAheadLog
from kohort.offsets.causes import Cause
from kohort.offsets.records import GroupTombstone, OffsetTombstone
from kohort.offsets.store import OffsetsStore
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.topics.configs import Configs, StaticBrokerConfig, TopicSettings
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import Topics, TopicsView
from kohort.topics.topic import Nodes, Partition, Topic

if TYPE_CHECKING:
    from simulation.world import World

DATA = Path("/data")
CONFIG = BrokerConfig({})
SETTINGS = Configs(CONFIG, 1).settings({})  # worked out once: a life begins in a millisecond


class SmallSegments(Configs):
    """Kafka allows no segments below a MiB; here they are full after a few commits."""

    def __init__(self, segment_bytes: int) -> None:
        super().__init__(CONFIG, 1)
        self._settings = SETTINGS._replace(segment_bytes=segment_bytes)

    def at(self, _node_id: int, _broker: StaticBrokerConfig | None = None) -> SmallSegments:
        return self

    def settings(self, _overrides: Mapping[str, str]) -> TopicSettings:
        return self._settings


class WatchedTopics(Topics):
    def __init__(self, world: World, **parts: Any) -> None:
        super().__init__(**parts)
        self._world = world

    def elect(self, topic: Topic, partition: Partition, leader_id: int) -> None:
        super().elect(topic, partition, leader_id)
        self._world.invariants.elected(self, topic, partition)


class ExpirationWatcher:
    """In place of a publisher: reports what a sweep has decided, while the groups are still as they
    were when it did."""

    def __init__(self, life: Life, context: Callable[[], CoordinatorContext]) -> None:
        self._life = life
        self._context = context

    def publish(self, events: Sequence[Event]) -> None:
        records: list[OffsetTombstone | GroupTombstone] = []
        for event in events:
            if isinstance(event, LogLine):
                if event.message.startswith("[GroupId %s] Expired offset"):
                    group_id, topic, partition = event.arguments
                    records.append(OffsetTombstone(group_id, topic, partition))  # type: ignore[arg-type]
            elif event.type is EventType.GROUP_DELETED and event.cause is Cause.GROUP_EXPIRED:
                records.append(GroupTombstone(event.group_id))
        if records:
            world = self._life.world
            world.invariants.sweeps(self._context().coordinator, records, world.schedule.now_ms())


class Life:
    """One life of the broker, with all its nodes. What it has asked to be done later is not done
    once it is over. Beginning one raises what opening the data does (OSError, LogError)."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.is_over = False
        self._unsettled: set[str] = set()  # topics that are made just now
        self._chance = Random(f"{world.seed} life {number}")
        setting = world.setting
        write_ahead = WriteAheadLog(DATA, world.files, setting.write_ahead_bytes)
        self.group_commit = GroupCommit(
            durability=setting.durability,
            call_soon=self._call_soon,
            sync_all=self._sync_all,
            write_ahead=write_ahead,
            seconds=world.schedule.seconds,
        )
        self.scheduler = Scheduler(self._call_soon, self._run_now, slice_seconds=0)
        self.cache = OffsetsCache(0)
        finish_deletions(DATA, world.files)
        self.topics = WatchedTopics(
            world,
            folder=DATA,
            files=world.files,
            group_commit=self.group_commit,
            configs=SmallSegments(setting.segment_bytes),
            nodes=Nodes(range(1, setting.nodes + 1)),
            new_id=lambda: uuid.UUID(int=int(world.new_id())),
            now_ms=world.schedule.now_ms,
            call_soon=self.scheduler.call,
        )
        self.cluster = Cluster("simulated", self.topics, self.scheduler)
        for node_id in self.topics.nodes.ids:
            node = self.cluster.nodes[node_id] = self._node(node_id)
            node.coordinators.on_cleaned_up = self.cluster.check_cleaned_up
        self.topics.on_deleted = self._topic_deleted
        # What is on the disk is read, so that sessions are watched and offsets expire.
        for node in self.cluster.nodes.values():
            node.coordinators.load(
                index
                for index in range(setting.offsets_partitions)
                if world.files.exists(DATA / (name := f"{OFFSETS_TOPIC}-{index}"))
                or write_ahead.has_batches_for(name)
            )

    def _node(self, node_id: int) -> Node:
        world = self.world
        return Node(
            node_id=node_id,
            cluster=self.cluster,
            address=("simulated", node_id),
            config=CONFIG,
            configs=self.topics.configs,
            group_config=world.setting.config,
            clock=world.schedule,
            timers=self,  # type: ignore[arg-type]
            client_timers=self,  # type: ignore[arg-type]
            group_commit=self.group_commit,
            topics=self.topics,
            view=TopicsView(self.topics),
            fetch_sessions=FetchSessionCache(8, Random(0).randrange),
            coordinators=CoordinatorRuntime(
                store=OffsetsStore(
                    partitions=world.setting.offsets_partitions,
                    partition=self.partition,
                    group_commit=self.group_commit,
                    files=world.files,
                ),
                cache=self.cache,
                clock=world.schedule,
                timers=self,  # type: ignore[arg-type]
                scheduler=self.scheduler,
                new_context=partial(self._new_context, node_id),
                new_coordinator=self._new_coordinator,
                leads=lambda index: self.partition(index).leader_id == node_id,
                deleted_topics=self.cluster.deleted_topics,
                retention_check_interval_ms=world.setting.retention_check_interval_ms,
            ),
        )

    def _new_coordinator(self, _partition: int) -> tuple[Coordinator, OffsetsTable]:
        world, offsets = self.world, OffsetsTable()
        return Coordinator(world.setting.config, world.new_id, CoordinatorCodec(), offsets), offsets

    def _new_context(self, node_id: int, index: int) -> CoordinatorContext:
        contexts = self.cluster.nodes[node_id].coordinators.contexts
        watcher: Any = ExpirationWatcher(self, lambda: contexts[index])
        coordinator, offsets = self._new_coordinator(index)
        delayed_fetches = self.partition(index).delayed_fetches
        return CoordinatorContext(index, coordinator, offsets, watcher, delayed_fetches)

    # --- looking

    def partition(self, index: int) -> Partition:
        """Of the offsets topic."""
        found = self.topics.partition(OFFSETS_TOPIC, index)
        assert found is not None, "the offsets topic never loses partitions"
        return found

    def has_topic(self, name: str) -> bool:
        """Whether clients have been told of it: before, it may yet turn out never to have been."""
        return self.topics.get(name) is not None and name not in self._unsettled

    def leader_of(self, group_id: str) -> int:
        """The node that coordinates the group; NO_LEADER if none does."""
        return self.partition(self.world.partition_of(group_id)).leader_id

    def shard_of(self, group_id: str, node_id: int | None = None) -> Any:
        """What a node, by default the group's coordinator, has of the group's partition
        (broker/shard.py: CoordinatorContext)."""
        node = self.cluster.nodes.get(self.leader_of(group_id) if node_id is None else node_id)
        return node and node.coordinators._contexts.get(self.world.partition_of(group_id))

    def look_at(self, group_id: str, node_id: int) -> None:
        """Have its partition read, if that can be, so that a request meets what was seen before."""
        shard = self.shard_of(group_id, node_id)
        if shard is None or shard.state is not CoordinatorState.ACTIVE:
            groups = self.cluster.nodes[node_id].coordinators
            groups.submit(DescribeGroup(group_id), lambda _context, _result: None, None)
            self.world.invariants.after_event(self)

    @property
    def shards(self) -> list[Any]:
        return [
            each
            for node in self.cluster.nodes.values()
            for each in node.coordinators._contexts.values()
        ]

    # --- what an operator does

    def make_topic(self, name: str) -> None:
        self._unsettled.add(name)
        self.topics.create(name, self.world.setting.topic_partitions, {})
        self.topics.on_durable(lambda error: error or self._unsettled.discard(name))

    def move(self, topic: str, index: int, node_id: int) -> None:
        self.cluster.move(topic, index, node_id)
        self._changed()

    def stop_node(self, node_id: int) -> None:
        """As Broker.stop_node: who is told to ask elsewhere hears it before the end."""
        self.cluster.node_stopping(node_id)
        self._changed()
        for link in [link for link in self.world.links if link.node_id == node_id]:
            link.cut()

    def start_node(self, node_id: int) -> None:
        if not self.is_over and node_id not in self.topics.nodes.up:
            self.world.note("=", f"node {node_id}", "is back")
            self.cluster.node_started(node_id)
            self._changed()

    def _changed(self) -> None:
        self.world.invariants.after_event(self)

    def _topic_deleted(self, name: str, gone: Callable[[], None]) -> None:
        def forgotten() -> None:
            self.world.invariants.topic_forgotten(self, name)
            gone()

        self.cluster.topic_deleted(name, forgotten)

    # --- stand-ins for the event loop, its timers and its threads

    def _while_alive(self, callback: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if not self.is_over:
                callback()
                self.world.invariants.after_event(self)

        return call

    def _call_soon(self, callback: Callable[[], None]) -> None:
        self.world.schedule.after(0, self._while_alive(callback))

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        later = self.world.schedule.at(deadline_ms, self._while_alive(callback))
        later.deadline_ms = deadline_ms
        return later

    @staticmethod
    def _run_now(work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        raise AssertionError("no task of these worlds needs a thread")

    def _sync_all(
        self, logs: Sequence[Log], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        outcomes: list[OSError | None] = [None] * len(logs)
        left = len(logs)

        def sync(place: int) -> None:
            nonlocal left
            try:
                logs[place].sync()
            except OSError as error:
                outcomes[place] = error
            left -= 1
            if not left:
                # On its way back from the thread: the loop may have other things to do first.
                self.call_at(self._some_ms(), partial(done, outcomes))

        for place in range(len(logs)):
            self.call_at(self._some_ms(), partial(sync, place))

    def _some_ms(self) -> int:
        return self.world.schedule.now_ms() + self._chance.randint(0, self.world.setting.sync_ms)
