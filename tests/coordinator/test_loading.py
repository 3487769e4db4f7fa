"""Gaining and losing the partition."""

from kohort.coordinator.classic.states import State
from kohort.offsets.record_codec import decode_record, encode_record
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode


def test_after_a_restart_clients_go_on_without_a_round(w: World) -> None:
    a, b = w.stable("i1", None)
    w.commit(("t", 0, 42), member_id=a, generation=1)
    w.restart()
    assert w.state is State.STABLE
    assert w.heartbeat(a, 1, instance="i1") is w.heartbeat(b, 1) is E.none
    assert w.answers[w.sync(b, 1)].assignment == b.encode()
    assert w.fetch(("t", (0,))).topics[0][1][0].offset == 42


def test_after_a_restart_members_have_a_whole_session_to_be_heard_of(w: World) -> None:
    (a,) = w.stable(None)
    w.sleep(9_000)
    w.restart()
    w.sleep(9_999)
    assert w.heartbeat(a, 1) is E.none
    w.restart()
    w.sleep(10_000)
    assert w.state is State.EMPTY


def test_a_group_that_was_in_a_round_comes_back_stable_in_the_generation_before(w: World) -> None:
    a, b = w.stable(None, None)
    w.join(a), w.join(b)
    assert (w.state, w.group.generation) == (State.COMPLETING_REBALANCE, 2)
    w.restart()
    assert (w.state, w.group.generation) == (State.STABLE, 1)
    assert w.heartbeat(a, 2) is E.illegal_generation


def test_after_a_restart_a_member_with_more_protocols_than_the_elected_one_has_changed(
    w: World,
) -> None:
    both = (("range", b"r"), ("roundrobin", b"rr"))
    _a, b = w.stable(None, None, protocols=both)
    w.restart()
    w.join(b, protocols=both)
    assert w.state is State.PREPARING_REBALANCE


def test_parked_requests_are_told_to_look_for_the_new_coordinator(w: World) -> None:
    a, b = w.stable(None, None)
    join = w.join(a)
    w.restart()
    assert (w.answers[join].error, w.answers[join].member_id) == (E.not_coordinator, a)
    w.join(a), w.join(b)
    sync = w.sync(b, 2)
    w.restart()
    assert w.answers[sync].error is E.not_coordinator
    assert w.now >= 0


def test_an_unloaded_coordinator_has_nothing_to_do_any_more(w: World) -> None:
    w.stable(None)
    w.coordinator.unload()
    assert w.coordinator.next_deadline() is None
    assert not w.coordinator.groups


def test_a_tombstone_takes_the_group_and_its_timers_and_leaves_its_offsets(w: World) -> None:
    w.stable(None)
    w.commit(("t", 0, 1), group_id="other")
    w.new_id()
    for record in (GroupTombstone(GROUP), GroupTombstone("unknown")):
        w.log.append(record)
        w.coordinator.apply(record)
    w.check()
    assert not w.coordinator.deadlines
    assert w.heartbeat("m", 1) is E.unknown_member_id
    assert w.fetch(group_id="other").topics


def test_values_of_old_brokers_are_understood(w: World) -> None:
    """No rebalance timeout before v1, no time of the state before v2; no leader known."""
    member = MemberMetadata("m", None, "c", "/h", -1, 12_000, b"sub", b"ass")
    w.log.append(
        GroupMetadataRecord(GROUP, GroupMetadata("consumer", 7, "range", None, -1, (member,)))
    )
    w.restart()
    assert (w.state, w.group.generation, w.group.leader) == (State.STABLE, 7, "m")
    assert w.group.rebalance_timeout_ms == 12_000
    w.sleep(11_999)
    assert w.heartbeat("m", 7) is E.none


def test_the_last_record_of_a_group_counts(w: World) -> None:
    a, _b = w.stable("i1", "i2")
    new = w.answers[w.join(instance="i2")].member_id
    w.restart()
    assert set(w.group.members) == {a, new}
    assert w.group.static_members == {"i1": a, "i2": new}


def test_a_loaded_group_over_the_limit_starts_a_round(w: World) -> None:
    ids = w.stable(None, None)
    w.config = World(group_initial_rebalance_delay_ms=0, group_max_size=1).config
    w.restart()
    assert w.state is State.PREPARING_REBALANCE
    assert {w.heartbeat(m, 1) for m in ids} == {E.rebalance_in_progress}


def test_generations_go_on_behind_the_last_number_as_in_kafka(w: World) -> None:
    """What Kafka 4.3 answered to members of a group with this record in its log."""
    member = MemberMetadata("a", None, "c", "/127.0.0.1", 60_000, 10_000, b"r", b"")
    last = GroupMetadata("consumer", 2**31 - 1, "range", "a", w.now, (member,))
    w.log.append(GroupMetadataRecord(GROUP, last))
    w.restart()
    ticket = w.join("a", protocols=(("range", b"changed"),))
    assert w.answers[ticket].generation_id == -(2**31)
    assert w.answers[w.sync("a", -(2**31), {"a": b"mine"})].error is E.none
    assert w.commit(("t", 0, 42), member_id="a", generation=-(2**31)) is E.none
    assert decode_record(*encode_record(w.log[-2])) == w.log[-2]
    w.restart()
    assert w.heartbeat("a", -(2**31)) is E.none
