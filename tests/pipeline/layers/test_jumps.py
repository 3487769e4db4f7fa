"""Offsets that went where no reading takes them, and rows that break what is expected."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from kohort.pipeline.lake.frames import empty_frame, spark_schema
from kohort.pipeline.layers import expectations, jumps
from kohort.pipeline.state_tables import STATE
from kohort.pipeline.tables import TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Row = dict[str, Any]


def frame(spark: Any, table: str, rows: list[Row]) -> Any:
    """Columns that a test says nothing about are null."""
    fields = [field.with_nullable(True) for field in TABLES[table].schema]
    schema = spark_schema(pa.schema(fields))
    return spark.createDataFrame([tuple(row.get(n) for n in schema.names) for row in rows], schema)


def commits(group: str, *moves: Row) -> list[Row]:
    """One partition's; each goes on by ten where it does not say otherwise."""
    rows: list[Row] = []
    offset = 1_000
    for number, move in enumerate(({}, *moves)):
        before, offset = offset, move.get("offset", offset + 10)
        rows.append(
            {
                "cluster": "c",
                "group": group,
                "topic": "t",
                "partition": 0,
                "offsets_partition": 0,
                "log_offset": number,
                "commit_ts": NOON + timedelta(seconds=number),
                "leader_epoch": 3,
                "generation": 5,
                "generation_log_offset": 0,
                "client_id": "mine",
                "group_empty": False,
                "history_complete": True,
                "gap_ms": 1_000 if number else None,
                **move,
                "offset": offset,
                "prev_offset": before if number else None,
                "delta": offset - before if number else None,
                "kind": "FIRST" if not number else "ADVANCE" if offset > before else "REWIND",
            }
        )
    return rows


# Without a leader epoch, in a group without members: so does kafka-consumer-groups.
RESET: Row = {"group_empty": True, "leader_epoch": None, "client_id": None}
USUAL: list[Row] = [{}] * 20
STORIES: dict[str, tuple[list[Row], tuple[str, str | None] | None]] = {
    "reads on": (USUAL, None),
    "seeks back": ([*USUAL, {"offset": 700}], ("SEEK_BACK", "mine")),
    "was reset back": ([*USUAL, {**RESET, "offset": 700}], ("ADMIN_RESET", "administrator")),
    "was reset ahead": ([*USUAL, {**RESET, "offset": 1_300}], ("ADMIN_RESET", "administrator")),
    "had no members ever": ([*USUAL, {**RESET, "generation": 0, "offset": 1_300}], None),
    "skips ahead": ([*USUAL, {"offset": 9_000}], ("SKIP_AHEAD", "mine")),
    "begins anew": ([*USUAL, {"offset": 101}], ("TO_EARLIEST", "mine")),
    "goes to the end": ([*USUAL, {"offset": 20_000}], ("TO_LATEST", "mine")),
    "takes over": (
        [*USUAL, {"generation_log_offset": 21, "offset": 1_150}],
        ("DUPLICATE_AFTER_REBALANCE", "mine"),
    ),
    "catches up": ([*USUAL, {"offset": 3_000, "gap_ms": 60_000}], None),
    # Whatever is far to others: of so few nobody knows.
    "has just begun": ([{}, {"offset": 9_000}], None),
}


@pytest.mark.spark
def test_each_jump_says_who_moved_the_offset_and_how(spark: Any) -> None:
    told = [row for name, (moves, _) in STORIES.items() for row in commits(name, *moves)]
    rows = frame(spark, "silver_commit", told)
    usual = jumps.deltas(rows, empty_frame(spark, STATE["state_delta"].schema))
    samples = [
        {
            "cluster": "c",
            "topic": "t",
            "partition": 0,
            "log_start": 100,
            "log_end": 20_001,
            "sampled_at": NOON,
        }
    ]
    found = jumps.offset_jumps(
        jumps.candidates(rows, jumps.far(usual)),
        rows,
        frame(
            spark,
            "silver_activity",
            [{**row, "commits": 7} for row in commits("seeks back")],
        ),
        frame(spark, "bronze_log_end", samples),
    ).collect()
    expected = {name: jump for name, (_, jump) in STORIES.items() if jump}
    assert {row["group"]: (row["kind"], row["by"]) for row in found} == expected
    assert len(found) == len(expected)
    back = next(row for row in found if row["group"] == "seeks back")
    assert (back.from_offset, back.to_offset, back.jump) == (1_210, 700, -510)


@pytest.mark.spark
def test_rows_that_are_not_as_expected_are_counted(spark: Any) -> None:
    good: Row = {
        "cluster": "c",
        "group": "g",
        "topic": "t",
        "partition": 0,
        "offsets_partition": 0,
        "log_offset": 1,
        "commit_ts": NOON,
        "kind": "ADVANCE",
        "offset": 7,
        "prev_offset": 5,
        "delta": 2,
        "gap_ms": 1,
        "group_empty": False,
        "history_complete": True,
    }
    rows = [good, {**good, "delta": 3}, {**good, "gap_ms": -1}, {**good, "delta": None}]
    seen, observation = expectations.watched("silver_commit", frame(spark, "silver_commit", rows))
    assert seen.count() == len(rows)
    assert observation is not None
    assert expectations.counts(observation) == {
        "a delta is the offset less the one before": 2,
        "time does not run backwards": 1,
    }
    assert expectations.watched("gold_skew", seen) == (seen, None)
