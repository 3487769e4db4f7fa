"""Heartbeats, commits and leaving: who stays alive, who goes."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import Heartbeat, LeaveGroup
from kohort.protocol.errors import ErrorCode
from support.coordinator import World

E = ErrorCode
GONE = E.unknown_member_id


def test_heartbeats_keep_a_member_alive(w: World) -> None:
    a, b = w.stable(None, None)
    for _ in range(5):
        w.sleep(9_999)
        assert w.heartbeat(a, 1) is w.heartbeat(b, 1) is E.none
    w.sleep(10_000)
    assert w.state is State.EMPTY


def test_commits_alone_keep_a_member_alive_and_fetches_do_not(w: World) -> None:
    a, _b = w.stable(None, None)
    for _ in range(3):
        w.sleep(6_000)
        w.commit(member_id=a, generation=w.group.generation)
        w.fetch()
    assert list(w.group.members) == [a]


def test_a_commit_for_the_generation_before_keeps_a_member_alive_while_a_round_is_open(
    w: World,
) -> None:
    a, b = w.stable(None, None)
    w.join(a)
    for _ in range(3):
        w.sleep(6_000)
        assert w.commit(member_id=b, generation=1) is E.none
    assert b in w.group.members


def test_a_member_that_dies_opens_a_round_and_the_others_hear_of_it(w: World) -> None:
    a, b, c = w.stable(None, None, None)
    w.sleep(5_000)
    w.heartbeat(a, 1), w.heartbeat(b, 1)
    w.sleep(5_000)
    assert w.state is State.PREPARING_REBALANCE
    assert w.heartbeat(a, 1) is w.heartbeat(b, 1) is E.rebalance_in_progress
    assert w.heartbeat(c, 1) is GONE


def test_a_member_that_dies_while_all_others_have_joined_closes_the_round(w: World) -> None:
    a, _b = w.stable(None, None)
    again = w.join(a)
    w.sleep(10_000)
    assert w.answers[again].generation_id == 2
    assert [member.member_id for member in w.answers[again].members] == [a]


def test_a_member_that_dies_while_syncing_sends_all_back_to_join(w: World) -> None:
    tickets = [w.enter(), w.enter()]
    w.sleep(0)
    _a, b = (w.answers[ticket].member_id for ticket in tickets)
    parked = w.sync(b, 1)
    w.sleep(10_000)
    assert w.answers[parked].error is E.rebalance_in_progress
    assert list(w.group.members) == [b]


def test_leaving_is_answered_for_each_in_the_order_of_the_request(w: World) -> None:
    a, b, c = w.stable(None, None, None)
    pending = w.new_id()
    left = w.leave(a, b, pending, "stranger")
    assert left.error is E.none
    assert [(m.member_id, m.error) for m in left.members] == [
        (a, E.none),
        (b, E.none),
        (pending, E.none),
        ("stranger", GONE),
    ]
    assert list(w.group.members) == [c]
    assert w.state is State.PREPARING_REBALANCE


def test_leaving_twice_in_one_request_works_once(w: World) -> None:
    (a,) = w.stable(None)
    assert [m.error for m in w.leave(a, a).members] == [E.none, GONE]


def test_when_all_leave_the_group_is_empty_and_keeps_its_protocol_type(w: World) -> None:
    ids = w.stable(None, None)
    w.leave(*ids)
    assert (w.state, w.group.generation) == (State.EMPTY, 2)
    stored = w.group.stored
    assert stored is not None
    assert (stored.protocol_type, stored.protocol_name, stored.leader) == ("consumer", None, None)
    assert stored.state_timestamp_ms == w.now


def test_strangers_that_leave_start_no_round(w: World) -> None:
    w.stable(None)
    w.leave("stranger")
    assert w.state is State.STABLE


def test_who_leaves_with_a_parked_join_is_told_and_with_a_parked_sync_is_not(w: World) -> None:
    a, b = w.stable(None, None)
    parked_join = w.join(a)
    w.leave(a)
    assert (w.answers[parked_join].error, w.answers[parked_join].member_id) == (GONE, "")
    again = w.join(b)
    assert w.answers[again].generation_id == 2
    c = w.enter()
    late = w.join(b)
    parked_sync = w.sync(w.answers[c].member_id, 3)
    w.leave(w.answers[c].member_id)
    assert w.answers[late].generation_id == 3
    assert parked_sync not in w.answers


def test_a_member_with_a_stranger_s_instance_id_may_not_leave(w: World) -> None:
    (a,) = w.stable(None)
    assert w.leave((a, "i")).members[0].error is GONE
    assert a in w.group.members


@pytest.mark.parametrize("member_id", ["", "m"])
def test_the_empty_group_id_is_none(w: World, member_id: str) -> None:
    assert w.tell(Heartbeat("", 1, member_id, None)).error is E.invalid_group_id
    left = w.tell(LeaveGroup("", ()))
    assert (left.error, left.members) == (E.invalid_group_id, ())
