"""When and by which assignor the target assignment is computed. Only changes are written."""

from uuid import UUID

import pytest
from kohort.offsets.records import ConsumerGroupRecord, ConsumerRecordType
from kohort.protocol.errors import ErrorCode
from support.coordinator import ConsumerConfig, CoordinatorHarness, consumer_heartbeat

TYPE = ConsumerRecordType


def types_since(harness: CoordinatorHarness, start: int) -> list[ConsumerRecordType]:
    return [each.type for each in harness.log[start:] if isinstance(each, ConsumerGroupRecord)]


def test_the_records_of_a_new_group_are_in_kafkas_order(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    assert types_since(harness, 0) == [
        TYPE.MEMBER_METADATA,
        TYPE.GROUP_METADATA,
        TYPE.TARGET_ASSIGNMENT_MEMBER,
        TYPE.TARGET_ASSIGNMENT_METADATA,
        TYPE.CURRENT_MEMBER_ASSIGNMENT,
    ]


def test_a_heartbeat_without_changes_writes_nothing(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    written = len(harness.log)
    harness.consumer("a", 2, {"orders": (0, 1, 2, 3)})
    assert len(harness.log) == written


def test_an_assignor_that_only_another_broker_has_is_an_error(harness: CoordinatorHarness) -> None:
    assert harness.consumer_join("a", assignor="other").error_code is ErrorCode.unknown_server_error


def test_only_changed_targets_are_written(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", assignor="range")
    written = len(harness.log)
    harness.consumer_join("b", topics=("unknown",))
    targets = [
        each.name
        for each in harness.log[written:]
        if isinstance(each, ConsumerGroupRecord) and each.type is TYPE.TARGET_ASSIGNMENT_MEMBER
    ]
    assert targets == ["b"]


def test_the_target_is_not_computed_before_the_assignment_interval(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_config = ConsumerConfig(assignment_interval_ms=10_000)
    assert harness.consumer_join("a").member_epoch == 2  # the first target is computed at once
    b = harness.consumer_join("b")
    assert (b.member_epoch, b.assignment) == (2, ())
    assert (harness.consumers.epoch, harness.consumers.assignment_epoch) == (3, 2)
    assert harness.consumers.state == "Assigning"
    harness.advance(9_999)
    assert harness.consumer("b", 2).member_epoch == 2
    harness.advance(1)
    assert harness.consumer("b", 2).member_epoch == 3
    assert harness.consumers.assignment_epoch == 3


def test_the_assignor_is_logged(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    line = "[GroupId orders] Computed a new target assignment for epoch 2 with 'uniform' assignor."
    assert line in harness.log_lines


# Two of the names are in one bucket of Kafka's hash sets, and the two ids are in one bucket too.
COLLIDING = {
    "logs": (4, UUID("afc3fec3-5349-4a45-b419-ec6131f47e87")),
    "shipments": (6, UUID("6d62fbaa-35f0-42fa-9f1e-a6df738633c2")),
}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("logs", "shipments"), {"logs": [0, 1, 2, 3], "shipments": [0]}),
        (("shipments", "logs"), {"shipments": [0, 1, 2, 3, 4]}),
    ],
)
def test_the_order_of_the_names_in_the_request_decides_ties(
    harness: CoordinatorHarness, names: tuple[str, ...], expected: dict[str, list[int]]
) -> None:
    """The result is Kafka's assignment. In Kafka's record, the names are sorted."""
    for topic, (partitions, topic_id) in COLLIDING.items():
        harness.topics.put(topic, partitions, topic_id)
    harness.consumer_join("consumer-g-0", topics=("unknown",))
    harness.consumer_config = ConsumerConfig(assignment_interval_ms=15_000)
    harness.consumer("consumer-g-0", 2, topics=tuple(COLLIDING))
    harness.consumer_config = ConsumerConfig()
    harness.consumer_join("consumer-g-2", topics=names)
    assert harness.owned_by("consumer-g-2") == expected
    metadata = harness.consumers.members["consumer-g-2"].metadata
    assert metadata.subscribed_topic_names == ("logs", "shipments")


def test_a_heartbeat_of_an_unchanged_member_may_compute_the_target(
    harness: CoordinatorHarness,
) -> None:
    """A member leaves, and the heartbeat of another member computes the target."""
    for member_id in ("a", "b", "c"):
        harness.consumer_join(member_id)
    harness.consumer("c", -1)
    harness.consumer("a", 2, {})
    assert (harness.consumers.epoch, harness.consumers.assignment_epoch) == (5, 5)
    assert set(harness.consumers.targets) == {"a", "b"}


def test_an_epoch_whose_records_were_not_stored_is_bumped_again(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    harness.topics.put("orders", 8)
    command_log = len(harness.log)
    failed = harness.fail_append(consumer_heartbeat("a", 2, ()))
    assert failed.error_code is ErrorCode.unknown_server_error
    assert len(harness.log) == command_log
    assert harness.consumer("a", 2, {}).member_epoch == 3
    assert harness.consumers.epoch == 3
