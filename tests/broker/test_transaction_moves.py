"""On three nodes, a partition moves to another node at every step of transactions: the partition of
__transaction_state, the offsets partition, or one with records."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from kohort.broker.runtime.context import CoordinatorState
from kohort.log.group_commit import Durability
from kohort.protocol.errors import ErrorCode
from kohort.topics.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from support.transactions import TIMEOUT_MS, ClusterHarness, Producer, Story, read_committed

E = ErrorCode


# Every two values of different parameters occur together.
@pytest.mark.parametrize(
    ("topic", "version", "durability"),
    [
        (TRANSACTION_TOPIC, 0, "fsync"),
        (TRANSACTION_TOPIC, 2, "os"),
        (OFFSETS_TOPIC, 0, "os"),
        (OFFSETS_TOPIC, 2, "fsync"),
        ("orders", 0, "fsync"),
        ("orders", 2, "os"),
    ],
)
def test_a_partition_moves_at_any_step(topic: str, version: int, durability: Durability) -> None:
    step = 0
    while True:
        harness = ClusterHarness(durability)
        if topic == TRANSACTION_TOPIC:
            harness.topics.ensure_coordinator_topic(TRANSACTION_TOPIC)
        else:
            harness.topics.ensure_coordinator_topic(OFFSETS_TOPIC)
        harness.run_loop()
        story = Story(harness, version)
        harness.steps, harness.move_at = 0, step
        harness.moved = harness.place_of(topic)
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
    assert harness.place_of(TRANSACTION_TOPIC)[1] == harness.node.transactions.partition_of(
        other.transactional_id
    )
    assert producer.init() is E.none
    assert producer.send("orders", "first") is E.none
    late: list[Callable[[], None]] = []
    former = harness.cluster.leader_of(*harness.place_of(TRANSACTION_TOPIC))
    former.markers.holds = lambda _markers, resume: (late.append(resume), True)[1]
    if not reloads:
        harness.before_run = partial(harness.move, *harness.place_of(TRANSACTION_TOPIC))
    assert producer.end(commit=True) is E.none
    former.markers.holds = lambda _markers, _resume: False
    if reloads:
        harness.files.fail("append")
        assert other.init() is E.not_coordinator
    assert read_committed(harness, "orders") == ["first"], "the new coordinator has completed it"
    assert producer.send("orders", "second") is E.none
    for resume in late:
        resume()
    harness.run_loop()
    assert read_committed(harness, "orders") == ["first"]
    assert producer.end(commit=False) is E.none
    assert read_committed(harness, "orders") == ["first"]


def test_ids_no_longer_expire_after_their_partition_has_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kohort.coordinator.transactions.coordinator.EXPIRED_PER_STEP", 1)
    harness = ClusterHarness("os")
    for number in range(8):  # several of them are in the partition that moves
        producer = Producer(harness, f"id-{number}")
        assert producer.find_coordinators() is E.none
        assert producer.init() is E.none
    place = harness.place_of(TRANSACTION_TOPIC)
    former = harness.cluster.leader_of(*place)
    assert former is not None
    expired: list[str] = []
    former.transactions.listeners = [lambda event: expired.append(event.cause)]
    harness.timers.advance(8 * 24 * 3_600_000)
    while not expired:
        harness.callbacks.pop(0)()
    harness.move(*place)
    harness.run_loop()
    assert expired == ["expired"]


def test_a_partition_that_moves_during_its_load_has_one_coordinator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kohort.broker.runtime.transactions.STEP_RECORDS", 1)
    harness = ClusterHarness("os")
    producer = Producer(harness)
    assert producer.find_coordinators() is E.none
    assert producer.init() is E.none
    assert producer.send("orders", "first") is E.none
    name, index = place = harness.place_of(TRANSACTION_TOPIC)
    former = harness.cluster.leader_of(*place)
    assert former is not None
    others = [node for node in harness.cluster.nodes.values() if node is not former]
    for node in others:
        harness.cluster.move(name, index, node.node_id)
        if node is others[0]:
            unloaded = node.transactions.contexts[index]
    assert unloaded.state is CoordinatorState.CLOSED
    harness.run_loop()
    assert unloaded.state is CoordinatorState.CLOSED
    causes: list[str] = []
    for node in harness.cluster.nodes.values():
        node.transactions.listeners = [lambda event: causes.append(event.cause)]
    harness.advance(TIMEOUT_MS)
    harness.run_loop()
    assert causes == ["timed out", "markers written"]
