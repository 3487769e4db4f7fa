"""Rebalances that the event log covers have an exact cause (docs/events.md)."""

import pytest
from history_builder import (
    A_ALONE,
    COOPERATIVE,
    LEFT_AT_MS,
    MINUTE,
    A,
    B,
    HistoryBuilder,
    cause_and_confidence,
    last_rebalance,
    member,
    only_exit,
    partitions,
    without_b,
)
from kohort.pipeline.diagnosis.rebalances import explain

CLOSED = "the consumer is being closed"

# --- causes


def joined_while_b_is_busy() -> HistoryBuilder:
    """c joins, a rejoins immediately, b does not and is removed after the rebalance timeout."""
    c = member("c", 2)
    history = HistoryBuilder(A, B)
    history.commits(A, B, until=MINUTE)
    at = MINUTE + 300_000
    history.event("member_joined", MINUTE, c)
    history.event("join_received", MINUTE + 2_000, A)
    history.event("member_join_timed_out", at, B, cause="REBALANCE_TIMEOUT", duration_ms=300_000)
    history.generation(A, c, at=at)
    history.rebalance_events("MEMBER_JOINED", c, at=at, took=300_000)
    return history


def test_the_cause_is_that_of_the_start_and_the_slowest_member_is_named() -> None:
    history = joined_while_b_is_busy()
    row = last_rebalance(history)
    assert cause_and_confidence(row) == ("MEMBER_JOINED", "exact")
    assert (row.waited_for, row.wait_ms, row.join_ms) == ("b-1", 300_000, 300_000)
    assert cause_and_confidence(only_exit(history)) == ("REBALANCE_TIMEOUT", "exact")


def test_the_last_member_to_rejoin_was_waited_for() -> None:
    c = member("c", 2)
    history = HistoryBuilder(A, B)
    history.generation(A, B, c, at=2 * MINUTE)
    history.event("join_received", MINUTE + 2_000, A)
    history.event("join_received", 2 * MINUTE, B)
    history.rebalance_events("MEMBER_JOINED", c, at=2 * MINUTE, took=MINUTE)
    assert (last_rebalance(history).waited_for, last_rebalance(history).wait_ms) == ("b-1", MINUTE)


def test_a_rebalance_that_all_members_join_quickly_waited_for_none() -> None:
    c = member("c", 2)
    history = HistoryBuilder(A, B)
    history.generation(A, B, c, at=2 * MINUTE)
    history.event("join_received", 2 * MINUTE - 1_000, A)
    history.event("join_received", 2 * MINUTE, B)
    history.rebalance_events("MEMBER_JOINED", c, at=2 * MINUTE)
    assert (last_rebalance(history).waited_for, last_rebalance(history).wait_ms) == (None, None)


def test_durations_are_those_of_the_events() -> None:
    history = without_b(1_000)
    history.rebalance_events("LEFT_CLEANLY", B)
    row = last_rebalance(history)
    assert (row.join_ms, row.sync_ms) == (3_000, 20)
    assert row.joined_at is not None
    assert row.started_at_est == row.joined_at - 3_000


@pytest.mark.parametrize(
    ("event_cause", "grown", "cause"),
    [
        ("LEADER_REJOINED", True, "PARTITIONS_ADDED"),
        ("LEADER_REJOINED", False, "LEADER_REJOINED"),
        ("METADATA_CHANGED", False, "METADATA_CHANGED"),
        # To the broker every rejoin with other owned partitions is a second phase.
        ("COOPERATIVE_FOLLOWUP", True, "PARTITIONS_ADDED"),
        ("COOPERATIVE_FOLLOWUP", False, "LEADER_REJOINED"),
    ],
)
def test_causes_without_a_change_of_members_are_refined_by_the_assignment(
    event_cause: str, grown: bool, cause: str
) -> None:
    history = HistoryBuilder(A, B, protocol=COOPERATIVE)
    now = B._replace(assigned=partitions(1, 2)) if grown else B
    history.generation(A, now, at=LEFT_AT_MS, protocol=COOPERATIVE)
    history.rebalance_events(event_cause, A)
    assert cause_and_confidence(last_rebalance(history)) == (cause, "exact")


def test_added_partitions_are_the_cause_even_if_a_member_leaves() -> None:
    history = without_b(60_000)
    history.records[-1] = history.records[-1]._replace(
        members=(A._replace(assigned=partitions(0, 1, 2)),)
    )
    history.rebalance_events("LEADER_REJOINED", A, took=44_000)
    assert cause_and_confidence(last_rebalance(history)) == ("PARTITIONS_ADDED", "exact")


def test_causes_evident_from_records_become_exact() -> None:
    history = HistoryBuilder(A, B, protocol="range")
    history.generation(A_ALONE, at=LEFT_AT_MS, protocol="sticky")
    history.rebalance_events("LEFT_CLEANLY", B)
    assert cause_and_confidence(last_rebalance(history)) == ("PROTOCOL_CHANGED", "exact")
    assert 'the coordinator\'s reason: "because of b-1"' in last_rebalance(history).evidence


def test_a_rebalance_with_a_static_replacement_may_have_another_cause() -> None:
    s = member("s", 1, instance="s-1")
    history = HistoryBuilder(A, s)
    history.generation(A, s._replace(member_id="s-2"), at=LEFT_AT_MS)
    history.rebalance_events("SESSION_TIMEOUT", s)
    assert cause_and_confidence(last_rebalance(history)) == ("SESSION_TIMEOUT", "exact")


