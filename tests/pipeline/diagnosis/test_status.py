"""The status of partitions and groups."""

import pytest
from history_builder import A, B, HistoryBuilder, member, partitions
from kohort.pipeline.diagnosis.group_history import Commit, Generation, LogEnd, PartitionWindow
from kohort.pipeline.diagnosis.rows import PartitionStatus
from kohort.pipeline.diagnosis.status import (
    CurrentGroup,
    describe_worst,
    group_status,
    partition_status,
    state_of,
)

NOW = 1_000_000


def window(
    number: int = 0,
    *,
    lag: int = 50,
    silent_ms: int = 2_000,
    owner: object = A,
    log_start: int | None = 0,
    moves: bool = True,
    sampled: bool = True,
) -> PartitionWindow:
    commits = tuple(
        Commit(1_000 + (n * 10 if moves else 0), NOW - silent_ms - 5_000 * (9 - n), lag)
        for n in range(10)
    )
    end = LogEnd("orders", number, log_start, commits[-1].offset + lag, NOW)
    return PartitionWindow("orders", number, commits, (end,) if sampled else (), owner)  # type: ignore[arg-type]


def generation(*members: object) -> Generation:
    return HistoryBuilder().generation(*members, number=3)  # type: ignore[arg-type]


STABLE = generation(A, B)


def now(record: Generation | None, state: str = "Stable") -> CurrentGroup:
    return CurrentGroup("test", "payments", NOW, record, state)


def status_of(
    window_: PartitionWindow, record: Generation | None = STABLE, state: str = "Stable"
) -> PartitionStatus:
    return partition_status(now(record, state), window_)


@pytest.mark.parametrize(
    ("partition", "status", "burrow"),
    [
        (window(), "WARN", "WARN"),
        (window(lag=0), "OK", "OK"),
        (window(sampled=False), "UNKNOWN", "UNKNOWN"),
        (window(log_start=1_091), "DATA_LOST", "WARN"),
        (window(log_start=1_090), "WARN", "WARN"),
        (window(owner=None), "NO_OWNER", "WARN"),
        (window(owner=None, lag=0), "OK", "OK"),
        (window(silent_ms=46_000), "STOP", "STOP"),
        (window(moves=False), "STALL", "STALL"),
        (PartitionWindow("orders", 0, ()), "UNKNOWN", "UNKNOWN"),
    ],
)
def test_a_partition_has_burrows_status_and_ours(
    partition: PartitionWindow, status: str, burrow: str
) -> None:
    row = status_of(partition)
    assert (row.status, row.status_burrow) == (status, burrow)
    assert row.status_reason


def test_without_a_sample_the_lag_is_unknown() -> None:
    row = status_of(window(sampled=False))
    assert (row.lag, row.lag_ms, row.log_end) == (None, None, None)
    assert row.committed == 1_090


def test_lag_rate_and_trend_of_a_partition() -> None:
    ends = (LogEnd("orders", 0, 0, 1_040, NOW - 50_000), LogEnd("orders", 0, 0, 1_140, NOW))
    row = status_of(window()._replace(log_ends=ends))
    assert (row.committed, row.log_end, row.lag) == (1_090, 1_140, 50)
    assert (row.complete, row.client_id, row.trend, row.consume_rate) == (1.0, "a", "FLAT", 2.0)
    assert row.last_commit_ts == row.window_end == NOW - 2_000


def test_five_commits_are_half_a_window() -> None:
    of = window()
    assert status_of(of._replace(commits=of.commits[-5:])).complete == 0.5


def test_a_consumer_faster_than_its_producers_has_a_catch_up_time() -> None:
    ends = (LogEnd("orders", 0, 0, 1_130, NOW - 10_000), LogEnd("orders", 0, 0, 1_140, NOW))
    row = status_of(window()._replace(log_ends=ends))
    assert (row.produce_rate, row.catch_up_ms) == (1.0, 50_000)


def test_the_trend_continues_after_the_last_commit() -> None:
    ends = tuple(
        LogEnd("orders", 0, 0, 1_140 + 100 * n, NOW - 60_000 + 10_000 * n) for n in range(7)
    )
    row = status_of(window(silent_ms=90_000)._replace(log_ends=ends))
    assert (row.status, row.trend) == ("STOP", "GROWING")


