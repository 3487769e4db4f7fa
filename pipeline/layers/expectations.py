"""What is expected of the tables' rows, by name, and how many rows break it.

Such rows stay: they say that the log is odd, or that we are wrong. Only rows of which nothing could
be made are left out.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["EXPECTATIONS", "Expectation", "Violations", "expected"]

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

Violations = Counter[tuple[str, str]]
"""(table, expectation) -> rows."""


class Expectation(NamedTuple):
    """`holds`: says of each row whether it is so; a row for which that is null breaks it."""

    name: str
    holds: Callable[[Any], Any]
    drops: bool = False


def _are_there(*names: str) -> Callable[[Any], Any]:
    def holds(rows: Any) -> Any:
        there = pc.is_valid(rows[names[0]])
        for name in names[1:]:
            there = pc.and_(there, pc.is_valid(rows[name]))
        return there

    return holds


def _follows(rows: Any) -> Any:
    alone = pc.is_in(rows["kind"], pa.array(["FIRST", "TOMBSTONE"]))
    return pc.or_(pc.is_valid(rows["prev_offset"]), alone)


def _is_difference(rows: Any) -> Any:
    delta, difference = rows["delta"], pc.subtract(rows["offset"], rows["prev_offset"])
    neither = pc.and_(pc.is_null(delta), pc.is_null(difference))
    return pc.or_(neither, pc.fill_null(pc.equal(delta, difference), False))


EXPECTATIONS: Final[dict[str, tuple[Expectation, ...]]] = {
    "bronze_commit": (
        Expectation(
            "a commit has a group, a topic and a partition",
            _are_there("group", "topic", "partition"),
            drops=True,
        ),
        # Without any there is no minute, gap or lag; only a broken producer writes -1 twice.
        Expectation(
            "a commit has a time",
            lambda rows: pc.or_(pc.is_valid(rows["commit_ts"]), pc.is_valid(rows["append_ts"])),
            drops=True,
        ),
        Expectation(
            "a commit has an offset, a tombstone none",
            lambda rows: pc.equal(pc.is_null(rows["offset"]), rows["tombstone"]),
        ),
        Expectation(
            "an offset is no negative number",
            lambda rows: pc.greater_equal(pc.fill_null(rows["offset"], 0), 0),
        ),
    ),
    "bronze_group": (
        Expectation("a record of a group has its name", _are_there("group"), drops=True),
        Expectation(
            "a generation has a number, a tombstone none",
            lambda rows: pc.equal(pc.is_null(rows["generation"]), rows["tombstone"]),
        ),
    ),
    "silver_commit": (
        Expectation("only a first commit, or a tombstone, follows none", _follows),
        Expectation("a delta is the offset less the one before", _is_difference),
        # The broker's clock was set back, or another broker's is behind.
        Expectation(
            "time does not run backwards",
            lambda rows: pc.greater_equal(pc.fill_null(rows["gap_ms"], 0), 0),
        ),
        Expectation(
            "whoever has an owner has a generation",
            lambda rows: pc.or_(
                pc.is_null(rows["owner_member_id"]), pc.is_valid(rows["generation"])
            ),
        ),
        Expectation(
            "an empty group owns nothing",
            lambda rows: pc.or_(
                pc.is_null(rows["owner_member_id"]), pc.invert(rows["group_empty"])
            ),
        ),
    ),
    "gold_partition_minute": (
        Expectation(
            "each commit of a minute advanced, repeated, went back or was the first",
            lambda rows: pc.greater_equal(
                rows["commits"],
                pc.add(pc.add(rows["advanced"], rows["repeats"]), rows["rewinds"]),
            ),
        ),
    ),
}


def expected(table: str, rows: Rows, violations: Violations) -> Rows:
    """`rows` but for those of which nothing can be made; what breaks an expectation is counted."""
    kept = None
    for each in EXPECTATIONS.get(table, ()):
        holds = pc.fill_null(each.holds(rows), False)
        broken = len(rows) - (pc.sum(holds).as_py() or 0)
        if broken:
            violations[table, each.name] += broken
            if each.drops:
                kept = holds if kept is None else pc.and_(kept, holds)
    return rows if kept is None else rows.filter(kept)
