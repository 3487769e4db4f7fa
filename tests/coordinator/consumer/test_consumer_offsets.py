"""Commits, fetches, deletion and expiration of offsets of consumer groups."""

import pytest
from kohort.coordinator.commands import OffsetFetch
from kohort.offsets.causes import Cause
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, pending_offset

E = ErrorCode


@pytest.fixture
def group(harness: CoordinatorHarness) -> CoordinatorHarness:
    """A group at epoch 3 whose member `a` received two partitions at epoch 2 and others at 3."""
    harness.consumer_join("a")
    harness.topics.put("orders", 6)
    harness.consumer("a", 2)
    return harness


def commit(
    harness: CoordinatorHarness, partition: int, epoch: int, member_id: str = "a", topic="orders"
) -> ErrorCode:
    error = harness.commit(
        (topic, partition, 1), member_id=member_id, generation=epoch, supports_member_epochs=True
    )
    assert isinstance(error, ErrorCode)
    return error


def test_commits_with_the_members_epoch(group: CoordinatorHarness) -> None:
    assert commit(group, 0, 3) is E.none
    assert commit(group, 5, 3) is E.none
    assert commit(group, 0, 3, topic="not subscribed") is E.none


def test_an_older_epoch_may_commit_what_it_owned(group: CoordinatorHarness) -> None:
    assert commit(group, 0, 2) is E.none
    assert commit(group, 5, 2) is E.stale_member_epoch  # assigned at epoch 3
    assert commit(group, 0, 1) is E.stale_member_epoch
    assert commit(group, 0, 2, topic="deleted") is E.stale_member_epoch
    assert commit(group, 9, 2) is E.stale_member_epoch


def test_one_stale_partition_fails_the_whole_commit(group: CoordinatorHarness) -> None:
    entries = ("orders", 0, 1), ("orders", 5, 1)
    more = {"member_id": "a", "generation": 2, "supports_member_epochs": True}
    assert group.commit(*entries, **more) == (E.stale_member_epoch, E.stale_member_epoch)
    assert group.fetch().topics == ()


def test_a_newer_epoch_and_other_members_are_rejected(group: CoordinatorHarness) -> None:
    assert commit(group, 0, 4) is E.stale_member_epoch
    assert commit(group, 0, 3, "b") is E.unknown_member_id
    assert commit(group, 0, -1, "") is E.unknown_member_id
    assert commit(group, 0, -1) is E.stale_member_epoch


def test_older_versions_cannot_carry_member_epochs(group: CoordinatorHarness) -> None:
    assert group.commit(("orders", 0, 1), member_id="a", generation=3) is E.unsupported_version


def test_a_partition_that_is_being_revoked_may_be_committed(group: CoordinatorHarness) -> None:
    group.consumer_join("b")
    group.consumer("a", 3)
    (revoking,) = group.consumers.members["a"].pending_revocation.values()
    assert all(commit(group, partition, 2) is E.none for partition in revoking if partition < 4)
    group.consumer("a", 3, group.owned_by("a"))
    (gone, *_) = revoking
    assert commit(group, gone, 2) is E.stale_member_epoch


def test_commits_do_not_extend_the_session(group: CoordinatorHarness) -> None:
    group.advance(44_000)
    commit(group, 0, 3)
    group.advance(1_000)
    assert not group.consumers.members


def test_anyone_may_commit_to_an_empty_group_without_an_epoch(group: CoordinatorHarness) -> None:
    group.consumer("a", -1)
    assert commit(group, 0, -1, "") is E.none
    assert commit(group, 0, -1, "b") is E.none
    assert commit(group, 0, 0, "") is E.unknown_member_id


def test_a_member_that_has_left_temporarily_may_commit_with_its_epoch(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a", instance="i1")
    harness.consumer("a", -2, instance="i1")
    assert commit(harness, 0, -2) is E.none
    for epoch in (2, -1, 0):
        assert commit(harness, 0, epoch) is E.stale_member_epoch


# --- OffsetFetch


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, E.none),
        ("a", 3, E.none),
        ("a", 2, E.stale_member_epoch),
        ("a", -1, E.stale_member_epoch),
        ("", -1, E.unknown_member_id),
        ("b", 3, E.unknown_member_id),
        (None, 3, E.unknown_server_error),
    ],
)
def test_fetches_are_validated(
    group: CoordinatorHarness, member_id: str | None, epoch: int, error: ErrorCode
) -> None:
    commit(group, 0, 3)
    fetched = group.call(OffsetFetch(GROUP, None, False, member_id, epoch))
    assert fetched.error_code is error
    assert bool(fetched.topics) is (error is E.none)


