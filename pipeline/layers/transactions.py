"""Commits of transactions: held back until the producer's marker comes, dropped if it aborts.

The rules are offsets/transactions.py's, for rows instead of one record after the other: a commit
counts where its marker stands, unless a newer record of its partition has counted before. So it is
the newest of its partition then, and the order of those that count is again that of the log.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from .as_of import in_force

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .places import Reach

__all__ = ["OPEN", "markers_of", "settled"]

# Where a transaction's end stands that has not come yet: behind everything.
OPEN: Final = (1 << 63) - 1
_PRODUCER: Final = ["offsets_partition", "producer_id"]
_KEY: Final = ["offsets_partition", "group", "topic", "partition"]


def markers_of(others: "DataFrame") -> "DataFrame":
    """The control records that end a transaction (bronze_other)."""
    return others.where("control AND key_version IN (0, 1)").select(
        *_PRODUCER,
        F.col("log_offset").alias("marker"),
        (F.col("key_version") == 1).alias("committed"),
    )


def settled(rows: "DataFrame", markers: "DataFrame", reach: "Reach") -> "DataFrame":
    """`rows` with `settled_at`, the place from which on each counts: its own, its marker's, OPEN.

    Those that never will are left out. Of `rows` are needed the key, log_offset, producer_id,
    tombstone and `counts`: it is a commit, or (state) was the last one before the batch.
    """
    return _without_overtaken(_ended(rows, markers, reach))


def _ended(rows: "DataFrame", markers: "DataFrame", reach: "Reach") -> "DataFrame":
    in_order = Window.partitionBy(*_PRODUCER).orderBy("marker")
    stretches = markers.withColumn(
        "from_log_offset", F.coalesce(F.lag("marker").over(in_order), F.lit(-1))
    )
    # After its last marker nothing of a producer's has ended yet.
    after = markers.groupBy(*_PRODUCER).agg(F.max("marker").alias("from_log_offset"))
    marks = stretches.unionByName(after, allowMissingColumns=True)
    # What has been open since an earlier batch stands before all marks: its end is the first one.
    first = markers.groupBy(*_PRODUCER).agg(
        F.min("marker").alias("first_marker"),
        F.min_by("committed", "marker").alias("first_committed"),
    )
    pending = "producer_id >= 0 AND NOT tombstone"
    return (
        in_force(rows, marks, _PRODUCER, reach)
        .join(F.broadcast(first), _PRODUCER, "left")
        .withColumn("marker", F.expr("if(held IS NULL, marker, first_marker)"))
        .withColumn("committed", F.expr("if(held IS NULL, committed, first_committed)"))
        .where(f"NOT ({pending}) OR coalesce(committed, true)")
        .withColumn(
            "settled_at",
            F.expr(
                f"CASE WHEN NOT counts THEN NULL WHEN {pending}"
                f" THEN coalesce(marker, {OPEN}) ELSE log_offset END"
            ),
        )
        .select(*rows.columns, "settled_at")
    )


def _without_overtaken(rows: "DataFrame") -> "DataFrame":
    """Without those before which a newer record of their partition has counted."""
    so_far = Window.partitionBy(*_KEY).orderBy("settled_at")
    # Rows of one marker stand side by side in this frame: of a producer's two commits of a
    # partition the later one counts.
    newest = F.max(F.expr(f"CASE WHEN settled_at < {OPEN} THEN log_offset END")).over(so_far)
    return (
        rows.withColumn("newest", newest)
        .where("NOT counts OR newest IS NULL OR newest <= log_offset")
        .drop("newest")
    )
