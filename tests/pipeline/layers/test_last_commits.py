"""The last ten commits of each partition; those of one second are merged."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from kohort.pipeline.layers.aggregates import last_commits
from kohort.pipeline.tables import STATE_TABLES, TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
EMPTY = STATE_TABLES["state_window"].schema.empty_table()


def commits(*at: float, partition: int = 0, log_offset: int = 0) -> list[dict[str, Any]]:
    """`at`: seconds after noon, or -1 for a tombstone. The offset equals the log offset."""
    return [
        {
            "cluster": "c",
            "offsets_partition": 0,
            "group": "g",
            "topic": "t",
            "partition": partition,
            "log_offset": number,
            "offset": None if seconds < 0 else number,
            "lag": 5,
            "commit_ts": NOON + timedelta(seconds=seconds),
            "kind": "TOMBSTONE" if seconds < 0 else "ADVANCE",
        }
        for number, seconds in enumerate(at, log_offset)
    ]


def after(*batches: list[dict[str, Any]]) -> dict[int, list[tuple[int, int, int]]]:
    """Partition -> (offset, at_ms, last_ms) of each point, in milliseconds after noon."""
    schema = pa.schema([field.with_nullable(True) for field in TABLES["silver_commit"].schema])
    found = EMPTY
    for rows in batches:
        found = last_commits(found, pa.Table.from_pylist(rows, schema))
    return {
        row["partition"]: [
            (point["offset"], point["at_ms"] - NOON_MS, point["last_ms"] - NOON_MS)
            for point in row["points"]
        ]
        for row in found.to_pylist()
    }


ROWS = commits(0.1, 0.2, 0.9, 1.0, 3.5, 3.6)


@pytest.mark.parametrize("cut", range(len(ROWS) + 1))
def test_commits_of_one_second_are_merged_across_batches(cut: int) -> None:
    assert after(ROWS[:cut], ROWS[cut:]) == {
        0: [(2, 100, 900), (3, 1_000, 1_000), (5, 3_500, 3_600)]
    }


def test_commits_of_a_repeated_second_are_not_merged() -> None:
    assert after(commits(0.1, 1.2, 0.5)) == {
        0: [(0, 100, 100), (1, 1_200, 1_200), (2, 500, 500)],
    }


@pytest.mark.parametrize("cut", [1, 7, 12, 13])
def test_ten_commits_of_each_partition_are_kept(cut: int) -> None:
    rows = commits(*range(13)) + commits(5, partition=1, log_offset=20)
    found = after(rows[:cut], rows[cut:])
    assert [offset for offset, _, _ in found[0]] == list(range(3, 13))
    assert found[1] == [(20, 5_000, 5_000)]


@pytest.mark.parametrize("cut", range(5))
def test_a_tombstone_removes_the_commits_before_it(cut: int) -> None:
    rows = commits(0, 1, -1, 2)
    assert after(rows[:cut], rows[cut:]) == {0: [(3, 2_000, 2_000)]}
    assert after(rows[: min(cut, 3)], rows[min(cut, 3) : 3]) == {}
