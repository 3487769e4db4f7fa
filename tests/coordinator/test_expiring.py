"""What expires when, and what is written then: each row of the table in expiring.py."""

from typing import Any

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.offsets import SLICE_TOMBSTONES
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
)
from kohort.protocol.consumer_protocol import Subscription, encode_subscription
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode
RETENTION_MS = 60_000


@pytest.fixture
def w() -> World:
    return world()


def world(interval_ms: int = 3_600_000) -> World:
    return World(
        group_initial_rebalance_delay_ms=0,
        offsets_retention_ms=RETENTION_MS,
        check_interval_ms=interval_ms,
    )


def reads(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", encode_subscription(Subscription(topics))),)


def committed(w: World, group_id: str = GROUP) -> list[str]:
    return sorted(f"{r.topic}-{r.partition}" for r in w.coordinator.offsets.records(group_id))


def is_known(w: World, group_id: str = GROUP) -> bool:
    return any(each.group_id == group_id for each in w.list_groups())


def sleep(w: World, ms: int) -> None:
    """There is a sweep at the end of this time, whatever the interval is."""
    w.sweep_ms = w.now + ms
    w.sleep(ms)


def stay(w: World, member_id: str, ms: int, generation: int = 1) -> None:
    """A member sends its heartbeats for so long."""
    for _ in range(ms // 5_000):
        sleep(w, 5_000)
        assert w.heartbeat(member_id, generation) is E.none
    sleep(w, ms % 5_000)
    assert w.heartbeat(member_id, generation) is E.none


# --- no group but its offsets


def test_offsets_alone_expire_by_their_commit_and_the_group_with_the_last(w: World) -> None:
    w.commit(("a", 0, 1))
    sleep(w, 1_000)
    w.commit(("b", 1, 1))
    sleep(w, RETENTION_MS - 1_001)
    assert committed(w) == ["a-0", "b-1"]
    written = len(w.log)
    sleep(w, 1)
    assert w.log[written:] == [OffsetTombstone(GROUP, "a", 0)]
    sleep(w, 999)
    assert committed(w) == ["b-1"]
    sleep(w, 1)
    assert w.log[written + 1 :] == [OffsetTombstone(GROUP, "b", 1), GroupTombstone(GROUP)]
    assert not is_known(w)


def test_a_later_commit_begins_the_time_anew(w: World) -> None:
    w.commit()
    sleep(w, RETENTION_MS - 1)
    w.commit()
    sleep(w, RETENTION_MS - 1)
    assert committed(w) == ["t-0"]
    sleep(w, 1)
    assert not committed(w)


def test_looking_at_such_a_group_does_not_change_when_it_expires(w: World) -> None:
    w.commit()
    sleep(w, RETENTION_MS - 1)
    w.describe()
    w.new_id()  # somebody is about to join, and the group has an object now
    sleep(w, 1)
    assert not committed(w)


# --- Empty


def test_an_empty_groups_offsets_count_from_its_last_member(w: World) -> None:
    (a,) = w.stable(None, protocols=reads("t"))
    w.commit(("t", 0, 1), ("other", 0, 1), member_id=a, generation=1)
    stay(w, a, 30_000)
    w.leave(a)
    sleep(w, RETENTION_MS - 1)
    assert committed(w) == ["other-0", "t-0"]
    w.commit(("late", 0, 1))  # by somebody without a group: its age counts all the same
    written = len(w.log)
    sleep(w, 1)
    assert w.log[written:] == [
        OffsetTombstone(GROUP, "t", 0),
        OffsetTombstone(GROUP, "other", 0),
        OffsetTombstone(GROUP, "late", 0),
        GroupTombstone(GROUP),
    ]
    assert not is_known(w)


def test_since_when_a_group_is_empty_is_known_after_a_restart(w: World) -> None:
    (a,) = w.stable(None, protocol_type="connect")
    w.commit(member_id=a, generation=1)
    stay(w, a, 30_000)
    w.leave(a)
    sleep(w, 20_000)
    w.restart()
    sleep(w, RETENTION_MS - 20_001)
    assert committed(w) == ["t-0"]
    sleep(w, 1)
    assert not is_known(w)


def test_old_records_do_not_say_since_when_so_the_commit_counts(w: World) -> None:
    records: list[OffsetsRecord] = [
        GroupMetadataRecord(GROUP, GroupMetadata("consumer", 3, None, None, -1, ())),
        OffsetCommitRecord(GROUP, "t", 0, encode_commit_value(1, -1, "", w.now - 10_000)),
    ]
    w.log.extend(records)
    w.restart()
    sleep(w, RETENTION_MS - 10_001)
    assert committed(w) == ["t-0"]
    sleep(w, 1)
    assert not is_known(w)


def test_an_empty_group_without_offsets_is_gone_with_the_next_sweep(w: World) -> None:
    w.leave(*w.stable(None))
    written = len(w.log)
    sleep(w, 1)
    assert w.log[written:] == [GroupTombstone(GROUP)]
    assert not is_known(w)


def test_who_was_only_given_an_id_keeps_no_group(w: World) -> None:
    pending = w.new_id()
    sleep(w, 1)
    assert not is_known(w)
    assert w.answers[w.join(pending)].error is E.unknown_member_id


# --- groups with members


def test_what_consumers_read_stays_and_the_rest_expires_by_its_commit(w: World) -> None:
    (a,) = w.stable(None, protocols=reads("t"))
    w.commit(("t", 0, 1), ("u", 0, 1), member_id=a, generation=1)
    stay(w, a, RETENTION_MS - 1)
    assert committed(w) == ["t-0", "u-0"]
    written = len(w.log)
    sleep(w, 1)
    assert w.log[written:] == [OffsetTombstone(GROUP, "u", 0)]
    stay(w, a, 2 * RETENTION_MS)
    assert committed(w) == ["t-0"]
    assert w.state is State.STABLE


def test_a_living_group_without_any_offset_stays(w: World) -> None:
    (a,) = w.stable(None, protocols=reads("t"))
    w.commit(("u", 0, 1), member_id=a, generation=1)
    stay(w, a, 2 * RETENTION_MS)
    assert not committed(w)
    assert w.state is State.STABLE


@pytest.mark.parametrize(
    "who",
    [
        {"protocol_type": "connect", "protocols": reads("t")},
        {"protocols": (("range", b"\x00"),)},
    ],
    ids=["no consumers", "consumers that cannot be understood"],
)
def test_where_nobody_knows_what_is_read_nothing_expires(w: World, who: dict[str, Any]) -> None:
    (a,) = w.stable(None, **who)
    w.commit(("t", 0, 1), ("u", 0, 1), member_id=a, generation=1)
    stay(w, a, 2 * RETENTION_MS)
    assert committed(w) == ["t-0", "u-0"]


def test_nothing_expires_while_the_group_rebalances(w: World) -> None:
    (a,) = w.stable(None, protocols=reads("t"), session_ms=300_000, rebalance_ms=300_000)
    w.commit(("u", 0, 1), member_id=a, generation=1)
    w.enter(protocols=reads("t"), session_ms=300_000)
    assert w.state is State.PREPARING_REBALANCE
    sleep(w, 2 * RETENTION_MS)
    assert committed(w) == ["u-0"]
    w.join(a, protocols=reads("t"), session_ms=300_000, rebalance_ms=300_000)
    assert w.state is State.COMPLETING_REBALANCE
    sleep(w, 1_000)
    assert committed(w) == ["u-0"]
    w.sync_all(list(w.group.members), 2)
    sleep(w, 1)
    assert not committed(w)


# --- a retention time of its own (OffsetCommit v2 to v4)


def test_a_commit_may_bring_its_own_retention_time(w: World) -> None:
    w.commit(("short", 0, 1), retention_ms=5_000)
    w.commit(("long", 0, 1), retention_ms=3 * RETENTION_MS)
    sleep(w, 4_999)
    assert committed(w) == ["long-0", "short-0"]
    sleep(w, 1)
    assert committed(w) == ["long-0"]
    sleep(w, 3 * RETENTION_MS - 5_001)
    assert committed(w) == ["long-0"]
    sleep(w, 1)
    assert not is_known(w)


def test_a_time_of_its_own_does_not_ask_since_when_the_group_is_empty(w: World) -> None:
    (a,) = w.stable(None, protocols=reads("t"))
    w.commit(("t", 0, 1), member_id=a, generation=1, retention_ms=5_000)
    stay(w, a, 10_000)
    assert committed(w) == ["t-0"], "somebody reads it"
    w.leave(a)
    sleep(w, 1)
    assert not is_known(w)


def test_of_other_groups_with_members_not_even_that_expires(w: World) -> None:
    (a,) = w.stable(None, protocol_type="connect")
    w.commit(member_id=a, generation=1, retention_ms=5_000)
    stay(w, a, 10_000)
    assert committed(w) == ["t-0"]


# --- sweeps


def test_a_sweep_comes_an_interval_after_loading_and_after_the_one_before() -> None:
    w = world(interval_ms=10_000)
    w.sleep(5_000)
    w.commit(retention_ms=1)
    w.restart()
    w.sleep(9_999)
    assert committed(w) == ["t-0"]
    w.sleep(1)
    assert not committed(w)
    w.commit(retention_ms=1)
    w.sleep(9_999)
    assert committed(w) == ["t-0"]
    w.sleep(1)
    assert not committed(w)


def test_expiration_is_logged_as_in_kafka() -> None:
    w = world(interval_ms=RETENTION_MS)
    w.commit()
    w.sleep(RETENTION_MS)
    assert "[GroupId orders] Expired offset for partition=t-0" in w.lines
    line = "Generated 2 tombstone records while cleaning up group metadata in 0 milliseconds."
    assert line in w.lines


def test_a_sweep_goes_in_slices_and_sees_what_happens_between_them() -> None:
    w = world(interval_ms=RETENTION_MS)
    w.is_checking = False
    names = [f"g{i}" for i in range(SLICE_TOMBSTONES)]
    for name in names:
        w.commit(group_id=name)
    w.sleep(RETENTION_MS - 1)
    w.now += 1
    slices = 0
    before = len(w.log)
    for step in w.coordinator.expire_offsets(lambda: w.now):
        w._carry_out(step)
        assert len(w.log) - before <= SLICE_TOMBSTONES + 1
        if slices == 2:
            # Of the groups that are left one commits again, and one is deleted.
            alive, deleted = [name for name in names if committed(w, name)][:2]
            w.commit(group_id=alive)
            w.delete(deleted)
        slices += 1
        before = len(w.log)
    assert slices == 4, "two to begin, and two halves"
    assert [name for name in names if committed(w, name)] == [alive]
    assert w.log.count(GroupTombstone(deleted)) == 1
    assert not w.coordinator.groups
    w.check()


def test_a_group_with_very_many_offsets_goes_in_slices_too() -> None:
    w = world(interval_ms=RETENTION_MS)
    w.is_checking = False
    count = 5 * SLICE_TOMBSTONES
    w.commit(*(("t", i, 1) for i in range(count)))
    w.now += RETENTION_MS
    before = len(w.log)
    for step in w.coordinator.expire_offsets(lambda: w.now):
        w._carry_out(step)
        assert len(w.log) - before <= SLICE_TOMBSTONES + 1
        before = len(w.log)
    assert len(w.log) == 2 * count + 1
    assert w.log[-1] == GroupTombstone(GROUP)
    w.check()


# --- deleted topics


def test_a_deleted_topic_takes_its_offsets_out_of_every_group(w: World) -> None:
    w = world(interval_ms=RETENTION_MS)
    (a,) = w.stable(None, protocols=reads("t"))
    w.commit(("t", 0, 1), ("t-1", 0, 1), ("u", 0, 1), member_id=a, generation=1)
    w.commit(("t", 0, 1), ("t", 11, 1), group_id="other")
    written = len(w.log)
    w.sweep(w.coordinator.delete_offsets_of_topics({"t"}))
    assert w.log[written:] == [
        OffsetTombstone(GROUP, "t", 0),
        OffsetTombstone("other", "t", 0),
        OffsetTombstone("other", "t", 11),
    ]
    assert committed(w) == ["t-1-0", "u-0"]
    assert is_known(w, "other"), "until the next sweep"
    stay(w, a, RETENTION_MS)
    assert not is_known(w, "other")
