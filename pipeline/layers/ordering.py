"""Rows in log order with numpy: keys as numbers, the newest row before a position, runs of rows.

A log is not replayed record by record. Instead, all records are columns, sorted once by key and log
offset. The previous record of a key is the preceding row, and the newest record before a position
is found by binary search. Rows are addressed by index; a missing row is null in Arrow.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Number = TypeVar("Number", bound=np.generic)

NEVER: Final = -(1 << 63)
"""Less than every number: represents null where a maximum is computed."""


def ints(values: Any, missing: int = NEVER) -> Ints:
    """Convert a column of integers or timestamps; null becomes `missing`."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    return np.asarray(pc.fill_null(values.cast(pa.int64()), missing))


def bools(values: Any) -> Bools:
    """Convert a column of booleans; null becomes False."""
    return np.asarray(pc.fill_null(values, False))


def keys(names: Sequence[str], *tables: pa.Table) -> list[Ints]:
    """Return, for each table, one key per row; keys are numbered from 0. Two rows, even of
    different tables, have equal keys if they are equal in all columns `names`."""
    numbered = (_numbered([table[name] for table in tables]) for name in names)
    # Each number is less than the number of rows, so the product of two fits in 64 bits.
    found = reduce(lambda one, more: _numbers(one * (more.max(initial=0) + 1) + more), numbered)
    return np.split(found, np.cumsum([table.num_rows for table in tables])[:-1])


def _numbered(columns: Sequence[pa.ChunkedArray]) -> Ints:
    chunks = [chunk for column in columns for chunk in column.chunks]
    return _numbers(pa.chunked_array(chunks, columns[0].type))


def _numbers(values: Any) -> Ints:
    """Return equal numbers for equal values, including null."""
    values = pa.chunked_array([pa.array(values)]) if isinstance(values, np.ndarray) else values
    # All chunks share one dictionary.
    chunks = pc.dictionary_encode(values, null_encoding="encode").chunks
    indices = [np.asarray(chunk.indices) for chunk in chunks]
    return np.concatenate([np.empty(0, np.int64), *indices]).astype(np.int64)


def newest_before(
    marks: tuple[Ints, Ints], rows: tuple[Ints, Ints], *, inclusive: bool = False
) -> pa.Array:
    """Return, for each row, the index of the last mark with the same key before the row, or null.
    Marks and rows are (key, position). If several marks have the same position, the last one is
    used. `inclusive`: marks at the row's position count too."""
    (mark_key, mark_at), (key, at) = marks, rows
    order = np.lexsort((mark_at, mark_key))
    steps = np.unique(mark_at)
    width = len(steps) + 1
    combined = mark_key[order] * width + np.searchsorted(steps, mark_at[order]) + 1
    passed = np.searchsorted(steps, at, side="right" if inclusive else "left")
    found = np.searchsorted(combined, key * width + passed, side="right") - 1
    if not len(order):
        return pa.nulls(len(key), pa.int64())
    mark = order[found]
    return pa.array(mark, mask=(found < 0) | (mark_key[mark] != key))


def previous_row(key: Ints) -> pa.Array:
    """Return, for rows sorted by key, the index of the preceding row, null for the first of each
    key."""
    is_first = np.zeros(len(key), np.bool_)
    is_first[Runs(key).first] = True
    return pa.array(np.arange(len(key), dtype=np.int64) - 1, mask=is_first)


class Runs:
    """Adjacent rows with equal numbers, and aggregates of each run."""

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
        """Repeat one value per run for each of its rows."""
        return np.repeat(values, self.lengths)

    def running_sum(self, values: npt.NDArray[Any]) -> Ints:
        """Return the sum of the run up to and including each row."""
        total: Ints = np.cumsum(values, dtype=np.int64)
        found: Ints = total - self.spread((total - values)[self.first])
        return found

    def sum(self, values: npt.NDArray[Any]) -> Ints:
        return np.add.reduceat(values.astype(np.int64), self.first)

    def all(self, values: Bools) -> Bools:
        return np.logical_and.reduceat(values, self.first)

    def max(self, values: Ints) -> pa.Array:
        """Return the maximum of each run; null if all values are NEVER."""
        found = np.maximum.reduceat(values, self.first)
        return pa.array(found, mask=found == NEVER)

    def min(self, values: Ints) -> Ints:
        return np.minimum.reduceat(values, self.first)

    def median(self, values: Ints) -> pa.Array:
        """Return the lower median of the values that are not NEVER."""
        run = self.spread(np.arange(len(self.first)))
        valid = values != NEVER
        counts = self.sum(valid)
        ascending = np.lexsort((values, run, ~valid))
        begins = np.cumsum(counts) - counts
        chosen = begins + np.maximum(counts - 1, 0) // 2
        found = np.append(values[ascending], NEVER)[chosen]
        return pa.array(found, mask=counts == 0)
