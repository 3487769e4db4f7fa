"""What was in force at a place of the log: each mark counts after itself, up to its key's next.

Marks are few (a group's metadata, a producer's markers), rows are many: so the marks go to the
rows as a broadcast, and no row is moved or sorted for it. A group in a storm has thousands of
marks, though, and each of its commits would be held against all of them; so the log is cut into
stripes, and a row meets only the marks of its own.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .places import Reach

__all__ = ["in_force"]

# A group without any news in a batch still has a row per stripe: 10,000 groups make a broadcast
# of some 20 MB.
STRIPES: Final = 16


def in_force(rows: "DataFrame", marks: "DataFrame", by: list[str], reach: "Reach") -> "DataFrame":
    """`rows` with the columns that `marks` have besides `by` and `from_log_offset`.

    `by`: columns of both, offsets_partition among them. A row takes them from the newest mark that
    stands before its own `log_offset`; null if there is none, or if it lies outside of `reach`.
    """
    told = [name for name in marks.columns if name not in {*by, "from_log_offset"}]
    width = reach.longest // STRIPES + 1
    within = (F.col("rows.log_offset") > F.col("marks.from_log_offset")) & (
        F.col("rows.log_offset") <= F.col("marks.until")
    )
    same = [F.col(f"rows.{name}") == F.col(f"marks.{name}") for name in [*by, "stripe"]]
    striped = rows.withColumn("stripe", F.expr(f"log_offset div {width}"))
    stretches = _stretches(marks, by, reach, width)
    joined = striped.alias("rows").join(
        F.broadcast(stretches).alias("marks"), [*same, within], "left"
    )
    return joined.select(
        *[f"rows.{name}" for name in rows.columns], *[f"marks.{name}" for name in told]
    )


def _stretches(marks: "DataFrame", by: list[str], reach: "Reach", width: int) -> "DataFrame":
    """A row for each mark and stripe that it reaches into."""
    later = Window.partitionBy(*by).orderBy("from_log_offset")
    return (
        marks.join(F.broadcast(reach.frame), "offsets_partition", "inner")
        .withColumn("until", F.coalesce(F.lead("from_log_offset").over(later), "last"))
        .where("until >= first AND from_log_offset < last")
        .withColumn(
            "stripe",
            F.explode(
                F.expr(
                    f"sequence(greatest(from_log_offset, first) div {width},"
                    f" least(until, last) div {width})"
                )
            ),
        )
        .drop("first", "last")
    )
