"""Rows of the output, as Kafka's tables, JSON or CSV.

The tables are identical to those of kafka-consumer-groups, including trailing blanks, except
that names are escaped. As in ConsumerGroupCommand, a column is as wide as its longest value, but
has a minimum width. None is printed as `-`.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from ...printable import printable, printable_json
from ..output import write_csv
from .cluster import Committed, Group, Partition

MISSING: Final = "-"


# --- rows


class ListedRow(NamedTuple):
    group: str
    type: str
    state: str


class OffsetRow(NamedTuple):
    group: str
    topic: str
    partition: int
    leader_epoch: int | None
    current_offset: int | None
    log_end_offset: int | None
    lag: int | None
    consumer_id: str | None
    host: str | None
    client_id: str | None


class MemberRow(NamedTuple):
    group: str
    consumer_id: str
    group_instance_id: str | None
    host: str
    client_id: str
    partitions: int
    current_epoch: int | None
    assignment: str
    """Partitions such as `orders:0,1;payments:0`, or empty."""
    target_epoch: int | None
    target_assignment: str
    upgraded: bool | None


class StateRow(NamedTuple):
    group: str
    coordinator_host: str
    coordinator_port: int
    coordinator_id: int
    assignment_strategy: str | None
    state: str
    group_epoch: int | None
    target_assignment_epoch: int | None
    members: int


class ResetRow(NamedTuple):
    group: str
    topic: str
    partition: int
    new_offset: int


class DeletedGroupRow(NamedTuple):
    group: str
    error: str | None


class DeletedOffsetRow(NamedTuple):
    topic: str
    partition: int | None
    """None if the topic does not exist."""
    error: str | None


def offset_rows(
    group: Group, committed: dict[Partition, Committed], end_offsets: dict[Partition, int]
) -> list[OffsetRow]:
    """Return a row for each partition that is assigned or has a committed offset. As in Kafka, the
    members with the most partitions are first and unassigned partitions are last."""
    owners: list[tuple[Partition, tuple[str | None, ...]]] = [
        (at, (member.consumer_id, member.host, member.client_id))
        for member in sorted(group.members, key=lambda member: -len(member.partitions))
        for at in sorted(member.partitions)
    ]
    unassigned = sorted(committed.keys() - {at for at, _ in owners})
    owners += [(at, (None, None, None)) for at in unassigned]
    rows = []
    for at, owner in owners:
        offset, epoch = committed.get(at, (None, None))
        end = end_offsets.get(at)
        lag = None if offset is None or end is None else end - offset
        rows.append(OffsetRow(group.group, *at, epoch, offset, end, lag, *owner))
    return rows


def member_rows(group: Group) -> list[MemberRow]:
    """Return rows in the coordinator's order."""
    rows = []
    for member in group.members:
        names = (member.consumer_id, member.group_instance_id, member.host, member.client_id)
        current = (len(member.partitions), member.epoch, _assignment(member.partitions))
        target = (group.assignment_epoch, _assignment(member.target))
        rows.append(MemberRow(group.group, *names, *current, *target, member.upgraded))
    return rows


