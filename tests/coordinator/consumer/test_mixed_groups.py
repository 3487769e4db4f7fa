"""Members of the classic protocol in a consumer group: the responses to JoinGroup, SyncGroup,
Heartbeat and LeaveGroup."""

from collections.abc import Callable

import pytest
from kohort.coordinator.commands import LeaveGroup, LeavingMember
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import assigned, consumer_protocols, rejoin, sync

E = ErrorCode
ALL = {"orders": (0, 1, 2, 3)}


@pytest.fixture
def group(harness: CoordinatorHarness) -> CoordinatorHarness:
    """A group at epoch 3 with a consumer, `c`, and a classic member, `a`; each owns two
    partitions."""
    harness.consumer_join("c")
    assert rejoin(harness, "a").generation_id == 3
    kept = harness.assigned(harness.consumer("c", 2, ALL))
    harness.consumer("c", 2, kept)
    assert harness.heartbeat("a", 3) is E.rebalance_in_progress
    assert rejoin(harness, "a").generation_id == 3
    sync(harness, "a", 3)
    return harness


# --- JoinGroup


def test_a_classic_member_joins_at_once(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c")
    joined = rejoin(harness, "a")
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (E.none, 3, "range")
    assert (joined.leader, joined.member_id, joined.members) == ("", "a", ())
    assert joined.protocol_type == "consumer"


def test_a_member_id_is_required_first(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c")
    required = rejoin(harness, "")
    assert required.error_code is E.member_id_required
    assert required.member_id
    assert rejoin(harness, required.member_id).error_code is E.none


@pytest.mark.parametrize("more", [{"version": 3}, {"instance": "i1"}])
def test_old_and_static_members_join_without_an_id(
    harness: CoordinatorHarness, more: dict[str, object]
) -> None:
    harness.consumer_join("c")
    joined = rejoin(harness, "", **more)
    assert joined.error_code is E.none
    assert joined.member_id in harness.consumers.members


def test_an_empty_instance_id_is_an_instance_id(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c")
    joined = rejoin(harness, "", instance="")
    assert harness.consumers.static_members == {"": joined.member_id}
    assert rejoin(harness, joined.member_id, instance="").error_code is E.none


def test_joins_without_changes_keep_the_generation(group: CoordinatorHarness) -> None:
    joined = rejoin(group, "a", rebalance_ms=1_000, protocols=consumer_protocols(rack="r"))
    assert joined.generation_id == 3
    assert group.describe_consumers().members[1].rack_id == "r"


def test_a_changed_subscription_bumps_the_epoch(group: CoordinatorHarness) -> None:
    joined = rejoin(group, "a", protocols=consumer_protocols("orders", "other"))
    assert joined.generation_id == 4
    assert group.causes()[-1] == Cause.SUBSCRIPTION_CHANGED.value


def test_a_member_of_other_protocols_is_rejected(group: CoordinatorHarness) -> None:
    rejected = rejoin(group, "b", protocols=consumer_protocols(name="mine"))
    assert (rejected.error_code, rejected.member_id) == (E.inconsistent_group_protocol, "")
    assert rejoin(group, "b", protocol_type="connect").error_code is E.inconsistent_group_protocol
    assert group.events[-1].type is EventType.JOIN_REJECTED


def test_an_unreadable_subscription_is_rejected(group: CoordinatorHarness) -> None:
    rejected = rejoin(group, "b", protocols=(("range", b"\0"),))
    assert (rejected.error_code, rejected.member_id) == (E.unknown_server_error, "")


def test_an_unreadable_subscription_of_a_successor_changes_nothing(
    group: CoordinatorHarness,
) -> None:
    rejoin(group, "", instance="i1")
    (member_id,) = group.consumers.static_members.values()
    rejected = rejoin(group, "", instance="i1", protocols=(("range", b"\0"),))
    assert rejected.error_code is E.unknown_server_error
    assert group.consumers.static_members == {"i1": member_id}


def test_a_full_group_rejects_joins() -> None:
    harness = CoordinatorHarness(group_consumer_max_size=1)
    harness.consumer_join("c")
    assert rejoin(harness, "a").error_code is E.group_max_size_reached
    assert harness.events[-1].cause is Cause.GROUP_FULL


def test_partitions_to_revoke_are_revoked_in_two_steps(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c", topics=())
    rejoin(harness, "a")
    assert assigned(sync(harness, "a", 2)) == ALL
    harness.consumer("c", 1, {}, topics=("orders",))
    assert harness.heartbeat("a", 2) is E.rebalance_in_progress
    joined = rejoin(harness, "a", ALL)
    assert joined.generation_id == 2  # the old one, with fewer partitions
    kept = assigned(sync(harness, "a", 2))
    assert len(kept["orders"]) == 2
    assert harness.heartbeat("a", 2) is E.rebalance_in_progress
    assert rejoin(harness, "a", kept).generation_id == 3
    assert assigned(sync(harness, "a", 3)) == kept
    assert harness.heartbeat("a", 3) is E.none


def test_a_member_that_owns_nothing_gives_up_at_once(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c", topics=())
    rejoin(harness, "a")
    harness.consumer("c", 1, {}, topics=("orders",))
    assert rejoin(harness, "a").generation_id == 3


def test_a_consumer_may_become_classic(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c")
    assert rejoin(harness, "c").generation_id == 2
    assert harness.consumers.members["c"].uses_classic_protocol
    assert harness.consumer("c", 2).error_code is E.none  # the member is a consumer again
    assert not harness.consumers.members["c"].uses_classic_protocol


def test_a_consumer_that_becomes_classic_loses_its_former_deadline(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("c", rebalance_ms=5_000)
    harness.consumer_join("d")
    harness.consumer("c", 2)  # the member has to revoke within five seconds
    assert rejoin(harness, "c").generation_id == 3
    sync(harness, "c", 3)
    harness.advance(5_000)
    assert set(harness.consumers.members) == {"c", "d"}


def test_partitions_of_unknown_topics_are_ignored(group: CoordinatorHarness) -> None:
    assert rejoin(group, "a", {"deleted": (0,)}).error_code is E.none


# --- SyncGroup


def test_a_sync_returns_the_partitions_of_the_member(group: CoordinatorHarness) -> None:
    result = sync(group, "a", 3)
    assert (result.protocol_type, result.protocol_name) == (None, None)
    assert len(assigned(result)["orders"]) == 2


@pytest.mark.parametrize(
    ("member_id", "generation", "more", "error"),
    [
        ("a", 2, {}, E.illegal_generation),
        ("b", 3, {}, E.unknown_member_id),
        ("c", 3, {}, E.unknown_member_id),
        ("a", 3, {"instance": "i1"}, E.unknown_member_id),
        ("a", 3, {"protocol_type": "connect"}, E.inconsistent_group_protocol),
        ("a", 3, {"protocol_name": "mine"}, E.inconsistent_group_protocol),
        ("a", 3, {"protocol_type": "consumer", "protocol_name": "range"}, E.none),
    ],
)
def test_syncs_are_validated(
    group: CoordinatorHarness,
    member_id: str,
    generation: int,
    more: dict[str, str],
    error: ErrorCode,
) -> None:
    assert sync(group, member_id, generation, **more).error_code is error


def test_a_sync_before_the_new_generation_is_rejected(group: CoordinatorHarness) -> None:
    group.topics.put("orders", 6)
    group.consumer("c", 3)
    assert sync(group, "a", 3).error_code is E.rebalance_in_progress


# --- Heartbeat


def test_heartbeats_are_validated(group: CoordinatorHarness) -> None:
    assert group.heartbeat("a", 3) is E.none
    assert group.heartbeat("a", 2) is E.illegal_generation
    assert group.heartbeat("b", 3) is E.unknown_member_id
    assert group.heartbeat("c", 3) is E.unknown_member_id


def test_a_heartbeat_succeeds_while_the_member_only_waits(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c")
    rejoin(harness, "a")
    assert harness.heartbeat("a", 3) is E.none  # c has released nothing
    kept = harness.assigned(harness.consumer("c", 2, ALL))
    assert harness.heartbeat("a", 3) is E.none
    harness.consumer("c", 2, kept)
    assert harness.heartbeat("a", 3) is E.rebalance_in_progress


# --- deadlines


def test_a_member_that_does_not_rejoin_is_removed(group: CoordinatorHarness) -> None:
    group.topics.put("orders", 6)
    group.consumer("c", 3)
    for _ in range(12):  # further heartbeats do not restart the deadline
        assert group.heartbeat("a", 3) is E.rebalance_in_progress
        group.advance(5_000)
        group.consumer("c", 4)
    assert set(group.consumers.members) == {"c"}
    assert group.heartbeat("a", 3) is E.unknown_member_id
    (event,) = group.events_of(EventType.MEMBER_JOIN_TIMED_OUT)
    assert (event.member_id, event.duration_ms, event.cause) == (
        "a",
        60_000,
        Cause.REBALANCE_TIMEOUT,
    )


def test_a_member_that_does_not_sync_is_removed(group: CoordinatorHarness) -> None:
    rejoin(group, "a", rebalance_ms=6_000)
    group.advance(6_000)
    assert set(group.consumers.members) == {"c"}
    (event,) = group.events_of(EventType.MEMBER_SYNC_TIMED_OUT)
    assert event.cause is Cause.SYNC_TIMEOUT


def test_a_member_that_syncs_has_its_session(group: CoordinatorHarness) -> None:
    group.advance(9_999)
    assert group.heartbeat("a", 3) is E.none
    group.advance(10_000)
    assert set(group.consumers.members) == {"c"}
    (event,) = group.events_of(EventType.MEMBER_EXPIRED)
    assert (event.member_id, event.duration_ms) == ("a", 10_000)


def test_a_successor_with_the_same_id_has_no_former_deadline(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("c")
    rejoin(harness, "a", instance="i1", rebalance_ms=6_000)
    assert harness.consumer_join("a", instance="i1").error_code is E.none
    harness.advance(6_000)
    assert set(harness.consumers.members) == {"a", "c"}


# --- LeaveGroup


def test_members_of_both_protocols_leave_with_one_epoch(group: CoordinatorHarness) -> None:
    rejoin(group, "", instance="i1")
    epoch = group.consumers.epoch
    left = group.leave("a", ("", "i1"), "x", ("other", "i1"), ("", "i9"))
    errors = [each.error_code for each in left.members]
    expected = [E.none, E.none, E.unknown_member_id, E.fenced_instance_id, E.unknown_member_id]
    assert errors == expected
    assert set(group.consumers.members) == {"c"}
    assert group.consumers.epoch == epoch + 1
    assert len(group.events_of(EventType.LEAVE_RECEIVED)) == 5


def leave_in_parts(
    harness: CoordinatorHarness, *parts: str, meanwhile: Callable[[], object] = lambda: None
) -> list[E]:
    """Leave with a request in several parts, each a string of one-letter member ids."""
    errors: list[E] = []
    confirmed: list[LeavingMember] = []
    for part in parts:
        members = tuple(LeavingMember(member_id, None, None) for member_id in part)
        result = harness.call(LeaveGroup(GROUP, members, is_part=True))
        for member, each in zip(members, result.members, strict=True):
            errors.append(each.error_code)
            confirmed += [member] * (each.error_code is E.none)
    meanwhile()
    last = harness.call(LeaveGroup(GROUP, tuple(confirmed), is_confirmed=True))
    assert last.error_code is E.none
    return errors


def test_members_of_a_large_request_leave_with_one_epoch(group: CoordinatorHarness) -> None:
    group.consumer_join("d")
    epoch = group.consumers.epoch
    errors = leave_in_parts(group, "ax", "da", "x")
    assert errors == [E.none, E.unknown_member_id, E.none, E.none, E.unknown_member_id]
    assert set(group.consumers.members) == {"c"}
    assert group.consumers.epoch == epoch + 1
    assert len(group.events_of(EventType.LEAVE_RECEIVED)) == 5


def test_a_large_request_of_unknown_members_changes_nothing(group: CoordinatorHarness) -> None:
    assert leave_in_parts(group, "x", "y") == [E.unknown_member_id] * 2
    assert group.consumers.epoch == 3


def test_a_member_may_leave_between_the_parts_of_a_request(group: CoordinatorHarness) -> None:
    group.consumer_join("d")
    epoch = group.consumers.epoch
    leave_in_parts(group, "a", "d", meanwhile=lambda: group.leave("d"))
    assert set(group.consumers.members) == {"c"}
    assert group.consumers.epoch == epoch + 2


def test_a_group_may_be_downgraded_between_the_parts(group: CoordinatorHarness) -> None:
    rejoin(group, "b")
    leave_in_parts(group, "a", "x", meanwhile=lambda: group.leave("c"))
    assert list(group.group.members) == ["b"]


def test_a_request_without_members_removes_no_member(group: CoordinatorHarness) -> None:
    assert group.leave().members == ()
    assert group.consumers.epoch == 3


def test_a_classic_member_may_leave_by_a_heartbeat(group: CoordinatorHarness) -> None:
    assert group.consumer("a", -1).error_code is E.none
    assert set(group.consumers.members) == {"c"}


# --- offsets


def test_classic_members_commit_with_their_generation(group: CoordinatorHarness) -> None:
    (partition, *_) = group.owned_by("a")["orders"]

    def commit(generation: int) -> ErrorCode:
        error = group.commit(("orders", partition, 1), member_id="a", generation=generation)
        assert isinstance(error, ErrorCode)
        return error

    assert commit(3) is E.none
    assert commit(2) is E.illegal_generation
    assert commit(4) is E.illegal_generation
