"""Loading and unloading a partition."""

from kohort.coordinator.classic.states import State
from kohort.offsets.record_codec import decode_record, encode_record
from kohort.offsets.records import (
    GroupMetadata,
    GroupMetadataRecord,
    GroupTombstone,
    MemberMetadata,
)
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode


def test_members_continue_after_a_restart_without_a_rebalance(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group("i1", None)
    harness.commit(("t", 0, 42), member_id=a, generation=1)
    harness.restart()
    assert harness.state is State.STABLE
    assert harness.heartbeat(a, 1, instance="i1") is harness.heartbeat(b, 1) is E.none
    assert harness.results[harness.sync(b, 1)].assignment == b.encode()
    assert harness.fetch(("t", (0,))).topics[0][1][0].committed_offset == 42


def test_sessions_restart_after_a_restart(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None)
    harness.advance(9_000)
    harness.restart()
    harness.advance(9_999)
    assert harness.heartbeat(a, 1) is E.none
    harness.restart()
    harness.advance(10_000)
    assert harness.state is State.EMPTY


def test_a_group_in_a_rebalance_is_loaded_with_its_last_generation(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a), harness.join(b)
    assert (harness.state, harness.group.generation) == (State.COMPLETING_REBALANCE, 2)
    harness.restart()
    assert (harness.state, harness.group.generation) == (State.STABLE, 1)
    assert harness.heartbeat(a, 2) is E.illegal_generation


def test_only_the_selected_protocol_survives_a_restart(harness: CoordinatorHarness) -> None:
    both = (("range", b"r"), ("roundrobin", b"rr"))
    _a, b = harness.stable_group(None, None, protocols=both)
    harness.restart()
    harness.join(b, protocols=both)
    assert harness.state is State.PREPARING_REBALANCE


def test_waiting_requests_fail_with_not_coordinator_when_unloaded(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    join = harness.join(a)
    harness.restart()
    assert (harness.results[join].error_code, harness.results[join].member_id) == (
        E.not_coordinator,
        a,
    )
    harness.join(a), harness.join(b)
    sync = harness.sync(b, 2)
    harness.restart()
    assert harness.results[sync].error_code is E.not_coordinator
    assert harness.now >= 0


def test_the_session_of_a_failed_sync_restarts(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a), harness.join(b)
    harness.sync(b, 2)
    harness.coordinator.fail_waiting(harness.now)
    harness.advance(9_999)
    assert harness.heartbeat(b, 2) is E.none


def test_an_unloaded_coordinator_has_no_deadline(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.coordinator.unload()
    assert harness.coordinator.next_deadline() is None
    assert not harness.coordinator.groups


def test_a_group_tombstone_removes_the_group_and_its_timers(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.commit(("t", 0, 1), group_id="other")
    harness.request_member_id()
    harness.append(GroupTombstone(GROUP), GroupTombstone("unknown"))
    assert not harness.coordinator.deadlines
    assert harness.heartbeat("m", 1) is E.unknown_member_id
    assert harness.fetch(group_id="other").topics


def test_group_records_of_old_brokers_are_loaded(harness: CoordinatorHarness) -> None:
    """The record has no rebalance timeout (before v1), no state timestamp (before v2) and no
    leader."""
    member = MemberMetadata("m", None, "c", "/h", -1, 12_000, b"sub", b"ass")
    harness.log.append(
        GroupMetadataRecord(GROUP, GroupMetadata("consumer", 7, "range", None, -1, (member,)))
    )
    harness.restart()
    assert (harness.state, harness.group.generation, harness.group.leader) == (State.STABLE, 7, "m")
    assert harness.group.rebalance_timeout_ms == 12_000
    harness.advance(11_999)
    assert harness.heartbeat("m", 7) is E.none


def test_the_last_group_record_wins(harness: CoordinatorHarness) -> None:
    a, _b = harness.stable_group("i1", "i2")
    new = harness.results[harness.join(instance="i2")].member_id
    harness.restart()
    assert set(harness.group.members) == {a, new}
    assert harness.group.static_members == {"i1": a, "i2": new}


def test_a_loaded_group_over_the_limit_starts_a_rebalance(harness: CoordinatorHarness) -> None:
    ids = harness.stable_group(None, None)
    harness.config = CoordinatorHarness(group_initial_rebalance_delay_ms=0, group_max_size=1).config
    harness.restart()
    assert harness.state is State.PREPARING_REBALANCE
    assert {harness.heartbeat(m, 1) for m in ids} == {E.rebalance_in_progress}


def test_generations_wrap_around_as_in_kafka(harness: CoordinatorHarness) -> None:
    """Kafka 4.3 sends these responses to members of a group with this record."""
    member = MemberMetadata("a", None, "c", "/127.0.0.1", 60_000, 10_000, b"r", b"")
    last = GroupMetadata("consumer", 2**31 - 1, "range", "a", harness.now, (member,))
    harness.log.append(GroupMetadataRecord(GROUP, last))
    harness.restart()
    ticket = harness.join("a", protocols=(("range", b"changed"),))
    assert harness.results[ticket].generation_id == -(2**31)
    assert harness.results[harness.sync("a", -(2**31), {"a": b"mine"})].error_code is E.none
    assert harness.commit(("t", 0, 42), member_id="a", generation=-(2**31)) is E.none
    assert decode_record(*encode_record(harness.log[-2])) == harness.log[-2]
    harness.restart()
    assert harness.heartbeat("a", -(2**31)) is E.none
