"""ConsumerGroupHeartbeat: joining, staying and leaving, with the epochs of groups and members."""

import pytest
from kohort.coordinator.commands import ConsumerGroupHeartbeat
from kohort.coordinator.consumer.heartbeat import validate_heartbeat
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.offsets.records import TopicPartitions
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, ConsumerConfig, CoordinatorHarness

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


def test_a_member_without_topics_gets_an_empty_assignment(harness: CoordinatorHarness) -> None:
    joined = harness.consumer_join("a", topics=())
    assert (joined.member_epoch, joined.assignment) == (1, ())


def test_a_member_of_version_0_gets_its_id_from_the_coordinator(
    harness: CoordinatorHarness,
) -> None:
    joined = harness.consumer_join("", version=0)
    assert joined.member_id
    assert list(harness.consumers.members) == [joined.member_id]


def test_a_second_member_waits_until_the_first_has_revoked(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    b = harness.consumer_join("b")
    assert (b.member_epoch, b.assignment) == (3, ())
    a = harness.consumer("a", 2, ALL)
    kept = harness.assigned(a)
    assert kept is not None
    assert (a.member_epoch, len(kept["orders"])) == (2, 2)
    assert harness.consumer("b", 3).assignment is None
    a = harness.consumer("a", 2, kept)
    assert (a.member_epoch, a.assignment) == (3, None)
    b = harness.consumer("b", 3)
    assert sorted((*kept["orders"], *harness.assigned(b)["orders"])) == [0, 1, 2, 3]
    assert harness.consumers.state == "Stable"


def test_a_heartbeat_without_changes_returns_no_assignment(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    assert harness.consumer("a", 2).assignment is None
    assert harness.consumer("a", 2, ALL).assignment is None


def test_a_heartbeat_with_all_fields_returns_the_assignment(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    full = harness.consumer("a", 2, ALL, topics=("orders",), rebalance_ms=60_000)
    assert harness.assigned(full) == ALL


def test_a_member_that_joins_again_is_reset(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    harness.consumer_join("b")
    harness.consumer("a", 2, ALL)
    again = harness.consumer_join("a")
    assert again.member_epoch == 3
    assert len(harness.assigned(again)["orders"]) == 2
    assert harness.consumer("b", 3).assignment is not None
    assert harness.consumers.epoch == 3


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


@pytest.mark.parametrize("topics", [("refunds", "orders"), ("orders", "refunds", "orders")])
def test_the_order_of_topics_does_not_matter(
    harness: CoordinatorHarness, topics: tuple[str, ...]
) -> None:
    harness.consumer_join("a", topics=("orders", "refunds"))
    assert harness.consumer("a", 2, topics=topics).member_epoch == 2


def test_other_changes_do_not_bump_the_epoch(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    changed = harness.consumer("a", 2, rack="r2", rebalance_ms=1, assignor="range", client="new")
    assert changed.member_epoch == 2
    (member,) = harness.describe_consumers().members
    assert (member.rack_id, member.client_id) == ("r2", "new")
    assert harness.describe_consumers().assignor_name == "range"


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


def test_a_new_topic_of_others_does_not_bump_the_epoch(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    harness.topics.put("other", 1)
    assert harness.consumer("a", 2).member_epoch == 2
    assert harness.consumers.epoch == 2


# --- epochs


def test_the_previous_epoch_is_accepted_if_the_response_was_lost(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    harness.topics.put("orders", 5)
    harness.consumer("a", 2)  # the response is lost
    again = harness.consumer("a", 2, ALL)
    assert (again.error_code, again.member_epoch) == (E.none, 3)


@pytest.mark.parametrize("owned", [None, {"orders": (0, 9)}, {"other": (0,)}])
def test_the_previous_epoch_with_other_partitions_is_fenced(
    harness: CoordinatorHarness, owned: dict[str, tuple[int, ...]] | None
) -> None:
    harness.consumer_join("a")
    harness.topics.put("orders", 5)
    harness.consumer("a", 2)
    assert harness.consumer("a", 2, owned).error_code is E.fenced_member_epoch


@pytest.mark.parametrize(("epoch", "relation"), [(1, "smaller"), (3, "greater")])
def test_another_epoch_is_fenced(harness: CoordinatorHarness, epoch: int, relation: str) -> None:
    harness.consumer_join("a")
    fenced = harness.consumer("a", epoch)
    assert fenced.error_code is E.fenced_member_epoch
    assert fenced.error_message == (
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by "
        "the group coordinator (2). The member must abandon all its partitions and rejoin."
    )
    assert harness.events[-1].type is EventType.MEMBER_FENCED


def test_unknown_groups_and_members_are_rejected(harness: CoordinatorHarness) -> None:
    unknown = harness.consumer("a", 1)
    assert unknown.error_code is E.group_id_not_found
    assert unknown.error_message == f"Consumer group {GROUP} not found."
    left = harness.consumer("a", -1)
    assert (left.error_code, left.error_message) == (
        E.group_id_not_found,
        f"Group {GROUP} not found.",
    )
    harness.consumer_join("a")
    for epoch in (2, -1):
        unknown = harness.consumer("b", epoch)
        assert unknown.error_code is E.unknown_member_id
        assert unknown.error_message == f"Member b is not a member of group {GROUP}."


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
    assert (
        harness.consumer("a", 1).error_code is E.fenced_member_epoch
    )  # does not extend the session
    harness.advance(1)
    assert not harness.consumers.members
    assert harness.causes()[-1] == Cause.SESSION_TIMEOUT.value
    (expired,) = harness.events_of(EventType.MEMBER_EXPIRED)
    assert expired.duration_ms == 45_000


def test_a_changed_session_timeout_counts_from_the_next_heartbeat(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    harness.consumer_config = ConsumerConfig(session_timeout_ms=1_000, heartbeat_interval_ms=100)
    harness.advance(2_000)
    assert harness.consumer("a", 2).heartbeat_interval_ms == 100
    harness.advance(1_000)
    assert not harness.consumers.members


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


def test_a_member_that_revokes_in_time_stays(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", rebalance_ms=10_000)
    harness.consumer_join("b")
    kept = harness.assigned(harness.consumer("a", 2, ALL))
    assert harness.consumer("a", 2, kept).member_epoch == 3
    harness.advance(20_000)
    assert set(harness.consumers.members) == {"a", "b"}


# --- invalid requests


def invalid(**fields: object) -> tuple[ErrorCode, str | None] | None:
    command = ConsumerGroupHeartbeat(
        GROUP, "a", 0, None, None, 1, ("orders",), None, None, (), "c", "/h", None, True
    )
    result = validate_heartbeat(command._replace(**fields), ("uniform", "range"))  # type: ignore[arg-type]
    return None if result is None else (result.error_code, result.error_message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"member_id": "", "group_id": ""}, "MemberId can't be empty."),
        ({"member_id": " "}, "MemberId can't be empty."),
        ({"member_id": "", "member_epoch": -1, "requires_member_id": False}, "MemberId can't be"),
        ({"member_id": "", "member_epoch": 1, "requires_member_id": False}, "MemberId can't be"),
        ({"group_id": " \t"}, "GroupId can't be empty."),
        ({"instance_id": ""}, "InstanceId can't be empty."),
        ({"rack_id": "", "member_epoch": -1}, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        ({"owned": None}, "TopicPartitions must be empty when (re-)joining."),
        ({"owned": (TopicPartitions("t", (0,)),)}, "TopicPartitions must be empty when"),
        ({"subscribed_topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex"),
        ({"member_epoch": -2}, "InstanceId can't be null."),
        ({"member_epoch": -3}, "MemberEpoch is invalid."),
    ],
)
def test_invalid_requests_are_rejected(fields: dict[str, object], message: str) -> None:
    found = invalid(**fields)
    assert found is not None
    assert found[0] is E.invalid_request
    assert (found[1] or "").startswith(message)


def test_an_unknown_assignor_is_rejected() -> None:
    assert invalid(server_assignor="mine") == (
        E.unsupported_assignor,
        "ServerAssignor mine is not supported. Supported assignors: uniform, range.",
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"member_id": "", "requires_member_id": False},
        {"subscribed_topic_names": None, "subscribed_topic_regex": ""},
        {"member_epoch": 5, "owned": None, "rebalance_timeout_ms": -1},
        {"member_epoch": -2, "instance_id": "i1", "server_assignor": "range"},
    ],
)
def test_valid_requests_are_accepted(fields: dict[str, object]) -> None:
    assert invalid(**fields) is None
