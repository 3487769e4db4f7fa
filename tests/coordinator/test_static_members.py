"""Static membership (KIP-345): restarts need no rebalance, and the old member id is fenced."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinResult
from kohort.offsets.records import GroupMetadataRecord
from kohort.protocol.errors import ErrorCode
from support.coordinator import RANGE, CoordinatorHarness

E = ErrorCode


def names(answer: JoinResult) -> list[str | None]:
    return [member.group_instance_id for member in answer.members]


def test_a_static_member_joins_with_one_request(
    harness: CoordinatorHarness,
) -> None:
    ticket = harness.join(instance="i1")
    harness.advance(0)
    assert harness.results[ticket].member_id == "i1-1"
    assert names(harness.results[ticket]) == ["i1"]


def test_a_restarted_follower_gets_its_assignment_without_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("i1", "i2")
    again = harness.results[harness.join(instance="i2")]
    new = again.member_id
    assert new not in (a, b)
    assert again == JoinResult(E.none, 1, "consumer", "range", a, new, (), False)
    assert harness.results[harness.sync(new, 1, instance="i2")].assignment == b.encode()
    assert harness.state is State.STABLE


@pytest.mark.parametrize("version", [8, 9])
def test_a_restarted_leader_must_not_assign_again(
    harness: CoordinatorHarness, version: int
) -> None:
    """Since version 9, the response contains skip_assignment. Before, the leader is the old id."""
    a, _b = harness.stable_group("i1", "i2")
    again = harness.results[harness.join(instance="i1", version=version)]
    new = again.member_id
    assert harness.group.leader == new
    if version >= 9:
        assert (again.leader, again.skip_assignment) == (new, True)
        assert sorted(names(again)) == ["i1", "i2"]
    else:
        assert (again.leader, again.skip_assignment, names(again)) == (a, False, [])
    assert harness.results[harness.sync(new, 1, instance="i1")].assignment == a.encode()


def test_the_replacement_of_a_static_member_is_written_to_the_log(
    harness: CoordinatorHarness,
) -> None:
    harness.stable_group("i1", "i2")
    new = harness.results[harness.join(instance="i2", protocols=(("range", b"new"),))].member_id
    stored = harness.log[-1]
    assert isinstance(stored, GroupMetadataRecord)
    assert stored.value.generation == 1
    assert {m.group_instance_id: (m.member_id, m.subscription) for m in stored.value.members}[
        "i2"
    ] == (new, b"new")
    harness.restart()
    assert harness.heartbeat(new, 1, instance="i2") is E.none


def test_a_restart_that_changes_the_selected_protocol_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    both = (*RANGE, ("roundrobin", b""))
    harness.stable_group("i1", "i2", protocols=both)
    first = harness.join(instance="i1", protocols=both[::-1])
    # The leader's preference, which has changed, decides the tie.
    assert first not in harness.results
    assert harness.state is State.PREPARING_REBALANCE
    harness.join(harness.group.static_members["i2"], instance="i2", protocols=both)
    assert (harness.results[first].generation_id, harness.results[first].protocol_name) == (
        2,
        "roundrobin",
    )


def test_a_restart_during_the_sync_starts_a_rebalance(harness: CoordinatorHarness) -> None:
    tickets = [harness.join(instance="i1"), harness.join(instance="i2")]
    harness.advance(0)
    _, b = (harness.results[ticket].member_id for ticket in tickets)
    parked = harness.sync(b, 1, instance="i2")
    harness.join(instance="i2")
    assert harness.results[parked].error_code is E.fenced_instance_id
    assert harness.state is State.PREPARING_REBALANCE


def test_a_restart_during_a_rebalance_fences_the_waiting_join(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("i1", "i2")
    old = harness.join(a, instance="i1")
    new = harness.join(instance="i1")
    fenced = harness.results[old]
    assert fenced == JoinResult(E.fenced_instance_id, -1, None, None, "", a, (), False)
    harness.join(b, instance="i2")
    assert harness.results[new].generation_id == 2


def test_the_second_join_of_an_instance_id_wins(
    harness: CoordinatorHarness,
) -> None:
    first, second = harness.join(instance="i1"), harness.join(instance="i1")
    assert harness.results[first].error_code is E.fenced_instance_id
    harness.advance(0)
    assert harness.results[second].error_code is E.none
    assert len(harness.group.members) == 1


def test_the_replaced_member_id_is_fenced_in_every_request(harness: CoordinatorHarness) -> None:
    a, _b = harness.stable_group("i1", "i2")
    harness.join(instance="i1")
    fenced = E.fenced_instance_id
    assert harness.heartbeat(a, 1, instance="i1") is fenced
    assert harness.results[harness.sync(a, 1, instance="i1")].error_code is fenced
    assert harness.commit(member_id=a, generation=1, instance="i1") is fenced
    assert harness.results[harness.join(a, instance="i1")].error_code is fenced
    assert harness.leave((a, "i1")).members[0].error_code is fenced
    assert harness.heartbeat(a, 1) is E.unknown_member_id


def test_an_unknown_instance_id_is_an_unknown_member(
    harness: CoordinatorHarness,
) -> None:
    a, _b = harness.stable_group("i1", None)
    assert harness.heartbeat(a, 1, instance="i9") is E.unknown_member_id
    assert harness.results[harness.join(a, instance="i9")].error_code is E.unknown_member_id
    assert (
        harness.results[harness.join("unknown", instance="i1")].error_code is E.fenced_instance_id
    )


def test_a_static_member_may_rejoin_with_its_member_id(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("i1", "i2")
    assert harness.results[harness.join(b, instance="i2")].generation_id == 1
    ticket = harness.join(a, instance="i1")
    harness.join(b, instance="i2")
    assert harness.results[ticket].generation_id == 2


# --- static members that start a rebalance


def test_a_new_static_member_starts_a_rebalance(harness: CoordinatorHarness) -> None:
    harness.stable_group("i1")
    harness.join(instance="i2")
    assert harness.state is State.PREPARING_REBALANCE


def test_a_static_leader_that_rejoins_with_its_id_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, _b = harness.stable_group("i1", "i2")
    harness.join(a, instance="i1")
    assert harness.state is State.PREPARING_REBALANCE


def test_an_expired_static_member_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("i1", "i2")
    harness.advance(5_000)
    harness.heartbeat(a, 1, instance="i1")
    harness.advance(5_000)
    assert harness.state is State.PREPARING_REBALANCE
    assert list(harness.group.members) == [a]
    assert harness.heartbeat(b, 1, instance="i2") is E.unknown_member_id


@pytest.mark.parametrize("by_instance", [True, False])
def test_a_removed_static_member_starts_a_rebalance(
    harness: CoordinatorHarness, by_instance: bool
) -> None:
    a, b = harness.stable_group("i1", "i2")
    left = harness.leave(("" if by_instance else b, "i2"), ("", "i9"), ("", None))
    assert [m.member_id for m in left.members] == ["" if by_instance else b, "", ""]
    unknown = E.unknown_member_id
    assert [m.error_code for m in left.members] == [E.none, unknown, unknown]
    assert list(harness.group.members) == [a]
    assert harness.state is State.PREPARING_REBALANCE


# --- absent static members


def test_a_static_member_that_does_not_rejoin_stays_in_the_group(
    harness: CoordinatorHarness,
) -> None:
    """Upstream's testRebalanceCompletesBeforeMemberJoins."""
    a, b = harness.stable_group("i1", None, session_ms=100_000)
    c = harness.join_dynamic(session_ms=100_000)
    harness.heartbeat(a, 1, instance="i1")
    harness.advance(60_000)
    assert harness.results[c].generation_id == 2
    assert {m.member_id for m in harness.results[c].members} == {a, harness.results[c].member_id}
    assert harness.results[c].leader == harness.results[c].member_id
    assert harness.heartbeat(a, 1, instance="i1") is E.illegal_generation
    assert b not in harness.group.members
    # The member is removed because it does not send SyncGroup.
    harness.sync(harness.results[c].member_id, 2, {})
    harness.advance(60_000)
    assert a not in harness.group.members


