"""Vectorized lookups and sums equal loops over the rows."""

from statistics import median_low
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from kohort.pipeline.layers.ordering import NEVER, Runs, keys, newest_before, previous_row

POSITIONS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=12)
VALUES = st.lists(st.tuples(st.integers(0, 2), st.one_of(st.none(), st.integers())), max_size=12)
NAMES = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([-(2**31), 0, 2**31 - 1])),
    max_size=12,
)


def pair(rows: list[tuple[int, int]]) -> Any:
    return tuple(np.array([row[column] for row in rows], np.int64) for column in (0, 1))


@given(marks=POSITIONS, rows=POSITIONS, inclusive=st.booleans())
def test_newest_before_finds_the_last_mark_before_a_position(
    marks: list[tuple[int, int]], rows: list[tuple[int, int]], inclusive: bool
) -> None:
    expected = []
    for key, position in rows:
        before = [
            (at, number)
            for number, (of, at) in enumerate(marks)
            if of == key and (at < position or (inclusive and at == position))
        ]
        expected.append(max(before)[1] if before else None)
    found = newest_before(pair(marks), pair(rows), inclusive=inclusive)
    assert found.to_pylist() == expected


@given(NAMES, NAMES)
def test_keys_are_equal_if_all_columns_are(
    one: list[tuple[str | None, int]], other: list[tuple[str | None, int]]
) -> None:
    tables = [
        pa.table(
            {
                "name": pa.array([name for name, _ in rows], pa.string()),
                "number": pa.array([number for _, number in rows], pa.int64()),
            }
        )
        for rows in (one, other)
    ]
    found = [number for numbers in keys(["name", "number"], *tables) for number in numbers.tolist()]
    rows = [*one, *other]
    assert len(found) == len(rows)
    assert all(
        (found[a] == found[b]) == (rows[a] == rows[b])
        for a in range(len(rows))
        for b in range(len(rows))
    )


@given(VALUES)
def test_runs_aggregate_adjacent_rows(rows: list[tuple[int, int | None]]) -> None:
    rows = [(key, value and max(NEVER + 1, min(value, -1 - NEVER))) for key, value in rows]
    groups: list[tuple[int, list[int | None]]] = []
    for key, value in rows:
        if not groups or groups[-1][0] != key:
            groups.append((key, []))
        groups[-1][1].append(value)
    known = [[value for value in values if value is not None] for _, values in groups]
    runs = Runs(np.array([key for key, _ in rows], np.int64))
    values = np.array([NEVER if value is None else value for _, value in rows], np.int64)
    assert runs.lengths.tolist() == [len(values) for _, values in groups]
    assert runs.max(values).to_pylist() == [max(each, default=None) for each in known]
    assert runs.median(values).to_pylist() == [median_low(each) if each else None for each in known]
    assert runs.sum(values != NEVER).tolist() == list(map(len, known))
    assert runs.all(values != NEVER).tolist() == [None not in values for _, values in groups]


@given(st.lists(st.integers(0, 3), max_size=12).map(sorted))
def test_the_row_before_is_of_the_same_key(key: list[int]) -> None:
    found = previous_row(np.array(key, np.int64)).to_pylist()
    same = [number and key[number] == key[number - 1] for number in range(len(key))]
    assert found == [number - 1 if before else None for number, before in enumerate(same)]