def test_the_trend_uses_the_log_end_at_the_time_of_each_commit() -> None:
    """Commits advance by 2 records per second and the log by 11. Samples are a minute apart;
    against the previous sample the lag of each commit seems to shrink."""
    of = window()
    ends = tuple(LogEnd("orders", 0, 0, 1_140 + 660 * n, NOW - 60_000 + 60_000 * n) for n in (0, 1))
    commits = tuple(c._replace(lag=ends[0].log_end - c.offset) for c in of.commits)
    row = status_of(of._replace(commits=commits, log_ends=ends))
    assert (row.trend, row.consume_rate, row.produce_rate) == ("GROWING", 2.0, 11.0)


def test_commits_after_the_newest_sample_do_not_count_in_the_trend() -> None:
    of = window()
    early = tuple(LogEnd("orders", 0, 0, 1_140, NOW - 90_000 + 10_000 * n) for n in range(4))
    assert status_of(of._replace(log_ends=early)).trend is None


def test_the_produce_rate_is_that_since_the_first_commit_of_the_window() -> None:
    """The topic was empty for an hour before."""
    empty = tuple(LogEnd("orders", 0, 0, 0, NOW - 3_600_000 + 600_000 * n) for n in range(6))
    ends = tuple(LogEnd("orders", 0, 0, 1_000 + 5 * n, NOW - 60_000 + 1_000 * n) for n in range(61))
    row = status_of(window()._replace(log_ends=(*empty, *ends)))
    assert row.produce_rate == 5.0


def test_the_status_reason_has_lag_and_time_of_the_last_commit() -> None:
    of = window(silent_ms=30_000)
    commits = tuple(c._replace(lag=n % 2) for n, c in enumerate(of.commits))
    row = status_of(of._replace(commits=commits))
    assert (row.status, row.status_reason) == (
        "OK",
        "lag 50; the last commit was 30.0 s ago",
    )


@pytest.mark.parametrize("record", [None, HistoryBuilder().generation(number=0)])
def test_a_simple_consumer_needs_no_owner(record: Generation | None) -> None:
    assert status_of(window(owner=None), record).status == "WARN"


def test_a_partition_of_a_rebalancing_group_is_rebalancing() -> None:
    row = status_of(window(silent_ms=46_000), state="PreparingRebalance")
    assert (row.status, row.status_burrow) == ("REBALANCING", "STOP")


@pytest.mark.parametrize(
    ("silences", "state"),
    [
        ((20_000, 20_000), "PreparingRebalance"),
        ((15_000, 15_000), "Stable"),  # not more than three times the usual gap
        ((20_000, 1_000), "Stable"),  # one continues
    ],
)
def test_a_group_in_which_all_members_pause_is_taken_to_be_rebalancing(
    silences: tuple[int, int], state: str
) -> None:
    windows = [
        window(0, owner=A, silent_ms=silences[0]),
        window(1, owner=B, silent_ms=silences[1]),
    ]
    assert state_of(STABLE, windows, NOW) == state


def test_a_pause_of_the_only_owner_is_no_rebalance() -> None:
    both = [window(n, owner=A, silent_ms=20_000) for n in (0, 1)]
    assert state_of(STABLE, both, NOW) == "Stable"


def test_group_states_that_follow_from_records() -> None:
    assert state_of(None, [], NOW) == "Empty"
    assert state_of(generation(), [], NOW) == "Empty"
    assert state_of(Generation(1, tombstone=True), [], NOW) == "Dead"


def test_the_status_of_a_group_summarizes_its_partitions() -> None:
    c = member("c")
    record = generation(A._replace(assigned=partitions(0)), B, c)
    windows = [
        window(0, lag=70),
        window(1, lag=0, owner=B),
        window(2, owner=None, lag=20),
        window(3, sampled=False),
    ]
    rows = [partition_status(now(record), each) for each in windows]
    row = group_status(now(record), rows, [])
    assert (row.status, row.status_burrow) == ("NO_OWNER", "WARN")
    assert (row.total_lag, row.max_lag, row.max_lag_partition) == (90, 70, 0)
    assert (row.members, row.partitions, row.unassigned) == (3, 4, 1)
    assert (row.rebalances_1h, row.pause_share_1h) == (0, 0.0)
    assert describe_worst(rows).startswith("orders-2 (lag 20, NO_OWNER), orders-0 (lag 70, WARN)")


def test_without_samples_the_lag_of_a_group_is_unknown() -> None:
    rows = [partition_status(now(STABLE), window(sampled=False))]
    row = group_status(now(STABLE), rows, [])
    assert (row.status, row.total_lag, row.max_lag, row.max_lag_topic) == ("UNKNOWN", *[None] * 3)
