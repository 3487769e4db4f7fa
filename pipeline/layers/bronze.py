"""Bronze: what the source yields, parted by kind, with where it is from."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ..tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["of_kind", "tables"]

_KINDS: Final = {"bronze_commit": "commit", "bronze_group": "group", "bronze_other": "other"}


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    records = batch.keep(batch.source)
    return {
        table: of_kind(records, table, cluster=batch.cluster, source=batch.origin)
        for table in _KINDS
    }


def of_kind(records: "DataFrame", table: str, *, cluster: str, source: str) -> "DataFrame":
    """`records`: of schema SOURCE; `table`: one of bronze."""
    return (
        records.where(F.col("kind") == _KINDS[table])
        .withColumn("cluster", F.lit(cluster))
        .withColumn("source", F.lit(source))
        .select(*TABLES[table].schema.names)
    )
