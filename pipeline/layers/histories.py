"""Rebalances, exits, storms, skews and lifecycles of the groups affected by a batch.

A group's history arrives as one Arrow table of parts (collect.py); the rules (pipeline/diagnosis)
turn it into rows in one Python call. Rows that are final (see `final_offset`), and rows of other
groups, are copied from the previous batch. Times are milliseconds in the rules and timestamps in
the tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ..columns import columns
from ..diagnosis.assignments import skews
from ..diagnosis.group_history import (
    OFFSETS_RETENTION_MS,
    Activity,
    Event,
    Generation,
    GroupHistory,
    LogEnd,
    Member,
    Removal,
    TopicPartition,
)
from ..diagnosis.lifecycle import lifecycle
from ..diagnosis.rebalances import explain
from ..diagnosis.rows import GroupLifecycle, MemberExit, Rebalance
from ..diagnosis.storms import storms
from ..lake.spark_frames import spark_schema
from ..tables import STATE_TABLES, TABLES
from .batch import Batch
from .collect import activity_parts, affected_groups, collect_parts, removals, sum_activity
from .generations import GROUP_KEY, KEPT_MAX, KEPT_MEMBERS_MAX, KEPT_MS

_LIFECYCLE: Final = "gold_group_lifecycle"
# How long tombstones are kept for later batches. A group's own tombstone directly follows those of
# its offsets, and a topic is deleted from all groups within a minute.
_REMOVALS_MS: Final = 3_600_000


def list_field(table: str) -> pa.Field:
    """Return a column, named after a gold table, that holds a group's rows of it."""
    return pa.field(table, pa.list_(pa.struct(list(TABLES[table].schema))))


RESULT: Final = pa.schema(
    [
        *columns("""cluster string!, group string!,
            -- Rows of records up to this log offset are copied; null: all of them.
            final_offset long,
            -- The first rebalance that storms were computed from; earlier storms are copied.
            storms_since time
        """),
        *map(
            list_field,
            ("gold_rebalance", "gold_rebalance_storm", "gold_member_exit", "gold_skew", _LIFECYCLE),
        ),
    ]
)
"""One row per group, which contains the group's rows of each table."""


# --- the layer


def tables(batch: Batch) -> dict[str, DataFrame]:
    found = _state_tables(batch)
    if not any(map(batch.rows, ("silver_generation", "silver_commit", "bronze_event"))):
        return found
    groups = batch.cache(affected_groups(batch))
    if groups.isEmpty():  # in most batches, stable groups only commit
        rows = _with_last_commit(batch.old(_LIFECYCLE), batch.new("silver_activity"))
        return found | {_LIFECYCLE: rows.select(*TABLES[_LIFECYCLE].schema.names)}
    as_of_ms, retention_ms = int(batch.now.timestamp() * 1000), batch.offsets_retention_ms
    results = batch.cache(
        collect_parts(batch, groups)
        .groupBy(*GROUP_KEY)
        .applyInArrow(
            lambda parts: explain_group(parts, as_of_ms, retention_ms), spark_schema(RESULT)
        )
    )
    for name in filter(TABLES.__contains__, RESULT.names):
        new = results.selectExpr(f"inline({name})")
        found[name] = _carried_over(batch, name, results).unionByName(new)
    return found


# Table -> which rows of an explained group are copied from the previous batch.
_COPIED: Final = {
    "gold_rebalance_storm": "coalesce(from_ts < storms_since, true)",
    _LIFECYCLE: "false",
}


def _carried_over(batch: Batch, table: str, results: DataFrame) -> DataFrame:
    explained = results.select(*GROUP_KEY, "final_offset", "storms_since")
    explained = explained.withColumn("explained", F.lit(True))
    is_copied = _COPIED.get(table, "final_offset IS NULL OR log_offset <= final_offset")
    rows = batch.old(table).join(F.broadcast(explained), GROUP_KEY, "left")
    rows = rows.where(f"explained IS NULL OR ({is_copied})")
    if table == _LIFECYCLE:
        rows = _with_last_commit(rows, batch.new("silver_activity"))
    return rows.select(*TABLES[table].schema.names)


