"""A lake that can be asked. Each answer is a list of rows (rows.py), read from gold tables.

Nothing here judges: causes, verdicts and their sentences are read as the pipeline wrote them.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..lake import Lake
from .names import nearest
from .rows import Change, Diagnosis, Exit, GroupStatus, Jump, Lag, Owned, Storm
from .series import Point, lag_series

__all__ = ["Answers", "NoSuchGroup"]

Row = TypeVar("Row", bound=tuple[Any, ...])

_OF_RECORD = ("record_kind", "joined", "left", "replaced", "protocol", "member_list")


class NoSuchGroup(Exception):
    """The message is a sentence with the nearest names."""


class Answers:
    """`among`: groups that many questions will be about; their rows are read once, and kept."""

    def __init__(self, lake: Lake, among: Iterable[str] = ()) -> None:
        self._lake = lake
        self._among = frozenset(among)
        self._held: dict[tuple[str, tuple[str, ...]], pa.Table] = {}
        self.cluster = lake.cluster
        self.as_of = lake.as_of

    def among(self, groups: Iterable[str]) -> "Answers":
        return Answers(self._lake, groups)

    # --- which groups there are

    def names(self) -> list[str]:
        """Of all groups, deleted ones too, sorted."""
        tables = [self._lake.read(name, ["group"]) for name in _GROUPS]
        return sorted({name for table in tables for name in table.column("group").to_pylist()})

    def known(self, group: str) -> None:
        """Raises NoSuchGroup."""
        names = self.names()
        if group in names:
            return
        near = nearest(group, names)
        if near:
            more = f"did you mean {' or '.join(near)}?"
        elif names:
            more = f"it knows {', '.join(names[:5])}{' and others' * (len(names) > 5)}."
        else:
            more = "nothing was in the log when `kohort pipeline run` read it."
        raise NoSuchGroup(f"the lake knows no group {group}; {more}")

    # --- how they are

    def groups(self) -> list[GroupStatus]:
        return self._rows(GroupStatus, "gold_group_status", None, "group")

    def diagnoses(self, group: str | None = None) -> list[Diagnosis]:
        """The worst first."""
        found = self._rows(Diagnosis, "gold_diagnosis", group, "group")
        return sorted(found, key=lambda each: -each.severity)

    def lag(self, group: str | None = None) -> list[Lag]:
        return self._rows(Lag, "gold_partition_status", group, "group", "topic", "partition")

    def has_samples(self) -> bool:
        """Whether anything in the lake says where logs end: without it no lag is known."""
        return self._lake.rows("bronze_log_end") > 0

    # --- what happened to them

    def changes(self, group: str) -> list[Change]:
        """In the order of the log."""
        generations = self._table("silver_generation", group, [*_OF_RECORD, "log_offset"])
        by_offset = {row["log_offset"]: row for row in generations.to_pylist()}
        exits: dict[int, list[Exit]] = {}
        for gone in self.exits(group):
            exits.setdefault(gone.log_offset, []).append(gone)
        rebalances = self._table("gold_rebalance", group).sort_by("log_offset")
        made = []
        for row in rebalances.to_pylist():
            record = by_offset.get(row["log_offset"], _NO_RECORD)
            row.update({name: record[name] for name in _OF_RECORD})
            for name in ("joined", "left", "replaced", "member_list"):
                row[name] = row[name] or []
            row["at"] = row["synced_at"] or row["joined_at"]
            row["exits"] = exits.get(row["log_offset"], [])
            made.append(Change(**{name: row[name] for name in Change._fields}))
        return made

    def last_rebalances(self) -> dict[str, tuple[datetime | None, str]]:
        """By group: when, and its cause."""
        columns = ["group", "log_offset", "synced_at", "joined_at", "cause"]
        found = self._lake.read("gold_rebalance", columns, pc.field("is_rebalance"))
        rows = found.sort_by("log_offset").to_pylist()
        return {row["group"]: (row["synced_at"] or row["joined_at"], row["cause"]) for row in rows}

    def lag_series(self, group: str, begin: datetime, end: datetime, points: int) -> list[Point]:
        return lag_series(self._lake, group, begin, end, points)

    def began(self) -> datetime | None:
        """When the first commit was made, or the first generation: in whole minutes."""
        commits = self._lake.read("gold_partition_minute", ["minute"]).column("minute")
        rounds = self._lake.read("gold_rebalance", ["synced_at"]).column("synced_at")
        found = [first for first in (pc.min(commits).as_py(), pc.min(rounds).as_py()) if first]
        return min(found).replace(second=0, microsecond=0) if found else None

    def exits(self, group: str | None = None) -> list[Exit]:
        return self._rows(Exit, "gold_member_exit", group, "log_offset")

    def storms(self, group: str | None = None) -> list[Storm]:
        return self._rows(Storm, "gold_rebalance_storm", group, "from_ts", "group")

    def jumps(self, group: str) -> list[Jump]:
        return self._rows(Jump, "gold_offset_jump", group, "ts")

    def owned(self, group: str) -> list[Owned]:
        return self._rows(Owned, "silver_ownership", group, "topic", "partition", "from_log_offset")

    # --- reading

    def _table(self, table: str, group: str | None, columns: list[str] | None = None) -> pa.Table:
        if group is None:
            return self._lake.read(table, columns)
        if group not in self._among:
            return self._lake.read(table, columns, pc.field("group") == group)
        key = table, tuple(columns or ())
        if key not in self._held:
            wanted = None if columns is None else list({*columns, "group"})
            chosen = pc.field("group").isin(list(self._among))
            self._held[key] = self._lake.read(table, wanted, chosen)
        held = self._held[key]
        return held.filter(pc.equal(held.column("group"), group))

    def _rows(self, row: type[Row], table: str, group: str | None, *order: str) -> list[Row]:
        fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
        columns = list(dict.fromkeys((*fields, *order)))
        return rows_of(row, self._table(table, group, columns).sort_by(_ascending(order)))


def rows_of(row: type[Row], table: pa.Table) -> list[Row]:
    """The columns that are its fields."""
    fields: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
    values: Iterable[tuple[Any, ...]] = zip(
        *(table.column(name).to_pylist() for name in fields), strict=True
    )
    return [row(*each) for each in values]


def _ascending(columns: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in columns]


_GROUPS = ("gold_group_status", "gold_group_lifecycle", "gold_diagnosis")
# Of a rebalance whose record is not in the lake (any more).
_NO_RECORD: dict[str, Any] = {**dict.fromkeys(_OF_RECORD), "record_kind": ""}
