"""gold_offset_jump: offsets that went back, or far ahead, and who moved them.

What is far is told by what is usual: of each group and topic `state_delta` counts by how much
offsets have grown in a second, by powers of two. Ten times what all but one in a hundred stay below
is far. By the second, because who takes a partition over, or comes back, commits at once what was
read since the commit before.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..state_tables import STATE
from ..tables import TABLES
from .log_ends import TOLERANCE_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["candidates", "deltas", "far", "offset_jumps", "tables"]

FAR: Final = 10
# Of fewer than a hundred the hundredth part is none: then one in ten is left out. Of fewer than
# ten nothing is usual.
DELTAS_MIN: Final = 10
DELTAS_MANY: Final = 100
# A commit of what the owner before had read, and the one that follows it.
FIRST_COMMITS: Final = 2

# Records in a second since the commit before; of commits that are nearer, since a second before.
_PACE: Final = "greatest(delta * 1000 div greatest(gap_ms, 1000L), 1L)"

_TOPIC: Final = ["cluster", "group", "topic"]
_KEY: Final = [*_TOPIC, "partition"]
_IN_GENERATION: Final = [*_KEY, "generation_log_offset"]

# Whoever is no member gives no leader epoch: kafka-consumer-groups --reset-offsets.
_KIND: Final = f"""CASE
    WHEN group_empty AND leader_epoch IS NULL THEN 'ADMIN_RESET'
    WHEN delta < 0 AND abs(offset - log_start) <= 1 THEN 'TO_EARLIEST'
    WHEN delta > 0 AND abs(offset - log_end) <= 1 THEN 'TO_LATEST'
    WHEN delta > 0 THEN 'SKIP_AHEAD'
    WHEN generation_log_offset IS NOT NULL AND number <= {FIRST_COMMITS}
        THEN 'DUPLICATE_AFTER_REBALANCE'
    ELSE 'SEEK_BACK' END"""


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    if not batch.rows("silver_commit"):
        return {}
    commits = batch.new("silver_commit")
    usual = batch.keep(deltas(commits, batch.old("state_delta")))
    moved = batch.keep(candidates(commits, far(usual)))
    if moved.isEmpty():
        return {"state_delta": usual}
    samples = batch.old("state_log_end").unionByName(batch.new("bronze_log_end"))
    jumps = offset_jumps(moved, commits, batch.old("state_activity"), samples)
    return {"state_delta": usual, "gold_offset_jump": jumps}


def deltas(commits: "DataFrame", before: "DataFrame") -> "DataFrame":
    """state_delta after the batch: how many paces are below 2 ** magnitude, and not below half."""
    new = (
        commits.where("delta > 0")
        .withColumn("magnitude", F.expr(f"CAST(floor(log2({_PACE})) AS INT) + 1"))
        .groupBy(*_TOPIC, "magnitude")
        .agg(F.count("*").alias("deltas"))
    )
    names = STATE["state_delta"].schema.names
    return (
        new.unionByName(before.select(*names))
        .groupBy(*_TOPIC, "magnitude")
        .agg(F.sum("deltas").alias("deltas"))
        .select(*names)
    )


def far(usual: "DataFrame") -> "DataFrame":
    """From which pace on an offset of a group and topic has jumped; no row where too few are
    known."""
    all_of = Window.partitionBy(*_TOPIC)
    below = F.sum("deltas").over(all_of.orderBy("magnitude"))
    total = F.sum("deltas").over(all_of)
    share = F.when(total < DELTAS_MANY, 0.9).otherwise(0.99)
    return (
        usual.withColumn("reached", below >= total * share)
        .withColumn("total", total)
        .where(f"reached AND total >= {DELTAS_MIN}")
        .groupBy(*_TOPIC)
        .agg(F.expr(f"shiftleft(1L, min(magnitude)) * {FAR}").alias("far"))
    )


def candidates(commits: "DataFrame", far: "DataFrame") -> "DataFrame":
    """Commits that moved as no reading moves them."""
    # A group that has had members, and is empty: none of them commits. One that never had any
    # (an assignor of its own, Connect's and Flink's offsets) commits all the time.
    by_nobody = "(group_empty AND generation > 0 AND leader_epoch IS NULL AND delta > 0)"
    return (
        commits.where("delta <> 0")
        .join(F.broadcast(far), _TOPIC, "left")
        .where(f"delta < 0 OR (delta > 0 AND {_PACE} > far) OR {by_nobody}")
        .select(*commits.columns)
    )


def offset_jumps(
    moved: "DataFrame", commits: "DataFrame", activity: "DataFrame", samples: "DataFrame"
) -> "DataFrame":
    """`moved`: candidates among `commits`; `activity`: what earlier batches had of them
    (state_activity); `samples`: of the logs' beginnings and ends."""
    return (
        _beside_samples(_numbered(moved, commits, activity), samples)
        .withColumn("kind", F.expr(_KIND))
        .select(
            *_KEY,
            "log_offset",
            F.col("commit_ts").alias("ts"),
            F.col("prev_offset").alias("from_offset"),
            F.col("offset").alias("to_offset"),
            F.col("delta").alias("jump"),
            "kind",
            F.when(F.col("kind") == "ADMIN_RESET", "administrator")
            .otherwise(F.col("client_id"))
            .alias("by"),
        )
        .select(*TABLES["gold_offset_jump"].schema.names)
    )


def _numbered(moved: "DataFrame", commits: "DataFrame", activity: "DataFrame") -> "DataFrame":
    """`moved` with `number`, the how manieth of its partition in its generation each is."""
    touched = moved.select(*_IN_GENERATION).distinct()
    before = (
        activity.join(F.broadcast(touched), _IN_GENERATION, "semi")
        .groupBy(*_IN_GENERATION)
        .agg(F.sum("commits").alias("commits_before"))
    )
    in_order = Window.partitionBy(*_IN_GENERATION).orderBy("log_offset")
    numbers = (
        commits.where("kind <> 'TOMBSTONE'")
        .join(F.broadcast(touched), _IN_GENERATION, "semi")
        .select(*_IN_GENERATION, "log_offset", F.row_number().over(in_order).alias("number"))
    )
    return (
        moved.join(numbers, [*_IN_GENERATION, "log_offset"], "left")
        .join(before, _IN_GENERATION, "left")
        .withColumn("number", F.expr("number + coalesce(commits_before, 0)"))
        .drop("commits_before")
    )


def _beside_samples(moved: "DataFrame", samples: "DataFrame") -> "DataFrame":
    """`moved` with log_start and log_end of the last sample before each, if it is young enough."""
    place = ["cluster", "topic", "partition"]
    age_ms = "unix_millis(moved.commit_ts) - unix_millis(samples.sampled_at)"
    seen = (
        F.broadcast(moved.select(*place, "group", "log_offset", "commit_ts"))
        .alias("moved")
        .join(samples.alias("samples"), place)
        .where(f"{age_ms} BETWEEN 0 AND {TOLERANCE_MS}")
        .groupBy(*place, "group", "log_offset")
        .agg(
            F.max_by("log_start", "sampled_at").alias("log_start"),
            F.max_by("log_end", "sampled_at").alias("log_end"),
        )
    )
    return moved.join(seen, [*place, "group", "log_offset"], "left")
