"""SyncGroup: who gets which assignment, and when."""

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import SyncGroup, SyncResult
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord, MemberMetadata
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, World

E = ErrorCode


def joined(w: World, *, count: int = 2) -> list[str]:
    tickets = [w.enter() for _ in range(count)]
    w.sleep(0)
    return [w.answers[ticket].member_id for ticket in tickets]


def test_a_follower_that_syncs_first_waits_for_the_leader(w: World) -> None:
    a, b = joined(w)
    early = w.sync(b, 1)
    assert early not in w.answers
    late = w.sync(a, 1, {a: b"one", b: b"two"})
    assert w.answers[early] == SyncResult(E.none, "consumer", "range", b"two")
    assert w.answers[late] == SyncResult(E.none, "consumer", "range", b"one")
    assert w.state is State.STABLE


def test_the_generation_is_written_down_with_all_that_a_restart_needs(w: World) -> None:
    a, b = joined(w)
    since = w.now
    w.sleep(7)
    w.sync(a, 1, {a: b"one", b: b"two"})
    members = tuple(
        MemberMetadata(m, None, "client", "/127.0.0.1", 60_000, 10_000, b"r", assignment)
        for m, assignment in ((a, b"one"), (b, b"two"))
    )
    assert w.log[-1] == GroupMetadataRecord(
        GROUP, GroupMetadata("consumer", 1, "range", a, since, members)
    )


def test_whom_the_leader_forgets_gets_nothing_and_strangers_get_nothing_either(w: World) -> None:
    a, b = joined(w)
    early = w.sync(b, 1)
    w.sync(a, 1, {a: b"one", "stranger": b"two"})
    assert w.answers[early].assignment == b""
    assert list(w.group.members) == [a, b]


def test_assignments_of_a_follower_are_ignored(w: World) -> None:
    a, b = joined(w)
    early = w.sync(b, 1, {a: b"mine", b: b"mine"})
    w.sync(a, 1, {a: b"one", b: b"two"})
    assert w.answers[early].assignment == b"two"


def test_the_last_of_two_assignments_for_a_member_counts(w: World) -> None:
    (a,) = joined(w, count=1)
    twice = ((a, b"first"), (a, b"last"))
    answer = w.tell(SyncGroup(GROUP, 1, a, None, None, None, twice))
    assert answer.assignment == b"last"


def test_in_a_stable_group_everybody_gets_its_assignment_again(w: World) -> None:
    _a, b = w.stable(None, None)
    before = dict(w.coordinator.deadlines)
    w.sleep(1)
    again = w.sync(b, 1)
    assert w.answers[again].assignment == b.encode()
    assert dict(w.coordinator.deadlines) == before, "its session does not begin anew"


def test_a_sync_that_takes_the_place_of_a_parked_one_leaves_that_unanswered(w: World) -> None:
    a, b = joined(w)
    lost, kept = w.sync(b, 1), w.sync(b, 1)
    w.sync(a, 1, {a: b"one", b: b"two"})
    assert lost not in w.answers
    assert w.answers[kept].assignment == b"two"


def test_a_parked_sync_keeps_its_member_alive_and_its_session_begins_with_the_answer(
    w: World,
) -> None:
    a, b = joined(w)
    parked = w.sync(b, 1)
    for _ in range(4):
        w.sleep(9_999)
        w.heartbeat(a, 1)
    w.sync(a, 1, {})
    assert w.answers[parked].error is E.none
    for _ in range(2):
        w.sleep(9_999)
        assert w.heartbeat(a, 1) is w.heartbeat(b, 1) is E.none


@pytest.mark.parametrize(
    ("protocol_type", "protocol_name", "error"),
    [
        (None, None, E.none),
        ("consumer", "range", E.none),
        ("connect", "range", E.inconsistent_group_protocol),
        ("consumer", "roundrobin", E.inconsistent_group_protocol),
    ],
)
def test_protocols_that_a_sync_names_must_be_those_of_the_group(
    w: World, protocol_type: str | None, protocol_name: str | None, error: ErrorCode
) -> None:
    (a,) = joined(w, count=1)
    ticket = w.sync(a, 1, {}, protocol_type=protocol_type, protocol_name=protocol_name)
    assert w.answers[ticket].error is error


def test_the_generation_is_looked_at_before_the_protocols_and_both_before_the_state(
    w: World,
) -> None:
    a, _ = w.stable(None, None)
    w.join(a)
    assert w.answers[w.sync(a, 2, protocol_type="x")].error is E.illegal_generation
    inconsistent = w.answers[w.sync(a, 1, protocol_type="x")]
    assert inconsistent.error is E.inconsistent_group_protocol
    assert w.answers[w.sync(a, 1)] == SyncResult(E.rebalance_in_progress, None, None, b"")


def test_the_empty_group_id_is_none(w: World) -> None:
    answer = w.tell(SyncGroup("", 1, "m", None, None, None, ()))
    assert answer.error is E.invalid_group_id


def test_what_was_assigned_is_forgotten_when_the_round_that_assigned_it_breaks_off(
    w: World,
) -> None:
    a, b = w.stable(None, None)
    w.join(a), w.join(b)
    assert w.state is State.COMPLETING_REBALANCE
    w.join(b, protocols=(("range", b"new"),))
    assert {m.assignment for m in w.group.members.values()} == {b""}
