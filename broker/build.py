"""Constructs a broker's components: first the shared components, then those of each node."""

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from ..coordinator.coordinator import Coordinator
from ..coordinator.decision import GroupConfig, PartitionState
from ..coordinator.transactions.coordinator import TransactionConfig, TransactionCoordinator
from ..coordinator.transactions.states import PREPARE_ABORT
from ..log.batch import BatchProducer
from ..log.cache_files import SPILL, create_empty
from ..log.files import DiskFiles, Files
from ..log.group_commit import Durability, GroupCommit
from ..log.producer_state import EndMarker
from ..log.write_ahead import BYTES_MAX, WriteAheadLog
from ..offsets.coordinator_topic import CoordinatorTopic
from ..offsets.store import OffsetsStore
from ..offsets.table import OffsetsCache, OffsetsTable
from ..protocol.errors import ErrorCode
from ..protocol.primitives import uuid_text
from ..topics.configs.effective import Configs
from ..topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ..topics.registry import TopicRegistry
from ..topics.topic import Nodes, Partition
from ..topics.topics_view import TopicsView
from .client_telemetry import ClientTelemetry
from .cluster import Address, Cluster, Node
from .config.broker_config import BrokerConfig
from .config.listeners import reachable
from .config.sources import ConfigError
from .event_log import CoordinatorEvent, EventLog, EventPublisher, Listener
from .event_loop.scheduler import ScheduledTask, Scheduler
from .event_loop.sync_pool import SyncPool
from .event_loop.timers import Clock, SystemClock, Timers
from .event_loop.watchdog import Watchdog
from .fetch_sessions import FetchSessionCache
from .network.outbox import Outbox, Turns
from .runtime.context import CoordinatorCodec, CoordinatorContext
from .runtime.runtime import CoordinatorRuntime
from .runtime.transaction_markers import MarkerWriter, Written
from .runtime.transactions import TransactionRuntime
from .security.quotas import ClientQuotas
from .security.rates import Window
from .security.security import new_security
from .topic_metadata import ClusterTopics

# Preallocated size of logs that are synced for each commit, enough for about 500 commits. A sync
# within preallocated space takes two thirds as long as other syncs.
PREALLOCATED_BYTES: Final = 64 * 1024

_log: Final = logging.getLogger("kohort.topics")


def group_config(config: BrokerConfig, *, has_listener: bool = False) -> GroupConfig:
    """Return the coordinators' settings. Commits produce events only with a listener and
    `kohort.events=all`."""
    return GroupConfig(
        group_initial_rebalance_delay_ms=config.int("group.initial.rebalance.delay.ms"),
        group_max_size=config.int("group.max.size"),
        group_max_session_timeout_ms=config.int("group.max.session.timeout.ms"),
        group_min_session_timeout_ms=config.int("group.min.session.timeout.ms"),
        offset_metadata_max_bytes=config.int("offset.metadata.max.bytes"),
        offsets_retention_ms=config.int("offsets.retention.minutes") * 60_000,
        serves_consumer_groups="consumer" in config.list("group.coordinator.rebalance.protocols"),
        group_consumer_max_size=config.int("group.consumer.max.size"),
        consumer_group_assignors=config.list("group.consumer.assignors"),
        consumer_migration_policy=config.str("group.consumer.migration.policy").lower(),
        regex_refresh_interval_ms=config.int("group.consumer.regex.refresh.interval.ms"),
        reports_commits=has_listener and config.str("kohort.events") == "all",
    )


def new_quotas(
    config: BrokerConfig, topics: TopicRegistry, now_ms: Callable[[], int]
) -> ClientQuotas:
    """Return the client quotas, which are updated when the registry changes. `now_ms` is the wall
    clock."""
    controller_window = Window(
        config.int("controller.quota.window.num"),
        config.int("controller.quota.window.size.seconds") * 1000,
    )
    quotas = ClientQuotas(
        topics.security.client_quotas, quota_window(config), controller_window, now_ms
    )
    topics.security.on_client_quota_change = quotas.changed
    return quotas


