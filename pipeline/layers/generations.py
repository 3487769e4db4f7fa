"""silver_generation: each GroupMetadata record compared with the previous one, in log order; and
the records of consumer groups (KIP-848).

`state_generation` has the rows of earlier batches that a batch needs: the newest of each group, the
last of which precedes the batch's first. `state_consumer` has the newest record of each key of a
consumer group, undecoded; diagnosis/consumer_group.py derives the group's status from them.
"""

from datetime import datetime, timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..diagnosis.consumer_group import RECORD_TYPES
from ..tables import STATE_TABLES, TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column

    from .batch import Batch

# What state_generation keeps per group, so that later batches can look back: one hour, for
# `rebalances_1h` (rules look back 15 minutes, storms 5); always the last three rows, for the
# previous record and both phases of a cooperative rebalance; at most 200 rows with 20,000 members
# in total, about 10 MB as Python objects in one task.
KEPT_MS: Final = 3_600_000
KEPT_MIN: Final = 3
KEPT_MAX: Final = 200
KEPT_MEMBERS_MAX: Final = 20_000
DROPPED_AFTER: Final = timedelta(days=1)

GONE: Final = "('TOMBSTONE', 'CONVERTED')"
"""Kinds of tombstones, in SQL; CONVERTED: the group continues under the consumer protocol."""

_GROUP: Final = ["cluster", "group"]
_TOPICS: Final = """array_sort(array_distinct(flatten(
    transform(member_list, m -> coalesce(m.topics, CAST(array() AS array<string>))))))"""
# Members of this record, and of the previous one, `p`.
_IDS: Final = "transform(member_list, m -> m.member_id)"
_PREV_IDS: Final = "transform(p.members, m -> m.member_id)"
# A static member with a new id: the old one has not left, and the new one has not joined.
_REPLACING: Final = """transform(filter(member_list, m -> m.instance_id IS NOT NULL
    AND NOT exists(p.members, q -> q.member_id = m.member_id)
    AND exists(p.members, q -> q.instance_id = m.instance_id)), m -> m.member_id)"""
_REPLACED: Final = """transform(filter(p.members, q -> q.instance_id IS NOT NULL
    AND NOT exists(member_list, m -> m.member_id = q.member_id)
    AND exists(member_list, m -> m.instance_id = q.instance_id)), q -> q.member_id)"""
# The members of a converted group continue in other records.
_LEFT: Final = f"""if(record_kind = 'CONVERTED', CAST(array() AS array<string>),
    array_except(array_except({_PREV_IDS}, {_IDS}), {_REPLACED}))"""


def tables(batch: "Batch") -> dict[str, DataFrame]:
    found: dict[str, DataFrame] = {}
    if batch.rows("bronze_other"):
        records = _consumer_records(batch.new("bronze_other"), *RECORD_TYPES)
        if not records.isEmpty():
            old = batch.old("state_consumer")
            found["state_consumer"] = newest_consumer_records(old, records)
    if not batch.rows("bronze_group"):
        return found
    records, state = batch.new("bronze_group"), batch.old("state_generation")
    # Of earlier batches, only the last gap of each partition matters.
    last_gaps = batch.old("state_place").where("last_gap >= 0")
    gaps = log_gaps(records, batch.new("bronze_commit"), batch.new("bronze_other")).unionByName(
        last_gaps.select("cluster", "offsets_partition", F.col("last_gap").alias("log_offset"))
    )
    epochs = consumer_epochs(batch.new("bronze_other"))
    new = batch.cache(generations(records, state, gaps, epochs))
    found["silver_generation"] = new
    found["state_generation"] = newest_generations(state, new, batch.now)
    return found


# --- classic groups


def log_gaps(*records: DataFrame) -> DataFrame:
    """Return (cluster, offsets_partition, log_offset): the record after each gap, of any kind."""
    frames = [
        frame.where("missing_before > 0").select("cluster", "offsets_partition", "log_offset")
        for frame in records
    ]
    return reduce(DataFrame.unionByName, frames)