def _assignment(partitions: tuple[Partition, ...]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


def state_row(group: Group, host: str, port: int, node_id: int) -> StateRow:
    """`host`, `port` and `node_id` are the coordinator's."""
    name, state, protocol, members, epoch, target_epoch = group
    count = len(members)
    return StateRow(name, host, port, node_id, protocol or None, state, epoch, target_epoch, count)


# --- Kafka's tables


def list_table(rows: Sequence[ListedRow], *, with_type: bool, with_state: bool) -> str:
    """Format a table with the given columns, or only the names, one per line."""
    if not with_type and not with_state:
        return "".join(f"{_cell(row.group)}\n" for row in rows)
    widths = [10 + max([15, *(len(_cell(row.group)) for row in rows)]), 20, 20]
    columns = [0, *[1] * with_type, *[2] * with_state]
    lines = _lines(_header(ListedRow), rows, widths, columns)
    return "".join(f"{line}\n" for line in lines)


def offset_table(rows: Sequence[OffsetRow], *, verbose: bool) -> str:
    widths = _widened([15, 15, 10, 15, 15, 15, 15, 15, 15, 0], rows, (0, 1, 7, 8))
    columns = [column for column in range(len(widths)) if verbose or column != 3]
    lines = _lines(_header(OffsetRow), rows, widths, columns)
    return "".join(f"\n{line}" for line in lines) + "\n"


def member_table(rows: Sequence[MemberRow], *, verbose: bool) -> str:
    header = _header(MemberRow)
    header[5], header[7] = "#PARTITIONS", "CURRENT-ASSIGNMENT"
    printed = []
    for row in rows:
        cells = row._replace(
            group_instance_id=row.group_instance_id or "",
            assignment=row.assignment or MISSING,
            target_assignment=row.target_assignment or MISSING,
        )
        printed.append((*cells[:-1], str(row.upgraded).lower()))
    minimum = [15, 15, 17, 15, 15, 15, 15, 20, 15, 20, 0]
    widths = _widened(minimum, printed, (0, 1, 2, 3, 4, 7, 9))
    has_static = any(row.group_instance_id for row in rows)
    # A group has members of both protocols only while it migrates to the consumer protocol.
    is_migrating = {True, False} <= {row.upgraded for row in rows}
    last = 6 if not verbose else 11 if is_migrating else 10
    columns = [column for column in range(last) if has_static or column != 2]
    # Kafka's format string for the first columns ends with a blank.
    end = "\n" if verbose else " \n"
    return "\n" + "".join(line + end for line in _lines(header, printed, widths, columns))


def state_table(row: StateRow, *, verbose: bool) -> str:
    header = ["GROUP", "COORDINATOR (ID)", *_header(StateRow)[4:-1], "#MEMBERS"]
    coordinator = f"{row.coordinator_host}:{row.coordinator_port}  ({row.coordinator_id})"
    cells = (row.group, coordinator, *row[4:])
    widths = _widened([15, 25, 20, 20, 15, 25, 0], [cells], (0, 1))
    columns = range(7) if verbose else (0, 1, 2, 3, 6)
    return "".join(f"\n{line}" for line in _lines(header, [cells], widths, columns)) + "\n"


def reset_table(rows: Sequence[ResetRow], groups: Iterable[str]) -> str:
    """Format the plan. `groups` includes groups without offsets."""
    names = list(groups)
    widths = _widened([max([15, *(len(_cell(name)) for name in names)]), 15, 10, 0], rows, (1,))
    lines = _lines(_header(ResetRow), rows, widths)
    return "".join(f"\n{line}" for line in (lines if names else lines[1:])) + "\n"


def deleted_offsets_table(rows: Sequence[DeletedOffsetRow]) -> str:
    printed = [
        row._replace(error="Successful" if row.error is None else f"Error: {row.error}")
        for row in rows
    ]
    widths = _widened([15, 10, 15], printed, (0,))
    lines = _lines(["TOPIC", "PARTITION", "STATUS"], printed, widths)
    return "".join(f"\n{line}" for line in lines) + "\n"


def _header(row_type: Any) -> list[str]:
    return [name.upper().replace("_", "-") for name in row_type._fields]


def _widened(
    minimum: Sequence[int], rows: Iterable[Sequence[object]], columns: Iterable[int]
) -> list[int]:
    """Return `minimum`, with these columns widened to their longest value."""
    widths = list(minimum)
    for row in rows:
        for column in columns:
            widths[column] = max(widths[column], len(_cell(row[column])))
    return widths


def _lines(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    widths: Sequence[int],
    columns: Iterable[int] | None = None,
) -> list[str]:
    """Format the header and the rows, with `columns` only, or with all columns if None."""
    selected = range(len(widths)) if columns is None else columns
    return [
        " ".join(_cell(row[column]).ljust(widths[column]) for column in selected)
        for row in (header, *rows)
    ]


def _cell(value: object) -> str:
    return MISSING if value is None else printable(str(value))


def _message(text: str) -> str:
    """Escape a message, keeping a leading empty line."""
    return "\n" * text.startswith("\n") + printable(text.removeprefix("\n"))


# --- output


class Output:
    """The output of an action: tables immediately, JSON or CSV at the end. As in Kafka's tool,
    errors are printed between the tables, and the exit code is 0. With JSON or CSV, errors are
    printed to standard error, and the exit code is 1."""

    def __init__(self, output_format: str) -> None:
        self._format = output_format
        self._columns: tuple[str, ...] = ()
        self._rows: list[tuple[Any, ...]] = []
        self._failed = False

    def begin(self, row_type: Any) -> None:
        """Set the type of all rows."""
        self._columns = row_type._fields

    def show(self, rows: Iterable[tuple[Any, ...]], table: str) -> None:
        """Print `table` or collect the rows, which have the same content."""
        if self._format == "table":
            sys.stdout.write(table)
        else:
            self._rows.extend(rows)

    def notice(self, text: str) -> None:
        """Print a message to standard error."""
        sys.stdout.flush()
        print(_message(text), file=sys.stderr)

    def warning(self, text: str) -> None:
        """Print a message between the tables, or with JSON and CSV to standard error."""
        print(_message(text), file=sys.stdout if self._format == "table" else sys.stderr)

    def error(self, text: str) -> None:
        self._failed = True
        self.warning(f"\nError: {text}" if self._format == "table" else f"Error: {text}")

    def end(self) -> None:
        """Print all rows as JSON or CSV."""
        if self._format == "json":
            rows = [dict(zip(self._columns, row, strict=True)) for row in self._rows]
            print(printable_json(json.dumps(rows, indent=2, ensure_ascii=False)))
        elif self._format == "csv":
            write_csv(self._columns, self._rows)

    def exit_code(self) -> int:
        return 1 if self._failed and self._format != "table" else 0