def quota_window(config: BrokerConfig) -> Window:
    return Window(config.int("quota.window.num"), config.int("quota.window.size.seconds") * 1000)


def new_transactions(
    node_id: int,
    config: BrokerConfig,
    topics: TopicRegistry,
    group_commit: GroupCommit,
    timers: Timers,
    scheduler: Scheduler,
    clock: Clock,
    offsets_leader: Callable[[int], Node | None],
) -> tuple[MarkerWriter, TransactionRuntime]:
    """Return a node's transaction runtime and marker writer."""
    partition = partial(coordinator_partition, topics, TRANSACTION_TOPIC)

    def end_offsets(
        index: int, producer: BatchProducer, marker: EndMarker, written: Written
    ) -> ErrorCode | None:
        leader = offsets_leader(index)
        if leader is None:
            return ErrorCode.not_leader_or_follower
        return leader.coordinators.end_transaction(index, producer, marker, written)

    number = config.int
    settings = TransactionConfig(
        number("transaction.max.timeout.ms"), number("transactional.id.expiration.ms")
    )
    partitions = _partition_count(
        topics, TRANSACTION_TOPIC, number("transaction.state.log.num.partitions")
    )
    markers = MarkerWriter(topics, group_commit, clock, timers, scheduler, end_offsets)
    runtime = TransactionRuntime(
        topic=CoordinatorTopic(
            partitions=partitions, partition=partition, group_commit=group_commit
        ),
        group_commit=group_commit,
        clock=clock,
        timers=timers,
        scheduler=scheduler,
        new_coordinator=lambda: TransactionCoordinator(settings, topics.allocate_producer_id),
        leads=partial(leads_partition, node_id, partition),
        markers=markers,
        topics=topics,
        expiration_interval_ms=number("transaction.remove.expired.transaction.cleanup.interval.ms"),
    )
    return markers, runtime


def _partition_count(topics: TopicRegistry, name: str, configured: int) -> int:
    """Return the partition count of a coordinators' topic. The count of an existing topic takes
    precedence over the configured one."""
    topic = topics.get(name)
    return configured if topic is None else len(topic.partitions)


def coordinator_partition(topics: TopicRegistry, name: str, index: int) -> Partition:
    """Return a partition of a coordinators' topic, which is created if necessary."""
    found = topics.ensure_coordinator_topic(name).partition(index)
    assert found is not None, "coordinators' topics never lose partitions"
    return found


def leads_partition(node_id: int, partition: Callable[[int], Partition], index: int) -> bool:
    """Whether a node leads a partition of a coordinators' topic. As in Kafka, no node leads it
    while the topic cannot be created."""
    try:
        return partition(index).leader_id == node_id
    except OSError as error:
        _log.warning("The coordinators' topic was not created: %s", error)
        return False


NodeListener = Callable[[int, CoordinatorEvent], None]
"""listener(node_id, event): called when a decision is made. It must be fast and must not raise."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Where a broker keeps its data, and how durable it is."""

    folder: Path
    files: Files
    durability: Durability

    def preallocating(self, size: int) -> Files:
        """Return Files that preallocate `size` bytes if logs are synced for each commit."""
        is_synced = self.durability == "fsync" and isinstance(self.files, DiskFiles)
        return DiskFiles(preallocate_bytes=size) if is_synced else self.files


