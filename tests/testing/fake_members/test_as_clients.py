"""Puppets are seen, steered and hindered as clients are."""

import pytest
from kohort.testing import Kafka


def test_their_requests_are_in_the_history(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"], client_id="peer")
    puppet.wait_owned(1)
    puppet.commit("orders", 0, 3)
    asked = [each.api for each in kafka.history.requests]
    assert asked == [
        "FindCoordinator",
        "JoinGroup",
        "JoinGroup",
        "SyncGroup",
        "FindCoordinator",
        "OffsetCommit",
    ]
    (commit,) = kafka.group("billing").commits
    assert (commit.client_id, commit.member_id, commit.offset) == ("peer", puppet.member_id, 3)


@pytest.mark.parametrize("api", ["FindCoordinator", "JoinGroup", "SyncGroup"])
@pytest.mark.parametrize(
    "deed", ["drop", "lose_answer", "close_mid_frame", "trickle", "corrupt", "delay"]
)
def test_faults_meet_them_and_they_get_over_it(kafka: Kafka, api: str, deed: str) -> None:
    kafka.topic("orders", partitions=1)
    how = {"ms": 1} if deed == "delay" else {}
    fault = getattr(kafka.faults, deed)(api, **how)
    puppet = kafka.puppet("billing", topics=["orders"])
    fault.wait()
    if deed in ("lose_answer", "close_mid_frame", "corrupt"):
        # It may have become a member that nobody knows of.
        kafka.clock.advance(minutes=10)
    assert puppet.wait_owned(1) == [("orders", 0)]


def test_an_error_without_an_end_leaves_the_broker_to_others(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    fault = kafka.faults.answer("JoinGroup", error="NOT_COORDINATOR", group="a", times=None)
    hindered = kafka.puppet("a", topics=["orders"])
    fault.wait(times=3)
    kafka.puppet("b", topics=["orders"]).wait_owned(1)
    fault.cancel()
    hindered.wait_owned(1)
    assert {each.error for each in hindered.errors} == {"NOT_COORDINATOR"}


def test_a_commit_whose_answer_is_lost_is_told_as_a_lost_connection(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    kafka.faults.lose_answer("OffsetCommit")
    assert puppet.commit("orders", 0, 3) == "NETWORK_EXCEPTION"
    assert kafka.group("billing").wait_committed("orders", 0) == 3
    assert puppet.commit("orders", 7, 3) == "UNKNOWN_TOPIC_OR_PARTITION"


def test_a_held_round_holds_them(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    group = kafka.group("billing")
    with group.hold_syncs() as held:
        puppet = kafka.puppet("billing", topics=["orders"])
        held.wait()
        assert (puppet.owned, puppet.generation) == ([], 1)
    puppet.wait_owned(1)


def test_an_evicted_puppet_comes_back_as_another_member(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    before = puppet.member_id
    group = kafka.group("billing")
    group.evict(puppet.client_id)
    assert puppet.member_id not in (before, "")
    assert puppet.owned == [("orders", 0)]
    assert ("Heartbeat", "UNKNOWN_MEMBER_ID") in puppet.errors


def test_they_wait_for_a_coordinator_that_loads(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=2)
    first = kafka.puppet("billing", topics=["orders"])
    second = kafka.puppet("billing", topics=["orders"])
    group = kafka.group("billing").wait_stable(members=2)
    generation = group.generation
    with group.loading():
        assert first.commit("orders", 0, 1) == "COORDINATOR_LOAD_IN_PROGRESS"
    kafka.clock.advance(minutes=5)
    assert (group.generation, len(group.members)) == (generation, 2)
    assert len(first.owned) == len(second.owned) == 1


def test_they_follow_the_coordinator_to_another_node() -> None:
    with Kafka(nodes=2) as kafka:
        kafka.topic("orders", partitions=2)
        puppet = kafka.puppet("billing", topics=["orders"])
        puppet.wait_owned(2)
        group = kafka.group("billing")
        before = group.node_id
        generation = group.generation
        kafka.run(kafka.broker.stop_node(before))
        kafka.clock.advance(minutes=5)
        assert group.node_id != before
        assert (group.generation, len(group.members)) == (generation, 1)
        assert puppet.commit("orders", 0, 1) is None
        assert ("Heartbeat", "NETWORK_EXCEPTION") in puppet.errors or puppet.errors == []


def test_nothing_of_them_is_left_when_the_broker_is_reset(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    kafka.reset()
    assert puppet.owned == []
    kafka.clock.advance(minutes=5)
    assert kafka.history.requests == []


@pytest.mark.parametrize("how", ["crash", "restart"])
def test_they_survive_the_broker_as_clients_do(kafka: Kafka, how: str) -> None:
    kafka.topic("orders", partitions=2)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(2)
    assert puppet.commit("orders", 0, 3) is None
    kafka.clock.freeze()
    group = kafka.group("billing")
    before = puppet.member_id, group.generation
    getattr(kafka, how)()
    kafka.clock.advance(minutes=5)
    group.wait_stable(members=1)
    assert (puppet.member_id, group.generation) == before
    assert puppet.commit("orders", 0, 4) is None


def test_they_look_for_a_broker_that_is_down_until_it_is_up(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=2)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(2)
    with kafka.broker_down():
        assert puppet.commit("orders", 0, 3) == "NETWORK_EXCEPTION"
    assert puppet.commit("orders", 0, 3) is None
    kafka.clock.advance(minutes=5)
    assert [g.cause for g in kafka.group("billing").generations] == ["member joined"]


def test_errors_that_pass_cost_them_no_session(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    kafka.faults.answer("Heartbeat", error="NOT_COORDINATOR", times=20)
    kafka.clock.advance(minutes=5)
    assert len(puppet.errors) == 20
    assert [g.cause for g in kafka.group("billing").generations] == ["member joined"]


def test_an_error_that_does_not_pass_costs_them_their_session(kafka: Kafka) -> None:
    kafka.clock.freeze()
    kafka.topic("orders", partitions=1)
    puppet = kafka.puppet("billing", topics=["orders"])
    puppet.wait_owned(1)
    fault = kafka.faults.answer("Heartbeat", error="NOT_COORDINATOR", times=None)
    kafka.clock.advance(minutes=1)
    assert kafka.group("billing").generations[-1].cause == "session expired"
    fault.cancel()
    puppet.wait_owned(1)
    kafka.group("billing").wait_stable(members=1)