def generations(
    records: DataFrame, state: DataFrame, gaps: DataFrame, epochs: DataFrame
) -> DataFrame:
    """Return silver_generation for `records` (bronze_group), given `state` (state_generation).
    `gaps`: log_gaps of the batch; `epochs`: consumer_epochs of the batch."""
    new = _with_conversions(_columns_of_record(records), _with_last_gap(epochs, gaps))
    last = newest(state).select(*new.columns).withColumn("is_new", F.lit(False))
    rows = _with_last_gap(new.withColumn("is_new", F.lit(True)).unionByName(last), gaps)
    in_order = Window.partitionBy("cluster", "offsets_partition", "group").orderBy("log_offset")
    previous = F.struct(
        "log_offset",
        "record_kind",
        "generation",
        F.expr("transform(member_list, m -> struct(m.member_id, m.instance_id))").alias("members"),
    )
    none = "CAST(array() AS array<struct<member_id: string, instance_id: string>>)"
    rows = (
        rows.withColumn("prev", F.lag(previous).over(in_order))
        .where("is_new")
        .withColumn(
            "p",
            F.expr(
                "named_struct('log_offset', prev.log_offset, 'generation', prev.generation,"
                f" 'tombstone', prev.record_kind IN {GONE},"
                f" 'members', coalesce(prev.members, {none}))"
            ),
        )
    )
    return _compared(rows).select(*TABLES["silver_generation"].schema.names)


def newest(state: DataFrame) -> DataFrame:
    """Return the last record of each group."""
    return newest_rows(state, _GROUP, "log_offset", 1)


def newest_rows(rows: DataFrame, key: list[str], order: str, most: int) -> DataFrame:
    """Return at most this many rows of each key, the last ones in this order."""
    newest_first = Window.partitionBy(*key).orderBy(F.desc(order))
    return rows.withColumn("n", F.row_number().over(newest_first)).where(F.col("n") <= most)


def newest_generations(state: DataFrame, new: DataFrame, now: datetime) -> DataFrame:
    """Return state_generation after `new`, rows of silver_generation. Groups that were gone a day
    before `now` are dropped: short-lived consumers may be many."""
    names = STATE_TABLES["state_generation"].schema.names
    newest_first = Window.partitionBy(*_GROUP).orderBy(F.desc("log_offset"))
    rows = (
        state.select(*names)
        .unionByName(new.select(*names))
        .withColumn("at", F.coalesce("synced_at", "joined_at"))
        .withColumn("n", F.row_number().over(newest_first))
        .withColumn("members_so_far", F.sum(F.greatest("members", F.lit(1))).over(newest_first))
        .withColumn("newest_kind", F.first("record_kind").over(newest_first))
        .withColumn("newest_at", F.first("at").over(newest_first))
        .withColumn("age_ms", F.unix_millis("newest_at") - F.unix_millis("at"))
    )
    is_recent = (
        (F.col("n") <= KEPT_MAX)
        & (F.col("members_so_far") <= KEPT_MEMBERS_MAX)
        & (F.col("age_ms") <= KEPT_MS)
    )
    is_gone = F.expr(f"newest_kind IN {GONE}")
    return (
        rows.where(is_recent | (F.col("n") <= KEPT_MIN))
        .where(~is_gone | (F.col("newest_at") > F.lit(now - DROPPED_AFTER)))
        .select(*names)
    )


def _columns_of_record(records: DataFrame) -> DataFrame:
    """Return the columns of silver_generation that do not depend on the previous record."""
    no_members = f"CAST(array() AS {records.schema['members'].dataType.simpleString()})"
    members = F.expr(f"coalesce(members, {no_members})")
    # STATIC_REPLACED depends on the previous record. The coordinator of Kafka 4 writes generation 0
    # for a new group, which no member has left.
    kind = (
        F.when(F.col("tombstone"), "TOMBSTONE")
        .when((F.size(members) == 0) & (F.col("generation") == 0), "FIRST_SEEN")
        .when(F.size(members) == 0, "EMPTY")
        .otherwise("GENERATION")
    )
    return records.select(
        *_GROUP,
        "offsets_partition",
        "log_offset",
        kind.alias("record_kind"),
        "generation",
        F.col("state_ts").alias("joined_at"),
        F.col("append_ts").alias("synced_at"),
        "protocol_type",
        "protocol",
        "leader",
        # The raw subscription is kept only if it cannot be decoded.
        F.transform(
            members,
            lambda m: m.withField(
                "raw_subscription", F.when(m["topics"].isNull(), m["raw_subscription"])
            ),
        ).alias("member_list"),
    )


def _with_conversions(rows: DataFrame, epochs: DataFrame) -> DataFrame:
    """Mark conversions: a tombstone is CONVERTED if the group's first epoch was written with it, at
    the same time; or if compaction has left only a later epoch. `epochs`: with their last gap."""
    place = [*_GROUP, "offsets_partition"]
    gone = rows.where("record_kind = 'TOMBSTONE'").select(*place, "log_offset", "synced_at")
    same = " AND ".join(f"gone.{name} = later.{name}" for name in place)
    belongs = """later.log_offset > gone.log_offset
        AND (later.append_ts = gone.synced_at OR later.last_gap > gone.log_offset)"""
    converted = (
        gone.alias("gone")
        .join(epochs.alias("later"), F.expr(f"{same} AND {belongs}"), "left_semi")
        .select(*place, "log_offset", F.lit(True).alias("converted"))
    )
    return (
        rows.join(converted, [*place, "log_offset"], "left")
        .withColumn("record_kind", F.expr("if(converted, 'CONVERTED', record_kind)"))
        .select(*rows.columns)
    )


