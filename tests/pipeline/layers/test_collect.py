"""Commits and samples that are collected for a group's history."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from kohort.pipeline.layers.collect import samples_near
from kohort.pipeline.layers.histories import merged_activity
from kohort.pipeline.tables import STATE_TABLES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
KEY = {"cluster": "c", "group": "g", "offsets_partition": 0, "topic": "t", "partition": 0}


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def frame(spark: "SparkSession", table: str, *rows: dict[str, Any]) -> "DataFrame":
    """Nullable columns that a row lacks are null, others are omitted."""
    schema = (STATE_TABLES if table in STATE_TABLES else TABLES)[table].schema
    fields = [field for field in schema if field.nullable or field.name in rows[0]]
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=pa.schema(fields)))


def activity(first_s: float, last_s: float, first: int, last: int) -> dict[str, Any]:
    return KEY | {
        "generation": 3,
        "generation_log_offset": 70,
        "commits": 2,
        "repeats": 1,
        "first_commit_ts": at(first_s),
        "last_commit_ts": at(last_s),
        "first_offset": first,
        "last_offset": last,
        "last_log_offset": last,
        "history_complete": True,
    }


def record(log_offset: int, joined_s: float) -> dict[str, Any]:
    of_group = {"cluster": "c", "group": "g", "offsets_partition": 0, "log_offset": log_offset}
    return of_group | {"joined_at": at(joined_s), "synced_at": at(joined_s)}


@pytest.mark.spark
def test_commits_are_merged_in_log_order_although_the_clock_was_set_back(
    spark: "SparkSession",
) -> None:
    found = merged_activity(
        frame(spark, "state_activity", activity(10, 20, 101, 120)),
        frame(spark, "silver_activity", activity(5, 15, 121, 140)),
        frame(spark, "state_generation", record(70, 0)),
    )
    (row,) = found.collect()
    assert (row["commits"], row["first_offset"], row["last_offset"]) == (4, 101, 140)


@pytest.mark.spark
def test_samples_of_the_last_two_minutes_are_all_collected_and_fewer_of_earlier_ones(
    spark: "SparkSession",
) -> None:
    seconds = range(-900, 61, 10)
    of = {"cluster": "c", "topic": "t", "partition": 0, "log_start": 0}
    samples = [of | {"log_end": 1_000 + s, "sampled_at": at(s)} for s in seconds]
    found = samples_near(
        frame(spark, "state_log_end", *samples),
        frame(spark, "state_generation", record(70, 30), record(80, 40)),
        frame(spark, "state_activity", activity(-800, 0, 0, 9)),
    )
    seconds_found = sorted(row["log_end"] - 1_000 for row in found.collect())
    assert seconds_found == [-600, -300, *range(-120, 60, 10)]
