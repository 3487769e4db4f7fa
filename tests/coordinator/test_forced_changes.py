"""Rebalances and expired sessions that a test forces."""

from kohort.coordinator.classic.group import RebalanceReason
from kohort.coordinator.classic.states import State
from kohort.coordinator.outcome import NOTHING
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

REASON = RebalanceReason(Cause.REQUESTED_BY_TEST, "forced")


def test_a_forced_rebalance_of_a_stable_group_has_the_requested_leader(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    assert harness.group.leader == a
    harness._apply_outcome(harness.coordinator.rebalance(GROUP, REASON, b, harness.now))
    assert (harness.state, harness.causes()[-1]) == (
        State.PREPARING_REBALANCE,
        Cause.REQUESTED_BY_TEST.value,
    )
    harness.join(a), harness.join(b)
    assert harness.group.leader == b


def test_a_forced_rebalance_without_a_leader_keeps_the_leader(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None)
    harness._apply_outcome(harness.coordinator.rebalance(GROUP, REASON, None, harness.now))
    harness.join(b), harness.join(a)
    assert harness.group.leader == a


def test_a_rebalance_is_only_forced_where_there_is_a_generation(
    harness: CoordinatorHarness,
) -> None:
    assert harness.coordinator.rebalance("unknown", REASON, None, harness.now) is NOTHING
    (a,) = harness.stable_group(None)
    harness._apply_outcome(harness.coordinator.rebalance(GROUP, REASON, None, harness.now))
    assert harness.coordinator.rebalance(GROUP, REASON, None, harness.now) is NOTHING
    harness.leave(a)
    assert harness.coordinator.rebalance(GROUP, REASON, None, harness.now) is NOTHING


def test_a_session_that_is_expired_by_force_removes_the_member(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None)
    harness._apply_outcome(harness.coordinator.expire_session(GROUP, b, harness.now))
    assert list(harness.group.members) == [a]
    assert harness.state is State.PREPARING_REBALANCE
    assert harness.coordinator.expire_session("unknown", b, harness.now) is NOTHING


def test_a_forced_rebalance_of_a_consumer_group_raises_its_epoch(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    before = harness.consumers.epoch
    harness._apply_outcome(harness.coordinator.rebalance(GROUP, REASON, None, harness.now))
    assert harness.consumers.epoch == before + 1
    assert harness.causes()[-1] == Cause.REQUESTED_BY_TEST.value
    assert harness.consumer("a", before).member_epoch == before + 1


def test_a_consumer_whose_session_is_expired_by_force_is_fenced(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a"), harness.consumer_join("b")
    harness._apply_outcome(harness.coordinator.expire_session(GROUP, "b", harness.now))
    assert list(harness.consumers.members) == ["a"]


def test_a_consumer_that_is_fenced_by_force_can_rejoin(harness: CoordinatorHarness) -> None:
    assert harness.coordinator.fence("unknown", "a", harness.now) is NOTHING
    epoch = harness.consumer_join("a").member_epoch
    harness._apply_outcome(harness.coordinator.fence(GROUP, "a", harness.now))
    assert harness.consumer("a", epoch).error_code is ErrorCode.fenced_member_epoch
    assert harness.consumer_join("a").error_code is ErrorCode.none


def test_a_held_assignment_is_computed_when_it_is_released(harness: CoordinatorHarness) -> None:
    epoch = harness.consumer_join("a").member_epoch
    harness.coordinator.hold_assignment(GROUP, is_held=True)
    harness._apply_outcome(harness.coordinator.rebalance(GROUP, REASON, None, harness.now))
    assert harness.consumer("a", epoch).member_epoch == epoch
    harness.coordinator.hold_assignment(GROUP, is_held=False)
    assert harness.consumer("a", epoch).member_epoch == epoch + 1
