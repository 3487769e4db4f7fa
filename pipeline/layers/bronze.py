"""Bronze: what the source yields, parted by kind, with where it is from.

Commits go from the source to Parquet as they come. The few records of other kinds are read for
themselves: the source leaves commits out before they reach Spark, and to decode a million of them
once more costs less than Spark takes to keep them.
"""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ..tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["of_kind", "tables"]

_KINDS: Final = {"bronze_commit": "commit", "bronze_group": "group", "bronze_other": "other"}


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    few = batch.keep(batch.source.where(F.col("kind").isin("group", "other")))
    return {
        table: of_kind(
            batch.source if kind == "commit" else few,
            table,
            cluster=batch.cluster,
            source=batch.origin,
        )
        for table, kind in _KINDS.items()
    }


def of_kind(records: "DataFrame", table: str, *, cluster: str, source: str) -> "DataFrame":
    """`records`: of schema SOURCE; `table`: one of bronze."""
    return (
        records.where(F.col("kind") == _KINDS[table])
        .withColumn("cluster", F.lit(cluster))
        .withColumn("source", F.lit(source))
        .select(*TABLES[table].schema.names)
    )
