"""Where the coordinator's event log covers a rebalance, its cause is exact; docs/events.md."""

import pytest
from group_stories import (
    A_ALONE,
    MINUTE,
    WAS_AT_MS,
    A,
    B,
    Tale,
    exact,
    last,
    member,
    one_exit,
    parts,
    round_of,
    without_b,
)
from kohort.pipeline.diagnosis.rebalances import rebalances

CLOSED = "the consumer is being closed"

# --- why a round was


def joined_while_b_is_busy() -> Tale:
    """c comes, a joins again at once, b never does: it is out after the rebalance timeout."""
    c = member("c", 2)
    tale = Tale()
    tale.generation(A, B)
    tale.commits(A, until=MINUTE)
    tale.commits(B, until=MINUTE)
    at = MINUTE + 300_000
    tale.event("member_joined", MINUTE, c)
    tale.event("join_received", MINUTE + 2_000, A)
    tale.event("member_join_timed_out", at, B, cause="REBALANCE_TIMEOUT", duration_ms=300_000)
    tale.generation(A, c, at=at)
    round_of(tale, "MEMBER_JOINED", c, at=at, took=300_000)
    return tale


def test_a_round_is_for_whom_it_was_opened_and_tells_whom_it_waited_for() -> None:
    tale = joined_while_b_is_busy()
    row = last(tale)
    assert exact(row) == ("MEMBER_JOINED", "exact")
    assert (row.waited_for, row.wait_ms, row.join_ms) == ("b-1", 300_000, 300_000)
    assert exact(one_exit(tale)) == ("REBALANCE_TIMEOUT", "exact")


def test_who_joined_last_was_waited_for() -> None:
    c = member("c", 2)
    tale = Tale()
    tale.generation(A, B)
    tale.generation(A, B, c, at=2 * MINUTE)
    tale.event("join_received", MINUTE + 2_000, A)
    tale.event("join_received", 2 * MINUTE, B)
    round_of(tale, "MEMBER_JOINED", c, at=2 * MINUTE, took=MINUTE)
    assert (last(tale).waited_for, last(tale).wait_ms) == ("b-1", MINUTE)


def test_a_round_that_everybody_joins_at_once_waited_for_nobody() -> None:
    c = member("c", 2)
    tale = Tale()
    tale.generation(A, B)
    tale.generation(A, B, c, at=2 * MINUTE)
    tale.event("join_received", 2 * MINUTE - 1_000, A)
    tale.event("join_received", 2 * MINUTE, B)
    round_of(tale, "MEMBER_JOINED", c, at=2 * MINUTE)
    assert (last(tale).waited_for, last(tale).wait_ms) == (None, None)


def test_durations_are_the_coordinators() -> None:
    tale = without_b(1_000)
    round_of(tale, "LEFT_CLEANLY", B)
    row = last(tale)
    assert (row.join_ms, row.sync_ms) == (3_000, 20)
    assert row.joined_at is not None
    assert row.started_at_est == row.joined_at - 3_000


@pytest.mark.parametrize(
    ("broker", "grown", "told"),
    [
        ("LEADER_REJOINED", True, "PARTITIONS_ADDED"),
        ("LEADER_REJOINED", False, "LEADER_REJOINED"),
        ("METADATA_CHANGED", False, "METADATA_CHANGED"),
        # To the broker every member that says it owns something else is a second phase.
        ("COOPERATIVE_FOLLOWUP", True, "PARTITIONS_ADDED"),
        ("COOPERATIVE_FOLLOWUP", False, "LEADER_REJOINED"),
    ],
)
def test_what_the_same_members_wanted_is_refined_by_what_they_were_given(
    broker: str, grown: bool, told: str
) -> None:
    tale = Tale()
    coop = "cooperative-sticky"
    tale.generation(A, B, protocol=coop)
    now = B._replace(assigned=parts(1, 2)) if grown else B
    tale.generation(A, now, at=WAS_AT_MS, protocol=coop)
    round_of(tale, broker, A)
    assert exact(last(tale)) == (told, "exact")


def test_partitions_that_are_added_are_the_cause_though_somebody_goes_in_their_round() -> None:
    tale = without_b(60_000)
    tale.records[-1] = tale.records[-1]._replace(members=(A._replace(assigned=parts(0, 1, 2)),))
    round_of(tale, "LEADER_REJOINED", A, took=44_000)
    assert exact(last(tale)) == ("PARTITIONS_ADDED", "exact")


def test_facts_of_the_records_stand_and_are_exact_with_their_round() -> None:
    tale = Tale()
    tale.generation(A, B, protocol="range")
    tale.generation(A_ALONE, at=WAS_AT_MS, protocol="sticky")
    round_of(tale, "LEFT_CLEANLY", B)
    assert exact(last(tale)) == ("PROTOCOL_CHANGED", "exact")
    assert 'the coordinator\'s reason: "because of b-1"' in last(tale).evidence


def test_a_round_in_which_a_static_member_was_replaced_may_have_been_opened_for_another() -> None:
    tale = Tale()
    s = member("s", 1, instance="s-1")
    tale.generation(A, s)
    tale.generation(A, s._replace(member_id="s-2"), at=WAS_AT_MS)
    round_of(tale, "SESSION_TIMEOUT", s)
    assert exact(last(tale)) == ("SESSION_TIMEOUT", "exact")


