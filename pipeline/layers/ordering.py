"""Rows in the order of the log, by numpy: keys as numbers, what was in force at a place, runs.

Whoever reads a log record by record keeps what is in force by its key. Here all records are
columns: they are sorted by key and place once, what came before stands beside them, and what was in
force is found by bisection. Rows are taken by numbers; where there is none, Arrow gives null.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["NEVER", "Bools", "Ints", "Runs", "bools", "ints", "keys", "newest_before", "row_before"]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)

NEVER: Final = -(1 << 63)
"""What is before every number: a null, where a maximum is looked for."""


def ints(values: Any, absent: int = NEVER) -> Ints:
    """Of a column of whole numbers or of times; null is `absent`."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    found: Ints = np.asarray(pc.fill_null(values.cast(pa.int64()), absent))
    return found


def bools(values: Any) -> Bools:
    """Null is False."""
    found: Bools = np.asarray(pc.fill_null(values, False))
    return found


def keys(names: Sequence[str], *tables: pa.Table) -> list[Ints]:
    """Of each table its rows' keys as numbers from 0 on: the same where all of `names` are."""
    numbered = (_numbered([table[name] for table in tables]) for name in names)
    # Each is below the count of rows, so a product of two is no absurd number.
    found = reduce(lambda one, more: _numbers(one * (more.max(initial=0) + 1) + more), numbered)
    return np.split(found, np.cumsum([table.num_rows for table in tables])[:-1])


def _numbered(columns: Sequence[pa.ChunkedArray]) -> Ints:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return _numbers(pa.chunked_array(chunks, columns[0].type))


def _numbers(values: Any) -> Ints:
    """Equal numbers for equal values, null among them."""
    values = pa.chunked_array([pa.array(values)]) if isinstance(values, np.ndarray) else values
    # All chunks are given one dictionary.
    chunks = pc.dictionary_encode(values, null_encoding="encode").chunks
    indices = [np.asarray(chunk.indices) for chunk in chunks]
    return np.concatenate([np.empty(0, np.int64), *indices]).astype(np.int64)


def newest_before(
    marks: tuple[Ints, Ints], rows: tuple[Ints, Ints], *, inclusive: bool = False
) -> pa.Array:
    """For each row the mark of its key that stands last before it; `inclusive`: or at its place.

    Both are (key, place). Of marks at one place the last one counts. Null: there is none.
    """
    (of, at), (key, place) = marks, rows
    order = np.lexsort((at, of))
    steps = np.unique(at)
    width = len(steps) + 1
    standing = of[order] * width + np.searchsorted(steps, at[order]) + 1
    passed = np.searchsorted(steps, place, side="right" if inclusive else "left")
    found = np.searchsorted(standing, key * width + passed, side="right") - 1
    if not len(order):
        return pa.nulls(len(key), pa.int64())
    mark = order[found]
    return pa.array(mark, mask=(found < 0) | (of[mark] != key))


def row_before(key: Ints) -> pa.Array:
    """The row before, if it is of the same key; of rows that are sorted by it."""
    is_first = np.zeros(len(key), np.bool_)
    is_first[Runs(key).first] = True
    return pa.array(np.arange(len(key), dtype=np.int64) - 1, mask=is_first)


class Runs:
    """Rows side by side whose numbers are equal, and what they add up to, run by run."""

    def __init__(self, *numbers: Ints) -> None:
        count = len(numbers[0])
        differs = np.zeros(count, np.bool_)
        differs[:1] = True
        for each in numbers:
            differs[1:] |= each[1:] != each[:-1]
        self.first: Ints = np.flatnonzero(differs)
        self.lengths: Ints = np.diff(np.append(self.first, count))
        self.last: Ints = self.first + self.lengths - 1

    def spread(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """What there is of each run, to each of its rows."""
        return np.repeat(values, self.lengths)

    def so_far(self, values: npt.NDArray[Any]) -> Ints:
        """What the run adds up to up to each row, with it."""
        total: Ints = np.cumsum(values, dtype=np.int64)
        found: Ints = total - self.spread((total - values)[self.first])
        return found

    def sum(self, values: npt.NDArray[Any]) -> Ints:
        return np.add.reduceat(values.astype(np.int64), self.first)

    def all(self, values: Bools) -> Bools:
        return np.logical_and.reduceat(values, self.first)

    def most(self, values: Ints) -> pa.Array:
        """The largest; null where all are NEVER."""
        found = np.maximum.reduceat(values, self.first)
        return pa.array(found, mask=found == NEVER)

    def least(self, values: Ints) -> Ints:
        return np.minimum.reduceat(values, self.first)

    def middle(self, values: Ints) -> pa.Array:
        """The median, of two the lower one, of those that are not NEVER."""
        run = self.spread(np.arange(len(self.first)))
        there = values != NEVER
        counts = self.sum(there)
        rising = np.lexsort((values, run, ~there))
        before = np.cumsum(counts) - counts
        chosen = before + np.maximum(counts - 1, 0) // 2
        found = np.append(values[rising], NEVER)[chosen]
        return pa.array(found, mask=counts == 0)
