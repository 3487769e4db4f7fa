"""silver_generation: each GroupMetadata record compared with the previous one, in log order.
Consumer groups (KIP-848) are compared in the same way, as rows from epochs.py.

`state_generation` contains each group's newest rows from earlier batches. The group's first record
in a batch is compared with the last of these rows. `state_consumer` contains the newest record of
each consumer group key, undecoded, for the next batch to continue from.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..diagnosis.consumer_group import RECORD_TYPES
from ..diagnosis.group_history import (
    CONSUMER_PROTOCOL,
    FIRST_EPOCH,
    is_unresolved,
    unresolved,
)
from ..lake.spark_frames import spark_schema
from ..tables import STATE_TABLES, TABLES
from .batch import Batch
from .epochs import EPOCHS, epochs

# The rows that state_generation keeps per group for later batches. Half of them must be enough for
# the rules, which look back 15 minutes (final_offset in histories.py). The last three rows are
# always kept, for the previous record and both phases of a cooperative rebalance. 200 rows with
# 20,000 members in total take about 10 MB as Python objects in one task.
KEPT_MS: Final = 3_600_000
KEPT_MIN: Final = 3
KEPT_MAX: Final = 200
KEPT_MEMBERS_MAX: Final = 20_000
DROPPED_AFTER: Final = timedelta(days=1)

GROUP_KEY: Final = ["cluster", "group"]
_IN_LOG: Final = ["cluster", "offsets_partition"]
_RECORD: Final = [name for name in EPOCHS.names if name != "metadata_hash"]
_TOPICS: Final = """array_sort(array_distinct(flatten(
    transform(member_list, m -> coalesce(m.topics, CAST(array() AS array<string>))))))"""
# What is compared with the next record of the group, as `p`.
_PREVIOUS: Final = """struct(log_offset, generation,
    transform(member_list, m -> struct(m.member_id, m.instance_id)) AS members)"""
_NO_PREVIOUS: Final = """struct(CAST(NULL AS long) AS log_offset, CAST(NULL AS int) AS generation,
    CAST(array() AS array<struct<member_id: string, instance_id: string>>) AS members)"""
# Members of this record, and of the previous one.
_IDS: Final = "transform(member_list, m -> m.member_id)"
_PREV_IDS: Final = "transform(p.members, m -> m.member_id)"
# If a static member has a new id, the old id does not count as left, nor the new id as joined.
_REPLACING: Final = """transform(filter(member_list, m -> m.instance_id IS NOT NULL
    AND NOT exists(p.members, q -> q.member_id = m.member_id)
    AND exists(p.members, q -> q.instance_id = m.instance_id)), m -> m.member_id)"""
_REPLACED: Final = """transform(filter(p.members, q -> q.instance_id IS NOT NULL
    AND NOT exists(member_list, m -> m.member_id = q.member_id)
    AND exists(member_list, m -> m.instance_id = q.instance_id)), q -> q.member_id)"""
_IS_CONSUMER_GROUP: Final = f"protocol <=> '{CONSUMER_PROTOCOL}' AND leader IS NULL"
"""The condition of Generation.is_consumer_group, in SQL."""


def tables(batch: Batch) -> dict[str, DataFrame]:
    found: dict[str, DataFrame] = {}
    consumer_records = _consumer_records(batch.new("bronze_other"))
    has_consumer_groups = bool(batch.rows("bronze_other")) and not consumer_records.isEmpty()
    names = known_topic_ids(batch, with_existing=has_consumer_groups)
    if names is not None:
        batch.write({"state_topic_id": names})
    rows_of_epochs = None
    if has_consumer_groups and names is not None:
        old = batch.old("state_consumer")
        found["state_consumer"] = newest_consumer_records(old, consumer_records)
        topics = dict(zip(*(names[n].to_pylist() for n in ("topic_id", "topic")), strict=True))
        rows_of_epochs = consumer_epochs(old, consumer_records, topics)
    state = with_topic_names(batch, batch.old("state_generation"))
    if not batch.rows("bronze_group") and rows_of_epochs is None:
        if learned_topic_names(batch):
            found["state_generation"] = state
        return found
    records = batch.new("bronze_group")
    # Of the gaps in earlier batches, only the last one of each partition matters.
    earlier = batch.old("state_place").where("last_gap >= 0")
    earlier = earlier.select(*_IN_LOG, F.col("last_gap").alias("log_offset"))
    gaps = records_after_gaps(records, batch.new("bronze_commit"), batch.new("bronze_other"))
    gaps = gaps.unionByName(earlier)
    new = batch.cache(generations(records, state, gaps, rows_of_epochs))
    found["silver_generation"] = new
    found["state_generation"] = newest_generations(state, new, batch.now)
    return found


# --- comparing records


def records_after_gaps(*records: DataFrame) -> DataFrame:
    """Return (cluster, offsets_partition, log_offset) of each record that follows a gap."""
    frames = [frame.where("missing_before > 0").select(*_IN_LOG, "log_offset") for frame in records]
    return reduce(DataFrame.unionByName, frames)


def generations(
    records: DataFrame, state: DataFrame, gaps: DataFrame, of_consumers: DataFrame | None = None
) -> DataFrame:
    """Return silver_generation for `records` (bronze_group) and `of_consumers` (consumer_epochs),
    given `state` (state_generation). `gaps`: records_after_gaps of the batch."""
    records = records.select(*_RECORD).withColumn("metadata_hash", F.lit(None).cast("long"))
    new = _columns_of_record(records if of_consumers is None else records.unionByName(of_consumers))
    last = newest(state).select(*new.columns).withColumn("is_new", F.lit(False))
    rows = _with_last_gap(new.withColumn("is_new", F.lit(True)).unionByName(last), gaps)
    rows = _without_conversions(rows)
    in_order = Window.partitionBy(*_IN_LOG, "group").orderBy("log_offset")
    previous = F.lag(F.expr(_PREVIOUS)).over(in_order)
    rows = rows.withColumn("p", F.coalesce(previous, F.expr(_NO_PREVIOUS))).where("is_new")
    return _compared(rows).select(*TABLES["silver_generation"].schema.names)


def newest(state: DataFrame) -> DataFrame:
    """Return the last record of each group."""
    return newest_rows(state, GROUP_KEY, "log_offset", 1)


def newest_rows(rows: DataFrame, key: list[str], order: str, most: int) -> DataFrame:
    """Return at most the last `most` rows of each key, by the column `order`."""
    newest_first = Window.partitionBy(*key).orderBy(F.desc(order))
    return rows.withColumn("n", F.row_number().over(newest_first)).where(F.col("n") <= most)


def newest_generations(state: DataFrame, new: DataFrame, now: datetime) -> DataFrame:
    """Return state_generation updated with `new` (rows of silver_generation). Groups that were
    deleted a day or more before `now` are dropped, because there may be many short-lived groups."""
    names = STATE_TABLES["state_generation"].schema.names
    newest_first = Window.partitionBy(*GROUP_KEY).orderBy(F.desc("log_offset"))
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
    is_gone = F.expr("newest_kind = 'TOMBSTONE'")
    return (
        rows.where(is_recent | (F.col("n") <= KEPT_MIN))
        .where(~is_gone | (F.col("newest_at") > F.lit(now - DROPPED_AFTER)))
        .select(*names)
    )


def _columns_of_record(records: DataFrame) -> DataFrame:
    """Return the columns of silver_generation that do not depend on the previous record."""
    no_members = f"CAST(array() AS {records.schema['members'].dataType.simpleString()})"
    members = F.expr(f"coalesce(members, {no_members})")
    # STATIC_REPLACED depends on the previous record. An empty generation 0 is not EMPTY, because
    # the coordinator of Kafka 4 writes it for a new group.
    kind = (
        F.when(F.col("tombstone"), "TOMBSTONE")
        .when((F.size(members) == 0) & (F.col("generation") == 0), "FIRST_SEEN")
        .when(F.size(members) == 0, "EMPTY")
        .otherwise("GENERATION")
    )
    return records.select(
        *GROUP_KEY,
        "offsets_partition",
        "log_offset",
        kind.alias("record_kind"),
        "generation",
        F.col("state_ts").alias("joined_at"),
        F.col("append_ts").alias("synced_at"),
        "protocol_type",
        "protocol",
        "leader",
        "metadata_hash",
        # The raw subscription is kept only if it cannot be decoded.
        F.transform(
            members,
            lambda m: m.withField(
                "raw_subscription", F.when(m["topics"].isNull(), m["raw_subscription"])
            ),
        ).alias("member_list"),
    )


def _without_conversions(rows: DataFrame) -> DataFrame:
    """Drop the tombstone of a group that was converted to the other protocol. After such a
    tombstone, the group's next record has the same timestamp. If compaction has removed that
    record, the next record is one of a consumer group. `rows` must include `last_gap`."""
    in_order = Window.partitionBy(*_IN_LOG, "group").orderBy("log_offset")
    later = F.lead(
        F.struct(
            *("synced_at", "last_gap", "record_kind"),
            F.expr(_IS_CONSUMER_GROUP).alias("is_consumer_group"),
        )
    ).over(in_order)
    continues = """record_kind = 'TOMBSTONE' AND later.record_kind <> 'TOMBSTONE'
        AND (later.synced_at = synced_at
            OR later.is_consumer_group AND later.last_gap > log_offset)"""
    rows = rows.withColumn("later", later)
    return rows.where(f"NOT coalesce({continues}, false)").drop("later")


def _with_last_gap(rows: DataFrame, gaps: DataFrame) -> DataFrame:
    """Add `last_gap`: the newest gap of the offsets partition at or before each row."""
    in_log = Window.partitionBy(*_IN_LOG).orderBy("log_offset")
    return (
        rows.withColumn("gap", F.lit(None).cast("long"))
        .unionByName(gaps.withColumn("gap", F.col("log_offset")), allowMissingColumns=True)
        .withColumn("last_gap", F.max("gap").over(in_log))
        .where(F.col("group").isNotNull())
        .drop("gap")
    )


def _compared(rows: DataFrame) -> DataFrame:
    """Return the columns that compare a record with the previous one, `p`."""
    has_no_gap = F.expr("coalesce(last_gap <= p.log_offset, true)")
    # Without a previous record in the lake, a record may be the group's first if there is no gap.
    first_number = f"if({_IS_CONSUMER_GROUP}, {FIRST_EPOCH}, 1)"
    may_be_first = F.expr(f"last_gap IS NULL AND coalesce(generation, 0) <= {first_number}")
    complete = F.when(F.col("p.log_offset").isNull(), may_be_first).otherwise(has_no_gap)
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
        .withColumn("left", F.expr(f"array_except(array_except({_PREV_IDS}, {_IDS}), {_REPLACED})"))
        .withColumn("kept", F.expr(f"array_intersect({_IDS}, {_PREV_IDS})"))
        .withColumn("lost_generations", _lost_generations())
    )


def _lost_generations() -> Column:
    """Count the generations without SyncGroup between the previous record and this one."""
    # After a tombstone, a group starts at generation 0 (Kafka 4) or 1, a consumer group at 2.
    first = f"if({_IS_CONSUMER_GROUP}, {FIRST_EPOCH} - 1, 0)"
    before = F.expr(f"coalesce(p.generation, {first})")
    lost = F.greatest(F.col("generation") - before - 1, F.lit(0))
    return F.when(F.col("history_complete") & F.col("generation").isNotNull(), lost)


# --- consumer groups

# A key begins with the record type, the length of the group id, and the group id.
_ID_LENGTH: Final = "CAST(conv(hex(substring(key, 3, 2)), 16, 10) AS INT)"
_GROUP_ID: Final = f"CAST(substring(key, 5, {_ID_LENGTH}) AS STRING)"


def consumer_epochs(old: DataFrame, new: DataFrame, names: Mapping[str, str]) -> DataFrame:
    """Return rows like those of bronze_group for the new records. `old`: state_consumer before
    them; `names`: topic names by id."""
    columns = ["cluster", "group", "key", "value", "log_offset"]
    place = ["offsets_partition", "append_ts"]
    touched = new.select(*GROUP_KEY).distinct()
    return (
        new.select(*columns, *place)
        .unionByName(
            old.select(*columns).join(touched, GROUP_KEY, "left_semi"), allowMissingColumns=True
        )
        .groupBy(*GROUP_KEY)
        .applyInArrow(lambda records: epochs(records, names), spark_schema(EPOCHS))
    )


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


def _consumer_records(others: DataFrame) -> DataFrame:
    """Return the records of consumer groups in bronze_other, with their `group`."""
    return (
        others.where(F.col("key_version").isin(*RECORD_TYPES) & ~F.col("control"))
        .where("length(key) > 4")
        .withColumn("group", F.expr(_GROUP_ID))
    )


def known_topic_ids(batch: Batch, *, with_existing: bool) -> pa.Table | None:
    """Return state_topic_id after this batch: the topics of commits, which contain topic ids since
    Kafka 4.1, and the topics that exist now if `with_existing`. Return None if there are no new
    topics and `with_existing` is False."""
    schema = STATE_TABLES["state_topic_id"].schema
    old = batch.lake.read("state_topic_id", schema.names)
    commits = batch.written.read("bronze_commit", ["topic_id", "topic"])
    commits = commits.filter(commits["topic_id"].is_valid()).group_by(["topic_id", "topic"])
    found = {row["topic_id"]: row["topic"] for row in old.to_pylist()}
    count = len(found)
    if with_existing:
        found.update(batch.topic_ids())
    found.update({row["topic_id"]: row["topic"] for row in commits.aggregate([]).to_pylist()})
    if len(found) == count and not with_existing:
        return None
    rows = [
        {"cluster": batch.cluster, "topic_id": id_, "topic": topic} for id_, topic in found.items()
    ]
    return pa.Table.from_pylist(rows, schema=schema)


def learned_topic_names(batch: Batch) -> dict[str, str]:
    """Return the newly known names of topics that the lake shows by id. A name becomes known with
    the group's first commit, after its first assignment."""
    topics = batch.lake.read("silver_ownership", ["topic"])["topic"].unique().to_pylist()
    shown = set(filter(is_unresolved, topics))
    if not shown:
        return {}
    known = batch.written.read("state_topic_id", ["topic_id", "topic"]).to_pylist()
    return {name: row["topic"] for row in known if (name := unresolved(row["topic_id"])) in shown}


def with_topic_names(batch: Batch, rows: DataFrame) -> DataFrame:
    """Return `rows` of state_generation or silver_ownership, with topic ids replaced by the names
    from learned_topic_names."""
    learned = learned_topic_names(batch)
    if not learned:
        return rows
    names = F.create_map(*[F.lit(text) for pair in learned.items() for text in pair])

    def named(topic: Column) -> Column:
        return F.coalesce(names[topic], topic)

    def partitions(column: Column) -> Column:
        return F.transform(column, lambda tp: tp.withField("topic", named(tp["topic"])))

    if "topic" in rows.columns:
        return rows.withColumn("topic", named(F.col("topic")))
    members = F.transform(
        "member_list",
        lambda m: m.withField("assigned", partitions(m["assigned"])).withField(
            "owned", partitions(m["owned"])
        ),
    )
    return rows.withColumn("member_list", members)
