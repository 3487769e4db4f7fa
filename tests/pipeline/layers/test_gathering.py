"""What of activities and samples a story is told from."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from kohort.pipeline.layers.gathering import samples_before
from kohort.pipeline.layers.stories import activities
from kohort.pipeline.state_tables import STATE
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
PLACE = {"cluster": "c", "group": "g", "offsets_partition": 0, "topic": "t", "partition": 0}


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def frame(spark: "SparkSession", table: str, *rows: dict[str, Any]) -> "DataFrame":
    """What a row does not say is null, or a column that is not there."""
    schema = (STATE if table in STATE else TABLES)[table].schema
    fields = [field for field in schema if field.nullable or field.name in rows[0]]
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=pa.schema(fields)))


def share(first_s: float, last_s: float, first: int, last: int) -> dict[str, Any]:
    return PLACE | {
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
def test_commits_add_up_in_the_order_of_the_log_though_the_clock_is_set_back(
    spark: "SparkSession",
) -> None:
    found = activities(
        frame(spark, "state_activity", share(10, 20, 101, 120)),
        frame(spark, "silver_activity", share(5, 15, 121, 140)),
        frame(spark, "state_generation", record(70, 0)),
    )
    (row,) = found.collect()
    assert (row["commits"], row["first_offset"], row["last_offset"]) == (4, 101, 140)


@pytest.mark.spark
def test_all_samples_of_the_minutes_before_a_record_are_asked_and_few_of_earlier_ones(
    spark: "SparkSession",
) -> None:
    seconds = range(-900, 61, 10)
    of = {"cluster": "c", "topic": "t", "partition": 0, "log_start": 0}
    samples = [of | {"log_end": 1_000 + s, "sampled_at": at(s)} for s in seconds]
    found = samples_before(
        frame(spark, "state_log_end", *samples),
        frame(spark, "state_generation", record(70, 30), record(80, 40)),
        frame(spark, "state_activity", share(-800, 0, 0, 9)),
    )
    told = sorted(row["log_end"] - 1_000 for row in found.collect())
    assert told == [-600, -300, *range(-120, 60, 10)]
