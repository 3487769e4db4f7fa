"""The grid as a self-contained SVG without scripts, embedded fonts or background.

All colors have medium lightness, so they are readable on white and on black.
"""

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from rich.cells import cell_len

from ...printable import printable
from .cases import Result
from .table import Block, Cell, Grid, GridRow, headline, row_label, shortened

TEXT: Final = "#767676"  # contrast 4.5:1 on white and on black, as WCAG requires for text
COLORS: Final = {Cell.KEPT: "#2e8b57", Cell.GOT: "#3f7fd0", Cell.LOST: "#d0483e"}
# Without a previous assignment, each row has its own color.
ROW_COLORS: Final = (
    "#3f7fd0", "#c77414", "#2e8b57", "#a95aa1", "#d0483e", "#12919b", "#8a7a2c",
)  # fmt: skip
WIDTH: Final = 1_000  # px; topics that do not fit are drawn in another band below
CHAR: Final = 7.3  # px, width of a 12 px letter
DIGIT: Final = 6.1  # px, width of a 10 px digit
CELL: Final = 20
ROW: Final = 24
GAP: Final = 14  # between topics
STYLE: Final = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    f"fill:{TEXT}}}.number{{font-size:10px;text-anchor:middle}}.name{{text-anchor:end}}"
    ".title{font-weight:bold;font-size:14px}.topic{font-weight:bold}"
)


def svg(result: Result, grid: Grid) -> str:
    """Return a complete SVG document. `grid.too_big` must be None."""
    return "\n".join(_Document(result, grid).lines()) + "\n"


class _Document:
    def __init__(self, result: Result, grid: Grid) -> None:
        self._grid, self._title = grid, headline(result)
        self._has_before = result.before is not None
        self._explanations = {move.partition: move.explanation for move in result.moves}
        digits = max((len(str(numbers[-1])) for numbers in grid.columns.values()), default=1)
        self._cell = max(CELL, round(digits * DIGIT) + 6)
        labels = [row_label(row) for row in grid.rows]
        self._margin = round(max([8, *map(cell_len, labels)]) * CHAR) + 24
        self._right = self._margin

    def lines(self) -> Iterator[str]:
        body = list(self._body())
        width = max(self._right, round(cell_len(self._title) * CHAR * 14 / 12)) + 24
        size = f'width="{width}" height="{self._bottom}" viewBox="0 0 {width} {self._bottom}"'
        label = quoteattr(self._title)
        yield f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={label}>'
        yield f"<style>{STYLE}</style>"
        yield from body
        yield "</svg>"

    def _body(self) -> Iterator[str]:
        y = 26
        yield f'<text class="title" x="12" y="{y}">{escape(self._title)}</text>'
        bands = self._grid.bands(WIDTH - self._margin, self._cell, GAP, _label_width)
        for band in bands:
            y += 26
            x = self._margin
            for block in band:
                yield from self._header(block, x, y)
                for number, row in enumerate(self._grid.rows):
                    yield from self._cells(row, number, block, x, y + 24 + number * ROW)
                x += max(_label_width(block.topic), len(block.partitions) * self._cell) + GAP
            self._right = max(self._right, x - GAP)
            for number, row in enumerate(self._grid.rows):
                label, middle = escape(row_label(row)), y + 24 + number * ROW + CELL // 2 + 4
                title = _title(f"{row.member}: {row.count}")
                x = self._margin - 10
                yield f'<text class="name" x="{x}" y="{middle}">{label}{title}</text>'
            y += 24 + len(self._grid.rows) * ROW
        if self._has_before:
            y += 24
            yield from self._legend(y)
        self._bottom = y + 16

    def _header(self, block: Block, x: int, y: int) -> Iterator[str]:
        yield f'<text class="topic" x="{x}" y="{y}">{escape(shortened(block.topic))}</text>'
        for column, partition in enumerate(block.partitions):
            middle = x + column * self._cell + (self._cell - 2) / 2
            yield f'<text class="number" x="{middle:g}" y="{y + 17}">{partition}</text>'

    def _cells(self, row: GridRow, number: int, block: Block, x: int, y: int) -> Iterator[str]:
        size = f'width="{len(block.partitions) * self._cell - 2}" height="{CELL}"'
        yield f'<rect x="{x}" y="{y}" {size} rx="2" fill="{TEXT}" fill-opacity="0.13"/>'
        for column, partition in enumerate(block.partitions):
            at = (block.topic, partition)
            if (cell := row.cells.get(at)) is None:
                continue
            tooltip = f"{block.topic}-{partition}: {row.member} {cell.value} it"
            if at in self._explanations and cell is not Cell.KEPT:
                tooltip += f" ({self._explanations[at]})"
            color = COLORS.get(cell, ROW_COLORS[number % len(ROW_COLORS)])
            yield self._mark(cell, color, x + column * self._cell, y, tooltip)

    def _mark(self, cell: Cell, color: str, x: int, y: int, tooltip: str = "") -> str:
        width = self._cell - 2
        title = _title(tooltip) if tooltip else ""
        if cell is Cell.LOST:
            return (
                f'<rect x="{x + 1}" y="{y + 1}" width="{width - 2}" height="{CELL - 2}" rx="2" '
                f'fill="none" stroke="{color}" stroke-width="2" stroke-dasharray="3 2" '
                f'pointer-events="all">{title}</rect>'
            )
        rect = (
            f'<rect x="{x}" y="{y}" width="{width}" height="{CELL}" rx="2" fill="{color}">'
            f"{title}</rect>"
        )
        if cell is not Cell.GOT:
            return rect
        middle, centre = x + width / 2, y + CELL / 2
        plus = f"M{middle:g} {centre - 5:g}v10M{middle - 5:g} {centre:g}h10"
        return f'{rect}<path d="{plus}" stroke="#fff" stroke-width="2" pointer-events="none"/>'

    def _legend(self, y: int) -> Iterator[str]:
        x = self._margin
        for cell, color in COLORS.items():
            yield self._mark(cell, color, x, y - CELL + 5)
            yield f'<text x="{x + self._cell + 6}" y="{y}">{cell.value}</text>'
            x += self._cell + 60
        self._right = max(self._right, x)


def _label_width(topic: str) -> int:
    return round(cell_len(shortened(topic)) * CHAR)


def _title(text: str) -> str:
    """Return a tooltip. XML does not allow control characters, not even escaped."""
    return f"<title>{escape(printable(text))}</title>"
