"""Records that exceed max.message.bytes: the replacement decision and the rollback."""

from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import LeaveGroup, LeavingMember, SyncGroup
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, join_group, offset_commit

E = ErrorCode
TOO_LARGE = E.unknown_server_error


def leader_sync(leader: str, generation: int) -> SyncGroup:
    return SyncGroup(GROUP, generation, leader, None, None, None, ((leader, b"too large"),))


def test_a_commit_that_is_too_large_fails_for_all_its_partitions(
    harness: CoordinatorHarness,
) -> None:
    done = harness.fail_append(offset_commit(GROUP, [("t", 0, 1), ("t", 1, 2)]))
    assert done.errors == (TOO_LARGE, TOO_LARGE)
    assert harness.fetch().topics == ()


def test_an_assignment_that_is_too_large_fails_all_syncs_and_starts_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a), harness.join(b)
    waiting = harness.sync(b, 2)
    assert harness.fail_append(leader_sync(a, 2)).error_code is TOO_LARGE
    assert harness.results[waiting].error_code is TOO_LARGE
    assert harness.state is State.PREPARING_REBALANCE
    assert harness.causes()[-1] == Cause.ASSIGNMENT_TOO_LARGE.value
    harness.join(a), harness.join(b)
    harness.sync_all([a, b], 3)


def test_a_static_member_whose_new_id_is_too_large_keeps_its_old_id(
    harness: CoordinatorHarness,
) -> None:
    a, _ = harness.stable_group("i1", None)
    joined = harness.fail_append(join_group(instance="i1"))
    assert (joined.error_code, joined.generation_id, joined.member_id) == (TOO_LARGE, 1, "")
    assert harness.group.static_members == {"i1": a}
    assert harness.heartbeat(a, 1, instance="i1") is E.none


def test_members_leave_even_if_the_record_of_the_empty_group_is_too_large(
    harness: CoordinatorHarness,
) -> None:
    (a,) = harness.stable_group(None)
    left = harness.fail_append(LeaveGroup(GROUP, (LeavingMember(a, None, None),)))
    assert left.error_code is E.none
    assert harness.state is State.EMPTY
