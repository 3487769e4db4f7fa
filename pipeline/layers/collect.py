"""The parts of group histories, collected from many tables into one DataFrame.

Each row contains one part, in the column named after the part; the other columns are null. All rows
of a group are processed in one task, so the size of every part is limited.
"""

from datetime import datetime, timedelta
from functools import reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ..diagnosis.storms import WITHIN_MS
from ..tables import STATE_TABLES, TABLES
from .batch import Batch
from .generations import GROUP_KEY, newest_rows, with_topic_names

# Samples are collected from these minutes, counted back from the minute of a record (0). Up to
# _WHOLE_MINUTES, all samples of a minute are collected, because only a sample from late in a
# silence shows that there was nothing to read. From earlier minutes, only the first sample is
# collected.
_MINUTES_BEFORE: Final = (0, 1, 2, 5, 10)
_WHOLE_MINUTES: Final = 2
# Maximum number of event log lines (about a kilobyte each) in one history. Because there may be
# many rejected commits, only the newest lines are kept.
_EVENTS_MAX: Final = 20_000

_MEMBERS: Final = """transform(member_list, m -> struct(m.member_id, m.instance_id, m.client_id,
    m.client_host, m.rebalance_timeout_ms, m.session_timeout_ms, m.topics, m.owned, m.assigned,
    m.regex))"""
GENERATION: Final = f"""log_offset, record_kind = 'TOMBSTONE' AS tombstone, generation, protocol,
    leader, unix_millis(joined_at) AS state_ms, unix_millis(synced_at) AS append_ms,
    {_MEMBERS} AS members, history_complete, last_gap, metadata_hash"""
"""The fields of a `Generation`, from columns of silver_generation."""
_ACTIVITY: Final = """topic, partition, generation_log_offset, commits, repeats,
    unix_millis(first_commit_ts) AS first_commit_ms, unix_millis(last_commit_ts) AS last_commit_ms,
    unix_millis(last_advance_ts) AS last_advance_ms, last_offset, last_log_offset, median_gap_ms,
    history_complete"""
_REMOVAL: Final = "topic, partition, log_offset, unix_millis(removed_at) AS append_ms"
_LOG_END: Final = """topic, partition, log_start, log_end, unix_millis(sampled_at) AS sampled_ms"""
_EVENT: Final = """unix_millis(ts) AS ts_ms, seq, type, member_id, generation, error_code,
    reason, duration_ms, detail"""


def affected_groups(batch: Batch) -> DataFrame:
    """Return groups with a new record, a tombstone, a generation's first commits, or an event other
    than an accepted commit."""
    by_generation: list[Column] = [
        *map(F.col, GROUP_KEY),
        F.coalesce("generation_log_offset", F.lit(-1)).alias("of_generation"),
    ]
    first = (
        batch.new("silver_activity")
        .select(*by_generation)
        .join(
            batch.old("state_activity").select(*by_generation),
            [*GROUP_KEY, "of_generation"],
            "left_anti",
        )
    )
    frames = [
        batch.new("silver_generation"),
        batch.new("silver_commit").where("kind = 'TOMBSTONE'"),
        first,
    ]
    # Until the log has been read to its end, the records that follow an event may not be read yet.
    if batch.caught_up and batch.rows("bronze_event"):
        frames.append(batch.new("bronze_event").where("type <> 'commit_accepted'"))
    return union_parts([frame.select(*GROUP_KEY) for frame in frames]).distinct()


def collect_parts(batch: Batch, groups: DataFrame, since: datetime) -> DataFrame:
    """Return the parts of the histories of `groups`, which histories.py reads. `since`: the time of
    the batch's first record."""
    activity = activity_parts(batch.old("state_activity"), batch.new("silver_activity"))
    activity = sum_activity(activity.join(groups, GROUP_KEY, "left_semi"))
    generations = with_topic_names(batch, batch.old("state_generation"))
    generations = generations.withColumn("from_state", F.lit(True))
    new = batch.new("silver_generation").withColumn("from_state", F.lit(False))
    generations = generations.unionByName(new).join(groups, GROUP_KEY, "left_semi")
    generation = f"struct({GENERATION}, prev_log_offset IS NULL AS is_first, from_state)"
    frames = [
        generations.select(*GROUP_KEY, F.expr(generation).alias("generation")),
        activity.select(*GROUP_KEY, F.expr(f"struct({_ACTIVITY})").alias("activity")),
        removals(batch).select(*GROUP_KEY, F.expr(f"struct({_REMOVAL})").alias("removal")),
        batch.old("gold_group_lifecycle").select(*GROUP_KEY, row_in_ms("gold_group_lifecycle")),
    ]
    frames += _earlier_rows(batch, generations)
    if batch.rows("bronze_log_end") or batch.lake.folders("state_log_end"):
        samples = batch.old("state_log_end").unionByName(batch.new("bronze_log_end"), True)
        ends = samples_near(samples, generations, activity)
        frames.append(ends.select(*GROUP_KEY, F.expr(f"struct({_LOG_END})").alias("log_end")))
    if batch.rows("bronze_event") or batch.lake.folders("bronze_event"):
        frames.append(_events(batch, groups, since))
    return union_parts(frames).join(groups, GROUP_KEY, "left_semi")


def removals(batch: Batch) -> DataFrame:
    """Return state_removal, with the tombstones of this batch."""
    names = STATE_TABLES["state_removal"].schema.names
    new = batch.new("silver_commit").where("kind = 'TOMBSTONE'")
    new = new.withColumn("removed_at", F.col("commit_ts")).select(*names)
    return batch.old("state_removal").select(*names).unionByName(new)