def test_an_emptied_group_has_an_exact_cause() -> None:
    history = HistoryBuilder(A)
    history.event("leave_received", LEFT_AT_MS, A, cause="LEFT_CLEANLY", reason=CLOSED)
    history.generation(at=LEFT_AT_MS)
    history.rebalance_events("LEFT_CLEANLY", A, took=0)
    assert cause_and_confidence(last_rebalance(history)) == ("GROUP_EMPTIED", "exact")
    assert cause_and_confidence(only_exit(history)) == ("LEFT_CLEANLY", "exact")


def test_the_first_record_of_a_log_has_the_cause_of_its_events() -> None:
    history = HistoryBuilder(A, B, number=7, at=LEFT_AT_MS)
    history.rebalance_events("MEMBER_JOINED", B)
    assert (
        *cause_and_confidence(last_rebalance(history)),
        last_rebalance(history).is_rebalance,
    ) == ("MEMBER_JOINED", "exact", True)


@pytest.mark.parametrize("cause", ["GROUP_DELETED", "GROUP_EXPIRED"])
def test_the_event_shows_whether_a_group_was_deleted_or_expired(cause: str) -> None:
    history = HistoryBuilder(A)
    history.generation(at=MINUTE)
    history.tombstone(at=2 * MINUTE)
    history.event("group_deleted", 2 * MINUTE, cause=cause)
    assert cause_and_confidence(last_rebalance(history)) == (cause, "exact")


def test_creation_and_static_replacement_are_exact() -> None:
    history = HistoryBuilder()
    s = member("s", 0, instance="s-1")
    history.event("group_created", 0, cause="GROUP_CREATED")
    history.generation(s, number=1)
    history.generation(s._replace(member_id="s-2"), at=MINUTE, number=1)
    history.event("member_replaced", MINUTE, s, cause="STATIC_REPLACED", successor="s-2")
    causes = [cause_and_confidence(row) for row in explain(history.build()).rebalances]
    assert causes == [("GROUP_CREATED", "exact"), ("STATIC_REPLACED", "exact")]


# --- information that is only in events


def test_lost_generations_are_listed_with_their_causes() -> None:
    history = HistoryBuilder(A)
    for number, cause in ((2, "MEMBER_JOINED"), (3, "SYNC_TIMEOUT")):
        history.event("join_completed", number * 10_000, generation=number, cause=cause)
    history.generation(A, B, at=MINUTE, number=4)
    row = last_rebalance(history)
    assert row.lost_generations == 2
    assert "lost generations: 2 (MEMBER_JOINED) and 3 (SYNC_TIMEOUT)" in row.evidence


def test_rejected_commits_are_counted_by_error() -> None:
    history = without_b(60_000)
    for at, error in ((-4_000, 28), (-3_000, 22), (-2_000, 22), (-1_000, 999)):
        history.event("commit_rejected", LEFT_AT_MS + at, B, error_code=error)
    row = last_rebalance(history)
    assert row.rejected_commits == 4
    errors = "ILLEGAL_GENERATION 2, INVALID_COMMIT_OFFSET_SIZE 1 and error 999 1"
    assert f"({errors})" in row.evidence


def test_a_rejected_commit_counts_in_one_rebalance_only() -> None:
    history = HistoryBuilder()
    for count in range(3):
        history.generation(A, at=count * MINUTE, took=0)
    history.event("commit_rejected", MINUTE, B, error_code=22)
    assert [row.rejected_commits for row in explain(history.build()).rebalances] == [0, 1, 0]


def test_the_heartbeat_interval_is_estimated_from_the_time_to_rejoin() -> None:
    history = HistoryBuilder(A, B)
    for count in range(5):
        at = (count + 1) * MINUTE
        history.event("join_received", at + 4_000, A)
        history.event("join_received", at + 6_000, B)
        history.event("join_completed", at + 6_000, duration_ms=6_000, generation=count)
    history.event("member_expired", LEFT_AT_MS - 3_000, B, cause="SESSION_TIMEOUT")
    short = B._replace(session_timeout_ms=29_999)
    history.records[0] = history.records[0]._replace(members=(A, short))
    history.generation(A_ALONE, at=LEFT_AT_MS)
    row = only_exit(history)
    assert row.heartbeat_ms_est == 10_000
    assert "more than a third of the session timeout" in row.evidence


def test_a_few_rebalances_give_no_estimate_of_the_heartbeat_interval() -> None:
    history = joined_while_b_is_busy()
    assert only_exit(history).heartbeat_ms_est is None


# --- incomplete event logs


def test_rebalances_without_events_are_left_to_the_rules() -> None:
    history = without_b(60_000)
    history.generation(A, B._replace(member_id="b-2"), at=LEFT_AT_MS + MINUTE)
    history.rebalance_events("MEMBER_JOINED", B._replace(member_id="b-2"), at=LEFT_AT_MS + MINUTE)
    causes = [cause_and_confidence(row) for row in explain(history.build()).rebalances[1:]]
    assert causes == [("SESSION_TIMEOUT", "medium"), ("MEMBER_JOINED", "exact")]


@pytest.mark.parametrize(("apart_ms", "confidence"), [(5_000, "exact"), (5_001, "medium")])
def test_events_of_the_same_generation_at_another_time_do_not_apply(
    apart_ms: int, confidence: str
) -> None:
    history = without_b(1_000)
    history.rebalance_events("LEFT_CLEANLY", B, at=LEFT_AT_MS - apart_ms)
    assert cause_and_confidence(last_rebalance(history)) == ("LEFT_CLEANLY", confidence)


def test_an_unknown_cause_is_ignored() -> None:
    history = without_b(1_000)
    history.rebalance_events("SOMETHING_NEW", B)
    assert cause_and_confidence(last_rebalance(history)) == ("LEFT_CLEANLY", "medium")
