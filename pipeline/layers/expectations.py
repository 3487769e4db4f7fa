"""Named expectations about the rows of tables, and the number of rows that violate them.

Such rows are kept, as a sign of an unusual log or of a bug; rows without a usable key are dropped.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

Violations = Counter[tuple[str, str]]
"""(table, expectation) -> rows."""


class Expectation(NamedTuple):
    """`holds`: for each row whether it meets the expectation; null counts as a violation."""

    name: str
    holds: Callable[[Any], Any]
    drops: bool = False


def _not_null(*names: str) -> Callable[[Any], Any]:
    def holds(rows: Any) -> Any:
        valid = pc.is_valid(rows[names[0]])
        for name in names[1:]:
            valid = pc.and_(valid, pc.is_valid(rows[name]))
        return valid

    return holds


def _has_predecessor(rows: Any) -> Any:
    needs_none = pc.is_in(rows["kind"], pa.array(["FIRST", "TOMBSTONE"]))
    return pc.or_(pc.is_valid(rows["prev_offset"]), needs_none)


def _is_difference(rows: Any) -> Any:
    delta, difference = rows["delta"], pc.subtract(rows["offset"], rows["prev_offset"])
    neither = pc.and_(pc.is_null(delta), pc.is_null(difference))
    return pc.or_(neither, pc.fill_null(pc.equal(delta, difference), False))


EXPECTATIONS: Final[dict[str, tuple[Expectation, ...]]] = {
    "bronze_commit": (
        Expectation(
            "a commit has a group, a topic and a partition",
            _not_null("group", "topic", "partition"),
            drops=True,
        ),
        # Minutes, gaps and lags need a time; only a broken producer writes -1 for both.
        Expectation(
            "a commit has a time",
            lambda rows: pc.or_(pc.is_valid(rows["commit_ts"]), pc.is_valid(rows["append_ts"])),
            drops=True,
        ),
        Expectation(
            "a commit has an offset, a tombstone has none",
            lambda rows: pc.equal(pc.is_null(rows["offset"]), rows["tombstone"]),
        ),
        Expectation(
            "an offset is not negative",
            lambda rows: pc.greater_equal(pc.fill_null(rows["offset"], 0), 0),
        ),
    ),
    "bronze_group": (
        Expectation("a record of a group has its name", _not_null("group"), drops=True),
        Expectation(
            "a generation has a number, a tombstone has none",
            lambda rows: pc.equal(pc.is_null(rows["generation"]), rows["tombstone"]),
        ),
    ),
    "silver_commit": (
        Expectation("only a first commit or a tombstone has no predecessor", _has_predecessor),
        Expectation("delta is the offset minus the previous one", _is_difference),
        # The broker's clock was set back, or another broker's is behind.
        Expectation(
            "commit times do not decrease",
            lambda rows: pc.greater_equal(pc.fill_null(rows["gap_ms"], 0), 0),
        ),
        Expectation(
            "a commit with an owner has a generation",
            lambda rows: pc.or_(
                pc.is_null(rows["owner_member_id"]), pc.is_valid(rows["generation"])
            ),
        ),
        Expectation(
            "an empty group owns no partition",
            lambda rows: pc.or_(
                pc.is_null(rows["owner_member_id"]), pc.invert(rows["group_empty"])
            ),
        ),
    ),
    "gold_partition_minute": (
        Expectation(
            "each commit of a minute is an advance, a repeat, a rewind or the first",
            lambda rows: pc.greater_equal(
                rows["commits"],
                pc.add(pc.add(rows["advanced"], rows["repeats"]), rows["rewinds"]),
            ),
        ),
    ),
}


def enforce(table: str, rows: Rows, violations: Violations) -> Rows:
    """Count violations; returns the rows without those to be dropped."""
    kept = None
    for expectation in EXPECTATIONS.get(table, ()):
        holds = pc.fill_null(expectation.holds(rows), False)
        broken = len(rows) - (pc.sum(holds).as_py() or 0)
        if broken:
            violations[table, expectation.name] += broken
            if expectation.drops:
                kept = holds if kept is None else pc.and_(kept, holds)
    return rows if kept is None else rows.filter(kept)
