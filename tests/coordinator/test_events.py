"""Events and log lines: the causes of rebalances and removals, in Kafka's wording."""

from dataclasses import replace

import pytest
from kohort.coordinator.classic.states import State
from kohort.coordinator.commands import TxnOffsetCommit
from kohort.coordinator.outcome import EventType
from kohort.offsets.causes import Cause, cause_of_leaving
from kohort.protocol.errors import ErrorCode
from support.coordinator import GROUP, CoordinatorHarness, offset_commit
from support.mixed_groups import consumer_protocols

T = EventType
E = ErrorCode


def test_a_joining_member_is_the_cause_and_its_reason_is_kept(harness: CoordinatorHarness) -> None:
    harness.join_dynamic(reason="starting")
    (event,) = harness.events_of(T.REBALANCE_STARTED)
    assert event.cause == "member joined"
    assert event.member_id == "client-1"
    assert event.reason == (
        "Adding new member client-1 with group instance id null; client reason: starting"
    )
    assert [e.reason for e in harness.events_of(T.JOIN_RECEIVED)] == ["starting", "starting"]
    assert harness.group.rebalance_reason == (Cause.MEMBER_JOINED, event.reason, ("client-1",))


def test_a_group_of_offsets_is_reported_as_created_once(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 1))
    harness.commit(("t", 0, 2))
    (event,) = harness.events_of(T.GROUP_CREATED)
    assert (event.generation, event.state_to) == (None, State.EMPTY)
    # The first member does not create the group again.
    harness.join_dynamic()
    assert len(harness.events_of(T.GROUP_CREATED)) == 1


def test_a_transaction_that_commits_offsets_creates_a_group_once(
    harness: CoordinatorHarness,
) -> None:
    commit = offset_commit(GROUP, [("t", 0, 1)])
    for command in (TxnOffsetCommit(commit, 7, 0), TxnOffsetCommit(commit, 7, 0), commit):
        harness.call(command)
    assert len(harness.events_of(T.GROUP_CREATED)) == 1


def test_a_commit_with_a_generation_creates_no_group(harness: CoordinatorHarness) -> None:
    harness.commit(generation=3, member_id="m")
    assert harness.events_of(T.GROUP_CREATED) == []


def test_a_joined_member_is_reported_with_its_client_id_and_host(
    harness: CoordinatorHarness,
) -> None:
    harness.join(instance="i", client="c")
    (event,) = harness.events_of(T.MEMBER_JOINED)
    assert (event.member_id, event.instance_id) == ("i-1", "i")
    assert (event.client_id, event.client_host) == ("c", "/127.0.0.1")


def test_an_unchanged_leader_that_rejoins_causes_a_rebalance(harness: CoordinatorHarness) -> None:
    a, _ = harness.stable_group(None, None)
    harness.join(a)
    assert harness.causes()[-1] == Cause.LEADER_REJOINED
    assert harness.group.rebalance_reason is not None
    assert harness.group.rebalance_reason.text == (
        f"Leader {a} re-joining group during Stable; client reason: not provided"
    )


@pytest.mark.parametrize(
    ("again", "cause"),
    [
        ((("roundrobin", b""), ("range", b"x")), Cause.METADATA_CHANGED),
        (consumer_protocols("t", "u"), Cause.SUBSCRIPTION_CHANGED),
        (consumer_protocols("t", owned={"t": (1,)}), Cause.COOPERATIVE_FOLLOWUP),
        (consumer_protocols("t", owned={"t": (1, 2, 3)}), Cause.METADATA_CHANGED),
        (
            (*consumer_protocols("t", owned={"t": (1, 2)}), ("roundrobin", b"")),
            Cause.METADATA_CHANGED,
        ),
    ],
)
def test_the_cause_names_what_a_follower_changed(
    harness: CoordinatorHarness, again: tuple[tuple[str, bytes], ...], cause: Cause
) -> None:
    _, b = harness.stable_group(None, None, protocols=consumer_protocols("t", owned={"t": (1, 2)}))
    harness.join(b, protocols=again)
    assert harness.causes()[-1] == cause


def test_owned_partitions_in_the_leaders_subscription_are_no_change(
    harness: CoordinatorHarness,
) -> None:
    a, _ = harness.stable_group(None, None, protocols=consumer_protocols("t"))
    harness.join(a, protocols=consumer_protocols("t", owned={"t": (1, 2)}))
    assert harness.causes()[-1] == Cause.LEADER_REJOINED


def test_dropping_the_selected_protocol_is_a_protocol_change(harness: CoordinatorHarness) -> None:
    both = (("range", b""), ("sticky", b""))
    _, b = harness.stable_group(None, None, protocols=both)
    harness.join(b, protocols=(("sticky", b""),))
    assert harness.causes()[-1] == Cause.PROTOCOL_CHANGED


