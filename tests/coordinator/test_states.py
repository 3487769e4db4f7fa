"""The response to each request in each state: the table in states.py."""

from collections.abc import Callable
from typing import Any

import pytest
from kohort.coordinator.classic.states import HEARTBEAT_ERROR, VALID_TRANSITIONS, State
from kohort.coordinator.commands import TxnOffsetCommit
from kohort.offsets.records import TransactionEnd
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, offset_commit
from support.mixed_groups import consumer_protocols

E = ErrorCode
SUBSCRIBED_TO_T, CHANGED = consumer_protocols("t"), consumer_protocols("t", owned={"t": (0,)})
WAITS = "waits"


def reach(state: State) -> tuple[CoordinatorHarness, list[str]]:
    """Create a group in this state, at generation 1, with long timeouts, and with a leader and a
    follower, which are removed if the state is Empty."""
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    long = {"session_ms": 1_000_000, "rebalance_ms": 1_000_000, "protocols": SUBSCRIBED_TO_T}
    if state is State.COMPLETING_REBALANCE:
        tickets = [harness.join_dynamic(**long), harness.join_dynamic(**long)]
        harness.advance(0)
        ids = [harness.results[ticket].member_id for ticket in tickets]
    else:
        ids = harness.stable_group(None, None, **long)
    if state is State.PREPARING_REBALANCE:
        harness.join_dynamic(**long)
    if state is State.EMPTY:
        harness.leave(*ids)
    assert harness.state is state
    return harness, ids


def join(harness: CoordinatorHarness, member_id: str, changed: bool) -> ErrorCode | str:
    ticket = harness.join(member_id, protocols=CHANGED if changed else SUBSCRIBED_TO_T)
    return harness.results[ticket].error_code if ticket in harness.results else WAITS


def sync(harness: CoordinatorHarness, member_id: str) -> ErrorCode | str:
    ticket = harness.sync(member_id, harness.group.generation)
    return harness.results[ticket].error_code if ticket in harness.results else WAITS


def leave(harness: CoordinatorHarness, member_id: str) -> ErrorCode:
    response = harness.leave(member_id)
    assert response.error_code is E.none
    error = response.members[0].error_code
    assert isinstance(error, ErrorCode)
    return error


def commit(harness: CoordinatorHarness, member_id: str) -> ErrorCode:
    error = harness.commit(member_id=member_id, generation=harness.group.generation)
    assert isinstance(error, ErrorCode)
    return error


def commit_in_transaction(harness: CoordinatorHarness, **member: Any) -> ErrorCode:
    """The offset counts, and is in the log, only if there is no error."""
    records = len(harness.log)
    command = TxnOffsetCommit(offset_commit(GROUP, [("t", 0, 5)], **member), 7, 0)
    (error,) = harness.call(command).errors
    assert (len(harness.log) > records) == (error is E.none)
    harness.append(TransactionEnd(7, 0, 0, is_commit=True))
    (found,) = harness.fetch(("t", (0,))).topics[0][1]
    assert found.committed_offset == (5 if error is E.none else -1)
    return error


