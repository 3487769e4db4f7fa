"""Rows of the output, as Kafka's tables, JSON or CSV.

The tables are byte for byte what kafka-consumer-groups prints, including trailing blanks. Columns
have the width of ConsumerGroupCommand: a minimum, or the longest value. None is printed as `-`.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

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
    """`orders:0,1;payments:0`, or empty."""
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
    """None for an unknown topic."""
    error: str | None


def offset_rows(
    group: Group,
    committed: dict[Partition, Committed],
    end_offsets: dict[Partition, int],
) -> list[OffsetRow]:
    """One row for each partition that is assigned or has a committed offset.

    As in Kafka, members with the most partitions come first, unassigned partitions last.
    """
    rows: list[OffsetRow] = []
    assigned: set[Partition] = set()
    for member in sorted(group.members, key=lambda member: -len(member.partitions)):
        assigned.update(member.partitions)
        owner = (member.consumer_id, member.host, member.client_id)
        rows += (
            _offset_row(group, at, committed, end_offsets, owner)
            for at in sorted(member.partitions)
        )
    unassigned = sorted(committed.keys() - assigned)
    no_member = (None, None, None)
    return rows + [_offset_row(group, at, committed, end_offsets, no_member) for at in unassigned]


def _offset_row(
    group: Group,
    at: Partition,
    committed: dict[Partition, Committed],
    end_offsets: dict[Partition, int],
    owner: tuple[str | None, str | None, str | None],
) -> OffsetRow:
    offset, epoch = committed.get(at, (None, None))
    end = end_offsets.get(at)
    lag = None if offset is None or end is None else end - offset
    return OffsetRow(group.group, at.topic, at.partition, epoch, offset, end, lag, *owner)


def member_rows(group: Group) -> list[MemberRow]:
    """In the coordinator's order."""
    return [
        MemberRow(
            group.group,
            member.consumer_id,
            member.group_instance_id,
            member.host,
            member.client_id,
            len(member.partitions),
            member.epoch,
            _assignment(member.partitions),
            group.assignment_epoch,
            _assignment(member.target),
            member.upgraded,
        )
        for member in group.members
    ]


def _assignment(partitions: tuple[Partition, ...]) -> str:
    topics: dict[str, list[str]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(str(partition))
    return ";".join(f"{topic}:{','.join(numbers)}" for topic, numbers in topics.items())


def state_row(group: Group, host: str, port: int, node_id: int) -> StateRow:
    """`host`, `port` and `node_id` are the coordinator's."""
    return StateRow(
        group.group,
        host,
        port,
        node_id,
        group.protocol or None,
        group.state,
        group.epoch,
        group.assignment_epoch,
        len(group.members),
    )


# --- Kafka's tables


def list_table(rows: Sequence[ListedRow], *, with_type: bool, with_state: bool) -> str:
    """Only the names, one per line, or a table with these columns."""
    if not with_type and not with_state:
        return "".join(f"{row.group}\n" for row in rows)
    lines = [["GROUP", *["TYPE"] * with_type, *["STATE"] * with_state]]
    for row in rows:
        lines.append([row.group, *[row.type] * with_type, *[row.state] * with_state])
    width = 10 + max([15, *(len(row.group) for row in rows)])
    return "".join(_line(cells, [width, 20, 20]) + "\n" for cells in lines)


def offset_table(rows: Sequence[OffsetRow], *, verbose: bool) -> str:
    names = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET"]
    names += ["LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    lines: list[list[str]] = [_cells(row) for row in rows]
    minimum = [15, 15, 10, 15, 15, 15, 15, 15, 15, 0]
    widths = _widened(minimum, lines, columns=(0, 1, 7, 8))
    columns = [column for column in range(len(names)) if verbose or column != 3]
    return "".join(f"\n{_line(line, widths, columns)}" for line in (names, *lines)) + "\n"


def member_table(rows: Sequence[MemberRow], *, verbose: bool) -> str:
    names = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    names += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    names.append("UPGRADED")
    lines = []
    for row in rows:
        printed = row._replace(
            group_instance_id=row.group_instance_id or "",
            assignment=row.assignment or MISSING,
            target_assignment=row.target_assignment or MISSING,
        )
        lines.append([*_cells(printed[:-1]), str(row.upgraded).lower()])
    minimum = [15, 15, 17, 15, 15, 15, 15, 20, 15, 20, 0]
    widths = _widened(minimum, lines, columns=(0, 1, 2, 3, 4, 7, 9))
    has_static = any(row.group_instance_id for row in rows)
    # Both kinds of members only while a group migrates to the consumer protocol.
    is_migrating = {True, False} <= {row.upgraded for row in rows}
    last = 6 if not verbose else 11 if is_migrating else 10
    columns = [column for column in range(last) if has_static or column != 2]
    # Kafka's format string for the first columns ends with a blank.
    end = "" if verbose else " "
    return "\n" + "".join(f"{_line(line, widths, columns)}{end}\n" for line in (names, *lines))


def state_table(row: StateRow, *, verbose: bool) -> str:
    coordinator = f"{row.coordinator_host}:{row.coordinator_port}  ({row.coordinator_id})"
    names = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    cells = [row.group, coordinator, row.assignment_strategy or MISSING, row.state]
    widths = [max(15, len(row.group)), max(25, len(coordinator)), 20, 20]
    if verbose:
        names += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += _cells([row.group_epoch, row.target_assignment_epoch])
        widths += [15, 25]
    names.append("#MEMBERS")
    cells.append(str(row.members))
    widths.append(0)
    return f"\n{_line(names, widths)}\n{_line(cells, widths)}\n"


def reset_table(rows: Sequence[ResetRow], groups: Iterable[str]) -> str:
    """`groups`: all groups of the plan, also those without offsets."""
    names = list(groups)
    lines = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]] if names else []
    lines += [_cells(row) for row in rows]
    width = max([15, *map(len, names)])
    widths = [width, max([15, *(len(row.topic) for row in rows)]), 10, 0]
    return "".join(f"\n{_line(line, widths)}" for line in lines) + "\n"