def test_a_leaving_member_is_the_cause_and_its_reason_is_kept(harness: CoordinatorHarness) -> None:
    _, b = harness.stable_group(None, None)
    harness.leave(b, reason="the consumer is being closed")
    (event,) = harness.events_of(T.LEAVE_RECEIVED)
    assert (event.member_id, event.cause) == (b, Cause.LEFT_CLEANLY)
    assert event.reason == "the consumer is being closed"
    assert harness.causes()[-1] == Cause.LEFT_CLEANLY
    assert harness.group.rebalance_reason is not None
    assert (
        harness.group.rebalance_reason.text == f"explicit `LeaveGroup` request for ({b}) members."
    )


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        (None, Cause.LEFT_CLEANLY),
        ("consumer poll timeout has expired.", Cause.SLOW_POLL),
        ("member was removed by an admin: too old", Cause.REMOVED_BY_ADMIN),
    ],
)
def test_leave_reasons_of_java_clients_are_mapped_to_causes(
    reason: str | None, cause: Cause
) -> None:
    assert cause_of_leaving(reason) is cause


def test_removal_by_instance_id_is_by_an_administrator(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group("i")
    harness.leave(("", "i"))
    (event,) = harness.events_of(T.LEAVE_RECEIVED)
    assert (event.member_id, event.instance_id) == (a, "i")
    assert event.cause is Cause.REMOVED_BY_ADMIN


def test_a_rejected_leave_has_no_cause(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.leave("unknown")
    (event,) = harness.events_of(T.LEAVE_RECEIVED)
    assert (event.error, event.cause) == (E.unknown_member_id, None)


def test_an_expired_member_is_reported_with_the_age_of_its_heartbeat(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    harness.advance(4_000)
    harness.heartbeat(a, 1)
    harness.advance(6_000)
    (event,) = harness.events_of(T.MEMBER_EXPIRED)
    assert (event.member_id, event.cause) == (b, Cause.SESSION_TIMEOUT)
    assert event.duration_ms == 10_000
    assert event.detail == {"session_timeout_ms": "10000"}
    assert harness.causes()[-1] == "session expired"


def test_a_late_expiration_is_reported_with_the_actual_age(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.now += 25_000
    harness.advance(0)
    assert [e.duration_ms for e in harness.events_of(T.MEMBER_EXPIRED)] == [25_000]


def test_an_unused_member_id_expires_with_its_own_cause(harness: CoordinatorHarness) -> None:
    member_id = harness.request_member_id()
    harness.advance(10_000)
    (event,) = harness.events_of(T.MEMBER_EXPIRED)
    assert (event.member_id, event.cause) == (member_id, Cause.MEMBER_ID_NEVER_USED)


def test_a_member_that_does_not_rejoin_is_removed_by_the_rebalance_timeout(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None, session_ms=60_000, rebalance_ms=30_000)
    harness.join(a, session_ms=60_000, rebalance_ms=30_000)
    harness.advance(30_000)
    (event,) = harness.events_of(T.MEMBER_JOIN_TIMED_OUT)
    assert (event.member_id, event.cause) == (b, Cause.REBALANCE_TIMEOUT)
    assert event.duration_ms == 30_000


def test_a_member_that_never_syncs_is_the_cause_of_the_next_rebalance(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None, session_ms=60_000, rebalance_ms=30_000)
    harness.join(a, session_ms=60_000, rebalance_ms=30_000)
    harness.join(b, session_ms=60_000, rebalance_ms=30_000)
    harness.advance(10_000)
    harness.sync(a, 2, {})
    harness.advance(20_000)
    (event,) = harness.events_of(T.MEMBER_SYNC_TIMED_OUT)
    assert (event.member_id, event.cause, event.duration_ms) == (b, Cause.SYNC_TIMEOUT, 30_000)
    assert harness.causes()[-1] == Cause.SYNC_TIMEOUT
    assert harness.group.rebalance_reason is not None
    assert (
        harness.group.rebalance_reason.text == f"Removing [{b}] on pending sync request expiration"
    )


def test_a_returning_static_member_replaces_itself_without_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    (a,) = harness.stable_group("i")
    rebalances = len(harness.causes())
    harness.join(instance="i")
    (event,) = harness.events_of(T.MEMBER_REPLACED)
    assert (event.member_id, event.instance_id) == (a, "i")
    assert (event.cause, event.detail) == (Cause.STATIC_REPLACED, {"successor": "i-2"})
    assert len(harness.causes()) == rebalances
    assert harness.heartbeat(a, 1, instance="i") is E.fenced_instance_id
    (fenced,) = harness.events_of(T.MEMBER_FENCED)
    assert fenced.member_id == a
    assert fenced.detail == {"holder": "i-2", "operation": "heartbeat"}


def test_a_static_member_returning_during_the_sync_causes_a_rebalance(
    harness: CoordinatorHarness,
) -> None:
    harness.join(instance="i")
    harness.advance(0)
    harness.join(instance="i")
    assert harness.causes()[-1] == Cause.STATIC_REPLACED


def test_loading_a_group_over_the_size_limit_causes_a_rebalance() -> None:
    harness = CoordinatorHarness(group_initial_rebalance_delay_ms=0)
    harness.stable_group(None, None)
    harness.config = replace(harness.config, group_max_size=1)
    harness.restart()
    assert harness.causes()[-1] == Cause.GROUP_FULL
    unloaded, loaded = harness.events_of(T.GROUP_UNLOADED)[0], harness.events_of(T.GROUP_LOADED)[0]
    assert (unloaded.state_from, unloaded.state_to) == (State.STABLE, State.DEAD)
    assert (loaded.state_to, loaded.generation, loaded.detail) == (
        State.STABLE,
        1,
        {"members": "2"},
    )


def test_a_generation_is_reported_with_its_phases_and_its_cause(
    harness: CoordinatorHarness,
) -> None:
    a, b = harness.stable_group(None, None)
    harness.leave(b)
    harness.advance(700)
    harness.join(a)
    harness.advance(40)
    harness.sync(a, 2, {a: b""})
    joined, synced = (
        harness.events_of(T.JOIN_COMPLETED)[-1],
        harness.events_of(T.SYNC_COMPLETED)[-1],
    )
    assert (joined.generation, joined.duration_ms, joined.cause) == (2, 700, Cause.LEFT_CLEANLY)
    assert joined.detail == {
        "triggered_by": b,
        "members": "1",
        "static_members": "0",
        "leader": a,
        "protocol": "range",
    }
    assert (synced.generation, synced.duration_ms) == (2, 40)
    assert [(e.state_from, e.state_to) for e in harness.events_of(T.STATE_CHANGE)[-3:]] == [
        (State.STABLE, State.PREPARING_REBALANCE),
        (State.PREPARING_REBALANCE, State.COMPLETING_REBALANCE),
        (State.COMPLETING_REBALANCE, State.STABLE),
    ]


def test_a_group_is_reported_from_its_creation_to_its_deletion(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None)
    harness.commit(member_id=a, generation=1)
    harness.leave(a)
    harness.delete()
    events = [e for e in harness.events if e.type.startswith("group_")]
    assert [(e.type, e.cause) for e in events] == [
        (T.GROUP_CREATED, Cause.GROUP_CREATED),
        (T.GROUP_EMPTIED, Cause.LEFT_CLEANLY),
        (T.GROUP_DELETED, Cause.GROUP_DELETED),
    ]
    assert events[-1].detail == {"offsets": "1"}


def test_commits_are_reported_with_their_offsets_and_errors(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None)
    harness.commit(("t", 0, 5), ("t", 1, 6), member_id=a, generation=1)
    harness.commit(("t", 0, 7), member_id=a, generation=0)
    (accepted,), (rejected,) = (
        harness.events_of(T.COMMIT_ACCEPTED),
        harness.events_of(T.COMMIT_REJECTED),
    )
    assert (accepted.member_id, accepted.generation) == (a, 1)
    assert accepted.detail == {"t-0": "5", "t-1": "6"}
    assert (rejected.generation, rejected.error) == (0, E.illegal_generation)
    assert rejected.detail == {"t-0": "7"}


def test_rejected_joins_are_reported_with_their_error(harness: CoordinatorHarness) -> None:
    harness.stable_group(None)
    harness.join(protocols=(("other", b""),))
    harness.join("unknown")
    assert [e.error for e in harness.events_of(T.JOIN_REJECTED)] == [
        E.inconsistent_group_protocol,
        E.unknown_member_id,
    ]


def test_offsets_deleted_by_an_administrator_are_counted(harness: CoordinatorHarness) -> None:
    harness.commit(("t", 0, 5), ("t", 1, 6))
    harness.delete_offsets(("t", (0, 1, 2)))
    assert [e.detail for e in harness.events_of(T.OFFSETS_DELETED)] == [{"offsets": "2"}]


# Logged by Kafka 4.3 for a consumer that joined and left; A is its member id.
KAFKA_LINES = """
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


def test_log_lines_have_the_wording_of_kafka(harness: CoordinatorHarness) -> None:
    (a,) = harness.stable_group(None, client="A")
    harness.leave(a)
    lines = [line.replace(a, "A") for line in harness.log_lines]
    assert lines == [" ".join(line.split()) for line in KAFKA_LINES.split("\n\n")]
