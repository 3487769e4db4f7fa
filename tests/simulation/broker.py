"""The simulated broker: the real registry, nodes, runtimes, group commit, logs and coordinators, on
simulated files, clock and event loop."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.event_log import EventPublisher
from kohort.broker.event_loop.timers import Timer
from kohort.broker.runtime.context import CoordinatorContext, CoordinatorState
from kohort.coordinator.commands import DescribeGroup
from kohort.coordinator.outcome import Event, EventType, LogLine
from kohort.log.files import finish_deletions
from kohort.log.write_ahead import WriteAheadLog
from kohort.offsets.causes import Cause
from kohort.offsets.records import GroupTombstone, OffsetTombstone
from kohort.topics.configs.config_def import StaticBrokerConfig
from kohort.topics.configs.effective import Configs, ConsumerGroupConfig, TopicSettings
from kohort.topics.names import OFFSETS_TOPIC
from kohort.topics.registry import TopicRegistry
from kohort.topics.topic import Partition, Topic
from support.virtual_broker import ScheduledBroker

if TYPE_CHECKING:
    from simulation.simulation import Simulation

DATA_DIR = Path("/data")
CONFIG = BrokerConfig({})
SETTINGS = Configs(CONFIG, 1).settings({})  # computed once, so that a start takes a millisecond


class SmallSegments(Configs):
    """Segments that are full after a few commits; Kafka's smallest segment.bytes is a MiB."""

    def __init__(self, segment_bytes: int, group: ConsumerGroupConfig) -> None:
        super().__init__(CONFIG, 1)
        self._group = group
        self._settings = SETTINGS._replace(segment_bytes=segment_bytes)

    def at(self, _node_id: int, _broker: StaticBrokerConfig | None = None) -> SmallSegments:
        return self

    def consumer_group(self, _group_id: str) -> ConsumerGroupConfig:
        return self._group

    def settings(self, _overrides: Mapping[str, str]) -> TopicSettings:
        return self._settings


class ObservedTopics(TopicRegistry):
    def __init__(self, simulation: Simulation, **parts: Any) -> None:
        super().__init__(**parts)
        self._simulation = simulation

    def elect(self, topic: Topic, partition: Partition, leader_id: int) -> None:
        super().elect(topic, partition, leader_id)
        self._simulation.invariants.leader_elected(self, topic, partition)


class ExpirationObserver(EventPublisher):
    """A publisher of events that checks expirations before their records are applied."""

    def __init__(self, simulation: Simulation, context: Callable[[], CoordinatorContext]) -> None:
        super().__init__("")
        self._simulation = simulation
        self._context = context

    def publish(self, events: Iterable[Event]) -> None:
        records: list[OffsetTombstone | GroupTombstone] = []
        for event in events:
            if isinstance(event, LogLine):
                if event.message.startswith("[GroupId %s] Expired offset"):
                    group_id, topic, partition = event.arguments
                    records.append(OffsetTombstone(group_id, topic, partition))  # type: ignore[arg-type]
            elif event.type is EventType.GROUP_DELETED and event.cause is Cause.GROUP_EXPIRED:
                records.append(GroupTombstone(event.group_id))
        if records:
            self._simulation.invariants.offsets_expired(self._context().coordinator, records)


