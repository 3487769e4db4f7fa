"""What is told of offsets and groups that expire, and of what goes with a deleted topic."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.offsets import SLICE_TOMBSTONES
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause
from kohort.protocol.consumer_protocol import Subscription, encode_subscription
from support.coordinator import GROUP, World

RETENTION_MS = 60_000


@pytest.fixture
def w() -> World:
    return World(
        group_initial_rebalance_delay_ms=0,
        offsets_retention_ms=RETENTION_MS,
        check_interval_ms=RETENTION_MS,
    )


def test_a_living_group_loses_offsets_and_is_told_with_its_generation(w: World) -> None:
    protocols = (("range", encode_subscription(Subscription(("t",)))),)
    (a,) = w.stable(None, protocols=protocols, session_ms=2 * RETENTION_MS)
    w.commit(("t", 0, 1), ("u", 0, 1), ("u", 1, 1), member_id=a, generation=1)
    w.sleep(RETENTION_MS)
    (told,) = w.told(EventType.OFFSETS_DELETED)
    assert (told.group_id, told.generation, told.member_id) == (GROUP, 1, None)
    assert (told.cause, told.detail) == (Cause.OFFSETS_EXPIRED, {"offsets": "2"})
    assert not w.told(EventType.GROUP_DELETED)


def test_a_group_without_offsets_expires_without_a_word_of_offsets(w: World) -> None:
    w.leave(*w.stable(None))
    w.sleep(RETENTION_MS)
    (told,) = w.told(EventType.GROUP_DELETED)
    assert (told.group_id, told.cause) == (GROUP, Cause.GROUP_EXPIRED)
    assert (told.state_from, told.state_to) == (State.EMPTY, State.DEAD)
    assert not w.told(EventType.OFFSETS_DELETED)


def test_a_group_that_expires_in_slices_is_told_of_each_and_of_its_end_once(w: World) -> None:
    w.is_checking = False
    w.commit(*(("t", i, 1) for i in range(2 * SLICE_TOMBSTONES + 1)))
    w.sleep(RETENTION_MS)
    counts = [told.detail["offsets"] for told in w.told(EventType.OFFSETS_DELETED)]
    assert counts == [str(SLICE_TOMBSTONES), str(SLICE_TOMBSTONES), "1"]
    assert len(w.told(EventType.GROUP_DELETED)) == 1


def test_a_deleted_topic_is_the_cause_in_each_group_and_ends_none(w: World) -> None:
    w.commit(("t", 0, 1), ("t", 1, 1), ("u", 0, 1))
    w.commit(("t", 0, 1), group_id="other")
    w.commit(("u", 0, 1), group_id="third")
    w.sweep(w.coordinator.delete_offsets_of_topics({"t"}))
    told = [(each.group_id, each.cause, each.detail) for each in w.told(EventType.OFFSETS_DELETED)]
    assert told == [
        (GROUP, Cause.TOPIC_DELETED, {"offsets": "2"}),
        ("other", Cause.TOPIC_DELETED, {"offsets": "1"}),
    ]
    assert not w.told(EventType.GROUP_DELETED)
