"""Static members of consumer groups: leaving temporarily (epoch -2), replacement, fencing."""

import pytest
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

E = ErrorCode
ALL = {"orders": (0, 1, 2, 3)}


@pytest.fixture
def static(harness: CoordinatorHarness) -> CoordinatorHarness:
    """A group with one static member, `a`, with instance id `i1`."""
    harness.consumer_join("a", instance="i1", rack="r1")
    return harness


def test_a_static_member_that_returns_keeps_its_partitions(static: CoordinatorHarness) -> None:
    left = static.consumer("a", -2, instance="i1")
    assert (left.member_id, left.member_epoch) == ("a", -2)
    assert static.consumers.state == "Reconciling"
    back = static.consumer_join("a2", instance="i1")
    assert (back.member_epoch, static.assigned(back)) == (2, ALL)
    assert list(static.consumers.members) == list(static.consumers.targets) == ["a2"]
    ((_, target),) = static.consumers.targets["a2"].items()
    assert sorted(target) == [0, 1, 2, 3]
    (member,) = static.describe_consumers().members
    assert member.rack_id == "r1"  # null means unchanged
    (event,) = static.events_of(EventType.MEMBER_REPLACED)
    assert event.detail == {"successor": "a2"}


def test_a_successor_with_another_subscription_bumps_the_epoch(static: CoordinatorHarness) -> None:
    static.consumer("a", -2, instance="i1")
    back = static.consumer_join("a2", instance="i1", topics=("refunds",))
    assert (back.member_epoch, back.assignment) == (3, ())
    assert static.causes()[-1] == Cause.SUBSCRIPTION_CHANGED.value


@pytest.mark.parametrize("member_id", ["b", "a"])
def test_an_instance_id_in_use_cannot_join(static: CoordinatorHarness, member_id: str) -> None:
    rejected = static.consumer_join(member_id, instance="i1")
    assert rejected.error_code is E.unreleased_instance_id
    assert rejected.error_message == (
        f"Static member {member_id} with instance id i1 cannot join the group because the "
        "instance id is owned by a member."
    )
    assert static.events[-1].type is EventType.JOIN_REJECTED


def test_a_member_that_has_left_temporarily_expires(static: CoordinatorHarness) -> None:
    static.advance(30_000)
    static.consumer("a", -2, instance="i1")  # does not restart its session
    fenced = static.consumer("a", 2, instance="i1")
    assert fenced.error_code is E.fenced_member_epoch
    static.advance(15_000)
    assert not static.consumers.members
    assert static.causes()[-1] == Cause.SESSION_TIMEOUT.value


def test_leaving_temporarily_frees_the_partitions_being_revoked(static: CoordinatorHarness) -> None:
    static.consumer_join("b")
    kept = static.assigned(static.consumer("a", 2, ALL))["orders"]
    static.consumer("a", -2, instance="i1")
    freed = static.assigned(static.consumer("b", 3))["orders"]
    assert sorted((*kept, *freed)) == [0, 1, 2, 3]
    # The deadline of the revocation no longer applies.
    static.advance(44_000)
    static.consumer("b", 3)
    static.advance(20_000)
    assert not static.events_of(EventType.MEMBER_REVOCATION_TIMED_OUT)


def test_a_static_member_may_omit_its_instance_id(static: CoordinatorHarness) -> None:
    assert static.consumer("a", 2).error_code is E.none
    assert static.consumer("a", -1).error_code is E.none
    assert not static.consumers.static_members


def test_a_full_group_rejects_even_a_successor() -> None:
    harness = CoordinatorHarness(group_consumer_max_size=1)
    harness.consumer_join("a", instance="i1")
    harness.consumer("a", -2, instance="i1")
    assert harness.consumer_join("b", instance="i1").error_code is E.group_max_size_reached