def test_a_group_of_absent_static_members_lasts_until_their_sessions_end(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group("i1", "i2", session_ms=150_000)
    harness.join(a, instance="i1", session_ms=150_000)
    harness.leave((a, "i1"))
    assert harness.state is State.PREPARING_REBALANCE
    for _ in range(2):
        harness.advance(60_000)
        assert (harness.state, harness.group.generation) == (State.PREPARING_REBALANCE, 1)
    harness.advance(30_000)
    assert (harness.state, harness.group.generation) == (State.EMPTY, 2)
    assert b not in harness.group.members


def test_absent_static_members_without_rebalance_timeout_do_not_loop(
    harness: CoordinatorHarness,
) -> None:
    harness.stable_group("i1", "i2")
    for instance in ("i1", "i2"):
        harness.join(instance=instance, rebalance_ms=0)
    a, b = harness.group.members
    harness.leave((b, "i2"))
    harness.advance(0)  # must return
    assert harness.heartbeat(a, 1, instance="i1") is E.rebalance_in_progress
    harness.advance(9_999)
    assert harness.state is State.PREPARING_REBALANCE
    harness.advance(1)
    assert (harness.state, harness.group.members) == (State.EMPTY, {})


def test_a_missing_sync_of_a_replaced_member_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    tickets = [harness.join(instance=name, session_ms=100_000) for name in ("i1", "i2")]
    harness.advance(0)
    a, _b = (harness.results[ticket].member_id for ticket in tickets)
    harness.sync(a, 1, {}, instance="i1")
    new = harness.results[harness.join(instance="i2", session_ms=100_000)].member_id
    assert harness.results[harness.sync(new, 1, instance="i2")].error_code is E.none
    harness.advance(60_000)
    assert harness.state is State.PREPARING_REBALANCE
    assert set(harness.group.members) == {a, new}
