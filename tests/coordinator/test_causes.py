"""Every round has its cause and Kafka's words for it, every exit its cause."""

from dataclasses import replace

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause, cause_of_leaving
from kohort.protocol.consumer_protocol import Subscription, TopicPartitions, encode_subscription
from kohort.protocol.errors import ErrorCode
from support.coordinator import World

T = EventType
E = ErrorCode


def says(*topics: str, owned: tuple[int, ...] = ()) -> tuple[tuple[str, bytes], ...]:
    mine = (TopicPartitions(topics[0], owned),) if owned else ()
    return (("range", encode_subscription(Subscription(topics, None, mine))),)


def test_a_member_that_joins_is_the_cause_and_its_reason_is_kept(w: World) -> None:
    w.enter(reason="I am new")
    (event,) = w.told(T.REBALANCE_STARTED)
    assert event.cause == "member joined"
    assert event.member_id == "client-1"
    assert event.reason == (
        "Adding new member client-1 with group instance id null; client reason: I am new"
    )
    assert [e.reason for e in w.told(T.JOIN_RECEIVED)] == ["I am new", "I am new"]
    assert w.group.rebalance_reason == (Cause.MEMBER_JOINED, event.reason, ("client-1",))


def test_a_group_that_only_keeps_offsets_is_told_of_when_it_comes_and_once(w: World) -> None:
    w.commit(("t", 0, 1))
    w.commit(("t", 0, 2))
    (event,) = w.told(T.GROUP_CREATED)
    assert (event.generation, event.state_to) == (None, State.EMPTY)
    # Its first member finds it there.
    w.enter()
    assert len(w.told(T.GROUP_CREATED)) == 1


def test_a_commit_for_a_generation_of_an_unknown_group_makes_none(w: World) -> None:
    w.commit(generation=3, member_id="m")
    assert w.told(T.GROUP_CREATED) == []


def test_a_member_is_told_with_all_that_is_known_of_its_client(w: World) -> None:
    w.join(instance="i", client="c")
    (event,) = w.told(T.MEMBER_JOINED)
    assert (event.member_id, event.instance_id) == ("i-1", "i")
    assert (event.client_id, event.client_host) == ("c", "/127.0.0.1")


def test_a_leader_that_joins_again_unchanged_asks_for_a_new_assignment(w: World) -> None:
    a, _ = w.stable(None, None)
    w.join(a)
    assert w.causes()[-1] == Cause.LEADER_REJOINED
    assert w.group.rebalance_reason is not None
    assert w.group.rebalance_reason.text == (
        f"Leader {a} re-joining group during Stable; client reason: not provided"
    )


@pytest.mark.parametrize(
    ("again", "cause"),
    [
        ((("roundrobin", b""), ("range", b"x")), Cause.METADATA_CHANGED),
        (says("t", "u"), Cause.SUBSCRIPTION_CHANGED),
        (says("t", owned=(1,)), Cause.COOPERATIVE_FOLLOWUP),
        (says("t", owned=(1, 2, 3)), Cause.METADATA_CHANGED),
        ((*says("t", owned=(1, 2)), ("roundrobin", b"")), Cause.METADATA_CHANGED),
    ],
)
def test_a_follower_that_changed_is_told_apart_by_what_it_changed(
    w: World, again: tuple[tuple[str, bytes], ...], cause: Cause
) -> None:
    _, b = w.stable(None, None, protocols=says("t", owned=(1, 2)))
    w.join(b, protocols=again)
    assert w.causes()[-1] == cause


def test_a_leader_whose_subscription_tells_of_its_new_partitions_has_changed_nothing(
    w: World,
) -> None:
    a, _ = w.stable(None, None, protocols=says("t"))
    w.join(a, protocols=says("t", owned=(1, 2)))
    assert w.causes()[-1] == Cause.LEADER_REJOINED


def test_who_gives_up_the_elected_protocol_changes_the_protocol(w: World) -> None:
    both = (("range", b""), ("sticky", b""))
    _, b = w.stable(None, None, protocols=both)
    w.join(b, protocols=(("sticky", b""),))
    assert w.causes()[-1] == Cause.PROTOCOL_CHANGED


def test_a_member_that_leaves_is_the_cause_and_its_reason_is_kept(w: World) -> None:
    _, b = w.stable(None, None)
    w.leave(b, reason="the consumer is being closed")
    (event,) = w.told(T.LEAVE_RECEIVED)
    assert (event.member_id, event.cause) == (b, Cause.LEFT_CLEANLY)
    assert event.reason == "the consumer is being closed"
    assert w.causes()[-1] == Cause.LEFT_CLEANLY
    assert w.group.rebalance_reason is not None
    assert w.group.rebalance_reason.text == f"explicit `LeaveGroup` request for ({b}) members."


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (None, Cause.LEFT_CLEANLY),
        ("consumer poll timeout has expired.", Cause.SLOW_POLL),
        ("member was removed by an admin: too old", Cause.REMOVED_BY_ADMIN),
    ],
)
def test_what_java_clients_say_when_they_leave_is_understood(
    reason: str | None, cause: Cause
) -> None:
    assert cause_of_leaving(reason) is cause


