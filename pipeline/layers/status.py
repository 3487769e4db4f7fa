"""How every group is now: gold_partition_status, gold_group_status, gold_diagnosis.

A group that is stuck writes nothing, and time alone makes it so: each batch that has caught up with
the log tells all groups anew, from state and from what gold says of their last day. Until then the
answers of before stay: nobody waits for those of a moment that has passed.
"""

from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..lake.frames import spark_schema
from .gathering import GENERATION, in_ms
from .generations import newest
from .status_rows import TOLD, told

if TYPE_CHECKING:
    from .batch import Batch

__all__ = ["tables"]

_GROUP: Final = ["cluster", "group"]
_TOPIC: Final = ["cluster", "topic", "partition"]
# What is told of a group's past: a day, and the newest of a table. 360 rebalances an hour are one
# in ten seconds, more than any that came to its end.
_LATELY_MS: Final = 24 * 3_600_000
_ROWS_MAX: Final = 500
# Samples that a status is told from: these many of the newest, of older ones the first of each
# doubling of age, up to a week: where a consumer was hours ago is told by some minutes less well.
_SAMPLES_MAX: Final = 10
# gold table -> its time, and by what its rows are old or new
_PAST: Final = {
    "gold_rebalance": ("synced_at", "log_offset"),
    "gold_member_exit": ("left_at", "log_offset"),
    "gold_rebalance_storm": ("to_ts", "to_ts"),
}
# Of a log that is read to its end two samples tell the pace, and nothing else is asked.
_SAMPLES: Final = """CASE WHEN samples IS NULL THEN NULL
    WHEN element_at(samples, -1).log_end <= element_at(points, -1).offset AND size(samples) > 2
    THEN array(element_at(samples, greatest(-size(samples), -10)), element_at(samples, -1))
    ELSE samples END"""
_WINDOW: Final = """struct(topic, partition, points.offset AS offsets, points.at_ms AS at_ms,
    points.lag AS lags, element_at(points, -1).last_ms AS last_ms, samples.sampled_ms AS sampled_ms,
    samples.log_end AS log_ends, samples.log_start AS log_starts) AS window"""


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    found: dict[str, DataFrame] = {}
    if not batch.caught_up:
        return found
    now_ms = int(batch.now.timestamp() * 1000)
    rows = batch.keep(
        _parts(batch, now_ms)
        .groupBy(*_GROUP)
        .applyInArrow(lambda parts: told(parts, now_ms), spark_schema(TOLD))
    )
    for name in TOLD.names:
        if name.startswith("gold_"):
            found[name] = rows.selectExpr(f"inline({name})")
    return found


def _parts(batch: "Batch", now_ms: int) -> "DataFrame":
    """All that the rules are given, each row a part in the column of its name."""
    samples = _samples_now(batch.new("state_log_end"), batch.now)
    of_partition = (
        # Where the offsets topic was given more partitions, a group may stand in two: it is told by
        # the one that it has committed to last.
        batch.new("state_window")
        .groupBy(*_GROUP, "topic", "partition")
        .agg(F.expr("max_by(points, element_at(points, -1).last_ms) AS points"))
        .join(samples, ["cluster", "topic", "partition"], "left")
        .withColumn("samples", F.expr(_SAMPLES))
        .selectExpr(*_GROUP, _WINDOW)
    )
    record = newest(batch.new("state_generation")).selectExpr(
        *_GROUP, f"struct({GENERATION}) AS generation"
    )
    with_members = newest(batch.new("state_generation").where("size(member_list) > 0"))
    last = with_members.selectExpr(*_GROUP, f"struct({GENERATION}) AS last_with_members")
    consumers = batch.new("state_consumer")
    consumers = consumers.selectExpr(*_GROUP, "struct(key, value) AS consumer")
    frames = [of_partition, record, last, consumers]
    for table, (time, place) in _PAST.items():
        by_place = Window.partitionBy(*_GROUP).orderBy(F.desc(place))
        lately = batch.new(table).where(F.unix_millis(time) >= now_ms - _LATELY_MS)
        frames.append(
            lately.withColumn("n", F.row_number().over(by_place))
            .where(F.col("n") <= _ROWS_MAX)
            .select(*_GROUP, in_ms(table))
        )
    of_record = F.max("log_offset").over(Window.partitionBy(*_GROUP))
    skews = batch.new("gold_skew").withColumn("newest", of_record).where("log_offset = newest")
    frames.append(skews.select(*_GROUP, in_ms("gold_skew")))
    frames.append(batch.new("gold_group_lifecycle").select(*_GROUP, in_ms("gold_group_lifecycle")))
    return reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames)


def _samples_now(samples: "DataFrame", now: datetime) -> "DataFrame":
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
        .where((F.col("n") <= _SAMPLES_MAX) | (F.col("of_age") == 1))
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
