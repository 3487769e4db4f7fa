"""The nodes of one process as a cluster: who is up, who leads which partition.

The nodes share data folder, clock and event loop; each has a port, its connections and the groups
of the offsets partitions that it leads. A node that goes lets others lead first, as a controlled
shutdown does in Kafka; one that comes back leads again what is given to it.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from ..topics.names import OFFSETS_TOPIC
from ..topics.nodes import NO_LEADER
from ..topics.partition import Partition
from ..topics.registry import Topics
from ..topics.topic import Topic
from .node import Node
from .offset_cleanup import DeletedTopics

_log = logging.getLogger("kohort.coordinator")

Place = tuple[Topic, Partition]


class Cluster:
    """`id`: a UUID in Kafka's form, 22 letters of unpadded base64url."""

    def __init__(self, id_: str, topics: Topics) -> None:
        self.id = id_
        self._topics = topics
        self.nodes: dict[int, Node] = {}
        topics.on_moved = self._moved
        topics.is_kept = lambda name: name in self.deleted_topics
        self.deleted_topics = DeletedTopics(topics.deleted)
        self._forgetting: deque[tuple[int, Callable[[], None]]] = deque()
        self._will_forget = False

    # --- looking

    @property
    def up(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.node_id in self._topics.nodes.up]

    @property
    def controller_id(self) -> int:
        """Whom clients send what a controller decides; here any node decides it."""
        return next((node.node_id for node in self.up), NO_LEADER)

    def leader_of(self, topic: str, index: int) -> Node | None:
        """The node that leads this partition; None while nobody does."""
        partition = self._topics.partition(topic, index)
        return None if partition is None else self.nodes.get(partition.leader_id)

    # --- changing

    def move(self, topic: str, index: int, node_id: int) -> None:
        """Let this node lead the partition. Raises LookupError for what there is not, ValueError
        for a node that is down."""
        found = self._topics.get(topic)
        partition = None if found is None else found.partition(index)
        if found is None or partition is None:
            raise LookupError(f"there is no partition {topic}-{index}")
        if node_id not in self.nodes:
            raise LookupError(f"there is no node {node_id}: there are {sorted(self.nodes)}")
        if node_id not in self._topics.nodes.up:
            raise ValueError(f"node {node_id} is down and can lead nothing")
        if partition.leader_id != node_id:
            self._elect([((found, partition), node_id)])

    def went(self, node_id: int) -> None:
        """The node stops: others lead what it led, or nobody if none is up."""
        nodes = self._topics.nodes
        nodes.up.discard(node_id)
        led = [place for place in self._places() if place[1].leader_id == node_id]
        self._elect((place, nodes.elected(place[1].index)) for place in led)

    def came(self, node_id: int) -> None:
        """The node is back: it leads what nobody led. What others lead stays with them until
        somebody asks for the preferred leaders, as in Kafka for its first five minutes."""
        self._topics.nodes.up.add(node_id)
        orphans = [place for place in self._places() if place[1].leader_id == NO_LEADER]
        self._elect((place, node_id) for place in orphans)

    def topic_deleted(self, topic: str, forgotten: Callable[[], None]) -> None:
        """What was committed for it goes with it, in all groups of all nodes; `forgotten` is told
        when all of that is durable."""
        self.deleted_topics.add(topic)
        self._forgetting.append((len(self.deleted_topics), forgotten))
        if not self._will_forget:
            # In another turn: one request may delete many topics, which are forgotten together.
            self._will_forget = True
            next(iter(self.nodes.values())).timers.in_turn(self._forget)

    def _forget(self) -> None:
        self._will_forget = False
        for node in self.nodes.values():
            node.groups.topics_deleted()
        self.tell_forgotten()

    def tell_forgotten(self) -> None:
        """A partition has forgotten deleted topics, or is not served any more."""
        offsets_topic = self._topics.get(OFFSETS_TOPIC)
        partitions = () if offsets_topic is None else offsets_topic.partitions
        if any(partition.leader_id == NO_LEADER for partition in partitions):
            return  # whoever leads it next has to forget first
        while self._forgetting:
            count, forgotten = self._forgetting[0]
            if not all(node.groups.has_forgotten(count) for node in self.nodes.values()):
                return
            self._forgetting.popleft()
            forgotten()
        # Where it cannot be read, a partition may have something for longer.
        self._topics.let_go(self.deleted_topics.let_go(partitions))

    def _places(self) -> Iterator[Place]:
        for topic in self._topics:
            for partition in topic.partitions:
                yield topic, partition

    def _elect(self, leaders: Iterable[tuple[Place, int]]) -> None:
        for (topic, partition), node_id in leaders:
            self._topics.elect(topic, partition, node_id)

    def _moved(self, topic: Topic, partition: Partition, before_id: int) -> None:
        """The groups of an offsets partition go where it goes; back, if that was not durable."""
        if topic.name != OFFSETS_TOPIC:
            return
        before, after = self.nodes.get(before_id), self.nodes.get(partition.leader_id)
        name, epoch = partition.name, partition.leader_epoch
        # The words are those of Kafka's CoordinatorRuntime.
        if before is not None:
            _log.info(
                "[GroupCoordinator id=%d] Scheduling unloading of metadata for %s with epoch %d",
                *(before_id, name, epoch),
            )
        if after is not None:
            _log.info(
                "[GroupCoordinator id=%d] Scheduling loading of metadata from %s with epoch %d",
                *(after.node_id, name, epoch),
            )
            after.groups.load([partition.index])
        if before is not None:
            # Not before that: a topic whose offsets it has not forgotten must find somebody else
            # who still has to.
            before.groups.resign(partition.index)