def test_who_is_sent_away_by_its_instance_id_was_removed_by_an_administrator(w: World) -> None:
    (a,) = w.stable("i")
    w.leave(("", "i"))
    (event,) = w.told(T.LEAVE_RECEIVED)
    assert (event.member_id, event.instance_id) == (a, "i")
    assert event.cause is Cause.REMOVED_BY_ADMIN


def test_a_leave_that_is_refused_is_nobodys_exit(w: World) -> None:
    w.stable(None)
    w.leave("stranger")
    (event,) = w.told(T.LEAVE_RECEIVED)
    assert (event.error, event.cause) == (E.unknown_member_id, None)


def test_a_member_that_dies_is_told_with_the_age_of_its_last_heartbeat(w: World) -> None:
    a, b = w.stable(None, None)
    w.sleep(4_000)
    w.heartbeat(a, 1)
    w.sleep(6_000)
    (event,) = w.told(T.MEMBER_EXPIRED)
    assert (event.member_id, event.cause) == (b, Cause.SESSION_TIMEOUT)
    assert event.duration_ms == 10_000
    assert event.detail == {"session_timeout_ms": "10000"}
    assert w.causes()[-1] == "session expired"


def test_a_session_that_is_looked_at_too_late_is_told_with_its_real_age(w: World) -> None:
    w.stable(None)
    w.now += 25_000
    w.sleep(0)
    assert [e.duration_ms for e in w.told(T.MEMBER_EXPIRED)] == [25_000]


def test_an_id_that_nobody_joins_with_expires_as_such(w: World) -> None:
    member_id = w.new_id()
    w.sleep(10_000)
    (event,) = w.told(T.MEMBER_EXPIRED)
    assert (event.member_id, event.cause) == (member_id, Cause.MEMBER_ID_NEVER_USED)


def test_who_does_not_join_the_round_in_time_goes_by_the_rebalance_timeout(w: World) -> None:
    a, b = w.stable(None, None, session_ms=60_000, rebalance_ms=30_000)
    w.join(a, session_ms=60_000, rebalance_ms=30_000)
    w.sleep(30_000)
    (event,) = w.told(T.MEMBER_JOIN_TIMED_OUT)
    assert (event.member_id, event.cause) == (b, Cause.REBALANCE_TIMEOUT)
    assert event.duration_ms == 30_000


def test_who_never_syncs_is_the_cause_of_the_next_round(w: World) -> None:
    a, b = w.stable(None, None, session_ms=60_000, rebalance_ms=30_000)
    w.join(a, session_ms=60_000, rebalance_ms=30_000)
    w.join(b, session_ms=60_000, rebalance_ms=30_000)
    w.sync(a, 2, {})
    w.sleep(30_000)
    (event,) = w.told(T.MEMBER_SYNC_TIMED_OUT)
    assert (event.member_id, event.cause, event.duration_ms) == (b, Cause.SYNC_TIMEOUT, 30_000)
    assert w.causes()[-1] == Cause.SYNC_TIMEOUT
    assert w.group.rebalance_reason is not None
    assert w.group.rebalance_reason.text == f"Removing [{b}] on pending sync request expiration"


def test_a_static_member_that_comes_back_replaces_itself_without_a_round(w: World) -> None:
    (a,) = w.stable("i")
    rounds = len(w.causes())
    w.join(instance="i")
    (event,) = w.told(T.MEMBER_REPLACED)
    assert (event.member_id, event.instance_id) == (a, "i")
    assert (event.cause, event.detail) == (Cause.STATIC_REPLACED, {"successor": "i-2"})
    assert len(w.causes()) == rounds
    assert w.heartbeat(a, 1, instance="i") is E.fenced_instance_id
    (fenced,) = w.told(T.MEMBER_FENCED)
    assert fenced.member_id == a
    assert fenced.detail == {"holder": "i-2", "operation": "heartbeat"}


def test_a_static_member_that_comes_back_while_others_sync_is_the_cause_of_a_round(
    w: World,
) -> None:
    w.join(instance="i")
    w.sleep(0)
    w.join(instance="i")
    assert w.causes()[-1] == Cause.STATIC_REPLACED


