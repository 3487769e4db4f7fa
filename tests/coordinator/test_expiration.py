"""Expiration of offsets and groups: the rules of offset_cleanup.py, and the tombstones."""

from typing import Any

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.offset_cleanup import SLICE_TOMBSTONES
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import consumer_protocols

E = ErrorCode
RETENTION_MS = 60_000


@pytest.fixture
def harness() -> CoordinatorHarness:
    return new_harness()


def new_harness(interval_ms: int = 3_600_000) -> CoordinatorHarness:
    return CoordinatorHarness(
        group_initial_rebalance_delay_ms=0,
        offsets_retention_ms=RETENTION_MS,
        check_interval_ms=interval_ms,
    )


def committed(harness: CoordinatorHarness, group_id: str = GROUP) -> list[str]:
    return sorted(f"{r.topic}-{r.partition}" for r in harness.coordinator.offsets.records(group_id))


def exists(harness: CoordinatorHarness, group_id: str = GROUP) -> bool:
    return any(each.group_id == group_id for each in harness.list_groups())


def advance_with_heartbeats(
    harness: CoordinatorHarness, member_id: str, ms: int, generation: int = 1
) -> None:
    """Advance the clock while the member sends heartbeats."""
    for _ in range(ms // 5_000):
        harness.advance_and_sweep(5_000)
        assert harness.heartbeat(member_id, generation) is E.none
    harness.advance_and_sweep(ms % 5_000)
    assert harness.heartbeat(member_id, generation) is E.none


# --- offsets without members


def test_offsets_without_members_expire_by_their_commit_time(harness: CoordinatorHarness) -> None:
    harness.commit(("a", 0, 1))
    harness.advance_and_sweep(1_000)
    harness.commit(("b", 1, 1))
    harness.advance_and_sweep(RETENTION_MS - 1_001)
    assert committed(harness) == ["a-0", "b-1"]
    written = len(harness.log)
    harness.advance_and_sweep(1)
    assert harness.log[written:] == [OffsetTombstone(GROUP, "a", 0)]
    harness.advance_and_sweep(999)
    assert committed(harness) == ["b-1"]
    harness.advance_and_sweep(1)
    assert harness.log[written + 1 :] == [OffsetTombstone(GROUP, "b", 1), GroupTombstone(GROUP)]
    assert not exists(harness)


def test_a_later_commit_restarts_the_retention(harness: CoordinatorHarness) -> None:
    harness.commit()
    harness.advance_and_sweep(RETENTION_MS - 1)
    harness.commit()
    harness.advance_and_sweep(RETENTION_MS - 1)
    assert committed(harness) == ["t-0"]
    harness.advance_and_sweep(1)
    assert not committed(harness)


def test_describing_a_group_does_not_delay_its_expiration(harness: CoordinatorHarness) -> None:
    harness.commit()
    harness.advance_and_sweep(RETENTION_MS - 1)
    harness.describe()
    harness.request_member_id()  # a pending member creates the group object
    harness.advance_and_sweep(1)
    assert not committed(harness)


# --- Empty


def test_offsets_of_an_empty_group_expire_after_its_last_member_left(
    harness: CoordinatorHarness,
) -> None:
    (a,) = harness.stable_group(None, protocols=consumer_protocols("t"))
    harness.commit(("t", 0, 1), ("other", 0, 1), member_id=a, generation=1)
    advance_with_heartbeats(harness, a, 30_000)
    harness.leave(a)
    harness.advance_and_sweep(RETENTION_MS - 1)
    assert committed(harness) == ["other-0", "t-0"]
    harness.commit(("late", 0, 1))  # by a standalone consumer
    written = len(harness.log)
    harness.advance_and_sweep(1)
    assert harness.log[written:] == [
        OffsetTombstone(GROUP, "t", 0),
        OffsetTombstone(GROUP, "other", 0),
        OffsetTombstone(GROUP, "late", 0),
        GroupTombstone(GROUP),
    ]
    assert not exists(harness)


def test_the_time_a_group_became_empty_survives_a_restart(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocol_type="connect")
    harness.commit(member_id=a, generation=1)
    advance_with_heartbeats(harness, a, 30_000)
    harness.leave(a)
    harness.advance_and_sweep(20_000)
    harness.restart()
    harness.advance_and_sweep(RETENTION_MS - 20_001)
    assert committed(harness) == ["t-0"]
    harness.advance_and_sweep(1)
    assert not exists(harness)


def test_without_a_state_timestamp_the_commit_time_counts(harness: CoordinatorHarness) -> None:
    records: list[OffsetsRecord] = [
        GroupMetadataRecord(GROUP, GroupMetadata("consumer", 3, None, None, -1, ())),
        OffsetCommitRecord(GROUP, "t", 0, encode_commit_value(1, -1, "", harness.now - 10_000)),
    ]
    harness.log.extend(records)
    harness.restart()
    harness.advance_and_sweep(RETENTION_MS - 10_001)
    assert committed(harness) == ["t-0"]
    harness.advance_and_sweep(1)
    assert not exists(harness)


def test_an_empty_group_without_offsets_is_deleted_by_the_next_sweep(
    harness: CoordinatorHarness,
) -> None:
    harness.leave(*harness.stable_group(None))
    written = len(harness.log)
    harness.advance_and_sweep(1)
    assert harness.log[written:] == [GroupTombstone(GROUP)]
    assert not exists(harness)


def test_a_group_with_only_a_pending_member_expires(harness: CoordinatorHarness) -> None:
    pending = harness.request_member_id()
    harness.advance_and_sweep(1)
    assert not exists(harness)
    assert harness.results[harness.join(pending)].error_code is E.unknown_member_id


# --- groups with members


def test_offsets_of_subscribed_topics_do_not_expire(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocols=consumer_protocols("t"))
    harness.commit(("t", 0, 1), ("u", 0, 1), member_id=a, generation=1)
    advance_with_heartbeats(harness, a, RETENTION_MS - 1)
    assert committed(harness) == ["t-0", "u-0"]
    written = len(harness.log)
    harness.advance_and_sweep(1)
    assert harness.log[written:] == [OffsetTombstone(GROUP, "u", 0)]
    advance_with_heartbeats(harness, a, 2 * RETENTION_MS)
    assert committed(harness) == ["t-0"]
    assert harness.state is State.STABLE


def test_a_group_with_members_does_not_expire(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocols=consumer_protocols("t"))
    harness.commit(("u", 0, 1), member_id=a, generation=1)
    advance_with_heartbeats(harness, a, 2 * RETENTION_MS)
    assert not committed(harness)
    assert harness.state is State.STABLE


@pytest.mark.parametrize(
    "member",
    [
        {"protocol_type": "connect", "protocols": consumer_protocols("t")},
        {"protocols": (("range", b"\x00"),)},
    ],
    ids=["no consumers", "undecodable subscription"],
)
def test_nothing_expires_if_the_subscription_is_unknown(
    harness: CoordinatorHarness, member: dict[str, Any]
) -> None:
    (a,) = harness.stable_group(None, **member)
    harness.commit(("t", 0, 1), ("u", 0, 1), member_id=a, generation=1)
    advance_with_heartbeats(harness, a, 2 * RETENTION_MS)
    assert committed(harness) == ["t-0", "u-0"]


def test_nothing_expires_during_a_rebalance(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(
        None, protocols=consumer_protocols("t"), session_ms=300_000, rebalance_ms=300_000
    )
    harness.commit(("u", 0, 1), member_id=a, generation=1)
    harness.join_dynamic(protocols=consumer_protocols("t"), session_ms=300_000)
    assert harness.state is State.PREPARING_REBALANCE
    harness.advance_and_sweep(2 * RETENTION_MS)
    assert committed(harness) == ["u-0"]
    harness.join(a, protocols=consumer_protocols("t"), session_ms=300_000, rebalance_ms=300_000)
    assert harness.state is State.COMPLETING_REBALANCE
    harness.advance_and_sweep(1_000)
    assert committed(harness) == ["u-0"]
    harness.sync_all(list(harness.group.members), 2)
    harness.advance_and_sweep(1)
    assert not committed(harness)


# --- retention time of a commit (OffsetCommit v2 to v4)


def test_a_commit_may_have_its_own_retention_time(harness: CoordinatorHarness) -> None:
    harness.commit(("short", 0, 1), retention_ms=5_000)
    harness.commit(("long", 0, 1), retention_ms=3 * RETENTION_MS)
    harness.advance_and_sweep(4_999)
    assert committed(harness) == ["long-0", "short-0"]
    harness.advance_and_sweep(1)
    assert committed(harness) == ["long-0"]
    harness.advance_and_sweep(3 * RETENTION_MS - 5_001)
    assert committed(harness) == ["long-0"]
    harness.advance_and_sweep(1)
    assert not exists(harness)


def test_an_own_retention_time_counts_from_the_commit(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocols=consumer_protocols("t"))
    harness.commit(("t", 0, 1), member_id=a, generation=1, retention_ms=5_000)
    advance_with_heartbeats(harness, a, 10_000)
    assert committed(harness) == ["t-0"], "subscribed"
    harness.leave(a)
    harness.advance_and_sweep(1)
    assert not exists(harness)


def test_groups_of_other_types_ignore_own_retention_times(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocol_type="connect")
    harness.commit(member_id=a, generation=1, retention_ms=5_000)
    advance_with_heartbeats(harness, a, 10_000)
    assert committed(harness) == ["t-0"]


# --- sweeps


def test_a_sweep_runs_one_interval_after_loading_or_the_last_sweep() -> None:
    harness = new_harness(interval_ms=10_000)
    harness.advance(5_000)
    harness.commit(retention_ms=1)
    harness.restart()
    harness.advance(9_999)
    assert committed(harness) == ["t-0"]
    harness.advance(1)
    assert not committed(harness)
    harness.commit(retention_ms=1)
    harness.advance(9_999)
    assert committed(harness) == ["t-0"]
    harness.advance(1)
    assert not committed(harness)


def test_expiration_is_logged_as_in_kafka() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    harness.commit()
    harness.advance(RETENTION_MS)
    assert "[GroupId orders] Expired offset for partition=t-0" in harness.log_lines
    line = "Generated 2 tombstone records while cleaning up group metadata in 0 milliseconds."
    assert line in harness.log_lines


def test_a_sweep_runs_in_slices_and_sees_changes_between_them() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    harness.is_checking = False
    names = [f"g{i}" for i in range(SLICE_TOMBSTONES)]
    for name in names:
        harness.commit(group_id=name)
    harness.advance(RETENTION_MS - 1)
    harness.now += 1
    slices = 0
    before = len(harness.log)
    for step in harness.coordinator.expire_offsets(lambda: harness.now):
        harness._apply_outcome(step)
        assert len(harness.log) - before <= SLICE_TOMBSTONES + 1
        if slices == 2:
            # One of the remaining groups commits again, and one is deleted.
            alive, deleted = [name for name in names if committed(harness, name)][:2]
            harness.commit(group_id=alive)
            harness.delete(deleted)
        slices += 1
        before = len(harness.log)
    assert slices == 4, "two to start, and two halves"
    assert [name for name in names if committed(harness, name)] == [alive]
    assert harness.log.count(GroupTombstone(deleted)) == 1
    assert not harness.coordinator.groups
    harness.check()


def test_a_group_with_many_offsets_expires_in_slices() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    count = 5 * SLICE_TOMBSTONES
    harness.commit(*(("t", i, 1) for i in range(count)))
    harness.now += RETENTION_MS
    before = len(harness.log)
    for step in harness.coordinator.expire_offsets(lambda: harness.now):
        harness._apply_outcome(step)
        assert len(harness.log) - before <= SLICE_TOMBSTONES + 1
        before = len(harness.log)
    assert len(harness.log) == 2 * count + 1
    assert harness.log[-1] == GroupTombstone(GROUP)
    harness.check()


# --- deleted topics


def test_offsets_of_a_deleted_topic_are_deleted_from_every_group(
    harness: CoordinatorHarness,
) -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    (a,) = harness.stable_group(None, protocols=consumer_protocols("t"))
    harness.commit(("t", 0, 1), ("t-1", 0, 1), ("u", 0, 1), member_id=a, generation=1)
    harness.commit(("t", 0, 1), ("t", 11, 1), group_id="other")
    written = len(harness.log)
    harness.sweep(harness.coordinator.delete_offsets_of_topics({"t"}))
    assert harness.log[written:] == [
        OffsetTombstone(GROUP, "t", 0),
        OffsetTombstone("other", "t", 0),
        OffsetTombstone("other", "t", 11),
    ]
    assert committed(harness) == ["t-1-0", "u-0"]
    assert exists(harness, "other"), "deleted by the next sweep"
    advance_with_heartbeats(harness, a, RETENTION_MS)
    assert not exists(harness, "other")


def test_empty_consumer_groups_without_offsets_are_deleted_at_the_next_check() -> None:
    harness = new_harness(interval_ms=50_000)
    harness.is_checking = False  # the harness expects one consumer group
    for group_id in ("left", "committed", "expires"):
        harness.consumer_join("a", group_id=group_id)
    harness.consumer("a", -1, group_id="left")
    harness.commit(
        ("t", 0, 1), member_id="a", generation=2, group_id="committed", supports_member_epochs=True
    )
    harness.advance(49_000)  # past the sessions
    assert exists(harness, "left")
    assert exists(harness, "expires")
    harness.advance(1_000)
    assert not exists(harness, "left")
    assert not exists(harness, "expires")
    assert exists(harness, "committed")
    harness.advance(RETENTION_MS)
    assert not exists(harness, "committed")


# --- events


def test_expired_offsets_are_reported_with_the_generation() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    protocols = consumer_protocols("t")
    (a,) = harness.stable_group(None, protocols=protocols, session_ms=2 * RETENTION_MS)
    harness.commit(("t", 0, 1), ("u", 0, 1), ("u", 1, 1), member_id=a, generation=1)
    harness.advance(RETENTION_MS)
    (event,) = harness.events_of(EventType.OFFSETS_DELETED)
    assert (event.group_id, event.generation, event.member_id) == (GROUP, 1, None)
    assert (event.cause, event.detail) == (Cause.OFFSETS_EXPIRED, {"offsets": "2"})
    assert not harness.events_of(EventType.GROUP_DELETED)


def test_an_expired_group_without_offsets_reports_no_offsets() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    harness.leave(*harness.stable_group(None))
    harness.advance(RETENTION_MS)
    (event,) = harness.events_of(EventType.GROUP_DELETED)
    assert (event.group_id, event.cause) == (GROUP, Cause.GROUP_EXPIRED)
    assert (event.state_from, event.state_to) == (State.EMPTY, State.DEAD)
    assert not harness.events_of(EventType.OFFSETS_DELETED)


def test_each_slice_is_reported_and_the_end_of_the_group_once() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    harness.commit(*(("t", i, 1) for i in range(2 * SLICE_TOMBSTONES + 1)))
    harness.advance(RETENTION_MS)
    counts = [event.detail["offsets"] for event in harness.events_of(EventType.OFFSETS_DELETED)]
    assert counts == [str(SLICE_TOMBSTONES), str(SLICE_TOMBSTONES), "1"]
    assert len(harness.events_of(EventType.GROUP_DELETED)) == 1


def test_a_deleted_topic_is_the_cause_in_each_group_and_deletes_none() -> None:
    harness = new_harness(interval_ms=RETENTION_MS)
    harness.commit(("t", 0, 1), ("t", 1, 1), ("u", 0, 1))
    harness.commit(("t", 0, 1), group_id="other")
    harness.commit(("u", 0, 1), group_id="third")
    harness.sweep(harness.coordinator.delete_offsets_of_topics({"t"}))
    events = [
        (each.group_id, each.cause, each.detail)
        for each in harness.events_of(EventType.OFFSETS_DELETED)
    ]
    assert events == [
        (GROUP, Cause.TOPIC_DELETED, {"offsets": "2"}),
        ("other", Cause.TOPIC_DELETED, {"offsets": "1"}),
    ]
    assert not harness.events_of(EventType.GROUP_DELETED)
