"""SyncGroup: assignments and waiting requests."""

import pytest
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


def test_a_follower_that_syncs_first_waits_for_the_leader(harness: CoordinatorHarness) -> None:
    a, b = joined(harness)
    early = harness.sync(b, 1)
    assert early not in harness.results
    late = harness.sync(a, 1, {a: b"one", b: b"two"})
    assert harness.results[early] == SyncResult(E.none, "consumer", "range", b"two")
    assert harness.results[late] == SyncResult(E.none, "consumer", "range", b"one")
    assert harness.state is State.STABLE


def test_the_group_record_has_the_state_needed_after_a_restart(
    harness: CoordinatorHarness,
) -> None:
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


def test_only_members_with_an_assignment_receive_one(
    harness: CoordinatorHarness,
) -> None:
    a, b = joined(harness)
    early = harness.sync(b, 1)
    harness.sync(a, 1, {a: b"one", "unknown": b"two"})
    assert harness.results[early].assignment == b""
    assert list(harness.group.members) == [a, b]


def test_assignments_of_a_follower_are_ignored(harness: CoordinatorHarness) -> None:
    a, b = joined(harness)
    early = harness.sync(b, 1, {a: b"mine", b: b"mine"})
    harness.sync(a, 1, {a: b"one", b: b"two"})
    assert harness.results[early].assignment == b"two"


def test_the_last_of_two_assignments_for_a_member_wins(harness: CoordinatorHarness) -> None:
    (a,) = joined(harness, count=1)
    twice = ((a, b"first"), (a, b"last"))
    response = harness.call(SyncGroup(GROUP, 1, a, None, None, None, twice))
    assert response.assignment == b"last"


def test_a_sync_in_a_stable_group_returns_the_assignment_again(harness: CoordinatorHarness) -> None:
    _a, b = harness.stable_group(None, None)
    before = dict(harness.coordinator.deadlines)
    harness.advance(1)
    again = harness.sync(b, 1)
    assert harness.results[again].assignment == b.encode()
    assert dict(harness.coordinator.deadlines) == before, "its session is not extended"


def test_a_replaced_sync_gets_no_response(
    harness: CoordinatorHarness,
) -> None:
    a, b = joined(harness)
    replaced, latest = harness.sync(b, 1), harness.sync(b, 1)
    harness.sync(a, 1, {a: b"one", b: b"two"})
    assert replaced not in harness.results
    assert harness.results[latest].assignment == b"two"


def test_a_member_with_a_waiting_sync_does_not_expire(
    harness: CoordinatorHarness,
) -> None:
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


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        (None, None, E.none),
        ("consumer", "range", E.none),
        ("connect", "range", E.inconsistent_group_protocol),
        ("consumer", "roundrobin", E.inconsistent_group_protocol),
    ],
)
def test_the_protocol_of_a_sync_must_be_the_protocol_of_the_group(
    harness: CoordinatorHarness,
    protocol_type: str | None,
    protocol_name: str | None,
    error: ErrorCode,
) -> None:
    (a,) = joined(harness, count=1)
    ticket = harness.sync(a, 1, {}, protocol_type=protocol_type, protocol_name=protocol_name)
    assert harness.results[ticket].error_code is error


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


def test_the_empty_group_id_is_rejected(harness: CoordinatorHarness) -> None:
    response = harness.call(SyncGroup("", 1, "m", None, None, None, ()))
    assert response.error_code is E.invalid_group_id


def test_assignments_are_dropped_when_the_sync_is_interrupted(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    harness.join(a), harness.join(b)
    assert harness.state is State.COMPLETING_REBALANCE
    harness.join(b, protocols=(("range", b"new"),))
    assert {m.assignment for m in harness.group.members.values()} == {b""}
