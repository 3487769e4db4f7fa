"""Records that exceed max.message.bytes: what the coordinator decides instead and undoes."""

from typing import Any

from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, RANGE, World, offset_commit

E = ErrorCode
TOO_LARGE = E.unknown_server_error
TICKET = 1_000


def fail_append(w: World, command: Any) -> Any:
    """Return the result of a command whose records the log rejects."""
    outcome = w.coordinator.handle(command, TICKET, w.now)
    assert outcome.records
    w._carry_out(w.coordinator.append_failed(outcome, w.now))
    return w.answers[TICKET]


def leader_sync(leader: str, generation: int) -> SyncGroup:
    return SyncGroup(GROUP, generation, leader, None, None, None, ((leader, b"too large"),))


def test_a_commit_that_is_too_large_fails_for_all_its_partitions(w: World) -> None:
    done = fail_append(w, offset_commit(GROUP, [("t", 0, 1), ("t", 1, 2)]))
    assert done.errors == (TOO_LARGE, TOO_LARGE)
    assert w.fetch().topics == ()


def test_an_assignment_that_is_too_large_fails_all_syncs_and_starts_a_rebalance(w: World) -> None:
    a, b = w.stable(None, None)
    w.join(a), w.join(b)
    waiting = w.sync(b, 2)
    assert fail_append(w, leader_sync(a, 2)).error is TOO_LARGE
    assert w.answers[waiting].error is TOO_LARGE
    assert w.state is State.PREPARING_REBALANCE
    assert w.causes()[-1] == Cause.ASSIGNMENT_TOO_LARGE.value
    w.join(a), w.join(b)
    w.sync_all([a, b], 3)


def test_a_static_member_whose_new_id_is_too_large_keeps_its_old_id(w: World) -> None:
    a, _ = w.stable("i1", None)
    rejoin = JoinGroup(
        GROUP, "", "i1", "c", "/h", 10_000, 60_000, "consumer", RANGE, True, True, None
    )
    joined = fail_append(w, rejoin)
    assert (joined.error, joined.generation_id, joined.member_id) == (TOO_LARGE, 1, "")
    assert w.group.static_members == {"i1": a}
    assert w.heartbeat(a, 1, instance="i1") is E.none


def test_members_leave_even_if_the_record_of_the_empty_group_is_too_large(w: World) -> None:
    (a,) = w.stable(None)
    left = fail_append(w, LeaveGroup(GROUP, (LeavingMember(a, None, None),)))
    assert left.error is E.none
    assert w.state is State.EMPTY
