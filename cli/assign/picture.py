"""The picture, before anybody draws it: members as rows, partitions as columns, what a cell tells.

Topics stand side by side in bands no wider than the page; a topic that is wider goes on below.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ...assignors.model import Assignment, TopicPartition, Topics

# What one still reads cell by cell: a screen high, a few bands long. A bigger group has its table.
ROWS_MAX: Final = 100
COLUMNS_MAX: Final = 1_000
NAME_CHARS_MAX: Final = 36  # a UUID


class Cell(Enum):
    HAS = "has"
    """There is no round before."""
    KEPT = "kept"
    GOT = "got"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Row:
    member: str
    left: bool
    """It was there in the round before only."""
    count: int
    cells: Mapping[TopicPartition, Cell]


@dataclass(frozen=True, slots=True)
class Block:
    """Some columns of one topic, side by side."""

    topic: str
    partitions: Sequence[int]


@dataclass(frozen=True, slots=True)
class Picture:
    rows: Sequence[Row]
    columns: Mapping[str, Sequence[int]]
    """By topic, the partitions: those there are, and those that somebody had."""

    @property
    def too_big(self) -> str | None:
        """Why nobody could read it."""
        columns = sum(map(len, self.columns.values()))
        if len(self.rows) <= ROWS_MAX and columns <= COLUMNS_MAX:
            return None
        return (
            f"nobody can read a picture of more than {ROWS_MAX} members or {COLUMNS_MAX} "
            f"partitions, and here are {len(self.rows)} and {columns}"
        )

    def bands(
        self, width: int, cell: int, gap: int, label: Callable[[str], int]
    ) -> list[list[Block]]:
        """As many blocks side by side as `width` has room for; only a wider topic is cut."""
        bands: list[list[Block]] = [[]]
        free = width
        for topic, partitions in self.columns.items():
            at_once = max(1, (width - gap) // cell)
            for first in range(0, len(partitions), at_once):
                block = Block(topic, partitions[first : first + at_once])
                needed = max(label(topic), len(block.partitions) * cell) + gap
                if bands[-1] and needed > free:
                    bands.append([])
                    free = width
                bands[-1].append(block)
                free -= needed
        return bands


def picture_of(topics: Topics, assignment: Assignment, before: Assignment | None) -> Picture:
    """Rows by name, those that left among them."""
    had = {member: set(partitions) for member, partitions in (before or {}).items()}
    columns: dict[str, set[int]] = {
        topic: set(range(count)) for topic, count in topics.partitions.items()
    }
    for topic, partition in {at for partitions in had.values() for at in partitions}:
        columns.setdefault(topic, set()).add(partition)
    rows = []
    for member in sorted(assignment.keys() | had.keys()):
        has = assignment.get(member, [])
        cells = dict.fromkeys(had.get(member, ()), Cell.LOST)
        for at in has:
            cells[at] = Cell.HAS if before is None else Cell.KEPT if at in cells else Cell.GOT
        rows.append(Row(member, member not in assignment, len(has), cells))
    return Picture(
        rows, {topic: sorted(columns[topic]) for topic in sorted(columns) if columns[topic]}
    )


def shortened(name: str) -> str:
    """Printable, and not too long: of a member's id both ends tell it from others."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in name)
    if len(shown) <= NAME_CHARS_MAX:
        return shown
    half = NAME_CHARS_MAX // 2
    return f"{shown[: half - 1]}…{shown[-half:]}"
