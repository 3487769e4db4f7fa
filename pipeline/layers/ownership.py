"""Who owned which partition, and when: silver_ownership.

A row is an interval of the log. It begins with the record that gave the partition to its owner, and
ends with the first that does not; owners that are equal from record to record are one interval,
however many rebalances passed.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..tables import TABLES
from .generations import newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["ownership", "tables"]

# Of each partition: a table that each batch writes anew may not grow for ever. Where a partition
# changes hands every minute it is hours, where with each deployment years.
INTERVALS_MAX: Final = 200

_GROUP: Final = ["cluster", "group"]
_KEY: Final = ["cluster", "group", "topic", "partition"]
_OWNER: Final = ["member_id", "instance_id", "client_id", "client_host"]
_NAMES: Final = TABLES["silver_ownership"].schema.names
# Who it is, though restarted: its instance id, else client and host where no other member of the
# record has the same two (threads of one process do), else only its member id says.
_IDENTITY: Final = """transform(member_list, m -> struct(m, coalesce(
    concat('i ', m.instance_id),
    CASE WHEN size(filter(member_list, o -> o.client_id = m.client_id
        AND o.client_host = m.client_host AND o.instance_id IS NULL)) = 1
    THEN concat_ws(' ', 'c', m.client_host, m.client_id) END,
    concat('m ', m.member_id)) AS identity))"""


def ownership(
    new: "DataFrame", state: "DataFrame | None" = None, old: "DataFrame | None" = None
) -> "DataFrame":
    """The whole table after the rows `new` of silver_generation.

    `state`: state_generation before them; `old`: the table before them.
    """
    names = [*_GROUP, "log_offset", "synced_at", "joined_at", "member_list"]
    touched = new.select(*_GROUP).distinct()
    records = new.select(*names)
    if state is not None:
        before = newest(state).join(touched, _GROUP, "left_semi")
        records = records.unionByName(before.select(*names))
    runs = _runs(records)
    if old is None:
        return runs.select(*_NAMES)
    theirs = old.select(*_NAMES).join(touched, _GROUP, "left_semi")
    rows = theirs.where("to_log_offset IS NOT NULL").unionByName(_continued(runs, theirs))
    newest_first = Window.partitionBy(*_KEY).orderBy(F.desc("from_log_offset"))
    return (
        rows.withColumn("n", F.row_number().over(newest_first))
        .where(F.col("n") <= INTERVALS_MAX)
        .select(*_NAMES)
        .unionByName(old.select(*_NAMES).join(touched, _GROUP, "left_anti"))
    )


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    if not batch.rows("silver_generation"):
        return {}
    rows = ownership(
        batch.new("silver_generation"),
        batch.old("state_generation"),
        batch.old("silver_ownership"),
    )
    return {"silver_ownership": rows}


def _continued(runs: "DataFrame", old: "DataFrame") -> "DataFrame":
    """The runs; those that begin with the record before began where `old` intervals are open."""
    since = [name for name in _NAMES if name not in _KEY and not name.startswith("to_")]
    begun = old.where("to_log_offset IS NULL").select(
        *_KEY, *[F.col(name).alias(f"old_{name}") for name in since], F.lit(True).alias("goes_on")
    )
    went_on = F.col("goes_on")
    return runs.join(begun, [*_KEY, "goes_on"], "left").select(
        *_KEY,
        *[
            F.when(went_on & F.col("old_from_log_offset").isNotNull(), F.col(f"old_{name}"))
            .otherwise(F.col(name))
            .alias(name)
            for name in since
        ],
        "to_log_offset",
        "to_ts",
    )


def _runs(records: "DataFrame") -> "DataFrame":
    """A row for each partition and stretch of records in which its owner stays the same."""
    of_partition = Window.partitionBy(*_KEY).orderBy("place")
    same = (F.lag("place").over(of_partition) == F.col("place") - 1) & (
        (F.lag("identity").over(of_partition) == F.col("identity"))
        | (F.lag("member_id").over(of_partition) == F.col("member_id"))
    )
    stretches = (
        _owned(records)
        .withColumn("starts", F.when(same, 0).otherwise(1))
        .withColumn("run", F.sum("starts").over(of_partition))
    )
    return stretches.groupBy(*_KEY, "run").agg(
        *[F.min_by(name, "place").alias(name) for name in _OWNER],
        F.min("log_offset").alias("from_log_offset"),
        F.max_by("next_log_offset", "place").alias("to_log_offset"),
        F.min_by("at", "place").alias("from_ts"),
        F.max_by("next_ts", "place").alias("to_ts"),
        (F.min("place") == 1).alias("goes_on"),
    )


def _owned(records: "DataFrame") -> "DataFrame":
    """A row for each partition that a record assigns; `place` counts a group's records."""
    in_order = Window.partitionBy(*_GROUP).orderBy("log_offset")
    # A custom assignor may give one partition to two members: the first by id counts.
    holders = Window.partitionBy(*_KEY, "place").orderBy("member_id")
    return (
        records.withColumn("at", F.coalesce("synced_at", "joined_at"))
        .withColumn("place", F.row_number().over(in_order))
        .withColumn("next_log_offset", F.lead("log_offset").over(in_order))
        .withColumn("next_ts", F.lead("at").over(in_order))
        .withColumn("owner", F.explode(F.expr(_IDENTITY)))
        .withColumn("tp", F.explode(F.expr("coalesce(owner.m.assigned, array())")))
        .select(
            *[*_GROUP, "log_offset", "at", "place", "next_log_offset", "next_ts"],
            "owner.identity",
            *[f"owner.m.{name}" for name in _OWNER],
            "tp.topic",
            "tp.partition",
        )
        .withColumn("holder", F.row_number().over(holders))
        .where("holder = 1")
    )
