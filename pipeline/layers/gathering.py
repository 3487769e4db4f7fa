"""What there is to be told of a group, as the parts of its Story: rows of many tables in one frame.

Each row has one part, in the column of its name, and null in the others; all rows of a group meet
in one task, so each part is bounded.
"""

from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ..state_tables import STATE
from ..tables import TABLES
from .generations import settled

if TYPE_CHECKING:
    from pyspark.sql import Column

    from .batch import Batch

__all__ = ["GENERATION", "gathered", "in_ms", "removals", "touched"]

_GROUP: Final = ["cluster", "group"]
# A storm may go on for longer than a story: so much of what was told before counts in it.
_EARLIER_MS: Final = 6 * 3_600_000
# Which minutes before a generation's end samples are taken of: what waited, waits still.
_MINUTES_BEFORE: Final = (0, 1, 2, 5, 10)
# Lines of the event log, a kilobyte each, in one story: the newest. Rejected commits may be many.
_EVENTS_MAX: Final = 20_000

_MEMBERS: Final = """transform(member_list, m -> struct(m.member_id, m.instance_id, m.client_id,
    m.client_host, m.rebalance_timeout_ms, m.session_timeout_ms, m.topics, m.owned, m.assigned))"""
GENERATION: Final = f"""log_offset, offsets_partition, record_kind = 'TOMBSTONE' AS tombstone,
    generation, protocol_type, protocol, leader, unix_millis(joined_at) AS state_ms,
    unix_millis(synced_at) AS append_ms, {_MEMBERS} AS members, history_complete"""
"""Columns of a story's Generation, from those of silver_generation."""
_PARTS: Final = {
    "generation": GENERATION,
    "activity": """topic, partition, generation_log_offset, commits, advanced,
        unix_millis(first_commit_ts) AS first_commit_ms,
        unix_millis(last_commit_ts) AS last_commit_ms,
        unix_millis(last_advance_ts) AS last_advance_ms,
        first_offset, last_offset, median_gap_ms, history_complete""",
    "removal": "topic, partition, log_offset, unix_millis(removed_at) AS append_ms",
    "log_end": "topic, partition, log_start, log_end, unix_millis(sampled_at) AS sampled_ms",
    "event": """unix_millis(ts) AS ts_ms, seq, type, member_id, instance_id, client_id,
        client_host, generation, state_from, state_to, error_code, reason, duration_ms, detail,
        node""",
}


def touched(batch: "Batch") -> "DataFrame":
    """Groups with a record of theirs, a tombstone, an event, or a generation's first commits."""
    under = [*_GROUP, "generation_log_offset"]
    same = reduce(
        lambda one, two: one & two,
        [F.col(f"new.{name}").eqNullSafe(F.col(f"old.{name}")) for name in under],
    )
    first = (
        batch.new("silver_activity")
        .select(*under)
        .distinct()
        .alias("new")
        .join(batch.old("state_activity").select(*under).distinct().alias("old"), same, "left_anti")
    )
    frames = [
        batch.new("silver_generation"),
        batch.new("silver_commit").where("kind = 'TOMBSTONE'"),
        first,
    ]
    # Behind the log, events are ahead of it: each is told with the record that it led to.
    if batch.caught_up:
        frames.append(batch.new("bronze_event").where("type <> 'commit_accepted'"))
    return reduce(DataFrame.unionByName, [one.select(*_GROUP) for one in frames]).distinct()


def gathered(batch: "Batch", groups: "DataFrame") -> "DataFrame":
    """The parts of the stories of `groups`; story_rows has their columns."""

    def theirs(rows: "DataFrame") -> "DataFrame":
        return rows.join(groups, _GROUP, "left_semi")

    names = TABLES["silver_generation"].schema.names
    old = theirs(batch.old("state_generation"))
    known = settled(old)
    generations = old.select(*names).unionByName(
        theirs(batch.new("silver_generation")).select(*names)
    )
    names = STATE["state_activity"].schema.names
    activity = theirs(
        batch.old("state_activity")
        .select(*names)
        .unionByName(batch.new("silver_activity").select(*names))
    )
    samples = batch.old("state_log_end").unionByName(batch.new("bronze_log_end"), True)
    parts = {
        "generation": generations,
        "activity": activity,
        "removal": theirs(removals(batch)),
        "log_end": _beside(generations, known, activity, samples),
        "event": _events(batch, groups, generations),
    }
    frames = [
        frame.select(*_GROUP, F.expr(f"struct({_PARTS[name]})").alias(name))
        for name, frame in parts.items()
    ]
    frames.append(known.select(*_GROUP, F.struct("log_offset").alias("settled")))
    frames += [_told_before(batch, name, known) for name in ("gold_rebalance", "gold_member_exit")]
    old_life = theirs(batch.old("gold_group_lifecycle"))
    frames.append(old_life.select(*_GROUP, in_ms("gold_group_lifecycle")))
    return reduce(lambda one, more: one.unionByName(more, allowMissingColumns=True), frames)


