"""What is expected of the tables' rows, by name, and how many rows break it.

Such rows stay: they say that the log is odd, or that we are wrong. They are counted as the rows are
written, so no row is read twice for it. Expectations of bronze, where rows of which nothing could
be made are left out, are in bronze.py.
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


EXPECTATIONS: Final[dict[str, tuple[Expectation, ...]]] = {
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
    return seen, observation


def counts(observation: Observation) -> dict[str, int]:
    """Violations by the expectation's name; those that had none are left out. Waits for the rows
    to be written."""
    return {name: count for name, count in observation.get.items() if count}


def _broken(expectation: Expectation) -> "Column":
    return ~F.coalesce(F.expr(expectation.condition), F.lit(False))
