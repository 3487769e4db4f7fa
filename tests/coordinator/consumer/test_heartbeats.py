"""ConsumerGroupHeartbeat: joining, staying and leaving, with the epochs of groups and members."""

import pytest
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import CoordinatorHarness

E = ErrorCode
ALL = {"orders": (0, 1, 2, 3)}


# --- joining


def test_the_first_member_gets_all_partitions_at_once(harness: CoordinatorHarness) -> None:
    joined = harness.consumer_join("a")
    assert joined.error_code is E.none
    assert (joined.member_id, joined.member_epoch, joined.heartbeat_interval_ms) == ("a", 2, 5_000)
    assert harness.assigned(joined) == ALL
    assert harness.consumers.state == "Stable"
    assert harness.causes() == [Cause.MEMBER_JOINED.value]


def test_a_group_that_is_full_rejects_new_members() -> None:
    harness = CoordinatorHarness(group_consumer_max_size=1)
    harness.consumer_join("a")
    rejected = harness.consumer_join("b")
    assert rejected.error_code is E.group_max_size_reached
    assert rejected.error_message == (
        "The consumer group has reached its maximum capacity of 1 members."
    )
    assert harness.events[-1].type is EventType.JOIN_REJECTED
    assert harness.events[-1].cause is Cause.GROUP_FULL
    assert harness.consumer("a", 2).error_code is E.none


# --- subscriptions and topics


def test_a_changed_subscription_bumps_the_epoch(harness: CoordinatorHarness) -> None:
    harness.topics.put("refunds", 1)
    harness.consumer_join("a")
    changed = harness.consumer("a", 2, ALL, topics=("refunds",))
    assert (changed.member_epoch, changed.assignment) == (2, ())
    done = harness.consumer("a", 2, {})
    assert (done.member_epoch, harness.assigned(done)) == (3, {"refunds": (0,)})
    assert harness.causes()[-1] == Cause.SUBSCRIPTION_CHANGED.value


def test_a_heartbeat_without_other_changes_may_change_the_client_id(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    for client in ("a", "a", "new"):
        assert harness.consumer("a", 2, client=client).member_epoch == 2
    (member,) = harness.describe_consumers().members
    assert member.client_id == "new"


@pytest.mark.parametrize(("partitions", "owned"), [(6, {"orders": (0, 1, 2, 3, 4, 5)}), (None, {})])
def test_changed_topics_are_detected_at_the_next_heartbeat(
    harness: CoordinatorHarness, partitions: int | None, owned: dict[str, tuple[int, ...]]
) -> None:
    harness.consumer_join("a")
    if partitions is None:
        harness.topics.delete("orders")
    else:
        harness.topics.put("orders", partitions)
    assert harness.consumers.epoch == 2
    harness.consumer("a", 2, {})
    assert harness.consumers.epoch == 3
    assert harness.causes()[-1] == Cause.TOPICS_CHANGED.value
    assert {t: tuple(p) for t, p in harness.owned_by("a").items()} == owned


# --- epochs


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_is_fenced(harness: CoordinatorHarness, epoch: int) -> None:
    harness.consumer_join("a")
    assert harness.consumer("a", epoch).error_code is E.fenced_member_epoch
    assert harness.events[-1].type is EventType.MEMBER_FENCED


# --- leaving


def test_a_member_that_leaves_frees_its_partitions(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    harness.consumer_join("b")
    left = harness.consumer("a", -1)
    assert (left.error_code, left.member_id, left.member_epoch) == (E.none, "a", -1)
    assert left.heartbeat_interval_ms == 0
    assert harness.consumers.state == "Assigning"
    assert harness.assigned(harness.consumer("b", 3)) == ALL
    assert harness.causes()[-1] == Cause.LEFT_CLEANLY.value


def test_an_emptied_group_continues_its_epochs(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    harness.consumer("a", -1)
    assert (harness.consumers.state, harness.consumers.epoch) == ("Empty", 3)
    assert harness.events_of(EventType.GROUP_EMPTIED)
    assert harness.consumer_join("b").member_epoch == 4


def test_a_silent_member_expires(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    harness.advance(44_999)
    assert harness.consumer("a", 2).error_code is E.none
    harness.advance(44_999)
    assert harness.consumer("a", 1).error_code is E.fenced_member_epoch  # extends no session
    harness.advance(1)
    assert not harness.consumers.members
    assert harness.causes()[-1] == Cause.SESSION_TIMEOUT.value
    (expired,) = harness.events_of(EventType.MEMBER_EXPIRED)
    assert expired.duration_ms == 45_000


def test_a_member_that_does_not_revoke_in_time_is_removed(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", rebalance_ms=10_000)
    harness.consumer_join("b")
    harness.advance(5_000)  # the time counts from the response that revokes
    harness.consumer("a", 2)
    harness.advance(9_999)
    assert harness.consumer("a", 2).error_code is E.none
    harness.advance(1)
    assert list(harness.consumers.members) == ["b"]
    assert harness.causes()[-1] == Cause.REBALANCE_TIMEOUT.value
    (event,) = harness.events_of(EventType.MEMBER_REVOCATION_TIMED_OUT)
    assert (event.member_id, event.duration_ms) == ("a", 10_000)
