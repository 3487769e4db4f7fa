"""SyncGroup: assignments and waiting requests."""

from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import SyncGroup, SyncResult
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord, MemberMetadata
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness

E = ErrorCode


def joined(harness: CoordinatorHarness, *, count: int = 2) -> list[str]:
    tickets = [harness.join_dynamic() for _ in range(count)]
    harness.advance(0)
    return [harness.results[ticket].member_id for ticket in tickets]


def test_the_group_record_has_the_state_needed_after_a_restart(harness: CoordinatorHarness) -> None:
    a, b = joined(harness)
    since = harness.now
    harness.advance(7)
    harness.sync(a, 1, {a: b"one", b: b"two"})
    members = tuple(
        MemberMetadata(m, None, "client", "/127.0.0.1", 60_000, 10_000, b"r", assignment)
        for m, assignment in ((a, b"one"), (b, b"two"))
    )
    assert harness.log[-1] == GroupMetadataRecord(
        GROUP, GroupMetadata("consumer", 1, "range", a, since, members)
    )


def test_the_last_of_two_assignments_for_a_member_wins(harness: CoordinatorHarness) -> None:
    (a,) = joined(harness, count=1)
    twice = ((a, b"first"), (a, b"last"))
    response = harness.call(SyncGroup(GROUP, 1, a, None, None, None, twice))
    assert response.assignment == b"last"


def test_a_member_with_a_waiting_sync_does_not_expire(harness: CoordinatorHarness) -> None:
    a, b = joined(harness)
    parked = harness.sync(b, 1)
    for _ in range(4):
        harness.advance(9_999)
        harness.heartbeat(a, 1)
    harness.sync(a, 1, {})
    assert harness.results[parked].error_code is E.none
    for _ in range(2):
        harness.advance(9_999)
        assert harness.heartbeat(a, 1) is harness.heartbeat(b, 1) is E.none


def test_a_sync_is_validated_by_generation_then_protocol_then_state(
    harness: CoordinatorHarness,
) -> None:
    a, _ = harness.stable_group(None, None)
    harness.join(a)
    assert harness.results[harness.sync(a, 2, protocol_type="x")].error_code is E.illegal_generation
    inconsistent = harness.results[harness.sync(a, 1, protocol_type="x")]
    assert inconsistent.error_code is E.inconsistent_group_protocol
    assert harness.results[harness.sync(a, 1)] == SyncResult(
        E.rebalance_in_progress, None, None, b""
    )


def test_assignments_are_dropped_when_the_sync_is_interrupted(harness: CoordinatorHarness) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a), harness.join(b)
    assert harness.state is State.COMPLETING_REBALANCE
    harness.join(b, protocols=(("range", b"new"),))
    assert {m.assignment for m in harness.group.members.values()} == {b""}