def deleted_offsets_table(rows: Sequence[DeletedOffsetRow]) -> str:
    lines = [["TOPIC", "PARTITION", "STATUS"]]
    for row in rows:
        status = "Successful" if row.error is None else f"Error: {row.error}"
        lines.append([row.topic, MISSING if row.partition is None else str(row.partition), status])
    widths = [max([15, *(len(row.topic) for row in rows)]), 10, 15]
    return "".join(f"\n{_line(line, widths)}" for line in lines) + "\n"


def _widened(
    minimum: Sequence[int], lines: Sequence[Sequence[str]], columns: Iterable[int]
) -> list[int]:
    """`minimum`, with these columns as wide as their longest value."""
    widths = list(minimum)
    for column in columns:
        widths[column] = max([minimum[column], *(len(line[column]) for line in lines)])
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], columns: Iterable[int] | None = None) -> str:
    selected = range(len(cells)) if columns is None else columns
    return " ".join(cells[column].ljust(widths[column]) for column in selected)


def _cells(row: Iterable[object]) -> list[str]:
    return [MISSING if cell is None else str(cell) for cell in row]


# --- output


class Output:
    """Kafka's tables at once, or all rows as JSON or CSV at the end.

    With tables, errors are lines of the output and the exit code is 0, as with Kafka's tool. With
    JSON and CSV, errors go to standard error, and the exit code is 1.
    """

    def __init__(self, output_format: str) -> None:
        self._format = output_format
        self._columns: tuple[str, ...] = ()
        self._rows: list[tuple[Any, ...]] = []
        self._failed = False

    def begin(self, row_type: Any) -> None:
        """Set the type of all rows."""
        self._columns = row_type._fields

    def show(self, rows: Iterable[tuple[Any, ...]], table: str) -> None:
        """`table` is the same content as `rows`, as Kafka prints it."""
        if self._format == "table":
            sys.stdout.write(table)
        else:
            self._rows.extend(rows)

    def notice(self, text: str) -> None:
        """Print a message that is not part of the output."""
        sys.stdout.flush()
        print(text, file=sys.stderr)

    def warning(self, text: str) -> None:
        """Print a message that Kafka prints between its tables."""
        print(text, file=sys.stdout if self._format == "table" else sys.stderr)

    def error(self, text: str) -> None:
        self._failed = True
        self.warning(f"\nError: {text}" if self._format == "table" else f"Error: {text}")

    def end(self) -> None:
        """Print all rows as JSON or CSV."""
        if self._format == "json":
            rows = [dict(zip(self._columns, row, strict=True)) for row in self._rows]
            print(json.dumps(rows, indent=2, ensure_ascii=False))
        elif self._format == "csv":
            write_csv(self._columns, self._rows)

    def exit_code(self) -> int:
        return 1 if self._failed and self._format != "table" else 0
