"""Rebalances and expired sessions that a test forces."""

from kohort.coordinator.classic.group import RebalanceReason
from kohort.coordinator.classic.states import State
from kohort.coordinator.outcome import NOTHING
from kohort.offsets.causes import Cause
from support.coordinator import GROUP, World

REASON = RebalanceReason(Cause.REQUESTED_BY_TEST, "forced")


def test_a_forced_rebalance_of_a_stable_group_has_the_requested_leader(w: World) -> None:
    a, b = w.stable(None, None)
    assert w.group.leader == a
    w._carry_out(w.coordinator.rebalance(GROUP, REASON, b, w.now))
    assert (w.state, w.causes()[-1]) == (
        State.PREPARING_REBALANCE,
        Cause.REQUESTED_BY_TEST.value,
    )
    w.join(a), w.join(b)
    assert w.group.leader == b


def test_a_forced_rebalance_without_a_leader_keeps_the_leader(w: World) -> None:
    a, b = w.stable(None, None)
    w._carry_out(w.coordinator.rebalance(GROUP, REASON, None, w.now))
    w.join(b), w.join(a)
    assert w.group.leader == a


def test_a_rebalance_is_only_forced_where_there_is_a_generation(w: World) -> None:
    assert w.coordinator.rebalance("unknown", REASON, None, w.now) is NOTHING
    (a,) = w.stable(None)
    w._carry_out(w.coordinator.rebalance(GROUP, REASON, None, w.now))
    assert w.coordinator.rebalance(GROUP, REASON, None, w.now) is NOTHING
    w.leave(a)
    assert w.coordinator.rebalance(GROUP, REASON, None, w.now) is NOTHING


def test_a_session_that_is_expired_by_force_removes_the_member(w: World) -> None:
    a, b = w.stable(None, None)
    w._carry_out(w.coordinator.expire_session(GROUP, b, w.now))
    assert list(w.group.members) == [a]
    assert w.state is State.PREPARING_REBALANCE
    assert w.coordinator.expire_session("unknown", b, w.now) is NOTHING