def _with_last_gap(rows: DataFrame, gaps: DataFrame) -> DataFrame:
    """`last_gap`: the newest gap of the offsets partition at or before each row."""
    in_log = Window.partitionBy("cluster", "offsets_partition").orderBy("log_offset")
    return (
        rows.withColumn("gap", F.lit(None).cast("long"))
        .unionByName(gaps.withColumn("gap", F.col("log_offset")), allowMissingColumns=True)
        .withColumn("last_gap", F.max("gap").over(in_log))
        .where(F.col("group").isNotNull())
        .drop("gap")
    )


def _compared(rows: DataFrame) -> DataFrame:
    """Return the columns that compare a record with the previous one, `p`."""
    has_no_gap = F.expr("coalesce(last_gap <= prev.log_offset, true)")
    # Without a previous record in the lake, it may be the group's first, if there is no gap.
    may_be_first = F.expr("last_gap IS NULL AND coalesce(generation, 0) <= 1")
    complete = F.when(F.col("prev").isNull(), may_be_first).otherwise(has_no_gap)
    is_same = F.expr("record_kind = 'GENERATION' AND generation = p.generation")
    return (
        rows.withColumn("history_complete", complete)
        .withColumn("replaced", F.expr(_REPLACING))
        .withColumn(
            "record_kind",
            F.when(is_same & (F.size("replaced") > 0), "STATIC_REPLACED").otherwise(
                F.col("record_kind")
            ),
        )
        .withColumn("prev_generation", F.expr("p.generation"))
        .withColumn("prev_log_offset", F.expr("p.log_offset"))
        .withColumn("members", F.size("member_list"))
        .withColumn(
            "static_members", F.expr("size(filter(member_list, m -> m.instance_id IS NOT NULL))")
        )
        .withColumn("topics", F.expr(_TOPICS))
        .withColumn("joined", F.expr(f"array_except(array_except({_IDS}, {_PREV_IDS}), replaced)"))
        .withColumn("left", F.expr(_LEFT))
        .withColumn("kept", F.expr(f"array_intersect({_IDS}, {_PREV_IDS})"))
        .withColumn("lost_generations", _lost_generations())
    )


def _lost_generations() -> "Column":
    """Count the generations between the previous record and this one: none reached SyncGroup."""
    # After a tombstone a group starts with generation 0 (Kafka 4) or 1.
    before = F.expr("CASE WHEN prev IS NULL OR p.tombstone THEN 0 ELSE p.generation END")
    lost = F.greatest(F.col("generation") - before - 1, F.lit(0))
    return F.when(F.col("history_complete") & F.col("generation").isNotNull(), lost)


# --- consumer groups

_GROUP_METADATA: Final = 3  # ConsumerGroupMetadata: its key is the group, its value the epoch
# A key begins with the record type, the length of the group id, and the group id.
_ID_LENGTH: Final = "CAST(conv(hex(substring(key, 3, 2)), 16, 10) AS INT)"
_GROUP_ID: Final = f"CAST(substring(key, 5, {_ID_LENGTH}) AS STRING)"


def consumer_epochs(others: DataFrame) -> DataFrame:
    """Return the records in bronze_other that give consumer groups an epoch."""
    names = ["cluster", "offsets_partition", "group", "log_offset", "append_ts", "missing_before"]
    return _consumer_records(others, _GROUP_METADATA).where("value IS NOT NULL").select(*names)


def newest_consumer_records(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return state_consumer after the records `new`, without deleted keys."""
    names = STATE_TABLES["state_consumer"].schema.names
    newest = F.max_by(F.struct("log_offset", "value"), "log_offset").alias("newest")
    return (
        old.select(*names)
        .unionByName(new.select(*names))
        .groupBy("cluster", "group", "key")
        .agg(newest)
        .select("cluster", "group", "key", "newest.log_offset", "newest.value")
        .where("value IS NOT NULL")
        .select(*names)
    )


def _consumer_records(others: DataFrame, *types: int) -> DataFrame:
    """Return rows of bronze_other of these record types, with their `group`."""
    return (
        others.where(F.col("key_version").isin(*types) & ~F.col("control"))
        .where("length(key) > 4")
        .withColumn("group", F.expr(_GROUP_ID))
    )
