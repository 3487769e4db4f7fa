"""The answer for people: the picture in colours, what was kept, what moved.

rich decides on colours: none where NO_COLOR is set, or where a pipe reads.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ...assignors.explain import Move, Reason
from ...assignors.model import TopicPartition
from .answer import Answer, headline
from .picture import Block, Cell, Picture, Row, shortened

STYLES: Final = {Cell.HAS: "cyan", Cell.KEPT: "green", Cell.GOT: "bold yellow", Cell.LOST: "red"}
GAP: Final = 2


def show(answer: Answer, picture: Picture, explain: bool) -> None:
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    console.print(headline(answer), style="bold")
    console.print()
    drawing = _Drawing(picture, console)
    for line in drawing.lines() if picture.too_big is None else _counts(picture):
        console.print(line)
    if answer.before is None:
        return
    console.print()
    console.print(drawing.legend())
    console.print()
    console.print(_tally(answer))
    for line in _explained(answer) if explain else _losses(answer):
        console.print(line)


class _Drawing:
    """The picture in bands as wide as the terminal, member names and counts on their left."""

    def __init__(self, picture: Picture, console: Console) -> None:
        ascii_only = console.options.ascii_only
        filled, self._empty = ("#", ".") if ascii_only else ("■", "·")
        self._marks = {Cell.HAS: filled, Cell.KEPT: filled, Cell.GOT: "+", Cell.LOST: "-"}
        self._picture, self._width = picture, console.width

    def legend(self) -> Text:
        legend = Text()
        for cell in (Cell.KEPT, Cell.GOT, Cell.LOST):
            legend.append(self._marks[cell], STYLES[cell]).append(f" {cell.value}  ")
        legend.rstrip()
        return legend

    def lines(self) -> Iterator[Text]:
        rows, columns = self._picture.rows, self._picture.columns
        names = [_name(row) for row in rows]
        widest = max(map(cell_len, names), default=0)
        digits = max((len(str(row.count)) for row in rows), default=1)
        margin = widest + GAP + digits + GAP
        cell = 1 + max((len(str(numbers[-1])) for numbers in columns.values()), default=1)
        bands = self._picture.bands(self._width - margin, cell, GAP - 1, cell_len)
        for at, band in enumerate(bands):
            if at:
                yield Text()
            yield from (_trimmed(" " * margin, line) for line in _header(band, cell))
            for row, name in zip(rows, names, strict=True):
                left = f"{set_cell_size(name, widest)}{' ' * GAP}{row.count:>{digits}}{' ' * GAP}"
                yield _trimmed(left, self._row(row, band, cell))

    def _row(self, row: Row, band: list[Block], cell: int) -> Text:
        line = Text()
        for block in band:
            for partition in block.partitions:
                found = row.cells.get((block.topic, partition))
                mark = self._empty if found is None else self._marks[found]
                line.append(mark.rjust(cell - 1), "dim" if found is None else STYLES[found])
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
    return max(cell_len(shortened(block.topic)), cell * len(block.partitions)) + GAP - 1


def _trimmed(left: str, line: Text) -> Text:
    whole = Text(left).append_text(line)
    whole.rstrip()
    return whole


def _name(row: Row) -> str:
    return shortened(row.member) + " (left)" * row.left


def _counts(picture: Picture) -> Iterator[str]:
    """Instead of a picture that is too big."""
    yield f"({picture.too_big}; --format csv tells each partition)"
    yield from (f"{_name(row)}  {row.count}" for row in picture.rows)


def _tally(answer: Answer) -> str:
    held = sum(move.reason is Reason.HELD_BACK for move in answer.moves)
    nobody = sum(move.member is None for move in answer.moves) - held
    new = sum(not move.before for move in answer.moves)
    moved = len(answer.moves) - held - nobody - new
    told = [f"kept {len(answer.kept)}", f"moved {moved}"]
    told += [f"new {new}"] * bool(new)
    told += [f"held back {held}"] * bool(held)
    told += [f"nobody's any more {nobody}"] * bool(nobody)
    return ", ".join(told)


def _losses(answer: Answer) -> Iterator[str]:
    """Who lost what to whom."""
    lost: dict[tuple[str, str], dict[str, list[int]]] = {}
    for move in answer.moves:
        for member in move.before:
            if member != move.member:
                topics = lost.setdefault((member, _whereto(move)), {})
                topics.setdefault(move.partition[0], []).append(move.partition[1])
    for (member, whereto), topics in sorted(lost.items()):
        named = (f"{shortened(topic)} {_ranges(numbers)}" for topic, numbers in topics.items())
        yield f"{shortened(member)} {whereto}: {', '.join(named)}"


def _whereto(move: Move) -> str:
    if move.member is not None:
        return f"lost to {shortened(move.member)}"
    return "has to give back" if move.reason is Reason.HELD_BACK else "lost, nobody has it"


def _ranges(numbers: Sequence[int]) -> str:
    """`0-2 5` for 0, 1, 2, 5."""
    told = []
    for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        run_numbers = [number for _, number in run]
        first, last = run_numbers[0], run_numbers[-1]
        told.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(told)


def _explained(answer: Answer) -> Iterator[str]:
    lines = [("PARTITION", "FROM", "TO", "WHY")]
    for move in answer.moves:
        source = ", ".join(map(shortened, move.before)) or "-"
        target = "-" if move.member is None else shortened(move.member)
        lines.append((_text(move.partition), source, target, move.words))
    if len(lines) == 1:
        return
    widths = [max(map(cell_len, column)) for column in list(zip(*lines, strict=True))[:3]]
    for *cells, why in lines:
        left = (set_cell_size(text, width) for text, width in zip(cells, widths, strict=True))
        yield "  ".join((*left, why))


def _text(at: TopicPartition) -> str:
    return f"{shortened(at[0])}-{at[1]}"
