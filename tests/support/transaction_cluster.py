"""A BrokerHarness with three nodes, for transactions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

from kohort.broker.build import new_transactions
from kohort.broker.cluster import Cluster
from kohort.log.group_commit import Durability
from kohort.testing.faults.files import FaultyFiles
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kohort.topics.topic import Nodes
from support.broker import OFFSETS_PARTITIONS, BrokerHarness, PendingRequest
from support.runtime import DATA, no_time
from support.transactional_producer import GROUP

NODES = (1, 2, 3)
TRANSACTION_PARTITIONS = 2


class ClusterHarness(BrokerHarness):
    """A broker with three nodes. Each request goes to the node that leads its partition when it is
    sent. `move_at`: the number of callbacks after which the partition `moved` gets the next node as
    its leader."""

    def __init__(self, durability: Durability = "fsync", files: FaultyFiles | None = None) -> None:
        self.before_run: Callable[[], None] | None = None
        self.move_at = self.steps = 0
        config = {"transaction.state.log.num.partitions": str(TRANSACTION_PARTITIONS)}
        super().__init__(config, durability=durability, files=files, with_groups=True)
        self.group_commit._seconds = no_time  # the same steps in each run
        self.topics.nodes = Nodes(list(NODES))
        self.cluster = Cluster("kqTQaMhSSk2QIGlhVrdiyw", self.topics, self.scheduler)
        first = vars(self.node)
        for node_id in NODES:
            node: Any = SimpleNamespace(**{**first, "node_id": node_id, "cluster": self.cluster})
            node.configs = self.configs.at(node_id)
            node.markers, node.transactions = new_transactions(
                *(node_id, self.config, self.topics, self.group_commit, self.timers),
                *(self.scheduler, self.timers.clock),
                partial(self.cluster.leader_of, OFFSETS_TOPIC),
            )
            node.coordinators = self._new_coordinators(partial(self._leads, node_id))
            self.cluster.nodes[node_id] = node
        self.moved: tuple[str, int] | None = None
        self.move_at = -1
        self.steps = 0
        if files is None:
            self.create_topic("orders")
            self.create_topic("bills")
        else:
            self._load(files)

    def _load(self, files: FaultyFiles) -> None:
        """Load what is stored, as Broker does."""
        for name, count in (
            (OFFSETS_TOPIC, OFFSETS_PARTITIONS),
            (TRANSACTION_TOPIC, TRANSACTION_PARTITIONS),
        ):
            if self.topics.get(name) is not None:
                stored = [n for n in range(count) if files.exists(DATA / f"{name}-{n}")]
                for node in self.cluster.nodes.values():
                    runtime = node.coordinators if name == OFFSETS_TOPIC else node.transactions
                    runtime.load(stored)
        self.run_loop()

    def _leads(self, node_id: int, index: int) -> bool:
        return self.topics.ensure_offsets_topic().partition(index).leader_id == node_id

    def partition_of(self, topic: str) -> tuple[str, int]:
        """The partition of the story in this topic."""
        if topic == OFFSETS_TOPIC:
            return topic, self.node.coordinators.partition_of(GROUP)
        if topic == TRANSACTION_TOPIC:
            return topic, self.node.transactions.partition_of("billing-1")
        return topic, 0

    def move(self, topic: str, index: int) -> None:
        leader = self.cluster.leader_of(topic, index)
        if leader is not None:
            self.cluster.move(topic, index, leader.node_id % len(NODES) + 1)

    def run_loop(self) -> None:
        self.before_run, before_run = None, self.before_run
        if before_run is not None:
            before_run()
        while self.callbacks:
            if self.steps == self.move_at:
                self._move()
            self.steps += 1
            self.callbacks.pop(0)()

    def _move(self) -> None:
        assert self.moved is not None
        self.move(*self.moved)

    def send(self, api: str, version: int, /, **values: Any) -> PendingRequest:
        if self.steps == self.move_at:  # between two requests
            self.move_at = -1
            self._move()
        self.node = self._leader_for(api, values)
        return super().send(api, version, **values)

    def _leader_for(self, api: str, values: dict[str, Any]) -> Any:
        if api in ("TxnOffsetCommit", "OffsetFetch"):
            group_id = values.get("group_id") or values["groups"][0]["group_id"]
            index = self.node.coordinators.partition_of(group_id)
            found = self.cluster.leader_of(OFFSETS_TOPIC, index)
        elif api in ("Produce", "Fetch"):
            topic = values["topic_data" if api == "Produce" else "topics"][0]
            found = self.cluster.leader_of(topic.get("name") or topic["topic"], 0)
        elif api == "FindCoordinator":
            found = self.cluster.nodes[1]
        else:
            index = self.node.transactions.partition_of(
                values.get("transactional_id") or values.get("v3_and_below_transactional_id")
            )
            found = self.cluster.leader_of(TRANSACTION_TOPIC, index)
        return found or self.cluster.nodes[1]
