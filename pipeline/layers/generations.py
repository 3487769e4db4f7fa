"""Each record of a group's metadata beside the one before it: silver_generation.

The order is the log's. What a batch needs of earlier ones is in `state_generation`: the newest rows
of each group, the last of which is the record before the batch's first.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from ..state_tables import STATE
from ..tables import TABLES
from . import consumers
from .limits import REMEMBERED_MAX, REMEMBERED_MEMBERS_MAX, REMEMBERED_MIN, REMEMBERED_MS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from .batch import Batch

__all__ = ["GONE", "gaps_of", "generations", "newest", "remembered", "tables"]

FORGOTTEN_AFTER: Final = timedelta(days=1)
GONE: Final = "('TOMBSTONE', 'CONVERTED')"
"""What a tombstone may be, in SQL: CONVERTED is one of a group that goes on in another protocol."""

_GROUP: Final = ["cluster", "group"]
_TOPICS: Final = """array_sort(array_distinct(flatten(
    transform(member_list, m -> coalesce(m.topics, CAST(array() AS array<string>))))))"""
# The members of this record and of the one before, `p`, by what parts them.
_IDS: Final = "transform(member_list, m -> m.member_id)"
_PREV_IDS: Final = "transform(p.members, m -> m.member_id)"
# A static member under a new id: its old one has not left, its new one has not joined.
_REPLACING: Final = """transform(filter(member_list, m -> m.instance_id IS NOT NULL
    AND NOT exists(p.members, q -> q.member_id = m.member_id)
    AND exists(p.members, q -> q.instance_id = m.instance_id)), m -> m.member_id)"""
_REPLACED: Final = """transform(filter(p.members, q -> q.instance_id IS NOT NULL
    AND NOT exists(member_list, m -> m.member_id = q.member_id)
    AND exists(member_list, m -> m.instance_id = q.instance_id)), q -> q.member_id)"""

# Of a group that is converted nobody has left: what became of its members stands elsewhere.
_LEFT: Final = f"""if(record_kind = 'CONVERTED', CAST(array() AS array<string>),
    array_except(array_except({_PREV_IDS}, {_IDS}), {_REPLACED}))"""


def gaps_of(*records: "DataFrame") -> "DataFrame":
    """Where offsets are missing from the log: the record after each gap, of any kind."""
    frames = [
        frame.where("missing_before > 0").select("cluster", "offsets_partition", "log_offset")
        for frame in records
    ]
    first, *others = frames
    for other in others:
        first = first.unionByName(other)
    return first


def generations(
    records: "DataFrame",
    state: "DataFrame | None",
    gaps: "DataFrame | None" = None,
    epochs: "DataFrame | None" = None,
) -> "DataFrame":
    """`records` (bronze_group) after what `state` (state_generation) remembers: silver_generation.

    `gaps`: gaps_of the same batch's records; `epochs`: consumers.epochs of them.
    """
    rows = _as_read(records)
    if epochs is not None:
        rows = _with_conversions(rows, _with_last_gap(epochs, gaps))
    rows = rows.withColumn("is_new", F.lit(True))
    if state is not None:
        rows = rows.unionByName(
            newest(state).select(*rows.columns[:-1]).withColumn("is_new", F.lit(False))
        )
    rows = _with_last_gap(rows, gaps)
    in_order = Window.partitionBy("cluster", "offsets_partition", "group").orderBy("log_offset")
    before = F.struct(
        "log_offset",
        "record_kind",
        "generation",
        F.expr("transform(member_list, m -> struct(m.member_id, m.instance_id))").alias("members"),
    )
    none = "CAST(array() AS array<struct<member_id: string, instance_id: string>>)"
    rows = (
        rows.withColumn("prev", F.lag(before).over(in_order))
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


def newest(state: "DataFrame") -> "DataFrame":
    """The last record of each group."""
    last = Window.partitionBy(*_GROUP).orderBy(F.desc("log_offset"))
    return state.withColumn("n", F.row_number().over(last)).where("n = 1").drop("n")


def remembered(
    state: "DataFrame | None", new: "DataFrame", now: datetime | None = None
) -> "DataFrame":
    """state_generation with the rows `new` of silver_generation: what the next batch starts from.
    Groups that were gone a day before `now` are forgotten: consumers of one evening are many."""
    names = STATE["state_generation"].schema.names
    rows = (
        new.select(*names)
        if state is None
        else state.select(*names).unionByName(new.select(*names))
    )
    lately = (
        (F.col("n") <= REMEMBERED_MAX)
        & (F.col("members_so_far") <= REMEMBERED_MEMBERS_MAX)
        & (F.col("age_ms") <= REMEMBERED_MS)
    )
    rows = _by_age(rows).where(lately | (F.col("n") <= REMEMBERED_MIN))
    if now is not None:
        gone = f"newest_kind IN {GONE}"
        rows = rows.where(~F.expr(gone) | (F.col("newest_at") > F.lit(now - FORGOTTEN_AFTER)))
    return rows.select(*names)


def _by_age(rows: "DataFrame") -> "DataFrame":
    """Records with their place from the newest on (`n`), the members up to there, their age."""
    down = Window.partitionBy(*_GROUP).orderBy(F.desc("log_offset"))
    return (
        rows.withColumn("at", F.coalesce("synced_at", "joined_at"))
        .withColumn("n", F.row_number().over(down))
        .withColumn("members_so_far", F.sum(F.greatest("members", F.lit(1))).over(down))
        .withColumn("newest_kind", F.first("record_kind").over(down))
        .withColumn("newest_at", F.first("at").over(down))
        .withColumn("age_ms", F.unix_millis("newest_at") - F.unix_millis("at"))
    )


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    if not batch.rows("bronze_group"):
        return {}
    records, state = batch.new("bronze_group"), batch.old("state_generation")
    gaps = gaps_of(records, batch.new("bronze_commit"), batch.new("bronze_other")).unionByName(
        # Of the batches before only the last gap of each partition counts.
        batch.old("state_place")
        .where("last_gap >= 0")
        .select("cluster", "offsets_partition", F.col("last_gap").alias("log_offset"))
    )
    others = batch.rows("bronze_other") > 0
    epochs = consumers.epochs(batch.new("bronze_other")) if others else None
    new = batch.keep(generations(records, state, gaps, epochs))
    return {"silver_generation": new, "state_generation": remembered(state, new, batch.now)}


def _as_read(records: "DataFrame") -> "DataFrame":
    """A record's own columns, by silver's names."""
    no_members = "CAST(array() AS {})".format(records.schema["members"].dataType.simpleString())
    members = F.expr(f"coalesce(members, {no_members})")
    return records.select(
        *_GROUP,
        "offsets_partition",
        "log_offset",
        _kind_alone(members).alias("record_kind"),
        "generation",
        F.col("state_ts").alias("joined_at"),
        F.col("append_ts").alias("synced_at"),
        "protocol_type",
        "protocol",
        "leader",
        # Only a subscription that cannot be read is all that there is to tell it from the next.
        F.transform(
            members,
            lambda m: m.withField(
                "raw_subscription", F.when(m["topics"].isNull(), m["raw_subscription"])
            ),
        ).alias("member_list"),
    )


def _kind_alone(members: "Column") -> "Column":
    """What the record is, but for STATIC_REPLACED, which the one before decides."""
    # 4.x writes a record of generation 0 for a group that it first hears of; nobody left it.
    return (
        F.when(F.col("tombstone"), "TOMBSTONE")
        .when((F.size(members) == 0) & (F.col("generation") == 0), "FIRST_SEEN")
        .when(F.size(members) == 0, "EMPTY")
        .otherwise("GENERATION")
    )


def _with_conversions(rows: "DataFrame", epochs: "DataFrame") -> "DataFrame":
    """A tombstone is CONVERTED if the group's first epoch was written with it, at one time; or if
    compaction has left a later one alone. `epochs` with their last gap."""
    place = [*_GROUP, "offsets_partition"]
    gone = rows.where("record_kind = 'TOMBSTONE'").select(*place, "log_offset", "synced_at")
    with_it = """later.log_offset > gone.log_offset
        AND (later.append_ts = gone.synced_at OR later.last_gap > gone.log_offset)"""
    same = " AND ".join(f"gone.{name} = later.{name}" for name in place)
    converted = (
        gone.alias("gone")
        .join(epochs.alias("later"), F.expr(f"{same} AND {with_it}"), "left_semi")
        .select(*place, "log_offset", F.lit(True).alias("converted"))
    )
    return (
        rows.join(converted, [*place, "log_offset"], "left")
        .withColumn("record_kind", F.expr("if(converted, 'CONVERTED', record_kind)"))
        .select(*rows.columns)
    )


def _with_last_gap(rows: "DataFrame", gaps: "DataFrame | None") -> "DataFrame":
    """`last_gap`: the newest gap at or before each row, in its partition of the offsets topic."""
    if gaps is None:
        return rows.withColumn("last_gap", F.lit(None).cast("long"))
    in_log = Window.partitionBy("cluster", "offsets_partition").orderBy("log_offset")
    return (
        rows.withColumn("gap", F.lit(None).cast("long"))
        .unionByName(gaps.withColumn("gap", F.col("log_offset")), allowMissingColumns=True)
        .withColumn("last_gap", F.max("gap").over(in_log))
        .where(F.col("group").isNotNull())
        .drop("gap")
    )


def _compared(rows: "DataFrame") -> "DataFrame":
    """What changed since `p`, the record before."""
    known = F.expr("coalesce(last_gap <= prev.log_offset, true)")
    # Nothing is before it in the lake: there was nothing, if it may be the first and no gap is.
    whole = F.expr("last_gap IS NULL AND coalesce(generation, 0) <= 1")
    replacing = F.expr(_REPLACING)
    same = F.expr("record_kind = 'GENERATION' AND generation = p.generation")
    return (
        rows.withColumn("history_complete", F.when(F.col("prev").isNull(), whole).otherwise(known))
        .withColumn("replaced", replacing)
        .withColumn(
            "record_kind",
            F.when(same & (F.size("replaced") > 0), "STATIC_REPLACED").otherwise(
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
        .withColumn("lost_generations", _lost())
    )


def _lost() -> "Column":
    """Generations that were joined and never stored, between this record and the one before."""
    # After a tombstone a group begins anew: with 0 (4.x), or with 1.
    before = F.expr("CASE WHEN prev IS NULL OR p.tombstone THEN 0 ELSE p.generation END")
    lost = F.greatest(F.col("generation") - before - 1, F.lit(0))
    return F.when(F.col("history_complete") & F.col("generation").isNotNull(), lost)
