"""Rebalances and expired sessions that a test forces."""

from kohort.coordinator.classic.group import RebalanceReason
from kohort.coordinator.classic.states import State
from kohort.coordinator.outcome import NOTHING
from kohort.offsets.causes import Cause
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
