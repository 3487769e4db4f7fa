"""Three nodes: a partition moves to another node at every step of transactions: that of
__transaction_state, that of the offsets, and one with records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from kohort.broker.build import new_transactions
from kohort.broker.cluster import Cluster
from kohort.broker.offset_cleanup import DeletedTopics
from kohort.log.group_commit import Durability
from kohort.offsets.table import OffsetsCache, OffsetsTable
from kohort.protocol.errors import ErrorCode
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from kohort.topics.topic import Nodes
from support.broker import OFFSETS_PARTITIONS, BrokerHarness, PendingRequest
from support.producer import GROUP, Producer, read_committed
from support.runtime import new_coordinator, new_runtime, no_time
from support.transaction_story import Story

E = ErrorCode
NODES = (1, 2, 3)


class ClusterHarness(BrokerHarness):
    """A broker with three nodes. Each request goes to the node that leads its partition when it is
    sent. `move_at`: the number of callbacks after which the partition `moved` gets the next node as
    its leader."""

    def __init__(self, durability: Durability = "fsync") -> None:
        self.before_run: Callable[[], None] | None = None
        self.move_at = self.steps = 0
        config = {"transaction.state.log.num.partitions": "2"}
        super().__init__(config, durability=durability, with_groups=True)
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
            node.coordinators = self._coordinators_of(node_id)
            self.cluster.nodes[node_id] = node
        self.moved: tuple[str, int] | None = None
        self.move_at = -1
        self.steps = 0
        self.create_topic("orders")
        self.create_topic("bills")

    def _coordinators_of(self, node_id: int) -> Any:
        def partition(index: int) -> Any:
            return self.topics.ensure_offsets_topic().partition(index)

        return new_runtime(
            partitions=OFFSETS_PARTITIONS,
            partition=partition,
            group_commit=self.group_commit,
            files=self.files,
            timers=self.timers,
            scheduler=self.scheduler,
            cache=OffsetsCache(0),
            coordinator=lambda _index: new_coordinator(OffsetsTable(), lambda: "id"),
            delayed_fetches=lambda index: partition(index).delayed_fetches,
            deleted_topics=DeletedTopics(),
            leads=lambda index: partition(index).leader_id == node_id,
        )

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
            found = self.cluster.leader_of(*self.partition_of(OFFSETS_TOPIC))
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


@pytest.mark.parametrize("durability", ["fsync", "os"])
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("topic", [TRANSACTION_TOPIC, OFFSETS_TOPIC, "orders"])
def test_a_partition_moves_at_any_step(topic: str, version: int, durability: Durability) -> None:
    step = 0
    while True:
        harness = ClusterHarness(durability)
        if topic == TRANSACTION_TOPIC:
            harness.topics.ensure_transaction_topic()
        else:
            harness.topics.ensure_offsets_topic()
        harness.run_loop()
        story = Story(harness, version)
        harness.steps, harness.move_at = 0, step
        harness.moved = harness.partition_of(topic)
        story.tell()
        if harness.steps < step:
            break
        assert not story.rejected, f"move at step {step}"
        try:
            story.check(harness)
        except AssertionError as error:
            raise AssertionError(f"move at step {step}: {error}") from error
        step += 1
    assert step > 20


@pytest.mark.parametrize("reloads", [False, True], ids=["moved", "loaded again"])
@pytest.mark.parametrize("version", [0, 2])
def test_late_markers_of_a_former_coordinator_do_not_end_the_next_transaction(
    version: int, reloads: bool
) -> None:
    """The former coordinator would write its marker late; the new one has completed the
    transaction, and the next one has begun."""
    harness = ClusterHarness("os")
    producer = Producer(harness, version=version)
    other = Producer(harness, "another", version=version)
    assert producer.find_coordinators() is E.none
    assert harness.partition_of(TRANSACTION_TOPIC)[1] == harness.node.transactions.partition_of(
        other.transactional_id
    )
    assert producer.init() is E.none
    assert producer.send("orders", "first") is E.none
    late: list[Callable[[], None]] = []
    former = harness.cluster.leader_of(*harness.partition_of(TRANSACTION_TOPIC))
    assert former is not None
    former.markers.holds = lambda _markers, resume: (late.append(resume), True)[1]
    if not reloads:
        harness.before_run = partial(harness.move, *harness.partition_of(TRANSACTION_TOPIC))
    assert producer.end(commit=True) is E.none
    former.markers.holds = lambda _markers, _resume: False
    if reloads:
        harness.files.fail("append")
        assert other.init() is E.coordinator_not_available
    assert read_committed(harness, "orders") == ["first"], "the new coordinator has completed it"
    assert producer.send("orders", "second") is E.none
    for resume in late:
        resume()
    harness.run_loop()
    assert read_committed(harness, "orders") == ["first"]
    assert producer.end(commit=False) is E.none
    assert read_committed(harness, "orders") == ["first"]
