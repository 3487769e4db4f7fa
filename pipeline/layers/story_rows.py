"""From Arrow to a group's Story, and from the rules' rows back to Arrow. Without Spark.

A story comes as one Arrow table: each row is a part of it, in the column of the part's name, in no
order. Times are milliseconds in it, as the rules have them; in gold they are timestamps.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from ..columns import LONG, STRING, TIME, columns
from ..diagnosis.lifecycle import lifecycle
from ..diagnosis.rebalances import account
from ..diagnosis.rows import GroupLifecycle, MemberExit, Rebalance
from ..diagnosis.skew import skews
from ..diagnosis.storms import storms
from ..diagnosis.story import (
    OFFSETS_RETENTION_MS,
    Activity,
    Event,
    Generation,
    LogEnd,
    Member,
    Removal,
    Story,
    TopicPartition,
)
from ..tables import TABLES
from .limits import REMEMBERED_MAX, REMEMBERED_MEMBERS_MAX, REMEMBERED_MS

__all__ = ["TOLD", "generation_of", "list_of", "parts_of", "rows_of", "story_of", "told"]


def list_of(table: str) -> pa.DataType:
    """A column that holds a group's rows of a gold table."""
    return pa.list_(pa.struct(list(TABLES[table].schema)))


_GOLD: Final = (
    "gold_rebalance",
    "gold_rebalance_storm",
    "gold_member_exit",
    "gold_skew",
    "gold_group_lifecycle",
)
TOLD: Final = pa.schema(
    [
        *columns(cluster_=STRING, group_=STRING),
        # Rows of records up to there stay as they are; null: all that there are.
        *columns(settled=LONG),
        # The first rebalance that storms were looked for from: what began earlier stays as it was.
        *columns(storms_since=TIME),
        *[pa.field(name, list_of(name)) for name in _GOLD],
    ]
)
"""What is told of a group: a row with its rows of each table."""


def told(
    parts: pa.Table, as_of_ms: int, offsets_retention_ms: int = OFFSETS_RETENTION_MS
) -> pa.Table:
    """The rules' answers for the group that `parts` are of."""
    story = story_of(parts, as_of_ms)._replace(offsets_retention_ms=offsets_retention_ms)
    until = settled(parts)
    after = -1 if until is None else until
    account_ = account(story)
    rebalances = [row for row in account_.rebalances if row.log_offset > after]
    exits = [row for row in account_.exits if row.log_offset > after]
    earlier = _settled_rows(Rebalance, parts, "gold_rebalance", until)
    earlier_exits = _settled_rows(MemberExit, parts, "gold_member_exit", until)
    all_rebalances = sorted([*earlier, *rebalances], key=lambda row: row.log_offset)
    all_exits = sorted([*earlier_exits, *exits], key=lambda row: row.log_offset)
    times = [row.synced_at if row.joined_at is None else row.joined_at for row in all_rebalances]
    known = [time for time in times if time is not None]
    answers: dict[str, Sequence[NamedTuple]] = {
        "gold_rebalance": rebalances,
        "gold_rebalance_storm": storms(all_rebalances, all_exits),
        "gold_member_exit": exits,
        "gold_skew": [row for row in skews(story) if row.log_offset > after],
        "gold_group_lifecycle": [_grown(lifecycle(story), parts)],
    }
    row = {
        "cluster": story.cluster,
        "group": story.group,
        "settled": until,
        "storms_since": min(known) * 1000 if known else None,
    }
    return pa.Table.from_pylist(
        [row | {name: rows_of(name, rows) for name, rows in answers.items()}], schema=TOLD
    )


