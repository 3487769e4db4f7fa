"""How members went, where the coordinator's event log says it; docs/events.md."""

import pytest
from group_stories import (
    WAS_AT_MS,
    B,
    exact,
    last,
    member,
    one_exit,
    round_of,
    without_b,
)

TIMED_OUT = "consumer poll timeout has expired."
CLOSED = "the consumer is being closed"

# --- how a member went


@pytest.mark.parametrize(
    ("event", "fields", "cause"),
    [
        ("leave_received", {"cause": "SLOW_POLL", "reason": TIMED_OUT}, "SLOW_POLL"),
        ("leave_received", {"cause": "LEFT_CLEANLY", "reason": CLOSED}, "LEFT_CLEANLY"),
        ("leave_received", {"cause": "LEFT_CLEANLY"}, "LEFT_CLEANLY"),
        ("leave_received", {"cause": "REMOVED_BY_ADMIN"}, "REMOVED_BY_ADMIN"),
        ("member_expired", {"cause": "SESSION_TIMEOUT", "duration_ms": 45_001}, "SESSION_TIMEOUT"),
        ("member_join_timed_out", {"cause": "REBALANCE_TIMEOUT"}, "REBALANCE_TIMEOUT"),
        ("member_sync_timed_out", {"cause": "SYNC_TIMEOUT"}, "SYNC_TIMEOUT"),
        ("join_rejected", {"cause": "GROUP_FULL", "error_code": 81}, "GROUP_FULL"),
    ],
)
@pytest.mark.parametrize("covered", [True, False])
def test_how_a_member_went_is_what_its_event_says(
    event: str, fields: dict[str, object], cause: str, covered: bool
) -> None:
    tale = without_b(60_000)  # of the log alone: a session that ended
    tale.event(event, WAS_AT_MS - 3_000, B, **fields)
    if covered:
        round_of(tale, cause, B)
    row = one_exit(tale)
    assert exact(row) == (cause, "exact")
    assert row.left_at == tale.events[0].ts_ms
    assert exact(last(tale)) == (cause, "exact")
    assert last(tale).join_ms == (3_000 if covered else None)


def test_a_leave_without_a_reason_after_the_whole_interval_was_a_slow_poll() -> None:
    """librdkafka and kafka-python say nothing: the coordinator cannot know."""
    tale = without_b(303_000)
    tale.event("leave_received", WAS_AT_MS - 3_000, B, cause="LEFT_CLEANLY")
    round_of(tale, "LEFT_CLEANLY", B)
    assert exact(last(tale)) == ("SLOW_POLL", "high")
    assert "without a reason" in last(tale).evidence


def test_a_leave_with_a_reason_is_what_it_says_however_long_the_silence() -> None:
    tale = without_b(303_000)
    tale.event("leave_received", WAS_AT_MS - 3_000, B, cause="LEFT_CLEANLY", reason=CLOSED)
    round_of(tale, "LEFT_CLEANLY", B)
    assert exact(last(tale)) == ("LEFT_CLEANLY", "exact")


@pytest.mark.parametrize(
    ("event", "cause", "told"),
    [
        ("leave_received", "LEFT_CLEANLY", ("SLOW_POLL", "high")),
        ("member_expired", "SESSION_TIMEOUT", ("SESSION_TIMEOUT", "exact")),
    ],
)
def test_events_tell_apart_what_equal_timeouts_do_not(
    event: str, cause: str, told: tuple[str, str]
) -> None:
    b = B._replace(rebalance_timeout_ms=45_000)
    tale = without_b(70_000, b)
    tale.event(event, WAS_AT_MS - 3_000, b, cause=cause)
    round_of(tale, cause, b)
    assert exact(last(tale)) == told


@pytest.mark.parametrize(
    ("silence_ms", "max_poll_ms", "session_ms", "told"),
    [
        (324_000, 300_000, 45_000, ("SLOW_POLL", "high")),
        (323_000, 300_000, 45_000, ("SESSION_TIMEOUT", "exact")),
        (18_000, 10_000, 10_000, ("SESSION_TIMEOUT", "exact")),  # either explains it
    ],
)
def test_a_static_member_that_polls_too_slowly_is_seen_as_a_session_that_ended(
    silence_ms: int, max_poll_ms: int, session_ms: int, told: tuple[str, str]
) -> None:
    b = member("b", 1, instance="b-1", rebalance_ms=max_poll_ms, session_ms=session_ms)
    tale = without_b(silence_ms, b)
    tale.event("member_expired", WAS_AT_MS - 3_000, b, cause="SESSION_TIMEOUT")
    round_of(tale, "SESSION_TIMEOUT", b)
    assert exact(last(tale)) == told


def test_a_restart_is_a_leave_and_a_join_in_one_round() -> None:
    tale = without_b(1_000, back=True)
    tale.event("leave_received", WAS_AT_MS - 3_000, B, cause="LEFT_CLEANLY", reason=CLOSED)
    round_of(tale, "LEFT_CLEANLY", B)
    assert exact(last(tale)) == ("RESTARTED", "exact")


def test_a_crash_is_the_cause_though_its_successor_opened_the_round() -> None:
    tale = without_b(50_000, back=True)
    tale.event("member_expired", WAS_AT_MS, B, cause="SESSION_TIMEOUT")
    round_of(tale, "MEMBER_JOINED", B._replace(member_id="b-2"), took=44_000)
    assert exact(last(tale)) == ("SESSION_TIMEOUT", "exact")
    assert (last(tale).waited_for, last(tale).wait_ms) == ("b-1", 44_000)


def test_an_exit_of_an_earlier_life_of_the_id_is_not_this_one() -> None:
    tale = without_b(1_000)
    tale.event("member_expired", -10_000, B, cause="SESSION_TIMEOUT")
    assert exact(one_exit(tale)) == ("LEFT_CLEANLY", "medium")
