"""silver_ownership: the owners of each partition over time.

A row is an interval of the log: from the record that assigned the partition to its owner to the
first record that does not assign it to this owner. An owner that keeps a partition across
rebalances has one interval.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..tables import TABLES
from .batch import Batch
from .generations import GROUP_KEY, learned_topic_names, newest, newest_rows, with_topic_names

# The number of intervals kept per partition (the newest), because every batch rewrites the table.
# They cover hours if a partition moves every minute, and years if it moves only with deployments.
INTERVALS_MAX: Final = 200

_KEY: Final = [*GROUP_KEY, "topic", "partition"]
_OWNER: Final = ["member_id", "instance_id", "client_id", "client_host"]
_NAMES: Final = TABLES["silver_ownership"].schema.names
# Identity across restarts: the instance id; else client id and host, unless another member of the
# record shares both (threads of one process); else the member id.
_IDENTITY: Final = """transform(member_list, m -> struct(m, coalesce(
    concat('i ', m.instance_id),
    CASE WHEN size(filter(member_list, o -> o.client_id = m.client_id
        AND o.client_host = m.client_host AND o.instance_id IS NULL)) = 1
    THEN concat_ws(' ', 'c', m.client_host, m.client_id) END,
    concat('m ', m.member_id)) AS identity))"""


def tables(batch: Batch) -> dict[str, DataFrame]:
    if not batch.rows("silver_generation") and not learned_topic_names(batch):
        return {}
    rows = ownership(
        batch.new("silver_generation"),
        with_topic_names(batch, batch.old("state_generation")),
        with_topic_names(batch, batch.old("silver_ownership")),
    )
    return {"silver_ownership": rows}


def ownership(new: DataFrame, state: DataFrame, old: DataFrame) -> DataFrame:
    """Return the whole table after the rows `new` of silver_generation. `state`: state_generation
    before these rows; `old`: silver_ownership before these rows."""
    names = [*GROUP_KEY, "log_offset", "synced_at", "joined_at", "member_list"]
    touched = new.select(*GROUP_KEY).distinct()
    previous = newest(state).join(touched, GROUP_KEY, "left_semi")
    intervals = _intervals(new.select(*names).unionByName(previous.select(*names)))
    of_touched = old.select(*_NAMES).join(touched, GROUP_KEY, "left_semi")
    closed = of_touched.where("to_log_offset IS NOT NULL")
    both = closed.unionByName(_continued(intervals, of_touched))
    kept = newest_rows(both, _KEY, "from_log_offset", INTERVALS_MAX).select(*_NAMES)
    return kept.unionByName(old.select(*_NAMES).join(touched, GROUP_KEY, "left_anti"))


def _continued(intervals: DataFrame, old: DataFrame) -> DataFrame:
    """Return the intervals. An interval that begins with the previous record continues the open
    interval in `old`."""
    since = [name for name in _NAMES if name not in _KEY and not name.startswith("to_")]
    begun = old.where("to_log_offset IS NULL").select(
        *_KEY, *[F.col(name).alias(f"old_{name}") for name in since], F.lit(True).alias("continues")
    )
    is_continued = F.col("continues") & F.col("old_from_log_offset").isNotNull()
    return intervals.join(begun, [*_KEY, "continues"], "left").select(
        *_KEY,
        *[
            F.when(is_continued, F.col(f"old_{name}")).otherwise(F.col(name)).alias(name)
            for name in since
        ],
        "to_log_offset",
        "to_ts",
    )


def _intervals(records: DataFrame) -> DataFrame:
    """Return one row for each partition and run of records with the same owner."""
    of_partition = Window.partitionBy(*_KEY).orderBy("number")
    is_same = (F.lag("number").over(of_partition) == F.col("number") - 1) & (
        (F.lag("identity").over(of_partition) == F.col("identity"))
        | (F.lag("member_id").over(of_partition) == F.col("member_id"))
    )
    stretches = (
        _owned(records)
        .withColumn("starts", F.when(is_same, 0).otherwise(1))
        .withColumn("stretch", F.sum("starts").over(of_partition))
    )
    return stretches.groupBy(*_KEY, "stretch").agg(
        *[F.min_by(name, "number").alias(name) for name in _OWNER],
        F.min("log_offset").alias("from_log_offset"),
        F.max_by("next_log_offset", "number").alias("to_log_offset"),
        F.min_by("at", "number").alias("from_ts"),
        F.max_by("next_ts", "number").alias("to_ts"),
        (F.min("number") == 1).alias("continues"),
    )


def _owned(records: DataFrame) -> DataFrame:
    """Return one row for each partition assigned by a record. `number`: the position of the record
    within its group."""
    in_order = Window.partitionBy(*GROUP_KEY).orderBy("log_offset")
    # A custom assignor may assign a partition twice. The first member by id is then used.
    holders = Window.partitionBy(*_KEY, "number").orderBy("member_id")
    return (
        records.withColumn("at", F.coalesce("synced_at", "joined_at"))
        .withColumn("number", F.row_number().over(in_order))
        .withColumn("next_log_offset", F.lead("log_offset").over(in_order))
        .withColumn("next_ts", F.lead("at").over(in_order))
        .withColumn("owner", F.explode(F.expr(_IDENTITY)))
        .withColumn("tp", F.explode(F.expr("coalesce(owner.m.assigned, array())")))
        .select(
            *[*GROUP_KEY, "log_offset", "at", "number", "next_log_offset", "next_ts"],
            "owner.identity",
            *[f"owner.m.{name}" for name in _OWNER],
            "tp.topic",
            "tp.partition",
        )
        .withColumn("holder", F.row_number().over(holders))
        .where("holder = 1")
    )