REQUESTS: dict[str, Callable[[CoordinatorHarness, str, str], ErrorCode | str]] = {
    "join, new": lambda harness, a, b: join(harness, "", False),
    "join, leader, same": lambda harness, a, b: join(harness, a, False),
    "join, leader, changed": lambda harness, a, b: join(harness, a, True),
    "join, follower, same": lambda harness, a, b: join(harness, b, False),
    "join, follower, changed": lambda harness, a, b: join(harness, b, True),
    "join, unknown member": lambda harness, a, b: join(harness, "unknown member", False),
    "sync, leader": lambda harness, a, b: sync(harness, a),
    "sync, follower": lambda harness, a, b: sync(harness, b),
    "sync, unknown member": lambda harness, a, b: sync(harness, "unknown member"),
    "heartbeat": lambda harness, a, b: harness.heartbeat(b, harness.group.generation),
    "heartbeat, old generation": lambda harness, a, b: harness.heartbeat(
        b, harness.group.generation - 1
    ),
    "heartbeat, unknown member": lambda harness, a, b: harness.heartbeat("unknown member", 1),
    "leave": lambda harness, a, b: leave(harness, b),
    "leave, unknown member": lambda harness, a, b: leave(harness, "unknown member"),
    "commit": lambda harness, a, b: commit(harness, b),
    "commit, old generation": lambda harness, a, b: harness.commit(member_id=b, generation=0),
    "commit, member without generation": lambda harness, a, b: harness.commit(member_id=b),
    "commit, instance only": lambda harness, a, b: harness.commit(instance="i"),
    "commit, standalone": lambda harness, a, b: harness.commit(),
    "commit, unknown member": lambda harness, a, b: commit(harness, "unknown member"),
    "transactional": lambda harness, a, b: commit_in_transaction(
        harness, member_id=b, generation=harness.group.generation
    ),
    "transactional, old generation": lambda harness, a, b: commit_in_transaction(
        harness, member_id=b, generation=0
    ),
    "transactional, member without generation": lambda harness, a, b: commit_in_transaction(
        harness, member_id=b
    ),
    "transactional, instance only": lambda harness, a, b: commit_in_transaction(
        harness, instance="i"
    ),
    "transactional, standalone": lambda harness, a, b: commit_in_transaction(harness),
    "transactional, unknown member": lambda harness, a, b: commit_in_transaction(
        harness, member_id="unknown member", generation=harness.group.generation
    ),
    "describe": lambda harness, a, b: harness.describe().error_code,
    "delete the group": lambda harness, a, b: harness.delete(),
    "delete offsets of t": lambda harness, a, b: harness.delete_offsets(("t", (0,)))[0],
    "delete offsets of u": lambda harness, a, b: harness.delete_offsets(("u", (0,)))[0],
}
UNKNOWN, ILLEGAL, REBALANCE = E.unknown_member_id, E.illegal_generation, E.rebalance_in_progress
ID_REQUIRED = E.member_id_required
NON_EMPTY, SUBSCRIBED = E.non_empty_group, E.group_subscribed_to_topic
COLUMNS = (
    State.EMPTY,
    State.PREPARING_REBALANCE,
    State.COMPLETING_REBALANCE,
    State.STABLE,
)
RESPONSES: dict[str, tuple[ErrorCode | str, ...]] = {
    "join, new": (ID_REQUIRED, ID_REQUIRED, ID_REQUIRED, ID_REQUIRED),
    "join, leader, same": (UNKNOWN, WAITS, E.none, WAITS),
    "join, leader, changed": (UNKNOWN, WAITS, WAITS, WAITS),
    "join, follower, same": (UNKNOWN, WAITS, E.none, E.none),
    "join, follower, changed": (UNKNOWN, WAITS, WAITS, WAITS),
    "join, unknown member": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "sync, leader": (UNKNOWN, REBALANCE, E.none, E.none),
    "sync, follower": (UNKNOWN, REBALANCE, WAITS, E.none),
    "sync, unknown member": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "heartbeat": (UNKNOWN, REBALANCE, E.none, E.none),
    "heartbeat, old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    "heartbeat, unknown member": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "leave": (UNKNOWN, E.none, E.none, E.none),
    "leave, unknown member": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "commit": (UNKNOWN, E.none, REBALANCE, E.none),
    "commit, old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    "commit, member without generation": (E.none, ILLEGAL, ILLEGAL, ILLEGAL),
    "commit, instance only": (E.none, UNKNOWN, UNKNOWN, UNKNOWN),
    "commit, standalone": (E.none, UNKNOWN, UNKNOWN, UNKNOWN),
    "commit, unknown member": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "transactional": (UNKNOWN, E.none, E.none, E.none),
    "transactional, old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    "transactional, member without generation": (E.none, ILLEGAL, ILLEGAL, ILLEGAL),
    "transactional, instance only": (E.none, UNKNOWN, UNKNOWN, UNKNOWN),
    "transactional, standalone": (E.none, E.none, E.none, E.none),
    "transactional, unknown member": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "describe": (E.none, E.none, E.none, E.none),
    "delete the group": (E.none, NON_EMPTY, NON_EMPTY, NON_EMPTY),
    "delete offsets of t": (E.none, SUBSCRIBED, SUBSCRIBED, SUBSCRIBED),
    "delete offsets of u": (E.none, E.none, E.none, E.none),
}
CELLS = [
    (request, state, response)
    for request, responses in RESPONSES.items()
    for state, response in zip(COLUMNS, responses, strict=True)
]


@pytest.mark.parametrize(
    ("request_", "state", "response"), CELLS, ids=lambda cell: str(getattr(cell, "name", cell))
)
def test_each_state_responds_to_each_request(
    request_: str, state: State, response: ErrorCode | str
) -> None:
    harness, (leader, follower) = reach(state)
    assert REQUESTS[request_](harness, leader, follower) is response


def test_requests_to_an_unknown_group_create_nothing(harness: CoordinatorHarness) -> None:
    assert harness.heartbeat("m", 1) is UNKNOWN
    assert harness.results[harness.sync("m", 1)].error_code is UNKNOWN
    left = harness.leave("m", ("", "i"))
    assert left.error_code is E.none
    assert [member.error_code for member in left.members] == [UNKNOWN, UNKNOWN]
    assert harness.fetch().topics == ()
    assert harness.describe().error_code is E.group_id_not_found
    assert harness.delete() is E.group_id_not_found
    assert harness.delete_offsets(("t", (0,))) is E.group_id_not_found
    assert not harness.coordinator.groups
    assert not harness.log


@pytest.mark.parametrize("state", VALID_TRANSITIONS)
def test_only_valid_transitions_are_allowed(harness: CoordinatorHarness, state: State) -> None:
    harness.request_member_id()
    for follower in State:
        harness.group.state = state
        if follower in VALID_TRANSITIONS[state]:
            harness.group.transition(follower, harness.now)
            assert (harness.group.previous_state, harness.group.state) == (state, follower)
        else:
            with pytest.raises(AssertionError):
                harness.group.transition(follower, harness.now)


def test_every_state_with_members_has_a_heartbeat_error() -> None:
    assert set(HEARTBEAT_ERROR) == set(State) - {State.EMPTY, State.DEAD}