def test_a_group_that_was_loaded_too_large_says_so() -> None:
    w = World(group_initial_rebalance_delay_ms=0)
    w.stable(None, None)
    w.config = replace(w.config, group_max_size=1)
    w.restart()
    assert w.causes()[-1] == Cause.GROUP_FULL
    unloaded, loaded = w.told(T.GROUP_UNLOADED)[0], w.told(T.GROUP_LOADED)[0]
    assert (unloaded.state_from, unloaded.state_to) == (State.STABLE, State.DEAD)
    assert (loaded.state_to, loaded.generation, loaded.detail) == (
        State.STABLE,
        1,
        {"members": "2"},
    )


def test_a_generation_is_told_with_its_phases_and_the_reason_that_it_carries(w: World) -> None:
    a, b = w.stable(None, None)
    w.leave(b)
    w.sleep(700)
    w.join(a)
    w.sleep(40)
    w.sync(a, 2, {a: b""})
    joined, synced = w.told(T.JOIN_COMPLETED)[-1], w.told(T.SYNC_COMPLETED)[-1]
    assert (joined.generation, joined.duration_ms, joined.cause) == (2, 700, Cause.LEFT_CLEANLY)
    assert joined.detail == {
        "triggered_by": b,
        "members": "1",
        "static_members": "0",
        "leader": a,
        "protocol": "range",
    }
    assert (synced.generation, synced.duration_ms) == (2, 40)
    assert [(e.state_from, e.state_to) for e in w.told(T.STATE_CHANGE)[-3:]] == [
        (State.STABLE, State.PREPARING_REBALANCE),
        (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE),
        (State.COMPLETING_REBALANCE, State.STABLE),
    ]


def test_the_life_of_a_group_is_told_from_its_first_join_to_its_deletion(w: World) -> None:
    (a,) = w.stable(None)
    w.commit(member_id=a, generation=1)
    w.leave(a)
    w.delete()
    told = [e for e in w.events if e.type.startswith("group_")]
    assert [(e.type, e.cause) for e in told] == [
        (T.GROUP_CREATED, Cause.GROUP_CREATED),
        (T.GROUP_EMPTIED, Cause.LEFT_CLEANLY),
        (T.GROUP_DELETED, Cause.GROUP_DELETED),
    ]
    assert told[-1].detail == {"offsets": "1"}


def test_commits_are_told_with_their_offsets_and_rejected_ones_with_their_error(w: World) -> None:
    (a,) = w.stable(None)
    w.commit(("t", 0, 5), ("t", 1, 6), member_id=a, generation=1)
    w.commit(("t", 0, 7), member_id=a, generation=0)
    (accepted,), (rejected,) = w.told(T.COMMIT_ACCEPTED), w.told(T.COMMIT_REJECTED)
    assert (accepted.member_id, accepted.generation) == (a, 1)
    assert accepted.detail == {"t-0": "5", "t-1": "6"}
    assert (rejected.generation, rejected.error) == (0, E.illegal_generation)
    assert rejected.detail == {"t-0": "7"}


def test_joins_that_are_refused_are_told_with_their_error(w: World) -> None:
    w.stable(None)
    w.join(protocols=(("other", b""),))
    w.join("stranger")
    assert [e.error for e in w.told(T.JOIN_REJECTED)] == [
        E.inconsistent_group_protocol,
        E.unknown_member_id,
    ]


def test_offsets_that_an_administrator_deletes_are_counted(w: World) -> None:
    w.commit(("t", 0, 5), ("t", 1, 6))
    w.delete_offsets(("t", (0, 1, 2)))
    assert [e.detail for e in w.told(T.OFFSETS_DELETED)] == [{"offsets": "2"}]


# What Kafka 4.3 logged of one consumer that came and went; A stands for its id.
KAFKAS_LINES = """
Dynamic member with unknown member id joins group orders in Empty state.
Created a new member id A and requesting the member to rejoin with this id.

Pending dynamic member with id A joins group orders in Empty state. Adding to the group now.

Preparing to rebalance group orders in state PreparingRebalance with old generation 0
(reason: Adding new member A with group instance id null; client reason: not provided).

Stabilized group orders generation 1 with 1 members.

Assignment received from leader A for group orders for generation 1.
The group has 1 members, 0 of which are static.

[Group orders] Member A has left group through explicit `LeaveGroup` request;
client reason: not provided

Preparing to rebalance group orders in state PreparingRebalance with old generation 1
(reason: explicit `LeaveGroup` request for (A) members.).

Group orders with generation 2 is now empty.
"""


def test_log_lines_have_kafkas_wording(w: World) -> None:
    (a,) = w.stable(None, client="A")
    w.leave(a)
    lines = [line.replace(a, "A") for line in w.lines]
    assert lines == [" ".join(line.split()) for line in KAFKAS_LINES.split("\n\n")]
