"""Each state and what it answers to each request: the text of states.py, row by row."""

from collections.abc import Callable

import pytest
from kohort.coordinator.classic.states import HEARTBEAT_ERROR, VALID_TRANSITIONS, State
from kohort.protocol.consumer_protocol import Subscription, encode_subscription
from kohort.protocol.errors import ErrorCode
from support.coordinator import World

E = ErrorCode
READS_T = (("range", encode_subscription(Subscription(("t",)))),)
CHANGED = (("range", encode_subscription(Subscription(("t",), b"changed"))),)
WAITS = "waits"


def reach(state: State) -> tuple[World, list[str]]:
    """A group in `state`, last generation 1, with a leader and a follower (who are gone from an
    Empty one). Sessions and rounds are long."""
    w = World(group_initial_rebalance_delay_ms=0)
    long = {"session_ms": 1_000_000, "rebalance_ms": 1_000_000, "protocols": READS_T}
    if state is State.COMPLETING_REBALANCE:
        tickets = [w.enter(**long), w.enter(**long)]
        w.sleep(0)
        ids = [w.answers[ticket].member_id for ticket in tickets]
    else:
        ids = w.stable(None, None, **long)
    if state is State.PREPARING_REBALANCE:
        w.enter(**long)
    if state is State.EMPTY:
        w.leave(*ids)
    assert w.state is state
    return w, ids


def joining(w: World, member_id: str, changed: bool) -> ErrorCode | str:
    ticket = w.join(member_id, protocols=CHANGED if changed else READS_T)
    return w.answers[ticket].error if ticket in w.answers else WAITS


def syncing(w: World, member_id: str) -> ErrorCode | str:
    ticket = w.sync(member_id, w.group.generation)
    return w.answers[ticket].error if ticket in w.answers else WAITS


def leaving(w: World, member_id: str) -> ErrorCode:
    answer = w.leave(member_id)
    assert answer.error is E.none
    error = answer.members[0].error
    assert isinstance(error, ErrorCode)
    return error


def committing(w: World, member_id: str) -> ErrorCode:
    error = w.commit(member_id=member_id, generation=w.group.generation)
    assert isinstance(error, ErrorCode)
    return error