def row_in_ms(table: str) -> Column:
    """Return a row of a table as a struct, with times in milliseconds."""
    fields = [
        (
            F.unix_millis(field.name) if pa.types.is_timestamp(field.type) else F.col(field.name)
        ).alias(field.name)
        for field in TABLES[table].schema
    ]
    return F.struct(*fields).alias(table)


def union_parts(frames: list[DataFrame]) -> DataFrame:
    return reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames)


def activity_parts(old: DataFrame, new: DataFrame) -> DataFrame:
    """Return state_activity and a batch's silver_activity, with `sequence`, their order in the
    log."""
    names = STATE_TABLES["state_activity"].schema.names
    before = old.select(*names).withColumn("sequence", F.lit(0))
    return before.unionByName(new.select(*names).withColumn("sequence", F.lit(1)))


def sum_activity(parts: DataFrame) -> DataFrame:
    """Return one row for each partition and generation."""
    first, last = "first_commit_ts", "last_commit_ts"
    # Medians cannot be summed. The median of the part with the most commits is the best estimate.
    quality = F.struct(F.col("median_gap_ms").isNotNull(), "commits")
    return parts.groupBy(*GROUP_KEY, "topic", "partition", "generation_log_offset").agg(
        F.max_by("generation", "sequence").alias("generation"),
        F.sum("commits").alias("commits"),
        F.sum("repeats").alias("repeats"),
        F.min(first).alias(first),
        F.max(last).alias(last),
        F.max("last_advance_ts").alias("last_advance_ts"),
        # In log order, not by time, because clocks may be set back.
        F.min_by("first_offset", "sequence").alias("first_offset"),
        F.max_by("last_offset", "sequence").alias("last_offset"),
        F.max("last_log_offset").alias("last_log_offset"),
        F.max_by("median_gap_ms", quality).alias("median_gap_ms"),
        F.min("history_complete").alias("history_complete"),
    )


def samples_near(samples: DataFrame, generations: DataFrame, activity: DataFrame) -> DataFrame:
    """Return samples of the partitions for which a group commits offsets. The samples were taken
    shortly before one of the group's records (see _MINUTES_BEFORE)."""
    minute = F.floor(F.unix_millis("sampled_at") / 60_000)
    by_time = Window.partitionBy("cluster", "topic", "partition", "minute").orderBy(
        "sampled_at", "log_end"
    )
    numbered = samples.withColumn("minute", minute).withColumn("n", F.row_number().over(by_time))
    of_record = F.floor(F.unix_millis(F.coalesce("joined_at", "synced_at")) / 60_000)
    before = F.explode(F.array(*[F.lit(minutes) for minutes in _MINUTES_BEFORE]))
    wanted = (
        generations.select(*GROUP_KEY, of_record.alias("of_record"), before.alias("before"))
        .groupBy(*GROUP_KEY, (F.col("of_record") - F.col("before")).alias("minute"))
        .agg(F.min("before").alias("before"))
    )
    return (
        activity.select(*GROUP_KEY, "topic", "partition")
        .distinct()
        .join(wanted, GROUP_KEY)
        .join(numbered, ["cluster", "topic", "partition", "minute"])
        .where((F.col("n") == 1) | (F.col("before") <= _WHOLE_MINUTES))
        .select(*GROUP_KEY, "topic", "partition", "log_start", "log_end", "sampled_at")
    )


def _earlier_rows(batch: Batch, generations: DataFrame) -> list[DataFrame]:
    """Return what earlier batches found about the records in state_generation, and about the storms
    that these records may extend or that ended shortly before them."""
    margin = F.expr(f"INTERVAL {WITHIN_MS} MILLISECONDS")
    oldest = F.min(F.coalesce("synced_at", "joined_at")).alias("kept_from")
    kept = generations.where("from_state").groupBy(*GROUP_KEY).agg(oldest)
    storms = batch.old("gold_rebalance_storm").join(kept, GROUP_KEY)
    storms = storms.where(F.col("to_ts") >= F.col("kept_from") - margin)
    first = storms.groupBy(*GROUP_KEY).agg(F.min("from_ts").alias("storm_from"))
    since = F.least("kept_from", "storm_from") - margin  # least ignores null
    limits = kept.join(first, GROUP_KEY, "left").select(*GROUP_KEY, since.alias("since"))
    rebalances = batch.old("gold_rebalance").join(limits, GROUP_KEY).where("synced_at >= since")
    # By log offset, because a member may have left long before the rebalance ended.
    offsets = rebalances.select(*GROUP_KEY, "log_offset")
    exits = batch.old("gold_member_exit").join(offsets, [*GROUP_KEY, "log_offset"], "left_semi")
    found = {
        "gold_rebalance": rebalances,
        "gold_member_exit": exits,
        "gold_rebalance_storm": storms,
    }
    return [rows.select(*GROUP_KEY, row_in_ms(table)) for table, rows in found.items()]


def _events(batch: Batch, groups: DataFrame, since: datetime) -> DataFrame:
    """Return the events since two hours before the batch: records that are more than an hour older
    than the batch already have their causes, and histories go back one hour. Because this limit is
    a constant, Spark can skip older files by their statistics."""
    events = (
        batch.all("bronze_event")
        .where("type not in ('commit_accepted', 'transaction_changed')")
        .where(F.col("ts") >= F.lit(since - timedelta(hours=2)))
        .join(groups, GROUP_KEY, "left_semi")
    )
    newest = newest_rows(events, GROUP_KEY, "seq", _EVENTS_MAX)
    return newest.select(*GROUP_KEY, F.expr(f"struct({_EVENT})").alias("event"))
