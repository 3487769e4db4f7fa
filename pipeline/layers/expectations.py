"""Named expectations about the rows of tables, and the number of rows that violate them.

Rows that violate an expectation are kept, because they indicate an unusual log or a bug; rows
without a usable key or time are dropped.
"""

from collections import Counter
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

Violations = Counter[tuple[str, str]]
"""(table, expectation) -> the number of rows that do not meet it."""

_is = pc.field


class Expectation(NamedTuple):
    """`holds`: condition for a row; null is a violation."""

    name: str
    holds: pc.Expression
    drops: bool = False


EXPECTATIONS: Final[dict[str, tuple[Expectation, ...]]] = {
    "bronze_commit": (
        Expectation(
            "a commit has a group, a topic and a partition",
            _is("group").is_valid() & _is("topic").is_valid() & _is("partition").is_valid(),
            drops=True,
        ),
        # Per-minute rows, gaps and lags need a time. Only a faulty writer sets both the commit and
        # the append timestamp to -1.
        Expectation(
            "a commit has a time",
            _is("commit_ts").is_valid() | _is("append_ts").is_valid(),
            drops=True,
        ),
        Expectation(
            "a commit has an offset, a tombstone has none",
            _is("offset").is_null() == _is("tombstone"),
        ),
        Expectation("an offset is not negative", pc.coalesce(_is("offset"), 0) >= 0),
    ),
    "bronze_group": (
        Expectation("a group record contains its group", _is("group").is_valid(), drops=True),
        Expectation(
            "a generation has a number, a tombstone has none",
            _is("generation").is_null() == _is("tombstone"),
        ),
    ),
    "silver_commit": (
        Expectation(
            "only a first commit or a tombstone has no predecessor",
            _is("prev_offset").is_valid() | _is("kind").isin(["FIRST", "TOMBSTONE"]),
        ),
        Expectation(
            "delta is the offset minus the previous one",
            # Unlike the operator, `subtract` does not raise on overflow.
            pc.coalesce(
                _is("delta") == pc.subtract(_is("offset"), _is("prev_offset")),
                _is("delta").is_null() & (_is("offset").is_null() | _is("prev_offset").is_null()),
            ),
        ),
        # Violated if the broker's clock was set back, or if another broker's clock is behind.
        Expectation("commit times do not decrease", pc.coalesce(_is("gap_ms"), 0) >= 0),
        Expectation(
            "a commit with an owner has a generation",
            _is("owner_member_id").is_null() | _is("generation").is_valid(),
        ),
        Expectation(
            "an empty group owns no partition",
            _is("owner_member_id").is_null() | ~_is("group_empty"),
        ),
    ),
    "gold_partition_minute": (
        Expectation(
            "each commit of a minute is an advance, a repeat, a rewind or the first",
            _is("commits") >= _is("advanced") + _is("repeats") + _is("rewinds"),
        ),
    ),
}


def enforce(table: str, rows: pa.Table, violations: Violations) -> pa.Table:
    """Count violations; return the rows that are kept."""
    expectations = EXPECTATIONS.get(table, ())
    if not expectations or not len(rows):
        return rows
    projection = {each.name: each.holds for each in expectations}
    results = ds.dataset(rows).to_table(columns=projection, use_threads=False)
    kept = None
    for expectation in expectations:
        holds = pc.fill_null(results[expectation.name], False).combine_chunks()
        broken = len(rows) - (pc.sum(holds).as_py() or 0)
        if broken:
            violations[table, expectation.name] += broken
            if expectation.drops:
                kept = holds if kept is None else pc.and_(kept, holds)
    return rows if kept is None else rows.filter(kept)
