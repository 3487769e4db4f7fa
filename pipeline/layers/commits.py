"""Each commit beside the one before it, the generation in force and the owner: silver_commit.

What counts at a place of the log is decided by that place alone, so commits and what bears on them
are rows of one frame, moved once and sorted once: the last commit before the batch
(`state_commit`), what each generation assigned, and the commits.
"""

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..state_tables import STATE
from ..tables import TABLES
from . import log_ends, places
from .as_of import in_force
from .generations import newest
from .transactions import OPEN, markers_of, settled

if TYPE_CHECKING:
    from pyspark.sql import WindowSpec

    from .batch import Batch
    from .places import Reach

__all__ = ["entries", "open_ones", "silver_commit", "tables", "under_generations"]

_KEY: Final = ["offsets_partition", "group", "topic", "partition"]
_GROUP: Final = ["offsets_partition", "group"]
_OWNER: Final = ("owner_member_id", "owner_instance_id", "client_id", "client_host")


def _in_order() -> "WindowSpec":
    return Window.partitionBy(*_KEY).orderBy("log_offset")


def tables(batch: "Batch") -> dict[str, DataFrame]:
    commits, groups, others = (batch.new(f"bronze_{kind}") for kind in ("commit", "group", "other"))
    samples = batch.old("state_log_end").unionByName(batch.new("bronze_log_end"))
    found = {}
    if batch.rows("bronze_log_end"):
        found["state_log_end"] = log_ends.remembered(samples, batch.now)
    place, pending = batch.old("state_place"), batch.old("state_open_txn")
    reach = places.reach_of([commits, groups, others], place)
    if reach is None:
        return found
    found["state_place"] = places.remembered(batch.cluster, reach, place)
    generations = newest(batch.old("state_generation")).unionByName(
        batch.new("silver_generation"), allowMissingColumns=True
    )
    rows = entries(
        places.beside_gaps(commits, [groups, others], reach),
        generations,
        batch.old("state_commit"),
        pending,
    )
    if reach.transactions or not pending.isEmpty():
        rows = batch.keep(settled(rows, markers_of(others), reach))
        still_open = under_generations(rows.where(f"settled_at = {OPEN}"), generations, reach)
        found["state_open_txn"] = open_ones(still_open, batch.cluster)
        rows = rows.where(f"settled_at < {OPEN}")
    new = under_generations(beside_previous(rows), generations, reach)
    lags = None if samples.isEmpty() else samples
    return {"silver_commit": silver_commit(new, lags, batch.cluster), **found}


def entries(
    commits: DataFrame, generations: DataFrame, latest: DataFrame, pending: DataFrame
) -> DataFrame:
    """Commits, what is known of their partitions from before, and who was given them, as rows of
    one frame. `counts`: a commit, and then `commit` says which; `is_new`: not written down before;
    `held`: what is known of a commit of an earlier batch whose transaction was open then.
    """
    rows = commits.select(
        *_KEY,
        "log_offset",
        "producer_id",
        # A tombstone has no time of its own, and values of version 0 and 2 need not have one.
        F.coalesce("commit_ts", "append_ts").alias("commit_ts"),
        "offset",
        "leader_epoch",
        "tombstone",
        "last_gap",
        F.lit(True).alias("counts"),
        F.lit(True).alias("is_new"),
    )
    before = latest.select(
        *_KEY,
        "log_offset",
        F.lit(-1).cast("long").alias("producer_id"),
        "commit_ts",
        "offset",
        F.lit(False).alias("tombstone"),
        F.lit(True).alias("counts"),
        F.lit(False).alias("is_new"),
    )
    held = pending.select(
        *[name for name in rows.columns if name not in {"tombstone", "counts", "is_new"}],
        F.lit(False).alias("tombstone"),
        F.lit(True).alias("counts"),
        F.lit(True).alias("is_new"),
        F.struct("generation", "generation_log_offset", "group_empty", *_OWNER).alias("held"),
    )
    so_far = _in_order().rowsBetween(Window.unboundedPreceding, Window.currentRow)
    commit = F.when(F.col("counts"), F.struct("log_offset", "offset", "commit_ts", "tombstone"))
    return (
        reduce(
            lambda one, more: one.unionByName(more, allowMissingColumns=True),
            [rows, before, _assignments(generations), held],
        )
        .withColumn("commit", commit)
        .withColumn("owner", F.last("owner", True).over(so_far))
    )


