"""The picture as one SVG that needs nothing else: no script, no font of its own, no background.

Its greys and colours are of middle lightness and stand out on white and on black alike, so that a
page or a viewer may be of either kind.
"""

from collections.abc import Iterator
from typing import Final
from xml.sax.saxutils import escape, quoteattr

from rich.cells import cell_len

from ...assignors.model import TopicPartition
from .answer import Answer, headline
from .picture import Block, Cell, Picture, Row, shortened

TEXT: Final = "#767676"  # 4.5:1 on white as on black: what WCAG asks of text
COLOURS: Final = {Cell.KEPT: "#2e8b57", Cell.GOT: "#3f7fd0", Cell.LOST: "#d0483e"}
# Without a round before, a member keeps its own along its row.
MEMBERS: Final = ("#3f7fd0", "#c77414", "#2e8b57", "#a95aa1", "#d0483e", "#12919b", "#8a7a2c")
WIDTH: Final = 1_000  # px, of a page; topics go on below
CHAR: Final = 7.3  # px, of the 12 px letters
DIGIT: Final = 6.1  # px, of the 10 px numbers
CELL: Final = 20
ROW: Final = 24
GAP: Final = 14  # between topics
STYLE: Final = (
    "text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    f"fill:{TEXT}}}.number{{font-size:10px;text-anchor:middle}}.name{{text-anchor:end}}"
    ".title{font-weight:bold;font-size:14px}.topic{font-weight:bold}"
)


def svg(answer: Answer, picture: Picture) -> str:
    """A whole document. The picture is not too big."""
    return "\n".join(_Drawing(answer, picture).document()) + "\n"


class _Drawing:
    def __init__(self, answer: Answer, picture: Picture) -> None:
        self._picture, self._title = picture, headline(answer)
        self._compared = answer.before is not None
        self._words = {move.partition: move.words for move in answer.moves}
        digits = max((len(str(numbers[-1])) for numbers in picture.columns.values()), default=1)
        self._cell = max(CELL, round(digits * DIGIT) + 6)
        names = [_name(row) for row in picture.rows]
        self._margin = round(max([8, *map(cell_len, names)]) * CHAR) + 24
        self._right = self._margin

    def document(self) -> Iterator[str]:
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
        bands = self._picture.bands(WIDTH - self._margin, self._cell, GAP, _label_width)
        for band in bands:
            y += 26
            x = self._margin
            for block in band:
                yield from self._head(block, x, y)
                for at, row in enumerate(self._picture.rows):
                    yield from self._cells(row, at, block, x, y + 24 + at * ROW)
                x += _block_width(block, self._cell)
            self._right = max(self._right, x - GAP)
            for at, row in enumerate(self._picture.rows):
                name, middle = escape(_name(row)), y + 24 + at * ROW + CELL // 2 + 4
                tip = f"{row.member}: {row.count}"
                yield (
                    f'<text class="name" x="{self._margin - 10}" y="{middle}">{name}'
                    f"<title>{escape(_clean(tip))}</title></text>"
                )
            y += 24 + len(self._picture.rows) * ROW
        if self._compared:
            y += 24
            yield from self._legend(y)
        self._bottom = y + 16

    def _head(self, block: Block, x: int, y: int) -> Iterator[str]:
        yield f'<text class="topic" x="{x}" y="{y}">{escape(shortened(block.topic))}</text>'
        for at, partition in enumerate(block.partitions):
            middle = x + at * self._cell + (self._cell - 2) / 2
            yield f'<text class="number" x="{middle:g}" y="{y + 17}">{partition}</text>'

    def _cells(self, row: Row, at: int, block: Block, x: int, y: int) -> Iterator[str]:
        width = len(block.partitions) * self._cell - 2
        yield (
            f'<rect x="{x}" y="{y}" width="{width}" height="{CELL}" rx="2" '
            f'fill="{TEXT}" fill-opacity="0.13"/>'
        )
        for column, partition in enumerate(block.partitions):
            cell = row.cells.get((block.topic, partition))
            if cell is not None:
                left = x + column * self._cell
                tip = self._tip(row, (block.topic, partition), cell)
                colour = COLOURS.get(cell, MEMBERS[at % len(MEMBERS)])
                yield self._mark(cell, colour, left, y, tip)

    def _mark(self, cell: Cell, colour: str, x: int, y: int, tip: str = "") -> str:
        width = self._cell - 2
        title = f"<title>{escape(_clean(tip))}</title>" if tip else ""
        if cell is Cell.LOST:
            return (
                f'<rect x="{x + 1}" y="{y + 1}" width="{width - 2}" height="{CELL - 2}" rx="2" '
                f'fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="3 2" '
                f'pointer-events="all">{title}</rect>'
            )
        rect = (
            f'<rect x="{x}" y="{y}" width="{width}" height="{CELL}" rx="2" fill="{colour}">'
            f"{title}</rect>"
        )
        if cell is not Cell.GOT:
            return rect
        middle, centre = x + width / 2, y + CELL / 2
        plus = f"M{middle:g} {centre - 5:g}v10M{middle - 5:g} {centre:g}h10"
        path = f'<path d="{plus}" stroke="#fff" stroke-width="2" pointer-events="none"/>'
        return rect + path

    def _tip(self, row: Row, at: TopicPartition, cell: Cell) -> str:
        tip = f"{at[0]}-{at[1]}: {row.member} {cell.value} it"
        if at in self._words and cell is not Cell.KEPT:
            tip += f" ({self._words[at]})"
        return tip

    def _legend(self, y: int) -> Iterator[str]:
        x = self._margin
        for cell, colour in COLOURS.items():
            yield self._mark(cell, colour, x, y - CELL + 5)
            yield f'<text x="{x + self._cell + 6}" y="{y}">{cell.value}</text>'
            x += self._cell + 60
        self._right = max(self._right, x)


def _block_width(block: Block, cell: int) -> int:
    return max(_label_width(block.topic), len(block.partitions) * cell) + GAP


def _label_width(topic: str) -> int:
    return round(cell_len(shortened(topic)) * CHAR)


def _name(row: Row) -> str:
    return shortened(row.member) + " (left)" * row.left


def _clean(text: str) -> str:
    """XML has no place for control characters, not even escaped."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
