"""Static membership (KIP-345): a restart costs no round, and the old self is fenced."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinResult
from kohort.offsets.records import GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import RANGE, World

E = ErrorCode


def names(answer: JoinResult) -> list[str | None]:
    return [member.group_instance_id for member in answer.members]


def test_a_static_member_joins_in_one_step_and_its_id_tells_its_name(w: World) -> None:
    ticket = w.join(instance="i1")
    w.sleep(0)
    assert w.answers[ticket].member_id == "i1-1"
    assert names(w.answers[ticket]) == ["i1"]


def test_a_follower_that_restarts_gets_its_partitions_back_without_a_round(w: World) -> None:
    a, b = w.stable("i1", "i2")
    again = w.answers[w.join(instance="i2")]
    new = again.member_id
    assert new not in (a, b)
    assert again == JoinResult(E.none, 1, "consumer", "range", a, new, (), False)
    assert w.answers[w.sync(new, 1, instance="i2")].assignment == b.encode()
    assert w.state is State.STABLE


@pytest.mark.parametrize("version", [8, 9])
def test_a_leader_that_restarts_must_not_assign_again(w: World, version: int) -> None:
    """Since v9 it is told so; before, it is told its old id as the leader's."""
    a, _b = w.stable("i1", "i2")
    again = w.answers[w.join(instance="i1", version=version)]
    new = again.member_id
    assert w.group.leader == new
    if version >= 9:
        assert (again.leader, again.skip_assignment) == (new, True)
        assert sorted(names(again)) == ["i1", "i2"]
    else:
        assert (again.leader, again.skip_assignment, names(again)) == (a, False, [])
    assert w.answers[w.sync(new, 1, instance="i1")].assignment == a.encode()


def test_who_took_the_place_of_another_is_in_the_log(w: World) -> None:
    w.stable("i1", "i2")
    new = w.answers[w.join(instance="i2", protocols=(("range", b"new"),))].member_id
    stored = w.log[-1]
    assert isinstance(stored, GroupMetadataRecord)
    assert stored.value.generation == 1
    assert {m.group_instance_id: (m.member_id, m.subscription) for m in stored.value.members}[
        "i2"
    ] == (new, b"new")
    w.restart()
    assert w.heartbeat(new, 1, instance="i2") is E.none


def test_a_restart_that_changes_the_vote_starts_a_round(w: World) -> None:
    both = (*RANGE, ("roundrobin", b""))
    w.stable("i1", "i2", protocols=both)
    first = w.join(instance="i1", protocols=both[::-1])
    # A tie goes to what the leader prefers, and that is the one who changed its mind.
    assert first not in w.answers
    assert w.state is State.PREPARING_REBALANCE
    w.join(w.group.static_members["i2"], instance="i2", protocols=both)
    assert (w.answers[first].generation_id, w.answers[first].protocol_name) == (2, "roundrobin")


def test_a_restart_while_the_others_sync_starts_a_round(w: World) -> None:
    tickets = [w.join(instance="i1"), w.join(instance="i2")]
    w.sleep(0)
    _, b = (w.answers[ticket].member_id for ticket in tickets)
    parked = w.sync(b, 1, instance="i2")
    w.join(instance="i2")
    assert w.answers[parked].error is E.fenced_instance_id
    assert w.state is State.PREPARING_REBALANCE


def test_a_restart_while_a_round_is_open_fences_the_parked_join_of_the_old_self(w: World) -> None:
    a, b = w.stable("i1", "i2")
    old = w.join(a, instance="i1")
    new = w.join(instance="i1")
    fenced = w.answers[old]
    assert fenced == JoinResult(E.fenced_instance_id, -1, None, None, "", a, (), False)
    w.join(b, instance="i2")
    assert w.answers[new].generation_id == 2


def test_in_the_initial_round_too_the_second_of_two_with_one_name_wins(w: World) -> None:
    first, second = w.join(instance="i1"), w.join(instance="i1")
    assert w.answers[first].error is E.fenced_instance_id
    w.sleep(0)
    assert w.answers[second].error is E.none
    assert len(w.group.members) == 1


def test_the_old_self_is_fenced_everywhere(w: World) -> None:
    a, _b = w.stable("i1", "i2")
    w.join(instance="i1")
    fenced = E.fenced_instance_id
    assert w.heartbeat(a, 1, instance="i1") is fenced
    assert w.answers[w.sync(a, 1, instance="i1")].error is fenced
    assert w.commit(member_id=a, generation=1, instance="i1") is fenced
    assert w.answers[w.join(a, instance="i1")].error is fenced
    assert w.leave((a, "i1")).members[0].error is fenced
    assert w.heartbeat(a, 1) is E.unknown_member_id