# --- administration


def test_subscribed_topics_keep_their_offsets(group: CoordinatorHarness) -> None:
    group.topics.put("reg", 1)
    group.consumer_join("b", regex="reg")
    group.advance(0)
    for topic in ("orders", "reg", "other"):
        commit(group, 0, 3, topic=topic)
    errors = group.delete_offsets(("orders", (0,)), ("reg", (0,)), ("other", (0,)))
    subscribed = E.group_subscribed_to_topic
    assert errors == (subscribed, subscribed, E.none)


def test_only_an_empty_group_is_deleted(group: CoordinatorHarness) -> None:
    commit(group, 0, 3)
    assert group.delete() is E.non_empty_group
    group.consumer("a", -1)
    assert group.delete() is E.none
    assert not group.coordinator.consumer_groups
    assert group.fetch().topics == ()
    assert group.list_groups() == ()


def test_offsets_of_subscribed_topics_do_not_expire(group: CoordinatorHarness) -> None:
    retention_ms = group.config.offsets_retention_ms
    commit(group, 0, 3)
    commit(group, 0, 3, topic="other")
    group.now += retention_ms
    group.sweep(group.coordinator.expire_offsets(lambda: group.now))
    assert [topic for topic, _ in group.fetch().topics] == ["orders"]
    assert "a" in group.consumers.members


def test_an_empty_group_expires_with_its_last_offset(group: CoordinatorHarness) -> None:
    commit(group, 0, 3)
    group.consumer("a", -1)
    group.now += group.config.offsets_retention_ms - 1
    group.sweep(group.coordinator.expire_offsets(lambda: group.now))
    assert group.consumers.state == "Empty"
    group.now += 1
    group.sweep(group.coordinator.expire_offsets(lambda: group.now))
    assert not group.coordinator.consumer_groups
    assert group.events[-1].cause is Cause.GROUP_EXPIRED


def test_an_open_transaction_of_a_consumer_group_creates_no_classic_group(
    group: CoordinatorHarness,
) -> None:
    group.is_checking = False
    group.coordinator.apply(pending_offset(GROUP, 0, "orders"))
    assert not group.coordinator.groups


def test_groups_are_listed_by_type_and_state(group: CoordinatorHarness) -> None:
    (listed,) = group.list_groups()
    assert listed == (GROUP, "consumer", "Stable", "consumer")
    assert group.list_groups(types=("classic",)) == ()
    assert group.list_groups("stable", types=("Consumer",)) == (listed,)
    assert group.list_groups("empty") == ()


def test_descriptions(group: CoordinatorHarness) -> None:
    described = group.describe()
    assert described.error_code is E.group_id_not_found
    assert described.error_message == f"Group {GROUP} is not a classic group."
    found = group.describe_consumers()
    assert (found.group_state, found.group_epoch, found.assignment_epoch) == ("Stable", 3, 3)
    (member,) = found.members
    assert [(t.topic_name, t.partitions) for t in member.assignment] == [
        ("orders", (0, 1, 2, 3, 4, 5))
    ]
    group.topics.delete("orders")
    assert group.describe_consumers().members[0].assignment == ()
    unknown = group.describe_consumers("nobody")
    assert (unknown.error_code, unknown.error_message) == (
        E.group_id_not_found,
        "Group nobody not found.",
    )


def test_a_description_shows_what_is_being_revoked(group: CoordinatorHarness) -> None:
    group.consumer_join("b")
    group.consumer("a", 3)
    member = group.describe_consumers().members[0]
    assert [each.partitions for each in member.assignment] == [(0, 1, 2, 3, 4, 5)]
    assert [len(each.partitions) for each in member.target_assignment] == [3]


def test_a_classic_group_is_no_consumer_group(harness: CoordinatorHarness) -> None:
    harness.commit(("orders", 0, 1), group_id="simple")
    described = harness.describe_consumers("simple")
    assert described.error_message == "Group simple is not a consumer group."
    left = harness.consumer("a", -1, group_id="simple")
    assert left.error_message == "Group simple is not a consumer group."
    assert harness.consumer("a", 1, group_id="simple").error_code is E.group_id_not_found
