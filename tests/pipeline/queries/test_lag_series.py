"""A group's lag over time, with and without commits."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from kohort.pipeline.lag_series import COMMITS_SPAN_MAX_MS, lag_series
from kohort.pipeline.lake import Lake
from lake_builder import CLUSTER, NINE, NOW, group_row, ms, write_batch

SPAN = timedelta(milliseconds=COMMITS_SPAN_MAX_MS)


def lags(path: Path, tables: dict[str, list[dict[str, Any]]], begin: datetime, points: int) -> Any:
    write_batch(path, tables, cluster=CLUSTER, as_of=NOW)
    series = lag_series(Lake(path), "g", ms(begin), ms(NOW), points)
    assert series[-1].at_ms == ms(NOW)
    return [point.lag for point in series]


def minute(
    number: int, offset: int, lag: int | None, partition: int = 0, **more: int
) -> dict[str, Any]:
    begin = NINE + timedelta(minutes=number)
    counts = dict.fromkeys(("commits", "advanced", "repeats", "rewinds", "consumed"), 1)
    key = {"topic": "t", "partition": partition, "minute": begin}
    commit = {"last_offset": offset, "last_commit_ts": begin + timedelta(seconds=50)}
    return group_row("g", **key | counts | commit | more, end_lag=lag)


def status(committed: int, partition: int = 0) -> dict[str, Any]:
    rest = {"status": "OK", "status_burrow": "OK", "status_reason": "", "complete": 1.0}
    return group_row("g", topic="t", partition=partition, committed=committed, as_of=NOW, **rest)


def sample(number: int, end: int, partition: int = 0) -> dict[str, Any]:
    key = {"cluster": CLUSTER, "topic": "t", "partition": partition}
    return {**key, "log_end": end, "sampled_at": NINE + timedelta(minutes=number, seconds=30)}


def test_without_commits_the_lag_grows_with_the_log_end(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(n, 100 * n, 7) for n in range(30)],
        "gold_partition_status": [status(2900)],
        "bronze_log_end": [sample(n, 100 * n + 7) for n in range(60)],
    }
    assert lags(tmp_path, tables, NINE, 6) == [7, 7, 7, 1007, 2007, 3007]


def test_lags_of_partitions_add_up_and_unknown_lags_do_not_count(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(n, n, 5, p) for n in range(60) for p in (0, 1)]
        + [minute(n, n, None, 2) for n in range(60)],
        "gold_partition_status": [status(59, p) for p in (0, 1, 2)],
    }
    assert lags(tmp_path, tables, NINE, 4) == [10, 10, 10, 10]


def test_a_group_whose_last_commit_is_before_the_chart_has_a_lag(tmp_path: Path) -> None:
    tables = {
        "gold_partition_status": [status(1000)],
        "bronze_log_end": [sample(n, 1000 + 10 * n) for n in range(-5, 60)],
    }
    assert lags(tmp_path, tables, NINE, 3) == [190, 390, 590]


def test_a_partition_has_a_lag_before_its_first_commit_in_the_chart(tmp_path: Path) -> None:
    caught_up = {"commits": 1, "advanced": 1, "repeats": 0, "rewinds": 0, "consumed": 1000}
    tables = {
        "gold_partition_minute": [minute(n, 0, 0) for n in range(60)]
        + [minute(-120, 0, 0, 1), minute(45, 1000, 0, 1, **caught_up)],
        "gold_partition_status": [status(0), status(1000, 1)],
        "bronze_log_end": [sample(n, 1000 * p, p) for n in range(-20, 60) for p in (0, 1)],
    }
    assert lags(tmp_path / "caught up", tables, NINE, 6) == [1000, 1000, 1000, 1000, 0, 0]
    # The partition's first commit: it had no lag before.
    tables["gold_partition_minute"][-1] |= {"advanced": 0, "consumed": 0}
    assert lags(tmp_path / "new", tables, NINE, 6) == [0, 0, 0, 0, 0, 0]


def test_a_commit_without_a_lag_is_compared_with_the_log_end(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(1, 10, 500), minute(2, 510, None)],
        "gold_partition_status": [status(510)],
        "bronze_log_end": [sample(0, 510)],
    }
    assert lags(tmp_path, tables, NINE, 6) == [0, 0, 0, 0, 0, 0]


def test_without_samples_the_lag_is_unknown(tmp_path: Path) -> None:
    tables = {
        "gold_partition_minute": [minute(n, n, None) for n in range(60)],
        "gold_partition_status": [status(59)],
    }
    assert lags(tmp_path, tables, NINE, 3) == [None, None, None]


def commit(seconds: int, lag: int | None) -> dict[str, Any]:
    time = NOW - SPAN + timedelta(seconds=seconds)
    position = {"topic": "t", "partition": 0, "offsets_partition": 0, "log_offset": seconds}
    flags = {"group_empty": False, "history_complete": True, "kind": "ADVANCE"}
    return group_row("g", **position, **flags, commit_ts=time, offset=seconds, lag=lag)


def test_a_short_chart_shows_each_commit(tmp_path: Path) -> None:
    tables = {
        "silver_commit": [commit(seconds, seconds) for seconds in range(5, 1200, 10)],
        "gold_partition_status": [status(1195)],
    }
    found = lags(tmp_path, tables, NOW - SPAN, 120)
    assert found == list(range(5, 1200, 10))


def test_a_short_chart_begins_with_the_previous_offset_and_ends_with_a_tombstone(
    tmp_path: Path,
) -> None:
    tables = {
        "silver_commit": [
            commit(700, 0) | {"offset": 1000, "prev_offset": 400},
            commit(1000, None) | {"offset": None, "kind": "TOMBSTONE"},
        ],
        "gold_partition_status": [status(0, 1)],
        "bronze_log_end": [sample(n, 1000) for n in range(30, 60)],
    }
    assert lags(tmp_path, tables, NOW - SPAN, 4) == [600, 600, 0, None]


def test_a_chart_shorter_than_its_points_has_fewer_points(tmp_path: Path) -> None:
    tables = {"gold_partition_status": [status(0)]}
    assert lags(tmp_path, tables, NOW - timedelta(seconds=2), 120) == [None, None]
