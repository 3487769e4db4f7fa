"""Kafka's tables: the same bytes that kafka-consumer-groups prints, trailing blanks included.

Columns are as wide as ConsumerGroupCommand makes them: a least width, or the longest value.
"""

from collections.abc import Iterable, Sequence

from .rows import DeletedOffsetRow, ListedRow, MemberRow, OffsetRow, ResetRow, StateRow

MISSING = "-"


def listed(rows: Sequence[ListedRow], with_type: bool, with_state: bool) -> str:
    """The groups' names alone, one a line, or a table with the columns that are asked for."""
    if not with_type and not with_state:
        return "".join(f"{row.group}\n" for row in rows)
    names = ["GROUP", *(["TYPE"] if with_type else []), *(["STATE"] if with_state else [])]
    lines = [names]
    for row in rows:
        more = [row.type] * with_type + [row.state] * with_state
        lines.append([row.group, *more])
    width = 10 + max([15, *(len(row.group) for row in rows)])
    return "".join(_line(cells, [width, 20, 20]) + "\n" for cells in lines)


def offsets(rows: Sequence[OffsetRow], verbose: bool) -> str:
    names = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET"]
    names += ["LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    lines: list[list[str]] = [_texts(row) for row in rows]
    least = [15, 15, 10, 15, 15, 15, 15, 15, 15, 0]
    widths = _widened(least, lines, columns=(0, 1, 7, 8))
    kept = [column for column in range(len(names)) if verbose or column != 3]
    return "".join(f"\n{_line(line, widths, kept)}" for line in (names, *lines)) + "\n"


def members(rows: Sequence[MemberRow], verbose: bool) -> str:
    names = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    names += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    names.append("UPGRADED")
    lines = []
    for row in rows:
        shown = row._replace(
            group_instance_id=row.group_instance_id or "",
            assignment=row.assignment or MISSING,
            target_assignment=row.target_assignment or MISSING,
        )
        lines.append([*_texts(shown[:-1]), str(row.upgraded).lower()])
    least = [15, 15, 17, 15, 15, 15, 15, 20, 15, 20, 0]
    widths = _widened(least, lines, columns=(0, 1, 2, 3, 4, 7, 9))
    static = any(row.group_instance_id for row in rows)
    # Only a group on its way to KIP-848 has members of both kinds.
    mixed = {True, False} <= {row.upgraded for row in rows}
    last = 6 if not verbose else 11 if mixed else 10
    kept = [column for column in range(last) if static or column != 2]
    # Kafka ends the part that is always there with a blank.
    end = "" if verbose else " "
    return "\n" + "".join(f"{_line(line, widths, kept)}{end}\n" for line in (names, *lines))


def state(row: StateRow, verbose: bool) -> str:
    coordinator = f"{row.coordinator_host}:{row.coordinator_port}  ({row.coordinator_id})"
    names = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    cells = [row.group, coordinator, row.assignment_strategy or MISSING, row.state]
    widths = [max(15, len(row.group)), max(25, len(coordinator)), 20, 20]
    if verbose:
        names += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        cells += _texts([row.group_epoch, row.target_assignment_epoch])
        widths += [15, 25]
    names.append("#MEMBERS")
    cells.append(str(row.members))
    widths.append(0)
    return f"\n{_line(names, widths)}\n{_line(cells, widths)}\n"


def reset(rows: Sequence[ResetRow], groups: Iterable[str]) -> str:
    """`groups` are all groups of the plan, those without offsets too."""
    names = list(groups)
    lines = [["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]] if names else []
    lines += [_texts(row) for row in rows]
    width = max([15, *map(len, names)])
    widths = [width, max([15, *(len(row.topic) for row in rows)]), 10, 0]
    return "".join(f"\n{_line(line, widths)}" for line in lines) + "\n"


def deleted_offsets(rows: Sequence[DeletedOffsetRow]) -> str:
    lines = [["TOPIC", "PARTITION", "STATUS"]]
    for row in rows:
        status = "Successful" if row.error is None else f"Error: {row.error}"
        lines.append([row.topic, MISSING if row.partition is None else str(row.partition), status])
    widths = [max([15, *(len(row.topic) for row in rows)]), 10, 15]
    return "".join(f"\n{_line(line, widths)}" for line in lines) + "\n"


def _widened(
    least: Sequence[int], lines: Sequence[Sequence[str]], columns: Iterable[int]
) -> list[int]:
    """The widths, where these columns make room for their longest value."""
    widths = list(least)
    for column in columns:
        widths[column] = max([least[column], *(len(line[column]) for line in lines)])
    return widths


def _line(cells: Sequence[str], widths: Sequence[int], kept: Iterable[int] | None = None) -> str:
    """The cells, or those of the columns that are kept, each as wide as its column."""
    columns = range(len(cells)) if kept is None else kept
    return " ".join(cells[column].ljust(widths[column]) for column in columns)


def _texts(row: Iterable[object]) -> list[str]:
    return [MISSING if cell is None else str(cell) for cell in row]
