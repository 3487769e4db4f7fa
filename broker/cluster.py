"""The nodes of one process as a cluster: which nodes are up, and which node leads each partition.

The nodes share the data folder, the clock and the event loop. Each node has a port, its
connections, and the coordinators of the offsets partitions that it leads. Before a node stops, it
hands over its partitions to other replicas, as in Kafka's controlled shutdown. After a restart, a
node becomes the leader only of partitions that have no leader and that can elect it. A preferred
leader election can return other partitions to it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..coordinator.decision import GroupConfig
from ..log.group_commit import GroupCommit
from ..protocol.budgets import DECOMPRESSIONS_MAX, ConcurrencyLimit
from ..topics.configs.effective import Configs
from ..topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ..topics.registry import TopicRegistry
from ..topics.topic import NO_LEADER, Partition, Topic
from ..topics.topics_view import TopicsView
from .client_telemetry import ClientTelemetry
from .config.broker_config import BrokerConfig
from .event_loop.scheduler import Scheduler
from .event_loop.timers import Clock, Timers
from .fetch_sessions import FetchSessionCache
from .runtime.deleted_topics import DeletedTopics
from .runtime.runtime import CoordinatorRuntime
from .runtime.transaction_markers import MarkerWriter
from .runtime.transactions import TransactionRuntime
from .security.security import Security

_log = logging.getLogger("kohort.coordinator")

Address: TypeAlias = tuple[str, int]
"""A host and a port."""


@dataclass(slots=True)
class Node:
    """The broker as seen by request handlers: the node that received the request, and the objects
    that all nodes share."""

    node_id: int
    cluster: "Cluster"
    addresses: Mapping[str, Address]
    """Advertised hosts and ports by listener name."""
    config: BrokerConfig
    configs: Configs
    """The configuration with its dynamic changes."""
    group_config: GroupConfig
    """Group settings as plain attributes, for hot paths."""
    clock: Clock
    timers: Timers
    client_timers: Timers
    """Timers on the wall clock, for long polls and other durations measured by clients. They do not
    depend on a test's clock."""
    group_commit: GroupCommit
    topics: TopicRegistry
    view: TopicsView
    """The topics that clients can see: the registry and the mirror of the offsets topic."""
    coordinators: CoordinatorRuntime
    transactions: TransactionRuntime
    markers: MarkerWriter
    fetch_sessions: FetchSessionCache
    telemetry: ClientTelemetry
    security: Security


