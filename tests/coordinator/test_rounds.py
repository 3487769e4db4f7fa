"""The initial delay, the rebalance timeout, who is in the next generation."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode


def test_the_initial_round_waits_for_latecomers() -> None:
    w = World(group_initial_rebalance_delay_ms=3_000)
    a = w.enter()
    w.sleep(2_999)
    assert a not in w.answers
    w.sleep(1)
    assert w.answers[a].generation_id == 1


def test_a_delay_of_zero_is_still_a_timer(w: World) -> None:
    a = w.enter()
    assert a not in w.answers
    w.sleep(0)
    assert w.answers[a].generation_id == 1


def test_a_new_member_extends_the_initial_delay_once() -> None:
    w = World(group_initial_rebalance_delay_ms=3_000)
    a = w.enter()
    w.sleep(2_999)
    b = w.enter()
    w.sleep(1)
    assert a not in w.answers
    w.sleep(2_999)
    assert a not in w.answers
    w.sleep(1)
    assert w.answers[a].generation_id == w.answers[b].generation_id == 1


def test_the_initial_delay_ends_with_the_rebalance_timeout_of_who_opened_it() -> None:
    """Delay 3,000, rebalance timeout 7,000, somebody new in each window: 3,000, 6,000, 7,000."""
    w = World(group_initial_rebalance_delay_ms=3_000)
    a = w.enter(rebalance_ms=7_000)
    for _ in range(2):
        w.sleep(2_999)
        w.enter(rebalance_ms=100_000)
        w.sleep(1)
        assert a not in w.answers
    w.enter(rebalance_ms=100_000)
    w.sleep(999)
    assert a not in w.answers
    w.sleep(1)
    assert len(w.answers[a].members) == 4


def test_joining_again_does_not_extend_the_initial_delay() -> None:
    w = World(group_initial_rebalance_delay_ms=3_000)
    member_id = w.new_id()
    w.join(member_id)
    w.sleep(2_000)
    again = w.join(member_id)
    w.sleep(1_000)
    assert w.answers[again].generation_id == 1


def test_the_first_round_does_not_wait_for_pending_ids(w: World) -> None:
    w.new_id()
    a = w.enter()
    w.sleep(0)
    assert w.answers[a].generation_id == 1


def test_when_everybody_leaves_the_initial_round_its_timer_makes_the_group_empty() -> None:
    w = World(group_initial_rebalance_delay_ms=3_000)
    member_id = w.new_id()
    a = w.join(member_id)
    w.leave(member_id)
    assert w.answers[a].error is E.unknown_member_id
    assert w.state is State.PREPARING_REBALANCE
    w.sleep(3_000)
    assert (w.state, w.group.generation) == (State.EMPTY, 1)


def test_a_member_that_expires_in_the_initial_round_closes_it_if_nobody_else_is_missing() -> None:
    """Unlike one that leaves (upstream's testHeartbeatExpirationShouldRemoveMember)."""
    w = World(group_initial_rebalance_delay_ms=600_000)
    a = w.enter(rebalance_ms=600_000)
    w.sleep(300_000)
    assert w.answers[a].error is E.unknown_member_id
    assert w.answers[a].member_id == ""
    empty = GroupMetadata("consumer", 1, None, None, w.now, ())
    assert (w.state, w.log[-1]) == (State.EMPTY, GroupMetadataRecord(GROUP, empty))


def test_a_pending_id_that_expires_in_the_initial_round_closes_it() -> None:
    w = World(group_initial_rebalance_delay_ms=20_000)
    w.new_id(session_ms=6_000)
    a = w.enter()
    w.sleep(6_000)
    assert w.answers[a].generation_id == 1


def test_a_round_is_over_when_all_have_joined_again(w: World) -> None:
    a, b, c = w.stable(None, None, None)
    tickets = [w.join(a)]
    assert w.heartbeat(b, 1) is E.rebalance_in_progress
    tickets += [w.join(b), w.join(c)]
    assert [w.answers[ticket].generation_id for ticket in tickets] == [2, 2, 2]


def test_who_does_not_join_again_in_time_is_out(w: World) -> None:
    a, b, c = w.stable(None, None, None, session_ms=1_000_000, rebalance_ms=10_000)
    tickets = [w.join(m, session_ms=1_000_000, rebalance_ms=10_000) for m in (a, c)]
    w.sleep(9_999)
    assert not any(ticket in w.answers for ticket in tickets)
    w.sleep(1)
    assert all(w.answers[ticket].generation_id == 2 for ticket in tickets)
    assert list(w.group.members) == [a, c]
    assert w.heartbeat(b, 1) is E.unknown_member_id


def test_the_longest_rebalance_timeout_of_all_members_counts(w: World) -> None:
    first = [w.enter(rebalance_ms=ms, session_ms=1_000_000) for ms in (10_000, 40_000, 20_000)]
    w.sleep(0)
    ids = [w.answers[ticket].member_id for ticket in first]
    w.sync_all(ids, 1)
    a = w.join(ids[0], rebalance_ms=10_000, session_ms=1_000_000)
    w.sleep(39_999)
    assert a not in w.answers
    w.sleep(1)
    assert w.answers[a].generation_id == 2


def test_the_first_who_has_joined_leads_when_the_leader_has_not(w: World) -> None:
    a, b, c = w.stable(None, None, None, session_ms=1_000_000)
    tickets = [w.join(c, protocols=(("range", b"new"),)), w.join(b)]
    w.sleep(60_000)
    assert [w.answers[ticket].leader for ticket in tickets] == [b, b]
    assert w.heartbeat(a, 2) is E.unknown_member_id


def test_a_group_whose_members_are_all_too_late_is_empty(w: World) -> None:
    a, b = w.stable(None, None, session_ms=1_000_000)
    w.join(a)
    w.leave(a)
    w.sleep(60_000)
    assert (w.state, w.group.generation) == (State.EMPTY, 2)
    assert w.group.protocol_type == "consumer"
    assert w.heartbeat(b, 1) is E.unknown_member_id


def test_a_new_member_lives_on_the_join_timeout_until_its_first_round_is_over(w: World) -> None:
    """Upstream's testNewMemberTimeoutCompletion: its session, however long, begins afterwards."""
    session_ms = 305_000
    a = w.enter(session_ms=session_ms)
    w.sleep(0)
    assert w.answers[a].error is E.none
    member_id = w.answers[a].member_id
    w.sync(member_id, 1, {member_id: b"all"})
    w.sleep(session_ms - 1)
    assert w.state is State.STABLE
    w.sleep(1)
    empty = GroupMetadata("consumer", 2, None, None, w.now, ())
    assert (w.state, w.log[-1]) == (State.EMPTY, GroupMetadataRecord(GROUP, empty))


def test_a_new_member_whose_round_never_closes_is_told_after_five_minutes(w: World) -> None:
    (_,) = w.stable(None, session_ms=1_000_000, rebalance_ms=1_000_000)
    b = w.enter(session_ms=6_000, rebalance_ms=1_000_000)
    w.sleep(299_999)
    assert b not in w.answers
    w.sleep(1)
    assert (w.answers[b].error, w.answers[b].member_id) == (E.unknown_member_id, "")


def test_a_known_member_that_waits_for_the_round_cannot_expire(w: World) -> None:
    a, b = w.stable(None, None, session_ms=6_000, rebalance_ms=1_000_000)
    ticket = w.join(a, session_ms=6_000, rebalance_ms=1_000_000)
    for _ in range(10):
        w.sleep(5_000)
        assert w.heartbeat(b, 1) is E.rebalance_in_progress
    assert ticket not in w.answers
    w.join(b, session_ms=6_000, rebalance_ms=1_000_000)
    assert w.answers[ticket].generation_id == 2
    # From here on it can.
    w.sleep(6_000)
    assert w.state is State.EMPTY


@pytest.mark.parametrize("leader_syncs", [True, False])
def test_who_does_not_sync_in_time_is_out_even_if_the_leader_did(
    w: World, leader_syncs: bool
) -> None:
    tickets = [w.enter(rebalance_ms=20_000) for _ in range(3)]
    w.sleep(0)
    a, b, c = (w.answers[ticket].member_id for ticket in tickets)
    parked = w.sync(b, 1)
    if leader_syncs:
        w.sync(a, 1, {a: b"", b: b"", c: b""})
    for _ in range(4):
        w.sleep(4_999)
        assert {w.heartbeat(m, 1) for m in (a, b, c)} == {E.none}
    w.sleep(4)
    assert w.state is State.PREPARING_REBALANCE
    assert set(w.group.members) == ({a, b} if leader_syncs else {b})
    expected = E.none if leader_syncs else E.rebalance_in_progress
    assert w.answers[parked].error is expected
    assert w.heartbeat(b, 1) is E.rebalance_in_progress


def test_when_nobody_syncs_the_group_is_empty_after_the_rebalance_timeout(w: World) -> None:
    w.enter(session_ms=1_000_000), w.enter(session_ms=1_000_000)
    w.sleep(60_000)
    assert (w.state, w.group.generation) == (State.EMPTY, 2)


def test_the_sync_timer_rests_once_all_have_synced(w: World) -> None:
    w.stable(None, None, session_ms=1_000_000)
    assert w.group.sync_timer not in w.coordinator.deadlines
    w.sleep(60_000)
    assert w.state is State.STABLE
