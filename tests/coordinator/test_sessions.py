"""Heartbeats, sessions and LeaveGroup."""

from kohort.coordinator.classic.states import State
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

E = ErrorCode


def test_commits_keep_a_member_alive_during_a_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a)
    for _ in range(3):
        harness.advance(6_000)
        assert harness.commit(member_id=b, generation=1) is E.none
    assert b in harness.group.members


def test_an_expired_member_completes_the_rebalance_of_the_others(
    harness: CoordinatorHarness,
) -> None:
    a, _b = harness.stable_group(None, None)
    again = harness.join(a)
    harness.advance(10_000)
    assert harness.results[again].generation_id == 2
    assert [member.member_id for member in harness.results[again].members] == [a]


def test_a_member_that_expires_during_the_sync_restarts_the_rebalance(
    harness: CoordinatorHarness,
) -> None:
    tickets = [harness.join_dynamic(), harness.join_dynamic()]
    harness.advance(0)
    _a, b = (harness.results[ticket].member_id for ticket in tickets)
    parked = harness.sync(b, 1)
    harness.advance(10_000)
    assert harness.results[parked].error_code is E.rebalance_in_progress
    assert list(harness.group.members) == [b]


def test_a_group_that_all_have_left_is_empty(harness: CoordinatorHarness) -> None:
    ids = harness.stable_group(None, None)
    harness.leave(*ids)
    assert (harness.state, harness.group.generation) == (State.EMPTY, 2)
    stored = harness.group.stored
    assert stored is not None
    assert (stored.protocol_type, stored.protocol_name, stored.leader) == ("consumer", None, None)
    assert stored.state_timestamp_ms == harness.now
