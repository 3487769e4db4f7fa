"""DeleteGroups and OffsetDelete: which groups and offsets may be deleted, and their tombstones."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.offsets.records import GroupTombstone, OffsetTombstone
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness
from support.mixed_groups import consumer_protocols

E = ErrorCode
SUBSCRIBED = E.group_subscribed_to_topic


# --- groups


@pytest.mark.parametrize("had_members", [True, False])
def test_a_group_is_deleted_after_all_its_offsets(
    harness: CoordinatorHarness, had_members: bool
) -> None:
    if had_members:
        harness.leave(*harness.stable_group(None))
    harness.commit(("b", 1, 10), ("a", 0, 20))
    harness.commit(group_id="other")
    written = len(harness.log)
    assert harness.delete() is E.none
    assert harness.log[written:] == [
        OffsetTombstone(GROUP, "b", 1),
        OffsetTombstone(GROUP, "a", 0),
        GroupTombstone(GROUP),
    ]
    assert harness.fetch().topics == ()
    assert harness.fetch(group_id="other").topics
    assert harness.delete() is E.group_id_not_found
    harness.restart()
    assert harness.delete() is E.group_id_not_found


def test_a_group_without_a_group_record_gets_a_tombstone_too(harness: CoordinatorHarness) -> None:
    harness.commit()
    assert harness.delete_offsets(("t", (0,))) == (E.none,)
    assert harness.delete() is E.none
    assert harness.log[-1] == GroupTombstone(GROUP)


# --- offsets


def test_only_committed_offsets_get_tombstones(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1), ("t", 2, 1))
    written = len(harness.log)
    assert harness.delete_offsets(("t", (0, 1)), ("u", (0,)), ("v", ())) == (E.none,) * 3
    assert harness.log[written:] == [OffsetTombstone(GROUP, "t", 0)]
    assert [p.committed_offset for p in harness.fetch(("t", (0, 2))).topics[0][1]] == [-1, 1]
    assert harness.delete_offsets() == ()


def test_offsets_of_subscribed_topics_are_not_deleted(harness: CoordinatorHarness) -> None:
    a, b = harness.request_member_id(), harness.request_member_id()
    tickets = [
        harness.join(a, protocols=consumer_protocols("t")),
        harness.join(b, protocols=consumer_protocols("u", "t")),
    ]
    harness.advance(0)
    harness.sync_all([harness.results[ticket].member_id for ticket in tickets], 1)
    harness.commit(("t", 0, 1), ("u", 0, 1), ("v", 0, 1), member_id=a, generation=1)
    topics = (("t", (0,)), ("u", (0,)), ("v", (0,)), ("w", (0,)))
    assert harness.delete_offsets(*topics) == (SUBSCRIBED, SUBSCRIBED, E.none, E.none)
    assert [topic for topic, _ in harness.fetch().topics] == ["t", "u"]
    harness.restart()
    assert harness.delete_offsets(*topics) == (SUBSCRIBED, SUBSCRIBED, E.none, E.none)


def test_subscriptions_take_effect_with_the_next_generation(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, protocols=consumer_protocols("t"))
    harness.join_dynamic(protocols=consumer_protocols("u"))
    assert harness.state is State.PREPARING_REBALANCE
    assert harness.delete_offsets(("t", (0,)), ("u", (0,))) == (SUBSCRIBED, E.none)
    harness.join(a, protocols=consumer_protocols("v"))
    topics = (("t", (0,)), ("u", (0,)), ("v", (0,)))
    assert harness.delete_offsets(*topics) == (E.none, SUBSCRIBED, SUBSCRIBED)


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x00\xff\xff\xff\xff", b"\xff\xff"])
def test_an_undecodable_subscription_may_include_any_topic(
    harness: CoordinatorHarness, metadata: bytes
) -> None:
    harness.stable_group(None, protocols=(("range", metadata),))
    assert harness.delete_offsets(("t", (0,))) == (SUBSCRIBED,)
    assert "not aware of the subscribed topics" in harness.log_lines[-1]


def test_before_the_first_generation_any_topic_may_be_consumer_protocols(
    harness: CoordinatorHarness,
) -> None:
    harness.join_dynamic(protocols=consumer_protocols("t"))
    assert harness.delete_offsets(("other", (0,))) == (SUBSCRIBED,)


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_an_empty_group_is_subscribed_to_nothing(
    harness: CoordinatorHarness, protocol_type: str
) -> None:
    harness.leave(
        *harness.stable_group(None, protocol_type=protocol_type, protocols=consumer_protocols("t"))
    )
    harness.commit()
    assert harness.delete_offsets(("t", (0,))) == (E.none,)
    harness.restart()
    assert harness.delete_offsets(("t", (0,))) == (E.none,)
    assert harness.group.protocol_type == protocol_type


def test_a_group_exists_after_its_offsets_were_deleted(harness: CoordinatorHarness) -> None:
    harness.commit()
    assert harness.delete_offsets(("t", (0,))) == (E.none,)
    assert (harness.describe().error_code, harness.describe().state) == (E.none, "Empty")
