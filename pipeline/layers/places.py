"""How far a batch reaches into each partition of the offsets topic, and where the log has gaps.

Compaction leaves gaps, and a log that begins beyond offset 0 has lost its beginning. Whatever is
counted or timed across a gap is not known: of each partition the last gap is remembered
(`state_place`), and a commit's history is complete if the commit before it comes after the gap.
"""

from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["NO_GAP", "Reach", "beside_gaps", "reach_of", "remembered"]

NO_GAP: Final = -1


class Place(NamedTuple):
    """Of one partition of the offsets topic: what the batch has of it."""

    offsets_partition: int
    first: int
    last: int
    gap_before: int  # the last gap before the batch, NO_GAP if the log is whole up to there
    gap: int  # the last gap in the batch or before it


class Reach(NamedTuple):
    """`transactions`: whether a record of any producer is in the batch."""

    places: "tuple[Place, ...]"
    frame: "DataFrame"  # of `places`
    transactions: bool

    @property
    def longest(self) -> int:
        return max(place.last - place.first for place in self.places)

    @property
    def has_gaps(self) -> bool:
        return any(place.gap != place.gap_before for place in self.places)


def reach_of(records: "list[DataFrame]", known: "DataFrame") -> Reach | None:
    """Of bronze records of all kinds; `known`: state_place. None: there are no records."""
    seen = reduce(DataFrame.unionByName, [_seen(frame, *_EACH) for frame in records])
    rows = (
        _seen(seen, *_ALL)
        .join(known.select("offsets_partition", "last_gap"), "offsets_partition", "left")
        .collect()
    )
    if not rows:
        return None
    places = []
    for number, first, last, gap, _, last_gap in rows:
        before = last_gap if last_gap is not None else (first if first > 0 else NO_GAP)
        places.append(Place(number, first, last, before, before if gap is None else gap))
    columns = zip(*places, strict=True)
    frame = known.sparkSession.createDataFrame(
        pa.table([pa.array(values, pa.int64()) for values in columns], names=Place._fields)
    ).withColumn("offsets_partition", F.col("offsets_partition").cast("int"))
    return Reach(tuple(places), frame, any(row.producer_id >= 0 for row in rows))


_EACH: Final = (
    "min(log_offset) AS first",
    "max(log_offset) AS last",
    "max(CASE WHEN missing_before > 0 THEN log_offset END) AS gap",
    "max(producer_id) AS producer_id",
)
_ALL: Final = (
    "min(first) AS first",
    "max(last) AS last",
    "max(gap) AS gap",
    "max(producer_id) AS producer_id",
)


def _seen(rows: "DataFrame", *totals: str) -> "DataFrame":
    return rows.groupBy("offsets_partition").agg(*[F.expr(total) for total in totals])


def beside_gaps(commits: "DataFrame", others: "list[DataFrame]", reach: Reach) -> "DataFrame":
    """`commits` with `last_gap`, the last gap at or before each; `others`: bronze records of other
    kinds, which may come after a gap as well."""
    before = F.broadcast(reach.frame.select("offsets_partition", "gap_before"))
    if not reach.has_gaps:
        return commits.join(before, "offsets_partition", "left").withColumnRenamed(
            "gap_before", "last_gap"
        )
    gap: Column = F.when(F.col("missing_before") > 0, F.col("log_offset"))
    in_log = Window.partitionBy("offsets_partition").orderBy("log_offset")
    marks = [frame.where("missing_before > 0").select(*_PLACE) for frame in others]
    rows = reduce(
        lambda one, more: one.unionByName(more, allowMissingColumns=True),
        [mark.withColumn("is_commit", F.lit(False)) for mark in marks],
        commits.withColumn("is_commit", F.lit(True)),
    )
    return (
        rows.withColumn("gap", F.max(gap).over(in_log))
        .where("is_commit")
        .join(before, "offsets_partition", "left")
        .withColumn("last_gap", F.coalesce("gap", "gap_before"))
        .select(*commits.columns, "last_gap")
    )


_PLACE: Final = ("offsets_partition", "log_offset", "missing_before")


def remembered(cluster: str, reach: Reach, known: "DataFrame") -> "DataFrame":
    """state_place after the batch."""
    untouched = known.join(reach.frame.select("offsets_partition"), "offsets_partition", "anti")
    return untouched.select("cluster", "offsets_partition", "last_gap").unionByName(
        reach.frame.select(
            F.lit(cluster).alias("cluster"), "offsets_partition", F.col("gap").alias("last_gap")
        )
    )