REQUESTS: dict[str, Callable[[World, str, str], ErrorCode | str]] = {
    "join, new": lambda w, a, b: joining(w, "", False),
    "join, leader, same": lambda w, a, b: joining(w, a, False),
    "join, leader, changed": lambda w, a, b: joining(w, a, True),
    "join, follower, same": lambda w, a, b: joining(w, b, False),
    "join, follower, changed": lambda w, a, b: joining(w, b, True),
    "join, stranger": lambda w, a, b: joining(w, "stranger", False),
    "sync, leader": lambda w, a, b: syncing(w, a),
    "sync, follower": lambda w, a, b: syncing(w, b),
    "sync, stranger": lambda w, a, b: syncing(w, "stranger"),
    "heartbeat": lambda w, a, b: w.heartbeat(b, w.group.generation),
    "heartbeat, old generation": lambda w, a, b: w.heartbeat(b, w.group.generation - 1),
    "heartbeat, stranger": lambda w, a, b: w.heartbeat("stranger", 1),
    "leave": lambda w, a, b: leaving(w, b),
    "leave, stranger": lambda w, a, b: leaving(w, "stranger"),
    "commit": lambda w, a, b: committing(w, b),
    "commit, old generation": lambda w, a, b: w.commit(member_id=b, generation=0),
    "commit, member without generation": lambda w, a, b: w.commit(member_id=b),
    "commit, instance only": lambda w, a, b: w.commit(instance="i"),
    "commit, nobody": lambda w, a, b: w.commit(),
    "commit, stranger": lambda w, a, b: committing(w, "stranger"),
    "describe": lambda w, a, b: w.describe().error,
    "delete the group": lambda w, a, b: w.delete(),
    "delete offsets of t": lambda w, a, b: w.delete_offsets(("t", (0,)))[0],
    "delete offsets of u": lambda w, a, b: w.delete_offsets(("u", (0,)))[0],
}
UNKNOWN, ILLEGAL, AGAIN = E.unknown_member_id, E.illegal_generation, E.rebalance_in_progress
IDS = E.member_id_required
NON_EMPTY, SUBSCRIBED = E.non_empty_group, E.group_subscribed_to_topic
COLUMNS = (
    State.EMPTY,
    State.PREPARING_REBALANCE,
    State.COMPLETING_REBALANCE,
    State.STABLE,
)
ANSWERS: dict[str, tuple[ErrorCode | str, ...]] = {
    "join, new": (IDS, IDS, IDS, IDS),
    "join, leader, same": (UNKNOWN, WAITS, E.none, WAITS),
    "join, leader, changed": (UNKNOWN, WAITS, WAITS, WAITS),
    "join, follower, same": (UNKNOWN, WAITS, E.none, E.none),
    "join, follower, changed": (UNKNOWN, WAITS, WAITS, WAITS),
    "join, stranger": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "sync, leader": (UNKNOWN, AGAIN, E.none, E.none),
    "sync, follower": (UNKNOWN, AGAIN, WAITS, E.none),
    "sync, stranger": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "heartbeat": (UNKNOWN, AGAIN, E.none, E.none),
    "heartbeat, old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    "heartbeat, stranger": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "leave": (UNKNOWN, E.none, E.none, E.none),
    "leave, stranger": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "commit": (UNKNOWN, E.none, AGAIN, E.none),
    "commit, old generation": (UNKNOWN, ILLEGAL, ILLEGAL, ILLEGAL),
    "commit, member without generation": (E.none, ILLEGAL, ILLEGAL, ILLEGAL),
    "commit, instance only": (E.none, UNKNOWN, UNKNOWN, UNKNOWN),
    "commit, nobody": (E.none, UNKNOWN, UNKNOWN, UNKNOWN),
    "commit, stranger": (UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN),
    "describe": (E.none, E.none, E.none, E.none),
    "delete the group": (E.none, NON_EMPTY, NON_EMPTY, NON_EMPTY),
    "delete offsets of t": (E.none, SUBSCRIBED, SUBSCRIBED, SUBSCRIBED),
    "delete offsets of u": (E.none, E.none, E.none, E.none),
}
CELLS = [
    (request, state, answer)
    for request, answers in ANSWERS.items()
    for state, answer in zip(COLUMNS, answers, strict=True)
]


@pytest.mark.parametrize(
    ("request_", "state", "answer"), CELLS, ids=lambda cell: str(getattr(cell, "name", cell))
)
def test_each_state_answers_each_request(
    request_: str, state: State, answer: ErrorCode | str
) -> None:
    w, (leader, follower) = reach(state)
    assert REQUESTS[request_](w, leader, follower) is answer


def test_a_group_that_nobody_knows_answers_too(w: World) -> None:
    assert w.heartbeat("m", 1) is UNKNOWN
    assert w.answers[w.sync("m", 1)].error is UNKNOWN
    left = w.leave("m", ("", "i"))
    assert left.error is E.none
    assert [member.error for member in left.members] == [UNKNOWN, UNKNOWN]
    assert w.fetch().topics == ()
    assert w.describe().error is E.group_id_not_found
    assert w.delete() is E.group_id_not_found
    assert w.delete_offsets(("t", (0,))) is E.group_id_not_found
    assert not w.coordinator.groups
    assert not w.log


@pytest.mark.parametrize("state", State)
def test_only_what_the_table_allows_may_follow(w: World, state: State) -> None:
    w.new_id()
    for follower in State:
        w.group.state = state
        if follower in VALID_TRANSITIONS[state]:
            w.group.transition(follower, w.now)
            assert (w.group.previous_state, w.group.state) == (state, follower)
        else:
            with pytest.raises(AssertionError):
                w.group.transition(follower, w.now)


def test_every_state_that_has_members_has_an_answer_to_their_heartbeats() -> None:
    assert set(HEARTBEAT_ERROR) == set(State) - {State.EMPTY, State.DEAD}
