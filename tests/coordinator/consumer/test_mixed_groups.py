"""Members of the classic protocol in a consumer group: events, deadlines, and leaving in parts. The
scenarios of mixed groups compare the responses with Kafka's."""

from collections.abc import Callable
from functools import partial

import pytest
from kohort.coordinator.commands import LeaveGroup, LeavingMember
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import consumer_protocols, mixed_group, rejoin, sync

E = ErrorCode


@pytest.fixture
def group(harness: CoordinatorHarness) -> CoordinatorHarness:
    mixed_group(harness)
    return harness


# --- JoinGroup


def test_a_changed_subscription_bumps_the_epoch(group: CoordinatorHarness) -> None:
    joined = rejoin(group, "a", protocols=consumer_protocols("orders", "other"))
    assert joined.generation_id == 4
    assert group.causes()[-1] == Cause.SUBSCRIPTION_CHANGED.value


def test_a_rebalance_timeout_of_minus_one_changes_nothing(group: CoordinatorHarness) -> None:
    before = group.consumers.members["a"].metadata
    rejoin(group, "a", rebalance_ms=-1)
    assert group.consumers.members["a"].metadata == before


def test_a_member_of_other_protocols_is_rejected(group: CoordinatorHarness) -> None:
    rejected = rejoin(group, "b", protocols=consumer_protocols(name="mine"))
    assert (rejected.error_code, rejected.member_id) == (E.inconsistent_group_protocol, "")
    assert rejoin(group, "b", protocol_type="connect").error_code is E.inconsistent_group_protocol
    assert group.events[-1].type is EventType.JOIN_REJECTED


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


def test_a_successor_with_the_same_id_has_no_former_deadline(harness: CoordinatorHarness) -> None:
    harness.consumer_join("c")
    rejoin(harness, "a", instance="i1", rebalance_ms=6_000)
    assert harness.consumer_join("a", instance="i1").error_code is E.none
    harness.advance(6_000)
    assert set(harness.consumers.members) == {"a", "c"}


# --- LeaveGroup


def leave_in_parts(
    harness: CoordinatorHarness,
    *parts: str,
    by_instance: bool = False,
    meanwhile: Callable[[], object] = lambda: None,
) -> list[E]:
    """Leave with a request in several parts, each a string of one-letter member ids, or instance
    ids."""
    errors: list[E] = []
    confirmed: list[LeavingMember] = []
    for part in parts:
        members = tuple(
            LeavingMember(*("", each) if by_instance else (each, None), None) for each in part
        )
        result = harness.call(LeaveGroup(GROUP, members, is_part=True))
        for member, each in zip(members, result.members, strict=True):
            errors.append(each.error_code)
            if each.validated_id:
                confirmed.append(member._replace(validated_id=each.validated_id))
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


def test_the_successor_of_a_classic_member_that_has_left_stays(harness: CoordinatorHarness) -> None:
    harness.stable_group("a", "b")
    restart = partial(harness.join, instance="a")
    assert leave_in_parts(harness, "a", by_instance=True, meanwhile=restart) == [E.none]
    assert set(harness.group.static_members) == {"a", "b"}


def test_the_successor_of_a_member_that_is_to_leave_stays(group: CoordinatorHarness) -> None:
    rejoin(group, "", instance="i")
    before = group.consumers.static_members["i"]
    restart = partial(rejoin, group, "", instance="i")
    assert leave_in_parts(group, "i", by_instance=True, meanwhile=restart) == [E.none]
    assert group.consumers.static_members["i"] != before


def test_a_request_without_members_removes_no_member(group: CoordinatorHarness) -> None:
    assert group.leave().members == ()
    assert group.consumers.epoch == 3


def test_a_classic_member_may_leave_by_a_heartbeat(group: CoordinatorHarness) -> None:
    assert group.consumer("a", -1).error_code is E.none
    assert set(group.consumers.members) == {"c"}
