"""Tables and paragraphs for people, as wide as their terminal."""

import shutil
import textwrap
from collections.abc import Container, Iterator, Sequence

from ...pipeline.answers.words import printable
from .. import output

__all__ = ["bullets", "paragraph", "table", "width"]

# Longer lines are hard to read; shorter ones leave no room beside the columns.
WIDEST, NARROWEST = 110, 60


def width() -> int:
    return min(max(shutil.get_terminal_size((80, 24)).columns, NARROWEST), WIDEST)


def paragraph(text: str, first: str = "") -> str:
    """`first`: what stands before its first line; blanks stand before the others."""
    return "\n".join(
        textwrap.wrap(
            printable(text),
            width(),
            initial_indent=first,
            subsequent_indent=" " * len(first),
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def bullets(title: str, items: Sequence[str]) -> Iterator[str]:
    if items:
        yield f"\n{title}"
        yield from (paragraph(item, "  - ") for item in items)


def table(lines: Sequence[Sequence[str]], right: Container[str]) -> Iterator[str]:
    """The first line is the header. `right`: the columns of numbers, by name."""
    return output.table([[printable(cell) for cell in line] for line in lines], right)