class SimulatedBroker(ScheduledBroker):
    """All nodes, from a start of the broker to its crash, which cancels all callbacks.

    A start can fail like opening a data directory (OSError, LogError).
    """

    def __init__(self, simulation: Simulation, number: int) -> None:
        self._simulation = simulation
        self._config = config = simulation.config
        files = simulation.files
        self.is_stopped = False
        self._unconfirmed_topics: set[str] = set()
        self._random = Random(f"{simulation.seed} life {number}")
        write_ahead = WriteAheadLog(DATA_DIR, files, config.write_ahead_bytes)
        finish_deletions(DATA_DIR, files)
        super().__init__(
            DATA_DIR,
            files,
            simulation.schedule,
            cluster_id="simulated",
            nodes=config.nodes,
            configs=SmallSegments(config.segment_bytes, config.consumer_group),
            group_config=config.group_config,
            offsets_partitions=config.offsets_partitions,
            retention_check_interval_ms=config.retention_check_interval_ms,
            durability=config.durability,
            write_ahead=write_ahead,
        )
        self.topics.on_deleted = self._topic_deleted
        self._load_partitions(write_ahead)

    def _load_partitions(self, write_ahead: WriteAheadLog) -> None:
        """Load partitions with data immediately, like broker.py: their sessions and offsets
        expire."""
        for node in self.cluster.nodes.values():
            node.coordinators.load(
                index
                for index in range(self._config.offsets_partitions)
                if self.files.exists(DATA_DIR / (name := f"{OFFSETS_TOPIC}-{index}"))
                or write_ahead.has_batches_for(name)
            )

    def new_topics(self, **parts: Any) -> ObservedTopics:
        return ObservedTopics(self._simulation, **parts)

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=next(self._simulation.ids))

    def new_member_id(self) -> str:
        return str(next(self._simulation.ids))

    def publisher(self, node_id: int, partition: int) -> ExpirationObserver:
        contexts = self.cluster.nodes[node_id].coordinators.contexts
        return ExpirationObserver(self._simulation, lambda: contexts[partition])

    # --- queries

    def has_topic(self, name: str) -> bool:
        """Whether a topic exists and its creation is durable."""
        return self.topics.get(name) is not None and name not in self._unconfirmed_topics

    @property
    def contexts(self) -> list[Any]:
        nodes = self.cluster.nodes.values()
        return [each for node in nodes for each in node.coordinators.contexts.values()]

    def load_partition(self, group_id: str, node_id: int) -> None:
        """Load the group's partition, so that a request is checked against a loaded state."""
        context = self.context_of(group_id, node_id)
        if context is None or context.state is not CoordinatorState.ACTIVE:
            coordinators = self.cluster.nodes[node_id].coordinators
            coordinators.submit(DescribeGroup(group_id), lambda _context, _result: None, None)
            self._check()

    # --- administration

    def create_topic(self, name: str) -> None:
        self._unconfirmed_topics.add(name)
        self.topics.create(name, self._config.topic_partitions, {})
        self.topics.on_durable(lambda error: error or self._unconfirmed_topics.discard(name))

    def move_leader(self, topic: str, index: int, node_id: int) -> None:
        self.cluster.move(topic, index, node_id)
        self._check()

    def stop_node(self, node_id: int) -> None:
        """Like Broker.stop_node: waiting requests get NOT_COORDINATOR before connections close."""
        list(self.cluster.node_stopping(node_id))
        self._check()
        for connection in [c for c in self._simulation.connections if c.node_id == node_id]:
            connection.cut()

    def start_node(self, node_id: int) -> None:
        if not self.is_stopped and node_id not in self.topics.nodes.up:
            self._simulation.record("=", f"node {node_id}", "starts again")
            list(self.cluster.node_started(node_id))
            self._check()

    def _check(self) -> None:
        self._simulation.invariants.check(self)

    def _topic_deleted(self, name: str, on_cleaned_up: Callable[[], None]) -> None:
        def cleaned_up() -> None:
            self._simulation.invariants.topic_cleaned_up(self, name)
            on_cleaned_up()

        self.cluster.topic_deleted(name, cleaned_up)

    # --- the event loop, timers and threads

    def _unless_stopped(self, callback: Callable[[], None]) -> Callable[[], None]:
        def call() -> None:
            if not self.is_stopped:
                callback()
                self._check()

        return call

    def call_soon(self, callback: Callable[[], None]) -> None:
        super().call_soon(self._unless_stopped(callback))

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        timer = super().call_at(deadline_ms, self._unless_stopped(callback))
        timer.deadline_ms = deadline_ms
        return timer

    def sync_all(
        self, syncs: Sequence[Callable[[], None]], done: Callable[[Sequence[OSError | None]], None]
    ) -> None:
        errors: list[OSError | None] = [None] * len(syncs)
        unfinished = len(syncs)

        def sync(index: int) -> None:
            nonlocal unfinished
            try:
                syncs[index]()
            except OSError as error:
                errors[index] = error
            unfinished -= 1
            if not unfinished:
                # From the thread back to the event loop, which may run other callbacks first.
                self._after_sync(partial(done, errors))

        for index in range(len(syncs)):
            self._after_sync(partial(sync, index))

    def _after_sync(self, callback: Callable[[], None]) -> None:
        ms = self._random.randint(0, self._config.sync_max_ms)
        self.call_at(self.now_ms() + ms, callback)