def _with_last_commit(lifecycles: DataFrame, activity: DataFrame) -> DataFrame:
    """Update `last_commit` of groups in which nothing else has changed."""
    newest = activity.groupBy(*GROUP_KEY).agg(F.max("last_commit_ts").alias("newest"))
    return lifecycles.join(newest, GROUP_KEY, "left").withColumn(
        "last_commit", F.greatest("last_commit", "newest")
    )


def _state_tables(batch: Batch) -> dict[str, DataFrame]:
    found = {}
    if batch.rows("silver_activity") or batch.rows("silver_generation"):
        found["state_activity"] = merged_activity(
            batch.old("state_activity"), batch.new("silver_activity"), batch.new("state_generation")
        )
    if batch.rows("silver_commit"):
        since_ms = int(batch.now.timestamp() * 1000) - _REMOVALS_MS
        found["state_removal"] = removals(batch).where(F.unix_millis("removed_at") >= since_ms)
    return found


def merged_activity(old: DataFrame, new: DataFrame, kept: DataFrame) -> DataFrame:
    """Return state_activity: commits summed by the generations in `kept` (state_generation), and
    commits without a generation."""
    names = STATE_TABLES["state_activity"].schema.names
    live = kept.select(*GROUP_KEY, F.col("log_offset").alias("generation_log_offset"))
    parts = (
        activity_parts(old, new)
        .join(live.withColumn("live", F.lit(True)), [*GROUP_KEY, "generation_log_offset"], "left")
        .where("live OR generation_log_offset IS NULL")
    )
    return sum_activity(parts).select(*names)


# --- one group


def explain_group(
    parts: pa.Table, as_of_ms: int, offsets_retention_ms: int = OFFSETS_RETENTION_MS
) -> pa.Table:
    """Return the rows of the group that `parts` belong to, as a table of schema RESULT."""
    history = _history_of(parts, as_of_ms)._replace(offsets_retention_ms=offsets_retention_ms)
    until = final_offset(parts)
    after = -1 if until is None else until
    explained = explain(history)
    rebalances = [row for row in explained.rebalances if row.log_offset > after]
    exits = [row for row in explained.exits if row.log_offset > after]
    # A storm may begin in rows that are final.
    old_rebalances = _final_rows(Rebalance, parts, "gold_rebalance", until)
    old_exits = _final_rows(MemberExit, parts, "gold_member_exit", until)
    all_rebalances = sorted([*old_rebalances, *rebalances], key=lambda row: row.log_offset)
    all_exits = sorted([*old_exits, *exits], key=lambda row: row.log_offset)
    times = [row.synced_at if row.joined_at is None else row.joined_at for row in all_rebalances]
    first_ms = min((time for time in times if time is not None), default=None)
    rows: Mapping[str, Sequence[NamedTuple]] = {
        "gold_rebalance": rebalances,
        "gold_rebalance_storm": storms(all_rebalances, all_exits),
        "gold_member_exit": exits,
        "gold_skew": [row for row in skews(history) if row.log_offset > after],
        _LIFECYCLE: [_extended(lifecycle(history), parts)],
    }
    row = {
        "cluster": history.cluster,
        "group": history.group,
        "final_offset": until,
        "storms_since": None if first_ms is None else first_ms * 1000,
        **{name: table_rows(name, found) for name, found in rows.items()},
    }
    return pa.Table.from_pylist([row], schema=RESULT)


