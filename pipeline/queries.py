"""Queries on a lake with pyarrow alone: no Spark, and nothing is written.

Results are rows of gold tables (diagnosis/rows.py): causes, verdicts and texts as written by the
pipeline. docs/pipeline.md explains the fields.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..suggestions import similar_names
from .diagnosis.rows import (
    Diagnosis,
    GroupStatus,
    MemberExit,
    OffsetJump,
    Ownership,
    PartitionStatus,
    Storm,
    TimelineEntry,
)
from .lag_series import LagPoint, lag_series
from .lake.reader import Lake
from .lake.schema import LakeError

Row = TypeVar("Row", bound=tuple[Any, ...])

_GROUP_TABLES = ("gold_group_status", "gold_group_lifecycle", "gold_diagnosis")
_OF_RECORD = ("record_kind", "joined", "left", "replaced", "protocol", "member_list")


class GroupNotFound(Exception):
    """The lake does not contain the group. The message names similar groups."""


class Queries:
    """`preload`: groups that will be queried often; their rows are read once and cached."""

    def __init__(self, lake: Lake, preload: Iterable[str] = ()) -> None:
        self._lake = lake
        self._preload = frozenset(preload)
        self._cache: dict[tuple[str, tuple[str, ...]], pa.Table] = {}
        self.cluster = lake.cluster
        self.as_of = None if lake.as_of is None else int(lake.as_of.timestamp() * 1000)

    def preloaded(self, groups: Iterable[str]) -> "Queries":
        return Queries(self._lake, groups)

    def missing(self, table: str, row: str) -> LakeError:
        """Return the error for a lake in which this table lacks a row that another table
        contains."""
        return self._lake.damaged(table, f"no row for {row}")

    # --- groups

    def names(self) -> list[str]:
        """Return all groups, including deleted ones, sorted."""
        tables = [self._lake.read(name, ["group"]) for name in _GROUP_TABLES]
        return sorted({name for table in tables for name in table.column("group").to_pylist()})

    def require(self, group: str) -> None:
        """Raise GroupNotFound if the lake does not contain the group."""
        names = self.names()
        if group in names:
            return
        if similar := similar_names(group, names):
            hint = f"did you mean {' or '.join(similar)}?"
        elif names:
            hint = f"it has {', '.join(names[:5])}{' and others' * (len(names) > 5)}."
        else:
            hint = "the log was empty when `kohort pipeline run` read it."
        raise GroupNotFound(f"the lake has no group {group}; {hint}")

    def groups(self) -> list[GroupStatus]:
        return self._rows(GroupStatus, "gold_group_status", None, "group")

    def diagnoses(self, group: str | None = None) -> list[Diagnosis]:
        """Return diagnoses, the worst first."""
        rows = self._rows(Diagnosis, "gold_diagnosis", group, "group")
        return sorted(rows, key=lambda row: -row.severity)

    def lag(self, group: str | None = None) -> list[PartitionStatus]:
        order = ("group", "topic", "partition")
        return self._rows(PartitionStatus, "gold_partition_status", group, *order)

    def has_samples(self) -> bool:
        """Whether the lake has samples of log ends, without which no lag is known."""
        return self._lake.rows("bronze_log_end") > 0

    # --- history

    def timeline(self, group: str) -> list[TimelineEntry]:
        """Return changes of the group in log order."""
        generations = self._table("silver_generation", group, [*_OF_RECORD, "log_offset"])
        by_offset = {row["log_offset"]: row for row in generations.to_pylist()}
        exits: dict[int, list[MemberExit]] = {}
        for exit_ in self.exits(group):
            exits.setdefault(exit_.log_offset, []).append(exit_)
        entries = []
        for row in _in_ms(self._table("gold_rebalance", group).sort_by("log_offset")).to_pylist():
            generation = by_offset.get(row["log_offset"])
            if generation is None:
                raise self.missing("silver_generation", f"offset {row['log_offset']} of {group}")
            row.update(generation)
            row["at"] = row["synced_at"] or row["joined_at"]
            row["exits"] = exits.get(row["log_offset"], [])
            entries.append(TimelineEntry(**{name: row[name] for name in TimelineEntry._fields}))
        return entries

    def last_rebalances(self) -> dict[str, tuple[int | None, str]]:
        """Return (time, cause) of the last rebalance, by group."""
        columns = ["group", "log_offset", "synced_at", "joined_at", "cause"]
        table = self._lake.read("gold_rebalance", columns, pc.field("is_rebalance"))
        rows = _in_ms(table.sort_by("log_offset")).to_pylist()
        return {row["group"]: (row["synced_at"] or row["joined_at"], row["cause"]) for row in rows}

    def lag_series(self, group: str, begin_ms: int, end_ms: int, points: int) -> list[LagPoint]:
        return lag_series(self._lake, group, begin_ms, end_ms, points)

    def began(self) -> int | None:
        """Return the time of the first commit or generation."""
        first = [self._first("gold_rebalance", "synced_at")]
        if (minute := self._first("gold_partition_minute", "minute")) is not None:
            in_minute = pc.field("commit_ts") < minute + timedelta(minutes=1)
            first.append(self._first("silver_commit", "commit_ts", in_minute) or minute)
        times = [each for each in first if each is not None]
        return int(min(times).timestamp() * 1000) if times else None

    def _first(self, table: str, column: str, rows: pc.Expression | None = None) -> datetime | None:
        first: datetime | None = pc.min(self._lake.read(table, [column], rows).column(0)).as_py()
        return first

    def exits(self, group: str | None = None) -> list[MemberExit]:
        return self._rows(MemberExit, "gold_member_exit", group, "log_offset")

    def storms(self, group: str | None = None) -> list[Storm]:
        return self._rows(Storm, "gold_rebalance_storm", group, "from_ts", "group")

    def jumps(self, group: str) -> list[OffsetJump]:
        return self._rows(OffsetJump, "gold_offset_jump", group, "ts")

    def ownership(self, group: str) -> list[Ownership]:
        order = ("topic", "partition", "from_log_offset")
        return self._rows(Ownership, "silver_ownership", group, *order)

    # --- reading

    def _table(self, table: str, group: str | None, columns: list[str] | None = None) -> pa.Table:
        if group is None:
            return self._lake.read(table, columns)
        if group not in self._preload:
            return self._lake.read(table, columns, pc.field("group") == group)
        key = table, tuple(columns or ())
        if key not in self._cache:
            with_group = None if columns is None else list({*columns, "group"})
            preloaded = pc.field("group").isin(list(self._preload))
            self._cache[key] = self._lake.read(table, with_group, preloaded)
        cached = self._cache[key]
        return cached.filter(pc.equal(cached.column("group"), group))

    def _rows(self, row: type[Row], table: str, group: str | None, *order: str) -> list[Row]:
        fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
        rows = self._table(table, group, list(dict.fromkeys((*fields, *order))))
        rows = _in_ms(rows.sort_by([(name, "ascending") for name in order]))
        values = zip(*(rows.column(name).to_pylist() for name in fields), strict=True)
        return [row(*each) for each in values]


def _in_ms(rows: pa.Table) -> pa.Table:
    """Convert times to milliseconds."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            ms = pc.divide(rows.column(index).cast(pa.int64()), 1000)
            rows = rows.set_column(index, field.name, ms)
    return rows