def test_a_group_that_is_emptied_is_so_exactly() -> None:
    tale = Tale()
    tale.generation(A)
    tale.event("leave_received", WAS_AT_MS, A, cause="LEFT_CLEANLY", reason=CLOSED)
    tale.generation(at=WAS_AT_MS)
    round_of(tale, "LEFT_CLEANLY", A, took=0)
    assert exact(last(tale)) == ("GROUP_EMPTIED", "exact")
    assert exact(one_exit(tale)) == ("LEFT_CLEANLY", "exact")


def test_the_first_record_of_a_log_has_a_cause_if_its_round_has() -> None:
    tale = Tale()
    tale.generation(A, B, number=7, at=WAS_AT_MS)
    round_of(tale, "MEMBER_JOINED", B)
    assert (*exact(last(tale)), last(tale).is_rebalance) == ("MEMBER_JOINED", "exact", True)


@pytest.mark.parametrize("cause", ["GROUP_DELETED", "GROUP_EXPIRED"])
def test_how_a_group_ended_is_what_its_event_says(cause: str) -> None:
    tale = Tale()
    tale.generation(A)
    tale.generation(at=MINUTE)
    tale.tombstone(at=2 * MINUTE)
    tale.event("group_deleted", 2 * MINUTE, cause=cause)
    assert exact(last(tale)) == (cause, "exact")


def test_creation_and_replacement_are_exact_too() -> None:
    tale = Tale()
    s = member("s", 0, instance="s-1")
    tale.event("group_created", 0, cause="GROUP_CREATED")
    tale.generation(s, number=1)
    tale.generation(s._replace(member_id="s-2"), at=MINUTE, number=1)
    tale.event("member_replaced", MINUTE, s, cause="STATIC_REPLACED", successor="s-2")
    told = [exact(row) for row in rebalances(tale.story())]
    assert told == [("GROUP_CREATED", "exact"), ("STATIC_REPLACED", "exact")]


# --- what no record tells of


def test_rounds_that_were_lost_are_named_with_their_causes() -> None:
    tale = Tale()
    tale.generation(A)
    for number, cause in ((2, "MEMBER_JOINED"), (3, "SYNC_TIMEOUT")):
        tale.event("join_completed", number * 10_000, generation=number, cause=cause)
    tale.generation(A, B, at=MINUTE, number=4)
    row = last(tale)
    assert row.lost_generations == 2
    assert "lost before: generation 2 (MEMBER_JOINED) and 3 (SYNC_TIMEOUT)" in row.evidence


def test_refused_commits_are_counted_by_their_errors() -> None:
    tale = without_b(60_000)
    for at, error in ((-4_000, 27), (-3_000, 22), (-2_000, 22)):
        tale.event("commit_rejected", WAS_AT_MS + at, B, error_code=error)
    row = last(tale)
    assert row.rejected_commits == 3
    assert "(ILLEGAL_GENERATION 2 and REBALANCE_IN_PROGRESS 1)" in row.evidence


def test_without_an_event_log_nobody_knows_of_refused_commits() -> None:
    assert last(without_b(60_000)).rejected_commits is None


def test_heartbeats_are_guessed_from_how_soon_members_hear_of_rounds() -> None:
    tale = Tale()
    tale.generation(A, B)
    for count in range(5):
        at = (count + 1) * MINUTE
        tale.event("join_received", at + 4_000, A)
        tale.event("join_received", at + 6_000, B)
        tale.event("join_completed", at + 6_000, duration_ms=6_000, generation=count)
    tale.event("member_expired", WAS_AT_MS - 3_000, B, cause="SESSION_TIMEOUT")
    short = B._replace(session_timeout_ms=29_999)
    tale.records[0] = tale.records[0]._replace(members=(A, short))
    tale.generation(A_ALONE, at=WAS_AT_MS)
    row = one_exit(tale)
    assert row.heartbeat_ms_est == 10_000
    assert "its session is less than three times that" in row.evidence


def test_from_a_few_rounds_no_heartbeat_is_guessed() -> None:
    tale = joined_while_b_is_busy()
    assert one_exit(tale).heartbeat_ms_est is None


# --- logs that do not cover everything


def test_what_the_event_log_does_not_cover_is_left_to_the_rules() -> None:
    tale = without_b(60_000)
    tale.generation(A, B._replace(member_id="b-2"), at=WAS_AT_MS + MINUTE)
    round_of(tale, "MEMBER_JOINED", B._replace(member_id="b-2"), at=WAS_AT_MS + MINUTE)
    told = [exact(row) for row in rebalances(tale.story())[1:]]
    assert told == [("SESSION_TIMEOUT", "medium"), ("MEMBER_JOINED", "exact")]


@pytest.mark.parametrize(("apart_ms", "confidence"), [(5_000, "exact"), (5_001, "medium")])
def test_a_round_of_the_same_number_at_another_time_is_another_one(
    apart_ms: int, confidence: str
) -> None:
    tale = without_b(1_000)
    round_of(tale, "LEFT_CLEANLY", B, at=WAS_AT_MS - apart_ms)
    assert exact(last(tale)) == ("LEFT_CLEANLY", confidence)


def test_a_cause_that_nobody_knows_is_no_cause() -> None:
    tale = without_b(1_000)
    round_of(tale, "SOMETHING_NEW", B)
    assert exact(last(tale)) == ("LEFT_CLEANLY", "medium")