def settled(parts: pa.Table) -> int | None:
    """The newest record of which all that can be told has been told: of what is remembered the
    older half, as the other half lies between it and the oldest that a rule may look back to from
    the next. -1: none; None: nothing is remembered of the group, and nothing of then changes.
    """
    rows = [row for row in parts_of(parts, "generation") if row["remembered"]]
    if not rows:
        return None
    rows.sort(key=lambda row: -row["log_offset"])
    newest_ms, members = _time(rows[0]), 0
    for place, row in enumerate(rows):
        members += max(len(row["members"]), 1)
        is_old = (
            place >= REMEMBERED_MAX // 2
            or members > REMEMBERED_MEMBERS_MAX // 2
            or newest_ms - _time(row) > REMEMBERED_MS // 2
        )
        if place and is_old:
            return int(row["log_offset"])
    # The oldest that is remembered, of a group that is older: what was before it is forgotten.
    return -1 if rows[-1]["is_first"] else int(rows[-1]["log_offset"])


def _time(row: dict[str, Any]) -> int:
    return row["append_ms"] or row["state_ms"] or 0


Row = TypeVar("Row", Rebalance, MemberExit)


def _settled_rows(kind: type[Row], parts: pa.Table, table: str, until: int | None) -> list[Row]:
    """Rows of gold that storms may go back to."""
    rows = parts_of(parts, table)
    return [kind(**row) for row in rows if until is None or row["log_offset"] <= until]


def _grown(life: GroupLifecycle, parts: pa.Table) -> GroupLifecycle:
    """The story may begin long after the group did."""
    for row in parts_of(parts, "gold_group_lifecycle"):
        last = [time for time in (row["last_commit"], life.last_commit) if time is not None]
        life = life._replace(
            first_seen=min(life.first_seen, row["first_seen"]),
            last_commit=max(last, default=None),
        )
    return life


def story_of(parts: pa.Table, as_of_ms: int) -> Story:
    """Of one group; `parts` has its `cluster` and `group` too."""
    return Story(
        cluster=parts["cluster"][0].as_py(),
        group=parts["group"][0].as_py(),
        as_of_ms=as_of_ms,
        generations=tuple(
            sorted(
                map(generation_of, parts_of(parts, "generation")),
                key=lambda record: record.log_offset,
            )
        ),
        activities=tuple(Activity(**row) for row in parts_of(parts, "activity")),
        removals=tuple(
            sorted(
                (Removal(**row) for row in parts_of(parts, "removal")),
                key=lambda removal: removal.log_offset,
            )
        ),
        log_ends=tuple(
            sorted(
                (LogEnd(**row) for row in parts_of(parts, "log_end")),
                key=lambda end: end.sampled_ms,
            )
        ),
        events=tuple(
            sorted(
                (
                    Event(**row | {"detail": dict(row["detail"] or ())})
                    for row in parts_of(parts, "event")
                ),
                key=lambda event: event.seq,
            )
        ),
    )


def generation_of(row: dict[str, Any]) -> Generation:
    fields = {name: row[name] for name in Generation._fields}
    return Generation(**fields | {"members": tuple(map(_member, row["members"]))})


def rows_of(table: str, rows: Iterable[NamedTuple]) -> list[dict[str, Any]]:
    """As Arrow takes them: milliseconds become the microseconds of timestamps."""
    schema = TABLES[table].schema
    times = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    told = []
    for row in rows:
        values = row._asdict()
        for name in times:
            if values[name] is not None:
                values[name] *= 1000
        told.append(values)
    return told


def parts_of(parts: pa.Table, part: str) -> list[dict[str, Any]]:
    """The parts of one name; none where the lake has no events, or no samples."""
    if part not in parts.column_names:
        return []
    column = parts[part]
    return column.filter(pc.is_valid(column)).to_pylist()  # type: ignore[no-any-return]


def _member(row: dict[str, Any]) -> Member:
    return Member(
        **row
        | {
            "topics": None if row["topics"] is None else tuple(row["topics"]),
            "owned": _pairs(row["owned"]),
            "assigned": _pairs(row["assigned"]),
        }
    )


def _pairs(of: Sequence[dict[str, Any]] | None) -> tuple[TopicPartition, ...] | None:
    return None if of is None else tuple((at["topic"], at["partition"]) for at in of)
