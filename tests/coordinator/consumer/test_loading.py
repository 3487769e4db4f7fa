"""Consumer groups are loaded from the log unchanged, with new deadlines, and unloaded."""

from kohort.coordinator.consumer.group import MemberState
from kohort.coordinator.outcome import EventType
from kohort.offsets.records import (
    ConsumerGroupRecord,
    ConsumerMemberMetadata,
    ConsumerPartitionMetadata,
    ConsumerRecordType,
    CurrentAssignment,
    OwnedPartitions,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import rejoin

E = ErrorCode
ALL = {"orders": (0, 1, 2, 3)}
TYPE = ConsumerRecordType


def write_current(harness: CoordinatorHarness, state: int, epochs: tuple[int, ...] | None) -> None:
    """Write a record as another version of Kafka would."""
    topic_id = harness.topics.id_of("orders")
    assert topic_id is not None
    owned = OwnedPartitions(topic_id, (0, 1), epochs)
    value = CurrentAssignment(2, 1, state, (owned,), ())
    harness.log.append(ConsumerGroupRecord(TYPE.CURRENT_MEMBER_ASSIGNMENT, GROUP, "a", value))


def test_a_loaded_group_continues(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", instance="i1", rack="r")
    rejoin(harness, "b")
    harness.consumer_join("c", regex="ord.*")
    harness.advance(0)
    harness.consumer("a", 2)
    before = list(harness.consumers.records())
    harness.restart()
    assert list(harness.consumers.records()) == before
    (event,) = harness.events_of(EventType.GROUP_LOADED)
    assert event.detail == {"members": "3"}
    assert harness.consumer("a", 2, harness.owned_by("a")).error_code is E.none


def test_sessions_and_revocations_start_again(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a", rebalance_ms=20_000)
    harness.consumer_join("b")
    harness.consumer("a", 2)
    harness.advance(19_000)
    harness.restart()
    harness.advance(19_000)
    assert harness.consumer("a", 2).error_code is E.none
    harness.advance(1_000)
    assert set(harness.consumers.members) == {"b"}
    assert harness.events_of(EventType.MEMBER_REVOCATION_TIMED_OUT)
    harness.advance(25_000)
    assert not harness.consumers.members


def test_classic_members_have_the_groups_session_timeout_after_a_load(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("c")
    rejoin(harness, "a")
    harness.restart()
    harness.advance(44_999)
    assert "a" in harness.consumers.members
    harness.consumer("c", 2)
    assert harness.heartbeat("a", 3) is E.none
    harness.advance(10_000)
    assert "a" not in harness.consumers.members


def test_a_member_in_an_unknown_state_joins_again(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    write_current(harness, 42, (2, 2))
    harness.restart()
    assert harness.consumers.members["a"].state is MemberState.UNKNOWN
    assert harness.consumer("a", 2).error_code is E.fenced_member_epoch
    assert harness.assigned(harness.consumer_join("a")) == ALL


def test_assignment_epochs_of_older_kafka_are_those_of_the_member(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    write_current(harness, 0, None)
    harness.restart()
    (owned,) = harness.consumers.members["a"].assigned.values()
    assert owned == {0: 2, 1: 2}


def test_partition_metadata_of_older_kafka_is_deleted_with_the_next_change(
    harness: CoordinatorHarness,
) -> None:
    harness.consumer_join("a")
    metadata = ConsumerPartitionMetadata(())
    harness.log.append(ConsumerGroupRecord(TYPE.PARTITION_METADATA, GROUP, "", metadata))
    harness.restart()
    assert list(harness.consumers.records())[1].value == metadata
    harness.consumer("a", 2)
    assert harness.consumers.partition_metadata is None
    assert harness.log[-1].value is None


def test_tombstones_outlive_what_they_delete(harness: CoordinatorHarness) -> None:
    """Compaction deletes records before their tombstones."""
    types = set(TYPE) - {TYPE.GROUP_METADATA}
    harness.log += [ConsumerGroupRecord(type_, "gone", "a", None) for type_ in types]
    harness.restart()
    assert not harness.coordinator.consumer_groups


def test_tombstones_of_unknown_members_change_nothing(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    types = (
        TYPE.CURRENT_MEMBER_ASSIGNMENT,
        TYPE.TARGET_ASSIGNMENT_MEMBER,
        TYPE.MEMBER_METADATA,
        TYPE.REGULAR_EXPRESSION,
    )
    before = list(harness.consumers.records())
    harness.log += [ConsumerGroupRecord(type_, GROUP, "b", None) for type_ in types]
    harness.restart()
    assert list(harness.consumers.records()) == before


def test_the_tombstone_of_an_assignment_alone_takes_the_epoch(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    for type_, name in (
        (TYPE.CURRENT_MEMBER_ASSIGNMENT, "a"),
        (TYPE.TARGET_ASSIGNMENT_METADATA, ""),
    ):
        harness.consumers.apply(ConsumerGroupRecord(type_, GROUP, name, None))
    assert harness.consumers.members["a"].epoch == -1
    assert harness.consumers.assignment_epoch == -1
    assert harness.consumers.owner_epoch(harness.topics.id_of("orders"), 0) == -1


def test_metadata_without_an_assignment_is_a_member_that_has_not_joined(
    harness: CoordinatorHarness,
) -> None:
    """This happens if the log ends within the records of a join."""
    metadata = ConsumerMemberMetadata(subscribed_topic_names=("orders",))
    harness.log.append(ConsumerGroupRecord(TYPE.MEMBER_METADATA, GROUP, "a", metadata))
    harness.restart()
    assert harness.consumers.members["a"].epoch == 0
    assert harness.consumer("a", 1).error_code is E.fenced_member_epoch
    assert harness.consumer_join("a").member_epoch == 2


def test_a_partition_is_unloaded_with_its_groups(harness: CoordinatorHarness) -> None:
    harness.consumer_join("a")
    outcome = harness.coordinator.unload()
    assert [event.type for event in outcome.events] == [EventType.GROUP_UNLOADED]
    assert not harness.coordinator.consumer_groups
    assert not harness.coordinator.deadlines