def _assignments(generations: DataFrame) -> DataFrame:
    """A mark for each partition that a generation gave to a member."""
    members = generations.select(*_GROUP, "log_offset", F.explode("member_list").alias("member"))
    shares = members.select(
        *_GROUP, "log_offset", "member", F.explode("member.assigned").alias("share")
    )
    return shares.select(
        *_GROUP,
        "share.topic",
        "share.partition",
        "log_offset",
        F.lit(-1).cast("long").alias("producer_id"),
        F.lit(False).alias("tombstone"),
        F.lit(False).alias("counts"),
        F.lit(False).alias("is_new"),
        F.struct(
            F.col("log_offset").alias("given_at"),
            F.col("member.member_id").alias("owner_member_id"),
            F.col("member.instance_id").alias("owner_instance_id"),
            "member.client_id",
            "member.client_host",
        ).alias("owner"),
    )


def beside_previous(rows: DataFrame) -> DataFrame:
    """New commits, each with `prev`, the one that it followed; null after a tombstone.

    In the order in which owners were looked for, and with nothing computed in between: so Spark
    does both at once.
    """
    before = _in_order().rowsBetween(Window.unboundedPreceding, -1)
    return (
        rows.withColumn("prev", F.last("commit", True).over(before))
        .where("is_new")
        .withColumn("prev", F.when(~F.col("prev.tombstone"), F.col("prev")))
    )


def under_generations(rows: DataFrame, generations: DataFrame, reach: "Reach") -> DataFrame:
    """`rows` with the generation in force, whether its group was empty, and the owner."""
    marks = generations.select(
        *_GROUP,
        F.col("log_offset").alias("from_log_offset"),
        F.col("log_offset").alias("generation_log_offset"),
        "generation",
        F.expr("size(member_list) = 0 AND record_kind <> 'CONVERTED'").alias("group_empty"),
    )
    # Who owned it in an older generation says nothing, if this one gave it to nobody.
    valid = F.col("owner.given_at") == F.col("generation_log_offset")
    told = {
        "generation": F.col("generation"),
        "generation_log_offset": F.col("generation_log_offset"),
        "group_empty": F.coalesce("group_empty", F.lit(False)),
        **{name: F.when(valid, F.col(f"owner.{name}")) for name in _OWNER},
    }
    return in_force(rows, marks, _GROUP, reach).select(
        *rows.columns,
        *[
            F.when(F.col("held").isNotNull(), F.col(f"held.{name}")).otherwise(here).alias(name)
            for name, here in told.items()
        ],
    )


def silver_commit(rows: DataFrame, samples: DataFrame | None, cluster: str) -> DataFrame:
    """`samples`: how far the logs of the topics had come; None: nothing is known of it."""
    if samples is None:
        nothing = F.lit(None).cast("long")
        rows = rows.withColumn("lag", nothing).withColumn("lag_ms", nothing)
    else:
        rows = log_ends.beside_log_ends(rows, samples)
    return (
        rows.withColumn("cluster", F.lit(cluster))
        .withColumn("prev_offset", F.col("prev.offset"))
        .withColumn("prev_commit_ts", F.col("prev.commit_ts"))
        .withColumn("delta", F.expr("offset - prev.offset"))
        .withColumn("kind", F.expr(_COMMIT_KIND))
        .withColumn(
            "gap_ms",
            F.expr("if(tombstone, NULL, unix_millis(commit_ts) - unix_millis(prev.commit_ts))"),
        )
        .withColumn(
            "history_complete",
            F.expr(f"coalesce(prev.log_offset, {places.NO_GAP}) >= last_gap"),
        )
        .select(*TABLES["silver_commit"].schema.names)
    )


_COMMIT_KIND: Final = """CASE WHEN tombstone THEN 'TOMBSTONE' WHEN prev IS NULL THEN 'FIRST'
    WHEN offset > prev.offset THEN 'ADVANCE' WHEN offset = prev.offset THEN 'REPEAT'
    ELSE 'REWIND' END"""


def open_ones(rows: DataFrame, cluster: str) -> DataFrame:
    """state_open_txn: what the marker is to find when it comes; of a producer's two commits of a
    partition the later one."""
    last = F.lead("log_offset").over(Window.partitionBy(*_KEY, "producer_id").orderBy("log_offset"))
    return (
        rows.withColumn("cluster", F.lit(cluster))
        .withColumn("later", last)
        .where("later IS NULL")
        .select(*STATE["state_open_txn"].schema.names)
    )
