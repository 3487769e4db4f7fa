"""Of each partition the last ten commits are remembered, those of one second as one."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from kohort.pipeline.layers.windows import windows
from kohort.pipeline.state_tables import STATE
from kohort.pipeline.tables import TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
EMPTY = STATE["state_window"].schema.empty_table()


def commits(*at: float, of: int = 0, place: int = 0) -> list[dict[str, Any]]:
    """`at`: seconds after noon; the offset is the place in the log; minus one: a tombstone."""
    return [
        {
            "cluster": "c",
            "offsets_partition": 0,
            "group": "g",
            "topic": "t",
            "partition": of,
            "log_offset": number,
            "offset": None if seconds < 0 else number,
            "lag": 5,
            "commit_ts": NOON + timedelta(seconds=seconds),
            "kind": "TOMBSTONE" if seconds < 0 else "ADVANCE",
        }
        for number, seconds in enumerate(at, place)
    ]


def after(*batches: list[dict[str, Any]]) -> dict[int, list[tuple[int, int, int]]]:
    """Partition -> (offset, at_ms and last_ms after noon) of each point."""
    schema = pa.schema([field.with_nullable(True) for field in TABLES["silver_commit"].schema])
    found = EMPTY
    for rows in batches:
        found = windows(found, pa.Table.from_pylist(rows, schema))
    return {
        row["partition"]: [
            (point["offset"], point["at_ms"] - NOON_MS, point["last_ms"] - NOON_MS)
            for point in row["points"]
        ]
        for row in found.to_pylist()
    }


ROWS = commits(0.1, 0.2, 0.9, 1.0, 3.5, 3.6)


@pytest.mark.parametrize("cut", range(len(ROWS) + 1))
def test_commits_of_one_second_are_one_wherever_batches_begin(cut: int) -> None:
    assert after(ROWS[:cut], ROWS[cut:]) == {
        0: [(2, 100, 900), (3, 1_000, 1_000), (5, 3_500, 3_600)]
    }


def test_a_second_that_comes_again_is_another_one() -> None:
    assert after(commits(0.1, 1.2, 0.5)) == {
        0: [(0, 100, 100), (1, 1_200, 1_200), (2, 500, 500)],
    }


@pytest.mark.parametrize("cut", [1, 7, 12, 13])
def test_ten_are_remembered_of_each_partition(cut: int) -> None:
    rows = commits(*range(13)) + commits(5, of=1, place=20)
    found = after(rows[:cut], rows[cut:])
    assert [offset for offset, _, _ in found[0]] == list(range(3, 13))
    assert found[1] == [(20, 5_000, 5_000)]


@pytest.mark.parametrize("cut", range(5))
def test_what_was_committed_before_a_tombstone_is_gone_with_it(cut: int) -> None:
    rows = commits(0, 1, -1, 2)
    assert after(rows[:cut], rows[cut:]) == {0: [(3, 2_000, 2_000)]}
    assert after(rows[: min(cut, 3)], rows[min(cut, 3) : 3]) == {}
