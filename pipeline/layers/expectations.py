"""What is expected of the tables' rows, by name, and how many rows break it.

An expectation that drops leaves such rows out: nothing could be made of them. One that warns leaves
them in: they say that the log is odd, or that we are wrong. Both are counted as the rows are
written, so no row is read twice for it.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.sql import Observation
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["EXPECTATIONS", "Expectation", "counts", "watched"]


class Expectation(NamedTuple):
    """`condition`: SQL over the table's columns; a row for which it is null breaks it as well."""

    name: str
    condition: str
    drops: bool = False


EXPECTATIONS: Final[dict[str, tuple[Expectation, ...]]] = {
    "bronze_commit": (
        Expectation(
            "a commit has a group, a topic and a partition",
            "`group` IS NOT NULL AND topic IS NOT NULL AND partition IS NOT NULL",
            drops=True,
        ),
        # Without any there is no minute, gap or lag; only a broken producer writes -1 twice.
        Expectation("a commit has a time", "coalesce(commit_ts, append_ts) IS NOT NULL", True),
        Expectation("a commit has an offset, a tombstone none", "(offset IS NULL) = tombstone"),
        Expectation("an offset is no negative number", "coalesce(offset, 0) >= 0"),
    ),
    "bronze_group": (
        Expectation("a record of a group has its name", "`group` IS NOT NULL", drops=True),
        Expectation(
            "a generation has a number, a tombstone none", "(generation IS NULL) = tombstone"
        ),
    ),
    "silver_commit": (
        Expectation(
            "only a first commit, or a tombstone, follows none",
            "prev_offset IS NOT NULL OR kind IN ('FIRST', 'TOMBSTONE')",
        ),
        Expectation(
            "a delta is the offset less the one before",
            "delta IS NOT DISTINCT FROM offset - prev_offset",
        ),
        # The broker's clock was set back, or another broker's is behind.
        Expectation("time does not run backwards", "coalesce(gap_ms, 0) >= 0"),
        Expectation(
            "whoever has an owner has a generation",
            "owner_member_id IS NULL OR generation IS NOT NULL",
        ),
        Expectation(
            "an empty group owns nothing", "NOT (group_empty AND owner_member_id IS NOT NULL)"
        ),
    ),
    "gold_partition_minute": (
        Expectation(
            "each commit of a minute advanced, repeated, went back or was the first",
            "commits >= advanced + repeats + rewinds",
        ),
    ),
}


def watched(table: str, rows: "DataFrame") -> "tuple[DataFrame, Observation | None]":
    """The rows to be written, and what counts the violations while they are; None: nothing is
    expected of the table."""
    expected = EXPECTATIONS.get(table, ())
    if not expected:
        return rows, None
    observation = Observation(f"expectations of {table}")
    seen = rows.observe(
        observation,
        *[F.count_if(_broken(each)).alias(each.name) for each in expected],
    )
    for each in expected:
        if each.drops:
            seen = seen.where(~_broken(each))
    return seen, observation


def counts(observation: Observation) -> dict[str, int]:
    """Violations by the expectation's name; those that had none are left out. Waits for the rows
    to be written."""
    return {name: count for name, count in observation.get.items() if count}


def _broken(expectation: Expectation) -> "Column":
    return ~F.coalesce(F.expr(expectation.condition), F.lit(False))
