"""Heartbeats, sessions and LeaveGroup."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import Heartbeat, LeaveGroup
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

E = ErrorCode
UNKNOWN = E.unknown_member_id


def test_heartbeats_keep_a_member_alive(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None)
    for _ in range(5):
        harness.advance(9_999)
        assert harness.heartbeat(a, 1) is harness.heartbeat(b, 1) is E.none
    harness.advance(10_000)
    assert harness.state is State.EMPTY


def test_commits_keep_a_member_alive_and_fetches_do_not(harness: CoordinatorHarness) -> None:
    a, _b = harness.stable_group(None, None)
    for _ in range(3):
        harness.advance(6_000)
        harness.commit(member_id=a, generation=harness.group.generation)
        harness.fetch()
    assert list(harness.group.members) == [a]


def test_commits_keep_a_member_alive_during_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a)
    for _ in range(3):
        harness.advance(6_000)
        assert harness.commit(member_id=b, generation=1) is E.none
    assert b in harness.group.members


def test_an_expired_member_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, b, c = harness.stable_group(None, None, None)
    harness.advance(5_000)
    harness.heartbeat(a, 1), harness.heartbeat(b, 1)
    harness.advance(5_000)
    assert harness.state is State.PREPARING_REBALANCE
    assert harness.heartbeat(a, 1) is harness.heartbeat(b, 1) is E.rebalance_in_progress
    assert harness.heartbeat(c, 1) is UNKNOWN


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


def test_a_leave_response_has_each_member_in_the_order_of_the_request(
    harness: CoordinatorHarness,
) -> None:
    a, b, c = harness.stable_group(None, None, None)
    pending = harness.request_member_id()
    left = harness.leave(a, b, pending, "unknown")
    assert left.error_code is E.none
    assert [(m.member_id, m.error_code) for m in left.members] == [
        (a, E.none),
        (b, E.none),
        (pending, E.none),
        ("unknown", UNKNOWN),
    ]
    assert list(harness.group.members) == [c]
    assert harness.state is State.PREPARING_REBALANCE


def test_leaving_twice_in_one_request_succeeds_once(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None)
    assert [m.error_code for m in harness.leave(a, a).members] == [E.none, UNKNOWN]


def test_a_group_that_all_have_left_is_empty(
    harness: CoordinatorHarness,
) -> None:
    ids = harness.stable_group(None, None)
    harness.leave(*ids)
    assert (harness.state, harness.group.generation) == (State.EMPTY, 2)
    stored = harness.group.stored
    assert stored is not None
    assert (stored.protocol_type, stored.protocol_name, stored.leader) == ("consumer", None, None)
    assert stored.state_timestamp_ms == harness.now


def test_an_unknown_member_that_leaves_starts_no_rebalance(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.leave("unknown")
    assert harness.state is State.STABLE


def test_leaving_fails_a_waiting_join_but_not_a_waiting_sync(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    parked_join = harness.join(a)
    harness.leave(a)
    assert (harness.results[parked_join].error_code, harness.results[parked_join].member_id) == (
        UNKNOWN,
        "",
    )
    again = harness.join(b)
    assert harness.results[again].generation_id == 2
    c = harness.join_dynamic()
    late = harness.join(b)
    parked_sync = harness.sync(harness.results[c].member_id, 3)
    harness.leave(harness.results[c].member_id)
    assert harness.results[late].generation_id == 3
    assert parked_sync not in harness.results


def test_a_dynamic_member_cannot_leave_with_an_instance_id(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None)
    assert harness.leave((a, "i")).members[0].error_code is UNKNOWN
    assert a in harness.group.members


@pytest.mark.parametrize("member_id", ["", "m"])
def test_the_empty_group_id_is_rejected(harness: CoordinatorHarness, member_id: str) -> None:
    assert harness.call(Heartbeat("", 1, member_id, None)).error_code is E.invalid_group_id
    left = harness.call(LeaveGroup("", ()))
    assert (left.error_code, left.members) == (E.invalid_group_id, ())