def test_an_instance_that_was_never_seen_is_unknown_whatever_its_member_id(w: World) -> None:
    a, _b = w.stable("i1", None)
    assert w.heartbeat(a, 1, instance="i9") is E.unknown_member_id
    assert w.answers[w.join(a, instance="i9")].error is E.unknown_member_id
    assert w.answers[w.join("stranger", instance="i1")].error is E.fenced_instance_id


def test_a_static_member_may_join_again_with_its_own_id(w: World) -> None:
    a, b = w.stable("i1", "i2")
    assert w.answers[w.join(b, instance="i2")].generation_id == 1
    ticket = w.join(a, instance="i1")
    w.join(b, instance="i2")
    assert w.answers[ticket].generation_id == 2


# --- the four cases in which there is a round all the same


def test_a_new_static_member_starts_a_round(w: World) -> None:
    w.stable("i1")
    w.join(instance="i2")
    assert w.state is State.PREPARING_REBALANCE


def test_the_leader_that_joins_again_with_its_id_starts_a_round(w: World) -> None:
    a, _b = w.stable("i1", "i2")
    w.join(a, instance="i1")
    assert w.state is State.PREPARING_REBALANCE


def test_a_static_member_that_is_away_longer_than_its_session_starts_a_round(w: World) -> None:
    a, b = w.stable("i1", "i2")
    w.sleep(5_000)
    w.heartbeat(a, 1, instance="i1")
    w.sleep(5_000)
    assert w.state is State.PREPARING_REBALANCE
    assert list(w.group.members) == [a]
    assert w.heartbeat(b, 1, instance="i2") is E.unknown_member_id


@pytest.mark.parametrize("by_instance", [True, False])
def test_a_static_member_that_is_sent_away_starts_a_round(w: World, by_instance: bool) -> None:
    a, b = w.stable("i1", "i2")
    left = w.leave(("" if by_instance else b, "i2"), ("", "i9"), ("", None))
    assert [m.member_id for m in left.members] == ["" if by_instance else b, "", ""]
    gone = E.unknown_member_id
    assert [m.error for m in left.members] == [E.none, gone, gone]
    assert list(w.group.members) == [a]
    assert w.state is State.PREPARING_REBALANCE


# --- silent static members


def test_a_silent_static_member_survives_the_round_and_goes_on_owning(w: World) -> None:
    """Upstream's testRebalanceCompletesBeforeMemberJoins."""
    a, b = w.stable("i1", None, session_ms=100_000)
    c = w.enter(session_ms=100_000)
    w.heartbeat(a, 1, instance="i1")
    w.sleep(60_000)
    assert w.answers[c].generation_id == 2
    assert {m.member_id for m in w.answers[c].members} == {a, w.answers[c].member_id}
    assert w.answers[c].leader == w.answers[c].member_id
    assert w.heartbeat(a, 1, instance="i1") is E.illegal_generation
    assert b not in w.group.members
    # It owes a sync, and is out when it does not pay.
    w.sync(w.answers[c].member_id, 2, {})
    w.sleep(60_000)
    assert a not in w.group.members


def test_silent_static_members_alone_hold_the_group_until_their_sessions_end(w: World) -> None:
    a, b = w.stable("i1", "i2", session_ms=150_000)
    w.join(a, instance="i1", session_ms=150_000)
    w.leave((a, "i1"))
    assert w.state is State.PREPARING_REBALANCE
    for _ in range(2):
        w.sleep(60_000)
        assert (w.state, w.group.generation) == (State.PREPARING_REBALANCE, 1)
    w.sleep(30_000)
    assert (w.state, w.group.generation) == (State.EMPTY, 2)
    assert b not in w.group.members


def test_silent_static_members_that_ask_for_no_time_leave_others_their_turn(w: World) -> None:
    w.stable("i1", "i2")
    for instance in ("i1", "i2"):
        w.join(instance=instance, rebalance_ms=0)
    a, b = w.group.members
    w.leave((b, "i2"))
    w.sleep(0)  # would not end
    assert w.heartbeat(a, 1, instance="i1") is E.rebalance_in_progress
    w.sleep(9_999)
    assert w.state is State.PREPARING_REBALANCE
    w.sleep(1)
    assert (w.state, w.group.members) == (State.EMPTY, {})


def test_a_sync_that_the_old_self_owed_leads_to_one_more_round_as_upstream(w: World) -> None:
    tickets = [w.join(instance=name, session_ms=100_000) for name in ("i1", "i2")]
    w.sleep(0)
    a, _b = (w.answers[ticket].member_id for ticket in tickets)
    w.sync(a, 1, {}, instance="i1")
    new = w.answers[w.join(instance="i2", session_ms=100_000)].member_id
    assert w.answers[w.sync(new, 1, instance="i2")].error is E.none
    w.sleep(60_000)
    assert w.state is State.PREPARING_REBALANCE
    assert set(w.group.members) == {a, new}