class Cluster:
    """The nodes of one broker process. `id` is a UUID in Kafka's form, 22 characters of unpadded
    base64url."""

    def __init__(self, id_: str, topics: TopicRegistry, scheduler: Scheduler) -> None:
        self.id = id_
        self._topics = topics
        self.scheduler = scheduler
        self.nodes: dict[int, Node] = {}
        topics.on_leader_change = self._on_leader_changed
        topics.has_leftovers = lambda name: name in self.deleted_topics
        self.deleted_topics = DeletedTopics(topics.deleted_names)
        # For each deleted topic whose offsets are being removed: its number in the order of
        # deletion (DeletedTopics counts from 1), and the callback.
        self._cleaning_up: deque[tuple[int, Callable[[], None]]] = deque()
        self._is_cleanup_due = False
        self.decompressions = ConcurrencyLimit(DECOMPRESSIONS_MAX)
        # The number of partitions in all waiting Fetch requests (PARKED_PARTITIONS_MAX).
        self.parked_partitions = 0

    # --- queries

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.node_id in self._topics.nodes.up]

    @property
    def controller_id(self) -> int:
        """The node to which clients send administrative requests. Any node can serve them."""
        return next((node.node_id for node in self.up), NO_LEADER)

    def leader_of(self, topic: str, index: int) -> Node | None:
        """Return the leader of a partition, or None if it has no leader."""
        partition = self._topics.partition(topic, index)
        return None if partition is None else self.nodes.get(partition.leader_id)

    # --- changes

    def move(self, topic: str, index: int, node_id: int) -> None:
        """Make a node the leader of a partition. Raises LookupError for an unknown partition or
        node, and ValueError for a node that is down or not a replica."""
        found = self._topics.get(topic)
        partition = None if found is None else found.partition(index)
        if found is None or partition is None:
            raise LookupError(f"partition {topic}-{index} does not exist")
        if node_id not in self.nodes:
            raise LookupError(f"node {node_id} does not exist: the nodes are {sorted(self.nodes)}")
        if node_id not in self._topics.nodes.up:
            raise ValueError(f"node {node_id} is down and cannot lead a partition")
        if node_id not in partition.replicas:
            raise ValueError(
                f"node {node_id} cannot lead partition {partition.name}, because it is not one of "
                f"its replicas: {list(partition.replicas)}"
            )
        if partition.leader_id != node_id:
            self._elect(found, partition, node_id)

    def node_stopping(self, node_id: int) -> Iterator[None]:
        """Remove a stopping node from the in-sync replicas, and elect new leaders for its
        partitions. If no other replica is electable, the partition has no leader. One election per
        step, because a partition may have many groups."""
        self._topics.nodes.up.discard(node_id)
        for topic, partition in self._replicas_of(node_id):
            if node_id in partition.isr:
                isr = tuple(each for each in partition.isr if each != node_id)
                partition.set_isr(isr, topic.min_isr)
            if partition.leader_id == node_id:
                self._elect(topic, partition, self.electable(partition))
                yield

    def node_started(self, node_id: int) -> Iterator[None]:
        """Elect leaders for the node's partitions without a leader, one per step. Other partitions
        keep their leaders until a preferred leader election, which Kafka runs every five
        minutes."""
        self._topics.nodes.up.add(node_id)
        for topic, partition in self._replicas_of(node_id):
            if partition.leader_id != NO_LEADER:
                self._update_isr(topic, partition)
            elif (leader_id := self.electable(partition)) != NO_LEADER:
                self._elect(topic, partition, leader_id)
                yield
        self.check_cleaned_up()

    def _elect(self, topic: Topic, partition: Partition, leader_id: int) -> None:
        self._topics.elect_leader(topic, partition, leader_id)
        if leader_id != NO_LEADER:
            if not partition.isr:
                partition.begin_isr(leader_id)
            self._update_isr(topic, partition)

    def _update_isr(self, topic: Topic, partition: Partition) -> None:
        """Set the in-sync replicas of a partition with a leader: all replicas that are up, because
        they share the leader's log. As in Kafka, their ids are sorted when the set changes."""
        isr = self._topics.nodes.in_sync(partition.replicas)
        if {*isr} != {*partition.isr}:
            partition.set_isr(tuple(sorted(isr)), topic.min_isr)

    def electable(self, partition: Partition, *, is_unclean: bool = False) -> int:
        """Return the replica that an election makes the leader, or NO_LEADER: the first in-sync or
        eligible leader replica that is up or, in an unclean election, any replica that is up."""
        elect, replicas = self._topics.nodes.elect, partition.replicas
        # After a failed write was undone, both lists may be empty.
        eligible = partition.isr or partition.elr or replicas
        leader_id = elect(each for each in replicas if each in eligible)
        if leader_id == NO_LEADER and (
            is_unclean or partition.settings.unclean_leader_election_enable
        ):
            leader_id = elect(replicas)
        return leader_id

    def _replicas_of(self, node_id: int) -> Iterator[tuple[Topic, Partition]]:
        """Yield the partitions that have a replica on a node. Topics may change during the
        iteration."""
        for topic in list(self._topics):
            for partition in topic.partitions:
                if node_id in partition.replicas and self._topics.get(topic.name) is topic:
                    yield topic, partition

    def _on_leader_changed(self, topic: Topic, partition: Partition, old_leader_id: int) -> None:
        """Move the coordinator of an offsets or transaction partition to its leader's node. Called
        after an election, and after undoing an election that did not become durable."""
        old, new = self.nodes.get(old_leader_id), self.nodes.get(partition.leader_id)
        if topic.name == TRANSACTION_TOPIC:
            if old is not None:
                old.transactions.unload(partition.index)
            if new is not None:
                new.transactions.load([partition.index])
        if topic.name != OFFSETS_TOPIC:
            return
        name, epoch = partition.name, partition.leader_epoch
        # Kafka's wording (CoordinatorRuntime).
        if old is not None:
            _log.info(
                "[GroupCoordinator id=%d] Scheduling unloading of metadata for %s with epoch %d",
                *(old_leader_id, name, epoch),
            )
        if new is not None:
            _log.info(
                "[GroupCoordinator id=%d] Scheduling loading of metadata from %s with epoch %d",
                *(new.node_id, name, epoch),
            )
            new.coordinators.load([partition.index])
        if old is not None:
            # Unload only after the load above, so that a node is responsible for cleaning up this
            # partition at all times.
            old.coordinators.unload(partition.index)

    # --- deleted topics

    def topic_deleted(self, topic: str, cleaned_up: Callable[[], None]) -> None:
        """Delete the committed offsets of a deleted topic in all groups of all nodes. Call
        `cleaned_up` once the deletion is durable."""
        self.deleted_topics.add(topic)
        self._cleaning_up.append((len(self.deleted_topics), cleaned_up))
        if not self._is_cleanup_due:
            # Deletions are batched, because one request may delete many topics.
            self._is_cleanup_due = True
            self.scheduler.call(self._clean_up)

    def _clean_up(self) -> None:
        self._is_cleanup_due = False
        for node in self.nodes.values():
            node.coordinators.topics_deleted()
        self.check_cleaned_up()

    def check_cleaned_up(self) -> None:
        """Call the callback of each deleted topic whose offsets all partitions have removed. As in
        Kafka, a client does not wait for partitions without a leader: the next leader cleans up
        before it serves requests."""
        offsets_topic = self._topics.get(OFFSETS_TOPIC)
        partitions = () if offsets_topic is None else offsets_topic.partitions
        if partitions and not self._topics.nodes.up:
            # No client waits now. If a name were released, a new topic could inherit the old
            # offsets after a crash.
            return
        while self._cleaning_up:
            count, cleaned_up = self._cleaning_up[0]
            if not all(node.coordinators.has_cleaned_up(count) for node in self.nodes.values()):
                return
            self._cleaning_up.popleft()
            cleaned_up()
        # The names are kept while a partition that cannot be loaded, or has no leader, may contain
        # offsets for the topics.
        self._topics.forget_deleted_names(self.deleted_topics.release(partitions))
