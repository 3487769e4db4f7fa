"""The last commits of every partition, and the last samples of every log: what a status rests on.

Of each partition the last ten commits are remembered (Burrow's `intervals`), those of one second as
one. A second is one of the clock here, not one since the commit before: so it does not matter where
batches begin, and nothing has to be held against its neighbour.
"""

from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..diagnosis.burrow import INTERVALS
from ..state_tables import STATE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["samples_now", "windows"]

_KEY: Final = ["cluster", "group", "topic", "partition"]
_TOPIC: Final = ["cluster", "topic", "partition"]
# The commits of one second: the first one's time, as Burrow keeps it, and what the last one says.
_POINT: Final = "struct(log_offset, second, at_ms, offset, lag, last_ms)"
# Samples that a status is told from: these many of the newest, of older ones the first of each
# doubling of age, up to a week: where a consumer was hours ago is told by some minutes less well.
SAMPLES: Final = 10


def windows(old: "DataFrame", commits: "DataFrame") -> "DataFrame":
    """state_window after the rows `commits` of silver_commit."""
    fresh = _fresh(commits)
    both = old.select(*_KEY, F.col("points").alias("before")).join(fresh, _KEY, "full")
    # What was committed before a tombstone is gone with it.
    left = "filter(before, p -> removed IS NULL OR p.log_offset > removed)"
    joined = f"""CASE WHEN points IS NULL THEN {left} WHEN before IS NULL THEN points
        WHEN element_at(before, -1).second = points[0].second AND size({left}) > 0
        THEN concat(slice({left}, 1, size({left}) - 1), array(named_struct(
            'log_offset', points[0].log_offset, 'second', points[0].second,
            'at_ms', element_at(before, -1).at_ms, 'offset', points[0].offset,
            'lag', points[0].lag, 'last_ms', points[0].last_ms)),
            slice(points, 2, {INTERVALS}))
        ELSE concat({left}, points) END"""
    return (
        both.withColumn("points", F.expr(joined))
        .where("size(points) > 0")
        .withColumn(
            "points",
            F.expr(
                f"IF(size(points) > {INTERVALS}, slice(points, -{INTERVALS}, {INTERVALS}), points)"
            ),
        )
        .select(*STATE["state_window"].schema.names)
    )


def _fresh(commits: "DataFrame") -> "DataFrame":
    """Of a batch: each partition's last seconds with commits, and its last tombstone."""
    removed = (
        commits.where("kind = 'TOMBSTONE'").groupBy(*_KEY).agg(F.max("log_offset").alias("removed"))
    )
    at_ms = F.unix_millis("commit_ts")
    last = Window.partitionBy(*_KEY).orderBy(F.desc("log_offset"))
    points = (
        commits.where("kind <> 'TOMBSTONE'")
        .select(*_KEY, "log_offset", "offset", "lag", at_ms.alias("at_ms"))
        .groupBy(*_KEY, F.expr("at_ms div 1000").alias("second"))
        .agg(
            F.max("log_offset").alias("log_offset"),
            F.min("at_ms").alias("at_ms"),
            F.max_by("offset", "log_offset").alias("offset"),
            F.max_by("lag", "log_offset").alias("lag"),
            F.max("at_ms").alias("last_ms"),
        )
        .withColumn("n", F.row_number().over(last))
        .where(F.col("n") <= INTERVALS)
        .groupBy(*_KEY)
        .agg(F.array_sort(F.collect_list(F.expr(_POINT))).alias("points"))
    )
    gone = "filter(points, p -> removed IS NULL OR p.log_offset > removed)"
    return points.join(removed, _KEY, "full").withColumn(
        "points", F.expr(f"CASE WHEN size({gone}) > 0 THEN {gone} END")
    )


def samples_now(samples: "DataFrame", now: datetime) -> "DataFrame":
    """Of each topic's partition the samples that a status is told from, in the order of time."""
    newest = Window.partitionBy(*_TOPIC).orderBy(F.desc("sampled_at"))
    age_ms = F.unix_millis(F.lit(now)) - F.unix_millis("sampled_at")
    # An age of a minute and of two are one doubling apart; the last ten are younger, or few.
    doubling = F.floor(F.log2(F.greatest(age_ms, F.lit(60_000)) / 60_000))
    of_age = Window.partitionBy(*_TOPIC, "doubling").orderBy("sampled_at")
    return (
        samples.where(F.col("sampled_at") <= F.lit(now))
        .withColumn("doubling", doubling)
        .withColumn("n", F.row_number().over(newest))
        .withColumn("of_age", F.row_number().over(of_age))
        .where((F.col("n") <= SAMPLES) | (F.col("of_age") == 1))
        .groupBy(*_TOPIC)
        .agg(
            F.array_sort(
                F.collect_list(
                    F.struct(
                        F.unix_millis("sampled_at").alias("sampled_ms"), "log_end", "log_start"
                    )
                )
            ).alias("samples")
        )
    )