class BrokerComponents:
    """Creates and holds the components, which `closing` closes. Must be used on the running event
    loop."""

    def __init__(
        self,
        config: BrokerConfig,
        storage: Storage,
        clock: Clock,
        addresses: Mapping[int, Mapping[str, Address]],
        closing: ExitStack,
        listener: NodeListener | None,
        watchdog: Watchdog,
    ) -> None:
        self._config, self._storage, self._clock = config, storage, clock
        self._addresses = addresses
        self._closing = closing
        self._node_listener = listener
        self._watchdog = watchdog
        # In memory there is no limit, because evicted offsets would only move to a file in memory.
        is_persistent = storage.durability != "none"
        self._cache = OffsetsCache(config.int("kohort.cache.offsets") if is_persistent else 0)
        self._events: EventLog | None = None
        self.outbox = Outbox(watchdog.call_soon)
        # Not timed by the watchdog, because connections time their own requests, so that the log
        # names them.
        self.turns = Turns(asyncio.get_running_loop().call_soon)
        self.sync_pool = SyncPool(watchdog)
        closing.callback(self.sync_pool.close)
        # Not timed by the watchdog, which instead times each slice, so that the log names the task.
        self.scheduler = Scheduler(
            asyncio.get_running_loop().call_soon, self.sync_pool.run, on_slice=self._slice_ended
        )
        self.write_ahead = WriteAheadLog(storage.folder, storage.preallocating(BYTES_MAX))
        self.group_commit = GroupCommit(
            durability=storage.durability,
            call_soon=watchdog.call_soon,
            sync_all=self.sync_pool,
            write_ahead=self.write_ahead,
            # Send the responses without waiting for the next iteration of the event loop.
            on_flush_end=self.outbox.send,
        )

    def _slice_ended(self, duration: float, task: ScheduledTask) -> None:
        self._watchdog.ended(duration, lambda: str(task.name))

    def cluster(self, cluster_id: str, *, keeps_events: bool) -> Cluster:
        """Build all nodes, with the topics that the data folder contains. Shared components are
        built first, each from components built before it."""
        config, closing = self._config, self._closing
        self._timers = Timers(self._clock, self._watchdog)
        self._client_timers = Timers(SystemClock(), self._watchdog)
        closing.callback(self._timers.close)
        closing.callback(self._client_timers.close)
        self._topics = topics = self._new_topics()
        closing.callback(topics.close)
        if keeps_events:
            self._events = self._event_log(cluster_id)
        self._cluster = cluster = Cluster(cluster_id, topics, self.scheduler)
        quotas = new_quotas(config, topics, self._client_timers.now_ms)
        self._security = new_security(config, topics, quotas)
        self._view = self._new_view()
        self._cluster_topics = ClusterTopics(self._view)
        has_listener = self._events is not None or self._node_listener is not None
        self._group_config = group_config(config, has_listener=has_listener)
        for node_id in self._addresses:
            cluster.nodes[node_id] = self._node(node_id)
        # Closed before the logs, because closing the write-ahead log syncs them.
        closing.callback(self.write_ahead.close)
        topics.on_deleted = cluster.topic_deleted
        return cluster

    def _new_topics(self) -> TopicRegistry:
        return TopicRegistry(
            folder=self._storage.folder,
            files=self._storage.preallocating(PREALLOCATED_BYTES),
            group_commit=self.group_commit,
            configs=Configs(self._config, self._config.node_id),
            nodes=Nodes(list(self._addresses)),
            new_id=uuid.uuid4,
            now_ms=self._clock.now_ms,
            call_soon=self.scheduler.call,
        )

    def _new_view(self) -> TopicsView:
        name = self._config.str("kohort.offsets.mirror")
        if self._topics.get(name) is not None:
            raise ConfigError(
                f"kohort.offsets.mirror: topic {name} already exists; choose another name."
            )
        return TopicsView(self._topics, name)

    def _event_log(self, cluster_id: str) -> EventLog:
        events = EventLog(
            self._storage.folder,
            self._storage.files,
            cluster_id=cluster_id,
            now_ms=self._clock.now_ms,
            call_soon=self._watchdog.call_soon,
            files_max=self._config.int("kohort.events.files"),
        )
        self._closing.callback(events.close)
        return events

    def _node(self, node_id: int) -> Node:
        config, cluster = self._config, self._cluster
        if node_id != config.node_id:
            config = config.of_node(node_id)
        configs = self._topics.configs.at(node_id, config)
        coordinators = self._coordinators(node_id, configs)
        self._closing.callback(coordinators.close)
        markers, transactions = new_transactions(
            node_id,
            config,
            self._topics,
            self.group_commit,
            self._timers,
            self.scheduler,
            self._clock,
            partial(cluster.leader_of, OFFSETS_TOPIC),
        )
        # Without `all`, only aborts are logged, because thousands of transactions may commit per
        # second.
        only_aborts = config.str("kohort.events") != "all"
        transactions.listeners = self._listeners(node_id, only_aborts=only_aborts)
        self._closing.callback(transactions.close)
        slots = config.int("max.incremental.fetch.session.cache.slots")
        return Node(
            node_id=node_id,
            cluster=cluster,
            addresses=self._advertised(node_id),
            config=config,
            configs=configs,
            group_config=self._group_config,
            clock=self._clock,
            timers=self._timers,
            client_timers=self._client_timers,
            group_commit=self.group_commit,
            topics=self._topics,
            view=self._view,
            coordinators=coordinators,
            transactions=transactions,
            markers=markers,
            fetch_sessions=FetchSessionCache(slots, secrets.randbelow),
            telemetry=ClientTelemetry(configs, self._clock, uuid.uuid4),
            security=self._security,
        )

    def _advertised(self, node_id: int) -> dict[str, Address]:
        """Return the advertised addresses. Ports in advertised.listeners are those of the first
        node; the other nodes use the ports that follow."""
        bound = self._addresses[node_id]
        if not self._config.list("advertised.listeners"):
            return {name: (reachable(host), port) for name, (host, port) in bound.items()}
        place = node_id - self._config.node_id
        return {
            name: (host, port + place if port else bound[name][1])
            for name, host, port, _ in self._config.advertised_listeners
        }

    def _coordinators(self, node_id: int, configs: Configs) -> CoordinatorRuntime:
        new_coordinator = partial(self._new_coordinator, configs)
        partition = partial(coordinator_partition, self._topics, OFFSETS_TOPIC)

        def new_context(index: int) -> CoordinatorContext:
            context = f"GroupCoordinator id={node_id} topic={OFFSETS_TOPIC} partition={index}"
            publisher = EventPublisher(context, self._listeners(node_id))
            fetches = partition(index).delayed_fetches
            return CoordinatorContext(index, *new_coordinator(index), publisher, fetches)

        configured = self._config.int("offsets.topic.num.partitions")
        runtime = CoordinatorRuntime(
            store=OffsetsStore(
                partitions=_partition_count(self._topics, OFFSETS_TOPIC, configured),
                partition=partition,
                group_commit=self.group_commit,
            ),
            cache=self._cache,
            clock=self._clock,
            timers=self._timers,
            scheduler=self.scheduler,
            new_context=new_context,
            new_coordinator=new_coordinator,
            leads=partial(leads_partition, node_id, partition),
            deleted_topics=self._cluster.deleted_topics,
            retention_check_interval_ms=self._config.int("offsets.retention.check.interval.ms"),
        )
        runtime.on_cleaned_up = self._cluster.check_cleaned_up
        return runtime

    def _new_coordinator(
        self, configs: Configs, partition: int
    ) -> tuple[Coordinator, OffsetsTable]:
        path = self._storage.folder / f"{OFFSETS_TOPIC}-{partition}" / SPILL
        offsets = self._cache.new_table(partial(create_empty, path, self._storage.files))
        partition_state = PartitionState(
            self._group_config,
            lambda: str(uuid.uuid4()),
            CoordinatorCodec(),
            offsets,
            self._cluster_topics,
            configs.consumer_group,
            lambda: uuid_text(uuid.uuid4().bytes),
        )
        return Coordinator(partition_state), offsets

    def _listeners(self, node_id: int, *, only_aborts: bool = False) -> list[Listener]:
        """Return the listeners for a node's coordinator events. With `only_aborts`, the event log
        receives only one event for each aborted transaction: its change to PrepareAbort."""
        listeners: list[Listener] = []
        if self._events is not None:
            log = self._events.listener(node_id)
            listeners.append(partial(_if_abort, log) if only_aborts else log)
        if self._node_listener is not None:
            listeners.append(partial(self._node_listener, node_id))
        return listeners


def _if_abort(write: Listener, event: CoordinatorEvent) -> None:
    if event.state_to == PREPARE_ABORT.text:
        write(event)