def final_offset(parts: pa.Table) -> int | None:
    """Return the log offset up to which results no longer change. No rule looks back further than
    half of what is kept (records, members, time). Return -1 if all results may change, and None if
    no record of the group was kept, because then no earlier result changes."""
    rows = [row for row in parts_of(parts, "generation") if row["from_state"]]
    if not rows:
        return None
    rows.sort(key=lambda row: -row["log_offset"])
    newest_ms, members = _time_ms(rows[0]), 0
    for number, row in enumerate(rows):
        members += max(len(row["members"]), 1)
        is_old = (
            number >= KEPT_MAX // 2
            or members > KEPT_MEMBERS_MAX // 2
            or newest_ms - _time_ms(row) > KEPT_MS // 2
        )
        if number and is_old:
            return int(row["log_offset"])
    # The oldest record of an older group no longer has a predecessor.
    return -1 if rows[-1]["is_first"] else int(rows[-1]["log_offset"])


def _time_ms(row: dict[str, Any]) -> int:
    return row["append_ms"] or row["state_ms"] or 0


Row = TypeVar("Row", Rebalance, MemberExit)


def _final_rows(kind: type[Row], parts: pa.Table, table: str, until: int | None) -> list[Row]:
    rows = parts_of(parts, table)
    return [kind(**row) for row in rows if until is None or row["log_offset"] <= until]


def _extended(row: GroupLifecycle, parts: pa.Table) -> GroupLifecycle:
    """Extend a row, because the kept history may begin long after the group was created."""
    for old in parts_of(parts, _LIFECYCLE):
        times = [time for time in (old["last_commit"], row.last_commit) if time is not None]
        row = row._replace(
            first_seen=min(row.first_seen, old["first_seen"]), last_commit=max(times, default=None)
        )
    return row


# --- from parts to a history, and from rows to Arrow


def _history_of(parts: pa.Table, as_of_ms: int) -> GroupHistory:
    generations = map(generation_of, parts_of(parts, "generation"))
    removals = (Removal(**row) for row in parts_of(parts, "removal"))
    log_ends = (LogEnd(**row) for row in parts_of(parts, "log_end"))
    events = (
        Event(**row | {"detail": dict(row["detail"] or ())}) for row in parts_of(parts, "event")
    )
    return GroupHistory(
        cluster=parts["cluster"][0].as_py(),
        group=parts["group"][0].as_py(),
        as_of_ms=as_of_ms,
        generations=tuple(sorted(generations, key=lambda record: record.log_offset)),
        activities=tuple(Activity(**row) for row in parts_of(parts, "activity")),
        removals=tuple(sorted(removals, key=lambda removal: removal.log_offset)),
        log_ends=tuple(sorted(log_ends, key=lambda end: end.sampled_ms)),
        events=tuple(sorted(events, key=lambda event: event.seq)),
    )


def generation_of(row: dict[str, Any]) -> Generation:
    fields = {name: row[name] for name in Generation._fields}
    return Generation(**fields | {"members": tuple(map(_member, row["members"]))})


def _member(row: dict[str, Any]) -> Member:
    return Member(
        **row
        | {
            "topics": None if row["topics"] is None else tuple(row["topics"]),
            "owned": _partitions(row["owned"]),
            "assigned": _partitions(row["assigned"]),
        }
    )


def _partitions(rows: Sequence[dict[str, Any]] | None) -> tuple[TopicPartition, ...] | None:
    return None if rows is None else tuple((row["topic"], row["partition"]) for row in rows)


def table_rows(table: str, rows: Iterable[NamedTuple]) -> list[dict[str, Any]]:
    """Convert rows for Arrow: milliseconds become microseconds."""
    schema = TABLES[table].schema
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    found = [row._asdict() for row in rows]
    for values in found:
        values.update({name: values[name] * 1000 for name in times if values[name] is not None})
    return found


def parts_of(parts: pa.Table, name: str) -> list[dict[str, Any]]:
    """Return the parts in one column, which is missing if the lake has no events or no samples."""
    if name not in parts.column_names:
        return []
    return parts[name].drop_null().to_pylist()  # type: ignore[no-any-return]
