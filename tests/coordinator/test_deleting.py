"""DeleteGroups and OffsetDelete: what may be taken away, and what is written then."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.offsets.records import GroupTombstone, OffsetTombstone
from kohort.protocol.consumer_protocol import Subscription, encode_subscription
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode
SUBSCRIBED = E.group_subscribed_to_topic


def reads(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", encode_subscription(Subscription(topics))),)


# --- groups


@pytest.mark.parametrize("had_members", [True, False])
def test_a_group_goes_with_all_its_offsets_and_itself_last(w: World, had_members: bool) -> None:
    if had_members:
        w.leave(*w.stable(None))
    w.commit(("b", 1, 10), ("a", 0, 20))
    w.commit(group_id="other")
    written = len(w.log)
    assert w.delete() is E.none
    assert w.log[written:] == [
        OffsetTombstone(GROUP, "b", 1),
        OffsetTombstone(GROUP, "a", 0),
        GroupTombstone(GROUP),
    ]
    assert w.fetch().topics == ()
    assert w.fetch(group_id="other").topics
    assert w.delete() is E.group_id_not_found
    w.restart()
    assert w.delete() is E.group_id_not_found


def test_a_group_without_a_record_of_its_own_gets_a_tombstone_too(w: World) -> None:
    w.commit()
    assert w.delete_offsets(("t", (0,))) == (E.none,)
    assert w.delete() is E.none
    assert w.log[-1] == GroupTombstone(GROUP)


def test_who_was_only_given_an_id_keeps_no_group_alive(w: World) -> None:
    pending = w.new_id()
    assert w.delete() is E.none
    assert w.answers[w.join(pending)].error is E.unknown_member_id
    assert not w.coordinator.deadlines


def test_a_deleted_group_begins_anew(w: World) -> None:
    w.leave(*w.stable(None))
    assert w.group.generation == 2
    w.delete()
    w.stable(None)
    assert w.group.generation == 1


def test_the_group_with_the_empty_name_can_be_deleted(w: World) -> None:
    w.commit(group_id="")
    assert w.delete("") is E.none
    assert w.delete("") is E.group_id_not_found


# --- offsets


def test_only_what_was_committed_is_written_as_deleted(w: World) -> None:
    w.commit(("t", 0, 1), ("t", 2, 1))
    written = len(w.log)
    assert w.delete_offsets(("t", (0, 1)), ("u", (0,)), ("v", ())) == (E.none,) * 3
    assert w.log[written:] == [OffsetTombstone(GROUP, "t", 0)]
    assert [p.offset for p in w.fetch(("t", (0, 2))).topics[0][1]] == [-1, 1]
    assert w.delete_offsets() == ()


def test_a_topic_that_somebody_reads_keeps_its_offsets(w: World) -> None:
    a, b = w.new_id(), w.new_id()
    tickets = [w.join(a, protocols=reads("t")), w.join(b, protocols=reads("u", "t"))]
    w.sleep(0)
    w.sync_all([w.answers[ticket].member_id for ticket in tickets], 1)
    w.commit(("t", 0, 1), ("u", 0, 1), ("v", 0, 1), member_id=a, generation=1)
    asked = (("t", (0,)), ("u", (0,)), ("v", (0,)), ("w", (0,)))
    assert w.delete_offsets(*asked) == (SUBSCRIBED, SUBSCRIBED, E.none, E.none)
    assert [topic for topic, _ in w.fetch().topics] == ["t", "u"]
    w.restart()
    assert w.delete_offsets(*asked) == (SUBSCRIBED, SUBSCRIBED, E.none, E.none)


def test_what_is_read_is_known_anew_with_each_generation_and_not_before(w: World) -> None:
    (a,) = w.stable(None, protocols=reads("t"))
    w.enter(protocols=reads("u"))
    assert w.state is State.PREPARING_REBALANCE
    assert w.delete_offsets(("t", (0,)), ("u", (0,))) == (SUBSCRIBED, E.none)
    w.join(a, protocols=reads("v"))
    asked = (("t", (0,)), ("u", (0,)), ("v", (0,)))
    assert w.delete_offsets(*asked) == (E.none, SUBSCRIBED, SUBSCRIBED)


@pytest.mark.parametrize("said", [b"", b"\x00", b"\x00\x00\xff\xff\xff\xff", b"\xff\xff"])
def test_consumers_that_cannot_be_understood_may_read_anything(w: World, said: bytes) -> None:
    w.stable(None, protocols=(("range", said),))
    assert w.delete_offsets(("t", (0,))) == (SUBSCRIBED,)
    assert "not aware of the subscribed topics" in w.lines[-1]


def test_consumers_in_their_first_round_may_read_anything(w: World) -> None:
    w.enter(protocols=reads("t"))
    assert w.delete_offsets(("other", (0,))) == (SUBSCRIBED,)


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_an_empty_group_reads_nothing(w: World, protocol_type: str) -> None:
    w.leave(*w.stable(None, protocol_type=protocol_type, protocols=reads("t")))
    w.commit()
    assert w.delete_offsets(("t", (0,))) == (E.none,)
    w.restart()
    assert w.delete_offsets(("t", (0,))) == (E.none,)
    assert w.group.protocol_type == protocol_type


def test_what_other_groups_than_consumers_read_cannot_be_known(w: World) -> None:
    w.stable(None, protocol_type="connect")
    assert w.delete_offsets(("t", (0,))) is E.non_empty_group
    assert w.delete_offsets() is E.non_empty_group


def test_offsets_of_no_group_are_not_deleted(w: World) -> None:
    assert w.delete_offsets(("t", (0,)), group_id="") is E.invalid_group_id
    assert w.delete_offsets(group_id="nobody") is E.group_id_not_found


def test_a_group_outlives_the_deletion_of_its_offsets(w: World) -> None:
    w.commit()
    assert w.delete_offsets(("t", (0,))) == (E.none,)
    assert (w.describe().error, w.describe().state) == (E.none, "Empty")
