"""Pauses of consumption and waits of rebalances."""

from history_builder import (
    A_ALONE,
    MINUTE,
    A,
    B,
    HistoryBuilder,
    last_rebalance,
    member,
    partitions,
)
from kohort.pipeline.diagnosis.group_history import Member


def test_an_exit_pauses_the_others_for_a_heartbeat_interval() -> None:
    history = HistoryBuilder(A, B)
    history.commits(A, until=5 * MINUTE)
    history.commits(B, until=5 * MINUTE - 300_000)
    history.samples(10_000, 0, 1, until=6 * MINUTE)
    history.generation(A_ALONE, at=5 * MINUTE + 3_000)
    history.commits(A_ALONE, until=6 * MINUTE, since=5 * MINUTE + 8_000)
    row = last_rebalance(history)
    # 5:00 to 5:10 without a commit; 5 s of that are the usual gap.
    assert (row.pause_ms, row.wait_ms, row.waited_for) == (5_000, None, None)


def still_processing(c: Member) -> HistoryBuilder:
    """c joins at five minutes; a stops immediately, b processes for 55 s, commits and rejoins."""
    history = HistoryBuilder(A, B)
    history.commits(A, until=5 * MINUTE)
    history.commits(B, until=5 * MINUTE + 55_000, every=55_000)
    history.samples(10_000, 0, 1, 2, until=7 * MINUTE)
    history.generation(A, B, c, at=5 * MINUTE + 55_100)
    history.commits(A, until=7 * MINUTE, since=6 * MINUTE)
    return history


def test_a_rebalance_waits_for_a_member_that_is_processing() -> None:
    row = last_rebalance(still_processing(member("c", 2)))
    assert row.waited_for == "b-1"
    assert row.wait_ms == 55_100 - 5_000
    # From the last commit of a, not of b, to its next one: one minute minus the usual gap.
    assert row.pause_ms == MINUTE - 5_000
    assert "waited 50.1 s for b" in row.evidence


def test_an_idle_group_is_not_paused() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    history.log_end(2 * MINUTE, 0, 0, 1)
    history.log_end(3 * MINUTE, 0, 0, 1)
    history.generation(A, B, at=2 * MINUTE)
    history.commits(A, until=30 * MINUTE, since=29 * MINUTE)
    assert last_rebalance(history).pause_ms is None


def test_a_pause_starts_when_there_is_something_to_read() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    history.log_end(20 * MINUTE, 0, 0, 1)
    history.log_end(20 * MINUTE + 10_000, 50, 0, 1)
    history.generation(A, B, at=20 * MINUTE + 3_000)
    history.commits(A, until=30 * MINUTE, since=20 * MINUTE + 20_000)
    assert last_rebalance(history).pause_ms == 15_000


def test_an_idle_group_whose_static_member_was_replaced_is_not_paused() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    replacement = A_ALONE._replace(member_id="a-again")
    history.generation(replacement, at=MINUTE, number=1)
    history.commits(replacement, until=2 * MINUTE)
    history.log_end(3 * MINUTE, 0, 0, 1)
    history.generation(replacement, B, at=3 * MINUTE)
    history.commits(A, until=30 * MINUTE, since=29 * MINUTE)
    assert last_rebalance(history).pause_ms is None


def test_without_samples_the_pause_follows_from_commits() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    history.generation(A, B, at=MINUTE + 1_000)
    history.commits(A, until=2 * MINUTE, since=MINUTE + 20_000)
    assert last_rebalance(history).pause_ms == 15_000


def test_the_pause_is_unknown_before_the_first_commit_of_a_generation() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    history.generation(A, B, at=2 * MINUTE)
    assert last_rebalance(history).pause_ms is None


def test_the_pause_is_unknown_where_commits_were_compacted() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    history.activities[0] = history.activities[0]._replace(history_complete=False)
    history.generation(A, B, at=MINUTE + 1_000)
    history.commits(A, until=3 * MINUTE)
    assert last_rebalance(history).pause_ms is None


def test_a_static_replacement_does_not_pause_the_group() -> None:
    static = member("s", 0, instance="s-1")
    history = HistoryBuilder(static)
    history.commits(static, until=MINUTE)
    again = static._replace(member_id="s-2", assigned=partitions(0))
    history.generation(again, at=2 * MINUTE, number=1)
    history.commits(again, until=4 * MINUTE)
    assert last_rebalance(history).pause_ms is None


def test_an_offset_reset_of_an_empty_group_does_not_end_a_pause() -> None:
    history = HistoryBuilder(A_ALONE)
    history.commits(A_ALONE, until=MINUTE)
    history.samples(10_000, 0, 1, until=10 * MINUTE)
    history.generation(at=MINUTE + 1_000)
    # The offsets are reset while the group is empty.
    reset = HistoryBuilder()
    reset.records = history.records
    reset.commits(A_ALONE, until=5 * MINUTE, since=5 * MINUTE)
    history.activities += reset.activities
    assert last_rebalance(history).pause_ms is None
    history.generation(A_ALONE, at=6 * MINUTE)
    history.commits(A_ALONE, until=7 * MINUTE, since=6 * MINUTE + 1_000)
    assert last_rebalance(history).pause_ms is None
