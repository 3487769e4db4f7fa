"""The check for slow consumers."""

import pytest
from history_builder import (
    A_ALONE,
    MINUTE,
    START_MS,
    A,
    B,
    C,
    HistoryBuilder,
    diagnosis_of,
    slow_consumer,
    without_b,
)
from kohort.pipeline.diagnosis.rebalances import explain


def test_the_text_names_the_slow_consumer_with_exits_pauses_and_cause() -> None:
    row = diagnosis_of(slow_consumer(4))
    assert (row.severity, row.verdict) == (3, "SLOW_CONSUMER")
    for part in (
        "Consumer billing-3 on 10.0.0.",
        "lost its membership in group payments 4 times between 2027-01-15 08:06:03 UTC and ",
        "did not poll within its max.poll.interval.ms of 5 min",
        "did not commit for up to 5 min 3 s",
        "Its partitions were not read for 20 min 12 s in total.",
        "rejoined 4 times, after at most 40.0 s",
        "This caused 8 rebalances",
        "paused for",
        "at most",
    ):
        assert part in row.text
    assert all("max.poll.interval.ms" in line for line in row.evidence)


def test_the_advice_has_figures_from_the_history() -> None:
    faster, longer, static, cooperative, session = diagnosis_of(slow_consumer(4)).advice
    assert "max.poll.records" in faster
    assert "in less than 5 min" in faster
    # 303 s until it was removed and 40 s until it rejoined, plus half of that: 515 s, rounded up.
    assert "max.poll.interval.ms=540000 (9 min)" in longer
    assert "does not fix slow polls" in static
    assert "CooperativeStickyAssignor" in cooperative
    assert "session.timeout.ms ≥ 3 × heartbeat.interval.ms" in session
    assert "a heartbeat at least every 15.0 s" in session


def test_the_pause_lasts_as_long_as_no_member_commits() -> None:
    history = slow_consumer(2)
    pauses = [row.pause_ms for row in explain(history.build()).rebalances if row.is_rebalance]
    # Exit: no commits from 6:00 to 6:10. Rejoin: from 6:40 to 6:53. The usual gap is 5 s.
    assert pauses == [5_000, 8_000, 5_000, 8_000]
    assert "paused for 26.0 s in total, up to 8.0 s at a time" in diagnosis_of(history).text


def test_pauses_shorter_than_the_commit_interval_have_no_figures() -> None:
    history = slow_consumer(1)
    history.activities = [a._replace(median_gap_ms=20_000) for a in history.activities]
    text = diagnosis_of(history).text
    assert "before the group's next commits were due" in text
    assert "paused for" not in text


def test_a_storm_caused_by_a_slow_consumer_follows_in_the_text() -> None:
    row = diagnosis_of(slow_consumer(4, limit_ms=75_000, rest_ms=30_000))
    assert row.verdict == "SLOW_CONSUMER"
    assert "main cause: poll interval exceeded" in row.text
    assert len(row.advice) == 5


def test_one_exit_is_a_warning_and_an_old_one_info() -> None:
    once = slow_consumer(1)
    assert diagnosis_of(once).severity == 2
    assert "lost its membership in group payments once at" in diagnosis_of(once).text
    assert diagnosis_of(once, as_of=once.now + 60 * MINUTE).severity == 1


def two_slow_clients(again_ms: int) -> HistoryBuilder:
    """billing-3 exceeds its poll interval twice, then b once, `again_ms` later."""
    history = slow_consumer(2)
    a, b, c = history.records[-1].members
    now = history.now + again_ms
    history.commits(b, until=now - 310_000, since=history.now)
    history.commits(a, c, until=now - 3_000, since=history.now)
    history.generation(A_ALONE, c, at=now)
    return history


def test_the_client_that_was_slow_in_the_last_hour_is_described() -> None:
    row = diagnosis_of(two_slow_clients(9 * 60 * MINUTE))
    assert (row.severity, row.verdict) == (2, "SLOW_CONSUMER")
    assert "Consumer b on 10.0.0.98 lost its membership in group payments once at" in row.text
    assert "Also slow: billing-3 on" in row.text


def test_two_slow_clients_in_the_last_hour_are_an_error() -> None:
    history = two_slow_clients(50 * MINUTE)
    _, exit_, last = explain(history.build()).exits
    assert (exit_.client_id, last.client_id) == ("billing-3", "b")
    hour_ms = (exit_.left_at or 0) - START_MS + 60 * MINUTE
    assert diagnosis_of(history, as_of=hour_ms - 1).severity == 3
    assert diagnosis_of(history, as_of=hour_ms).severity == 2


def test_a_consumer_that_may_have_crashed_is_not_called_slow() -> None:
    b = B._replace(rebalance_timeout_ms=45_000)  # aiokafka: equal to its session timeout
    row = diagnosis_of(without_b(46_000, b))
    assert (row.severity, row.verdict) == (2, "SLOW_OR_CRASHED")
    assert "either it exceeded its poll interval or its session of 45.0 s expired" in row.text
    assert any("crashes" in line for line in row.advice)


@pytest.mark.parametrize(
    ("protocol", "is_advised"),
    [
        *(("range", True), ("roundrobin", True), ("sticky", True)),
        ("cooperative-sticky", False),
        ("stream", False),  # Kafka Streams
        *(("sessioned", False), ("compatible", False)),  # Kafka Connect
    ],
)
def test_only_eager_consumers_are_advised_to_become_cooperative(
    protocol: str, is_advised: bool
) -> None:
    advice = diagnosis_of(slow_consumer(2, protocol=protocol)).advice
    assert any("CooperativeSticky" in line for line in advice) == is_advised


def test_members_that_own_partitions_when_they_join_are_cooperative_already() -> None:
    history = slow_consumer(2)
    members = tuple(m._replace(owned=m.assigned) for m in history.records[-1].members)
    history.records[-1] = history.records[-1]._replace(members=members)
    assert not any("CooperativeSticky" in line for line in diagnosis_of(history).advice)


def test_a_member_that_delays_rebalances_is_a_slow_consumer() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, until=5 * MINUTE)
    history.commits(B, until=5 * MINUTE + 55_000, every=55_000)
    history.samples(10_000, 0, 1, until=7 * MINUTE)
    history.generation(A, B, C, at=5 * MINUTE + 55_100)
    history.commits(A, until=7 * MINUTE, since=6 * MINUTE)
    row = diagnosis_of(history)
    assert row.verdict == "SLOW_CONSUMER"
    assert "Consumer b on 10.0.0.98 delays the rebalances of group payments." in row.text
    assert "Once, a rebalance began while it was processing" in row.text
    assert "up to 50.1 s" in row.text


def test_the_text_states_that_the_timeouts_are_ambiguous() -> None:
    b = B._replace(rebalance_timeout_ms=45_000)
    history = HistoryBuilder(A, b)
    history.commits(A, until=5 * MINUTE)
    history.commits(b, until=4 * MINUTE + 10_000)
    history.generation(A_ALONE, at=5 * MINUTE)
    assert "its timeouts are too close for the log to show which" in diagnosis_of(history).text


def test_rejected_commits_are_in_the_text() -> None:
    history = slow_consumer(1)
    for at, text in ((30_000, "1 commit was rejected"), (31_000, "2 commits were rejected")):
        history.event("commit_rejected", 6 * MINUTE + at, C, error_code=25)
        assert f"{text}, so the records were processed again." in diagnosis_of(history).text
