"""What happened to groups, told anew for those of which there is news: gold_rebalance and its kin.

The rules (pipeline/diagnosis) make rows of a group's Story in one call of Python. Rows of records
that are settled are carried over as they are, and so are those of all other groups.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ..lake.frames import spark_schema
from ..state_tables import STATE
from ..tables import TABLES
from .gathering import gathered, removals, shares, touched
from .story_rows import TOLD, told

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["activities", "tables"]

_GROUP: Final = ["cluster", "group"]
_LIVES: Final = "gold_group_lifecycle"
_KEY: Final = [*_GROUP, "topic", "partition"]
# Tombstones that a later batch may need: a group's own follows those of its offsets at once, and a
# topic is deleted from all groups within a minute.
_REMOVALS_MS: Final = 3_600_000


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    found = _state(batch)
    if not any(map(batch.rows, ("silver_generation", "silver_commit", "bronze_event"))):
        return found
    groups = batch.keep(touched(batch))
    if groups.isEmpty():  # most batches of calm groups: they have only committed again
        lives = _went_on(batch.old(_LIVES), batch.new("silver_activity"))
        return found | {_LIVES: lives.select(*TABLES[_LIVES].schema.names)}
    as_of_ms, retention_ms = int(batch.now.timestamp() * 1000), batch.offsets_retention_ms
    rows = batch.keep(
        gathered(batch, groups)
        .groupBy(*_GROUP)
        .applyInArrow(lambda parts: told(parts, as_of_ms, retention_ms), spark_schema(TOLD))
    )
    for name in TOLD.names:
        if name in TABLES:
            fresh = rows.selectExpr(f"inline({name})")
            found[name] = _carried(batch, name, rows).unionByName(fresh)
    return found


# Which rows of a group stay as they are although it is told anew.
_SETTLED: Final = {
    "gold_rebalance_storm": "coalesce(from_ts < storms_since, true)",
    _LIVES: "false",
}


def _carried(batch: "Batch", table: str, rows: "DataFrame") -> "DataFrame":
    """The rows of a gold table that stay as they are."""
    told_anew = rows.select(*_GROUP, "settled", "storms_since", F.lit(True).alias("told_anew"))
    stays = _SETTLED.get(table, "settled IS NULL OR log_offset <= settled")
    others = batch.old(table).join(F.broadcast(told_anew), _GROUP, "left")
    others = others.where(f"told_anew IS NULL OR ({stays})")
    if table == _LIVES:
        others = _went_on(others, batch.new("silver_activity"))
    return others.select(*TABLES[table].schema.names)


def _went_on(lives: "DataFrame", activity: "DataFrame") -> "DataFrame":
    """Groups of which nothing is to be told but that they committed again."""
    newest = activity.groupBy(*_GROUP).agg(F.max("last_commit_ts").alias("newest"))
    return lives.join(newest, _GROUP, "left").withColumn(
        "last_commit", F.greatest("last_commit", "newest")
    )


def _state(batch: "Batch") -> "dict[str, DataFrame]":
    found = {}
    if batch.rows("silver_activity") or batch.rows("silver_generation"):
        found["state_activity"] = activities(
            batch.old("state_activity"), batch.new("silver_activity"), batch.new("state_generation")
        )
    if batch.rows("silver_commit"):
        at = F.unix_millis("removed_at")
        now_ms = int(batch.now.timestamp() * 1000)
        found["state_removal"] = removals(batch).where(at >= now_ms - _REMOVALS_MS)
    return found


def activities(old: "DataFrame", new: "DataFrame", remembered: "DataFrame") -> "DataFrame":
    """state_activity: commits added up under each generation that state_generation remembers, and
    those under none."""
    names = STATE["state_activity"].schema.names
    keys = [*_KEY, "generation_log_offset"]
    live = remembered.select(*_GROUP, F.col("log_offset").alias("generation_log_offset"))
    first, last = "first_commit_ts", "last_commit_ts"
    # The share with most commits knows best how far they lie apart.
    known = F.struct(F.col("median_gap_ms").isNotNull(), "commits")
    return (
        shares(old, new)
        .join(live.withColumn("lives", F.lit(True)), [*_GROUP, "generation_log_offset"], "left")
        .where("lives OR generation_log_offset IS NULL")
        .groupBy(*keys)
        .agg(
            F.max_by("generation", "share").alias("generation"),
            F.sum("commits").alias("commits"),
            F.sum("repeats").alias("repeats"),
            F.min(first).alias(first),
            F.max(last).alias(last),
            F.max("last_advance_ts").alias("last_advance_ts"),
            # By the order of the log: clocks may go back.
            F.min_by("first_offset", "share").alias("first_offset"),
            F.max_by("last_offset", "share").alias("last_offset"),
            F.max("last_log_offset").alias("last_log_offset"),
            F.max_by("median_gap_ms", known).alias("median_gap_ms"),
            F.min("history_complete").alias("history_complete"),
        )
        .select(*names)
    )
