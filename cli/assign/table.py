"""The result on a terminal: a grid of members and partitions, with kept and moved partitions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ... import printable
from ...assignors.explain import Move, Reason
from ...assignors.model import TopicPartition
from .cases import Result

# A larger grid would be unreadable, so only counts are printed.
ROWS_MAX: Final = 100
COLUMNS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 36  # a UUID


class Cell(Enum):
    HAS = "has"
    """Assigned, if there is no previous assignment to compare with."""
    KEPT = "kept"
    GOT = "got"
    LOST = "lost"


STYLES: Final = {Cell.HAS: "cyan", Cell.KEPT: "green", Cell.GOT: "bold yellow", Cell.LOST: "red"}
GAP: Final = 2


# --- the grid, for the terminal and for SVG


@dataclass(frozen=True, slots=True)
class GridRow:
    member: str
    left: bool
    """True if only the previous assignment contains the member."""
    count: int
    cells: Mapping[TopicPartition, Cell]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive columns of one topic."""

    topic: str
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Grid:
    """Members as rows, partitions as columns."""

    rows: Sequence[GridRow]
    columns: Mapping[str, Sequence[int]]
    """Topic -> all partitions, including those of the previous assignment."""

    @property
    def too_big(self) -> str | None:
        """The reason why the grid is too big to draw, or None."""
        rows, columns = len(self.rows), sum(map(len, self.columns.values()))
        if rows <= ROWS_MAX and columns <= COLUMNS_MAX:
            return None
        size = f"{rows} members and {columns} partitions"
        return f"too big to draw: {size}, at most {ROWS_MAX} and {COLUMNS_MAX}"

    def bands(
        self, width: int, cell: int, gap: int, label: Callable[[str], int]
    ) -> list[list[Block]]:
        """Arrange blocks side by side up to `width`; only topics wider than that are split."""
        bands: list[list[Block]] = [[]]
        free = width
        for topic, partitions in self.columns.items():
            per_block = max(1, (width - gap) // cell)
            for first in range(0, len(partitions), per_block):
                block = Block(topic, partitions[first : first + per_block])
                needed = max(label(topic), len(block.partitions) * cell) + gap
                if bands[-1] and needed > free:
                    bands.append([])
                    free = width
                bands[-1].append(block)
                free -= needed
        return bands


def grid_of(result: Result) -> Grid:
    """Return the rows sorted by member name, including members that left."""
    before = {member: set(partitions) for member, partitions in (result.before or {}).items()}
    columns: dict[str, set[int]] = {
        topic: set(range(count)) for topic, count in result.case.topics.partitions.items()
    }
    for topic, partition in {at for partitions in before.values() for at in partitions}:
        columns.setdefault(topic, set()).add(partition)
    rows = []
    for member in sorted(result.assignment.keys() | before.keys()):
        partitions = result.assignment.get(member, [])
        cells = dict.fromkeys(before.get(member, ()), Cell.LOST)
        for at in partitions:
            kept = Cell.KEPT if at in cells else Cell.GOT
            cells[at] = Cell.HAS if result.before is None else kept
        rows.append(GridRow(member, member not in result.assignment, len(partitions), cells))
    return Grid(
        rows, {topic: sorted(columns[topic]) for topic in sorted(columns) if columns[topic]}
    )


def headline(result: Result) -> str:
    counts = [len(partitions) for partitions in result.assignment.values()] or [0]
    least, most = min(counts), max(counts)
    each = str(least) if least == most else f"{least} to {most}"
    partitions = sum(result.case.topics.partitions.values())
    return (
        f"{result.case.assignor.name}: {_counted(partitions, 'partition')}, "
        f"{_counted(len(result.assignment), 'member')}, {each} each"
    )


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def row_label(row: GridRow) -> str:
    return shortened(row.member) + " (left)" * row.left


def shortened(name: str) -> str:
    return printable.shortened(name, NAME_CHARS_MAX)


# --- the terminal


def print_table(result: Result, *, explain: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(headline(result), style="bold")
    console.print()
    grid = grid_of(result)
    renderer = _Renderer(grid, console)
    if grid.too_big is None:
        console.print(*renderer.lines(), sep="\n")
    else:
        console.print(f"({grid.too_big}; --format csv lists every partition)")
        for row in grid.rows:
            console.print(f"{row_label(row)}  {row.count}")
    if result.before is not None:
        console.print("", renderer.legend(), "", _summary(result), sep="\n")
        for line in _explanations(result) if explain else _losses(result):
            console.print(line)


class _Renderer:
    """The grid in bands as wide as the terminal, with member names and counts on the left."""

    def __init__(self, grid: Grid, console: Console) -> None:
        ascii_only = console.options.ascii_only
        filled, self._empty = ("#", ".") if ascii_only else ("■", "·")
        self._marks = {Cell.HAS: filled, Cell.KEPT: filled, Cell.GOT: "+", Cell.LOST: "-"}
        self._grid, self._width = grid, console.width

    def legend(self) -> Text:
        legend = Text()
        for cell in (Cell.KEPT, Cell.GOT, Cell.LOST):
            legend.append(self._marks[cell], STYLES[cell]).append(f" {cell.value}  ")
        legend.rstrip()
        return legend

    def lines(self) -> Iterator[Text]:
        rows, columns = self._grid.rows, self._grid.columns
        labels = [row_label(row) for row in rows]
        widest = max(map(cell_len, labels), default=0)
        digits = max((len(str(row.count)) for row in rows), default=1)
        margin = widest + GAP + digits + GAP
        cell = 1 + max((len(str(numbers[-1])) for numbers in columns.values()), default=1)
        bands = self._grid.bands(self._width - margin, cell, GAP - 1, _label_width)
        for number, band in enumerate(bands):
            if number:
                yield Text()
            yield from (_stripped(" " * margin, line) for line in _header(band, cell))
            for row, label in zip(rows, labels, strict=True):
                left = f"{set_cell_size(label, widest)}{' ' * GAP}{row.count:>{digits}}{' ' * GAP}"
                yield _stripped(left, self._row(row, band, cell))

    def _row(self, row: GridRow, band: list[Block], cell: int) -> Text:
        line = Text()
        for block in band:
            for partition in block.partitions:
                state = row.cells.get((block.topic, partition))
                mark = self._empty if state is None else self._marks[state]
                line.append(mark.rjust(cell - 1), "dim" if state is None else STYLES[state])
                line.append(" ")
            line.append(" " * (_width(block, cell) - cell * len(block.partitions)))
        return line


def _header(band: list[Block], cell: int) -> Iterator[Text]:
    yield Text("".join(set_cell_size(shortened(b.topic), _width(b, cell)) for b in band), "bold")
    numbers = Text(style="dim")
    for block in band:
        line = "".join(str(partition).rjust(cell - 1) + " " for partition in block.partitions)
        numbers.append(line.ljust(_width(block, cell)))
    yield numbers


def _width(block: Block, cell: int) -> int:
    return max(_label_width(block.topic), cell * len(block.partitions)) + GAP - 1


def _label_width(topic: str) -> int:
    return cell_len(shortened(topic))


def _stripped(left: str, line: Text) -> Text:
    stripped = Text(left).append_text(line)
    stripped.rstrip()
    return stripped


def _summary(result: Result) -> str:
    pending = sum(move.reason is Reason.PENDING_REVOCATION for move in result.moves)
    unassigned = sum(move.member is None for move in result.moves) - pending
    new = sum(not move.before for move in result.moves)
    moved = len(result.moves) - pending - unassigned - new
    parts = [f"kept {len(result.kept)}", f"moved {moved}"]
    parts += [f"new {new}"] * bool(new)
    parts += [f"pending revocation {pending}"] * bool(pending)
    parts += [f"unassigned {unassigned}"] * bool(unassigned)
    return ", ".join(parts)


def _losses(result: Result) -> Iterator[str]:
    """Yield a line for each outcome of each member that lost or must revoke partitions."""
    lost: dict[tuple[str, str], dict[str, list[int]]] = {}
    for move in result.moves:
        for member in move.before:
            if member != move.member:
                topics = lost.setdefault((member, _outcome(move)), {})
                topics.setdefault(move.partition[0], []).append(move.partition[1])
    for (member, outcome), topics in sorted(lost.items()):
        named = (f"{shortened(topic)} {_ranges(numbers)}" for topic, numbers in topics.items())
        yield f"{shortened(member)} {outcome}: {', '.join(named)}"


def _outcome(move: Move) -> str:
    if move.member is not None:
        return f"lost to {shortened(move.member)}"
    return "must revoke" if move.reason is Reason.PENDING_REVOCATION else "lost, unassigned now"


def _ranges(numbers: Sequence[int]) -> str:
    """Format 0, 1, 2, 5 as `0-2 5`."""
    parts = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        consecutive = [number for _, number in run]
        first, last = consecutive[0], consecutive[-1]
        parts.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(parts)


def _explanations(result: Result) -> Iterator[str]:
    lines = [("PARTITION", "FROM", "TO", "WHY")]
    for move in result.moves:
        topic, partition = move.partition
        source = ", ".join(map(shortened, move.before)) or "-"
        target = "-" if move.member is None else shortened(move.member)
        lines.append((f"{shortened(topic)}-{partition}", source, target, move.explanation))
    if len(lines) == 1:
        return
    widths = [max(map(cell_len, column)) for column in list(zip(*lines, strict=True))[:3]]
    for *cells, why in lines:
        left = (set_cell_size(text, width) for text, width in zip(cells, widths, strict=True))
        yield "  ".join((*left, why))
