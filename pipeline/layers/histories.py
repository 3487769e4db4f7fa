"""Rebalances, exits, storms, skews and lifecycles of the groups affected by a batch.

A group's history arrives as one Arrow table of parts (collect.py); the rules (pipeline/diagnosis)
turn it into rows in one Python call. Rows that are final (see `final_offset`), and rows of other
groups, are copied from the previous batch. Times are milliseconds in the rules and timestamps in
the tables.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

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
    """Return a column that has the name of a gold table and holds a group's rows of that table."""
    return pa.field(table, pa.list_(pa.struct(list(TABLES[table].schema))))


RESULT: Final = pa.schema(
    [
        *columns("""cluster string!, group string!,
            -- Rows of records up to this log offset are copied; null: all of them.
            final_offset long,
            -- Storms that began earlier are copied; null: all of them.
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
    since, _ = batch.span() or (batch.now, None)
    since_ms = int(since.timestamp() * 1000)
    results = batch.cache(
        collect_parts(batch, groups, since)
        .groupBy(*GROUP_KEY)
        .applyInArrow(
            lambda parts: explain_group(parts, as_of_ms, since_ms, retention_ms),
            spark_schema(RESULT),
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
    """Return state_activity: the summed activity of each partition in each generation in `kept`
    (state_generation), and without a generation."""
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
    parts: pa.Table, as_of_ms: int, since_ms: int, offsets_retention_ms: int = OFFSETS_RETENTION_MS
) -> pa.Table:
    """Return the rows of the group that `parts` belong to, as a table of schema RESULT. `since_ms`:
    the time of the batch's first record."""
    history = _history_of(parts, as_of_ms)._replace(offsets_retention_ms=offsets_retention_ms)
    until = final_offset(parts)
    after = -1 if until is None else until
    explained = explain(history)
    # The events and samples that explained an old record are no longer collected, so its row is
    # copied, even if it is the group's newest record, which is never final.
    known = {
        row.log_offset: row
        for row in (Rebalance(**row) for row in parts_of(parts, "gold_rebalance"))
        if row.log_offset <= after or (row.synced_at or 0) < since_ms - KEPT_MS
    }
    new = {row.log_offset: row for row in explained.rebalances if row.log_offset > after}
    # In copied rows, only an unknown pause is updated: it ends with the first commits after the
    # rebalance, which may come at any time.
    known |= {
        log_offset: known[log_offset]._replace(pause_ms=row.pause_ms)
        for log_offset, row in new.items()
        if log_offset in known and known[log_offset].pause_ms is None
    }
    old_exits = (MemberExit(**row) for row in parts_of(parts, "gold_member_exit"))
    exits = [row for row in old_exits if row.log_offset in known]
    exits += [row for row in explained.exits if row.log_offset in new.keys() - known.keys()]
    exits.sort(key=lambda row: row.log_offset)
    rebalances = sorted((new | known).values(), key=lambda row: row.log_offset)
    began_ms = [row["from_ts"] for row in parts_of(parts, "gold_rebalance_storm")]
    storms_since_ms = min(began_ms, default=None)
    rows: Mapping[str, Sequence[NamedTuple]] = {
        "gold_rebalance": [row for row in rebalances if row.log_offset > after],
        "gold_rebalance_storm": storms(rebalances, exits, storms_since_ms or 0),
        "gold_member_exit": [row for row in exits if row.log_offset > after],
        "gold_skew": [row for row in skews(history) if row.log_offset > after],
        _LIFECYCLE: [_extended(lifecycle(history), parts)],
    }
    row = {
        "cluster": history.cluster,
        "group": history.group,
        "final_offset": until,
        "storms_since": None if storms_since_ms is None else storms_since_ms * 1000,
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
    # If earlier records were dropped, the oldest record has no predecessor to compare it with.
    return -1 if rows[-1]["is_first"] else int(rows[-1]["log_offset"])


def _time_ms(row: dict[str, Any]) -> int:
    return row["append_ms"] or row["state_ms"] or 0


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
    removals = (Removal(**row) for row in parts_of(parts, "removal"))
    events = (
        Event(**row | {"detail": dict(row["detail"] or ())}) for row in parts_of(parts, "event")
    )
    return GroupHistory(
        cluster=parts["cluster"][0].as_py(),
        group=parts["group"][0].as_py(),
        as_of_ms=as_of_ms,
        generations=tuple(map(generation_of, parts_of(parts, "generation"))),
        activities=tuple(Activity(**row) for row in parts_of(parts, "activity")),
        removals=tuple(sorted(removals, key=lambda removal: removal.log_offset)),
        log_ends=tuple(LogEnd(**row) for row in parts_of(parts, "log_end")),
        events=tuple(events),
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
