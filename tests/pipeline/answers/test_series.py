"""Lag over time, where somebody commits and where nobody does."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kohort.pipeline.answers.series import SHORT_SPAN, lag_series
from kohort.pipeline.lake import Lake, write_batch

from .world import CLUSTER, NINE, NOW, of

HOUR = timedelta(hours=1)


def lags(path: Path, tables: dict[str, list[dict[str, Any]]], begin: datetime, points: int) -> Any:
    write_batch(path, tables, cluster=CLUSTER, as_of=NOW)
    series = lag_series(Lake(path), "g", begin, NOW, points)
    assert series[-1].at == NOW
    return [point.lag for point in series]


def minute(number: int, offset: int, lag: int | None, partition: int = 0) -> dict[str, Any]:
    begin = NINE + timedelta(minutes=number)
    counts = dict.fromkeys(("commits", "advanced", "repeats", "rewinds", "consumed"), 1)
    place = {"topic": "t", "partition": partition, "minute": begin}
    commit = {"last_offset": offset, "last_commit_ts": begin + timedelta(seconds=50)}
    return of("g", **place, **counts, **commit, end_lag=lag)


def status(committed: int, partition: int = 0) -> dict[str, Any]:
    said = {"status": "OK", "status_burrow": "OK", "status_reason": "", "complete": 1.0}
    return of("g", topic="t", partition=partition, committed=committed, as_of=NOW, **said)


def sample(number: int, end: int, partition: int = 0) -> dict[str, Any]:
    place = {"cluster": CLUSTER, "topic": "t", "partition": partition}
    return {**place, "log_end": end, "sampled_at": NINE + timedelta(minutes=number, seconds=30)}


def test_a_commit_tells_its_lag_and_without_one_the_logs_end_goes_on_alone(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(n, 100 * n, 7) for n in range(30)],
        "gold_partition_status": [status(2900)],
        "bronze_log_end": [sample(n, 100 * n + 7) for n in range(60)],
    }
    assert lags(tmp_path, tables, NINE, 6) == [7, 7, 7, 1007, 2007, 3007]


def test_partitions_add_up_and_what_nobody_sampled_adds_nothing(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(n, n, 5, p) for n in range(60) for p in (0, 1)]
        + [minute(n, n, None, 2) for n in range(60)],
        "gold_partition_status": [status(59, p) for p in (0, 1, 2)],
    }
    assert lags(tmp_path, tables, NINE, 4) == [10, 10, 10, 10]


def test_who_has_not_committed_since_before_the_chart_lags_all_the_same(tmp_path: Path) -> None:
    tables = {
        "gold_partition_status": [status(1000)],
        "bronze_log_end": [sample(n, 1000 + 10 * n) for n in range(-5, 60)],
    }
    assert lags(tmp_path, tables, NINE, 3) == [190, 390, 590]


def test_without_any_sample_no_lag_is_known(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(n, n, None) for n in range(60)],
        "gold_partition_status": [status(59)],
    }
    assert lags(tmp_path, tables, NINE, 3) == [None, None, None]


def test_of_a_short_time_each_commit_counts(tmp_path: Path) -> None:
    def commit(seconds: int, lag: int) -> dict[str, Any]:
        when = NOW - SHORT_SPAN + timedelta(seconds=seconds)
        place = {"topic": "t", "partition": 0, "offsets_partition": 0, "log_offset": seconds}
        flags = {"group_empty": False, "history_complete": True, "kind": "ADVANCE"}
        return of("g", **place, **flags, commit_ts=when, offset=seconds, lag=lag)

    tables = {
        "silver_commit": [commit(seconds, seconds) for seconds in range(5, 1200, 10)],
        "gold_partition_status": [status(1195)],
    }
    found = lags(tmp_path, tables, NOW - SHORT_SPAN, 120)
    assert found == list(range(5, 1200, 10))


def test_a_time_shorter_than_its_points_has_fewer(tmp_path: Path) -> None:
    tables = {"gold_partition_status": [status(0)]}
    assert lags(tmp_path, tables, NOW - timedelta(seconds=12), 120) == [None, None]