def removals(batch: "Batch") -> "DataFrame":
    """Tombstones of commits: those that are remembered, and the batch's."""
    names = STATE["state_removal"].schema.names
    new = batch.new("silver_commit").where("kind = 'TOMBSTONE'")
    return (
        batch.old("state_removal")
        .select(*names)
        .unionByName(new.withColumn("removed_at", F.col("commit_ts")).select(*names))
    )


def in_ms(table: str) -> "Column":
    """A row of a table, its times as milliseconds."""
    return F.struct(
        *[
            (
                F.unix_millis(field.name)
                if pa.types.is_timestamp(field.type)
                else F.col(field.name)
            ).alias(field.name)
            for field in TABLES[table].schema
        ]
    ).alias(table)


def _told_before(batch: "Batch", table: str, known: "DataFrame") -> "DataFrame":
    """Settled rows of gold that storms may go back to."""
    at = {"gold_rebalance": "synced_at", "gold_member_exit": "left_at"}[table]
    since = F.unix_millis("settled_at") - _EARLIER_MS
    return (
        batch.old(table)
        .join(known.withColumnRenamed("log_offset", "settled"), _GROUP)
        .where(F.col("log_offset") <= F.col("settled"))
        .where(F.unix_millis(at) >= since)
        .select(*_GROUP, in_ms(table))
    )


def _beside(
    generations: "DataFrame", known: "DataFrame", activity: "DataFrame", samples: "DataFrame"
) -> "DataFrame":
    """A sample a minute of each partition that a group commits, shortly before its records."""
    minute = F.floor(F.unix_millis("sampled_at") / 60_000)
    thinned = samples.withColumn("minute", minute).withColumn(
        "n",
        F.row_number().over(
            Window.partitionBy("cluster", "topic", "partition", "minute").orderBy("sampled_at")
        ),
    )
    of_record = F.floor(F.unix_millis(F.coalesce("joined_at", "synced_at")) / 60_000)
    asked = (
        generations.join(known.withColumnRenamed("log_offset", "settled"), _GROUP, "left")
        .where("settled IS NULL OR log_offset > settled")
        .withColumn("before", F.explode(F.array(*[F.lit(n) for n in _MINUTES_BEFORE])))
        .select(*_GROUP, (of_record - F.col("before")).alias("minute"))
        .distinct()
    )
    return (
        activity.select(*_GROUP, "topic", "partition")
        .distinct()
        .join(asked, _GROUP)
        .join(thinned.where("n = 1"), ["cluster", "topic", "partition", "minute"])
        .select(*_GROUP, "topic", "partition", "log_start", "log_end", "sampled_at")
    )


def _events(batch: "Batch", groups: "DataFrame", generations: "DataFrame") -> "DataFrame":
    """Of the event log: since an hour before the story's first record."""
    first = generations.agg(F.min(F.coalesce("joined_at", "synced_at"))).first()
    rows = batch.all("bronze_event").where("type <> 'commit_accepted'")
    if first is not None and first[0] is not None:
        # A constant: files of earlier times are not read, as their statistics say.
        rows = rows.where(F.col("ts") >= F.lit(first[0] - timedelta(hours=1)))
    newest = Window.partitionBy(*_GROUP).orderBy(F.desc("seq"))
    return (
        rows.join(groups, _GROUP, "left_semi")
        .withColumn("n", F.row_number().over(newest))
        .where(F.col("n") <= _EVENTS_MAX)
    )
