"""Lag and time lag: commits beside the samples of how far their topics' logs had come.

A sample counts for a commit that comes after it, and not for long: without one of the last two
periods a lag is not known. How far a group is behind in time is when the record was written that
it reads next, which the samples tell by interpolation (as kafka-lag-exporter does).
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

__all__ = ["LAG_MS_MAX", "TOLERANCE_MS", "beside_log_ends", "remembered"]

# Two periods of 30 s, in which every exporter samples (Burrow's offset-refresh).
TOLERANCE_MS: Final = 60_000
# No record is older where log.retention.hours is Kafka's 168: what lies before the oldest sample
# is reckoned by the pace of the two oldest, and not believed beyond this.
LAG_MS_MAX: Final = 7 * 24 * 3_600_000

_TOPIC: Final = ["topic", "partition"]
_LAG: Final = f"""CASE WHEN offset IS NULL OR seen IS NULL THEN NULL
    WHEN unix_millis(commit_ts) - unix_millis(seen.at) > {TOLERANCE_MS} THEN NULL
    ELSE greatest(seen.log_end - offset, 0L) END"""
_WRITTEN_MS: Final = """below.at_ms + CAST((offset - below.log_end)
    * (below.next_ms - below.at_ms) / (below.next_end - below.log_end) AS LONG)"""
_LAG_MS: Final = f"""CASE WHEN lag = 0 THEN 0L WHEN lag > 0 AND below.next_end > offset
    THEN least(greatest(unix_millis(commit_ts) - ({_WRITTEN_MS}), 0L), {LAG_MS_MAX}L) END"""


def beside_log_ends(rows: "DataFrame", samples: "DataFrame") -> "DataFrame":
    """`rows` with `lag` and `lag_ms`; of them are needed topic, partition, offset, commit_ts.

    `samples`: of schema bronze_log_end. Rows without a commit_ts (marks) come through as well.
    """
    by_topic = Window.partitionBy(*_TOPIC)
    # A sample of the same instant, or of the same offset, counts: it comes first.
    in_time = by_topic.orderBy("commit_ts", F.col("at_ms").isNull())
    by_offset = by_topic.orderBy(
        F.coalesce("log_end", "offset"), F.col("at_ms").isNull(), "commit_ts"
    )
    point = F.struct("log_end", "at_ms", "next_end", "next_ms")
    both = rows.unionByName(_points(samples), allowMissingColumns=True)
    return (
        both.withColumn(
            "seen",
            F.last(
                F.when(F.col("sampled"), F.struct("log_end", F.col("commit_ts").alias("at"))), True
            ).over(_up_to_here(in_time)),
        )
        .withColumn(
            "below",
            F.last(F.when(F.col("at_ms").isNotNull(), point), True).over(_up_to_here(by_offset)),
        )
        .where("at_ms IS NULL")
        .withColumn("lag", F.expr(_LAG))
        .withColumn("lag_ms", F.expr(_LAG_MS))
        .select(*rows.columns, "lag", "lag_ms")
    )


def _points(samples: "DataFrame") -> "DataFrame":
    """Each sample with the next one in which the log had grown, and a point before the oldest one
    that lies on the line through the oldest two, at offset -1; that one is not `sampled`."""
    by_topic = Window.partitionBy(*_TOPIC)
    # Where a log stands still its last sample counts: the next record came after it.
    growing = by_topic.orderBy("log_end", "commit_ts")
    points = samples.select(
        *_TOPIC,
        F.col("sampled_at").alias("commit_ts"),
        "log_end",
        F.unix_millis("sampled_at").alias("at_ms"),
        F.lit(True).alias("sampled"),
    ).select(
        "*",
        F.lead("log_end").over(growing).alias("next_end"),
        F.lead("at_ms").over(growing).alias("next_ms"),
        F.min("log_end").over(by_topic).alias("oldest_end"),
    )
    pace_ms = "(next_ms - at_ms) / (next_end - log_end)"
    before = points.where("log_end = oldest_end AND next_end > log_end").select(
        *_TOPIC,
        F.lit(None).cast("timestamp").alias("commit_ts"),
        F.lit(-1).cast("long").alias("log_end"),
        F.expr(f"at_ms - CAST((log_end + 1) * {pace_ms} AS LONG)").alias("at_ms"),
        F.lit(False).alias("sampled"),
        F.col("log_end").alias("next_end"),
        F.col("at_ms").alias("next_ms"),
    )
    return points.drop("oldest_end").unionByName(before)


def _up_to_here(window: "WindowSpec") -> "WindowSpec":
    return window.rowsBetween(Window.unboundedPreceding, Window.currentRow)


def remembered(samples: "DataFrame", now: datetime) -> "DataFrame":
    """state_log_end: all samples of the last ten minutes, of the last hour the first of each
    minute, of the last week the first of each hour."""

    def first_of(span: str) -> "Column":
        same = Window.partitionBy("cluster", *_TOPIC, F.date_trunc(span, "sampled_at"))
        return F.col("sampled_at") == F.min("sampled_at").over(same)

    age_ms = F.unix_millis(F.lit(now)) - F.unix_millis("sampled_at")
    return (
        samples.withColumn("age_ms", age_ms)
        .withColumn("of_minute", first_of("minute"))
        .withColumn("of_hour", first_of("hour"))
        .where(
            "age_ms <= 600000 OR (of_minute AND age_ms <= 3600000)"
            f" OR (of_hour AND age_ms <= {LAG_MS_MAX})"
        )
        .select("cluster", *_TOPIC, "log_start", "log_end", "sampled_at")
    )
