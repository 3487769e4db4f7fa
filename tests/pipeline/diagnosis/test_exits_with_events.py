"""Exits of members that the event log covers (docs/events.md)."""

import pytest
from history_builder import (
    LEFT_AT_MS,
    B,
    cause_and_confidence,
    last_rebalance,
    member,
    only_exit,
    without_b,
)

TIMED_OUT = "consumer poll timeout has expired."
CLOSED = "the consumer is being closed"


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
def test_the_event_gives_the_cause_of_an_exit(
    event: str, fields: dict[str, object], cause: str, covered: bool
) -> None:
    history = without_b(60_000)  # by the log alone: an expired session
    history.event(event, LEFT_AT_MS - 3_000, B, **fields)
    if covered:
        history.rebalance_events(cause, B)
    row = only_exit(history)
    assert cause_and_confidence(row) == (cause, "exact")
    assert row.left_at == history.events[0].ts_ms
    assert cause_and_confidence(last_rebalance(history)) == (cause, "exact")
    assert last_rebalance(history).join_ms == (3_000 if covered else None)


def test_a_leave_without_reason_after_the_poll_interval_is_a_slow_poll() -> None:
    """librdkafka and kafka-python send no reason."""
    history = without_b(303_000)
    history.event("leave_received", LEFT_AT_MS - 3_000, B, cause="LEFT_CLEANLY")
    history.rebalance_events("LEFT_CLEANLY", B)
    assert cause_and_confidence(last_rebalance(history)) == ("SLOW_POLL", "high")
    assert "without a reason" in last_rebalance(history).evidence


def test_a_leave_with_a_reason_has_that_cause_after_any_silence() -> None:
    history = without_b(303_000)
    history.event("leave_received", LEFT_AT_MS - 3_000, B, cause="LEFT_CLEANLY", reason=CLOSED)
    history.rebalance_events("LEFT_CLEANLY", B)
    assert cause_and_confidence(last_rebalance(history)) == ("LEFT_CLEANLY", "exact")


@pytest.mark.parametrize(
    ("event", "cause", "expected"),
    [
        ("leave_received", "LEFT_CLEANLY", ("SLOW_POLL", "high")),
        ("member_expired", "SESSION_TIMEOUT", ("SESSION_TIMEOUT", "exact")),
    ],
)
def test_events_distinguish_equal_timeouts(
    event: str, cause: str, expected: tuple[str, str]
) -> None:
    b = B._replace(rebalance_timeout_ms=45_000)
    history = without_b(70_000, b)
    history.event(event, LEFT_AT_MS - 3_000, b, cause=cause)
    history.rebalance_events(cause, b)
    assert cause_and_confidence(last_rebalance(history)) == expected


@pytest.mark.parametrize(
    ("silence_ms", "max_poll_ms", "session_ms", "expected"),
    [
        (324_000, 300_000, 45_000, ("SLOW_POLL", "high")),
        (323_000, 300_000, 45_000, ("SESSION_TIMEOUT", "exact")),
        (18_000, 10_000, 10_000, ("SESSION_TIMEOUT", "exact")),  # both timeouts match
    ],
)
def test_a_slow_static_member_has_the_event_of_an_expired_session(
    silence_ms: int, max_poll_ms: int, session_ms: int, expected: tuple[str, str]
) -> None:
    b = member("b", 1, instance="b-1", rebalance_ms=max_poll_ms, session_ms=session_ms)
    history = without_b(silence_ms, b)
    history.event("member_expired", LEFT_AT_MS - 3_000, b, cause="SESSION_TIMEOUT")
    history.rebalance_events("SESSION_TIMEOUT", b)
    assert cause_and_confidence(last_rebalance(history)) == expected


def test_a_restart_is_a_leave_and_a_join_in_one_rebalance() -> None:
    history = without_b(1_000, back=True)
    history.event("leave_received", LEFT_AT_MS - 3_000, B, cause="LEFT_CLEANLY", reason=CLOSED)
    history.rebalance_events("LEFT_CLEANLY", B)
    assert cause_and_confidence(last_rebalance(history)) == ("RESTARTED", "exact")


def test_a_crash_is_the_cause_if_the_restarted_client_started_the_rebalance() -> None:
    history = without_b(50_000, back=True)
    history.event("member_expired", LEFT_AT_MS, B, cause="SESSION_TIMEOUT")
    history.rebalance_events("MEMBER_JOINED", B._replace(member_id="b-2"), took=44_000)
    assert cause_and_confidence(last_rebalance(history)) == ("SESSION_TIMEOUT", "exact")
    assert (last_rebalance(history).waited_for, last_rebalance(history).wait_ms) == ("b-1", 44_000)


def test_an_event_before_the_member_joined_does_not_apply() -> None:
    history = without_b(1_000)
    history.event("member_expired", -10_000, B, cause="SESSION_TIMEOUT")
    assert cause_and_confidence(only_exit(history)) == ("LEFT_CLEANLY", "medium")
