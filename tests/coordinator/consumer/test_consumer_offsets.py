"""Expiration of offsets of consumer groups."""

import pytest
from kohort.offsets.causes import Cause
from support.coordinator import GROUP, CoordinatorHarness, pending_offset


@pytest.fixture
def group(harness: CoordinatorHarness) -> CoordinatorHarness:
    """A group at epoch 2 with a member, `a`."""
    harness.consumer_join("a")
    return harness


def commit(harness: CoordinatorHarness, topic: str = "orders") -> None:
    more = {"member_id": "a", "generation": 2, "supports_member_epochs": True}
    assert not harness.commit((topic, 0, 1), **more)


def test_offsets_of_subscribed_topics_do_not_expire(group: CoordinatorHarness) -> None:
    retention_ms = group.config.offsets_retention_ms
    commit(group)
    commit(group, "other")
    group.now += retention_ms
    group.sweep(group.coordinator.expire_offsets(lambda: group.now))
    assert [topic for topic, _ in group.fetch().topics] == ["orders"]
    assert "a" in group.consumers.members


def test_an_empty_group_expires_with_its_last_offset(group: CoordinatorHarness) -> None:
    commit(group)
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
    group.coordinator.apply(pending_offset(GROUP, 0, "orders"))
    assert not group.coordinator.groups
