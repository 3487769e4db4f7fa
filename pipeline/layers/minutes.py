"""gold_partition_minute: a partition's commits of one minute of the broker's clock."""

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from ..tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from .batch import Batch

__all__ = ["partition_minutes", "tables"]

_MINUTE: Final = ["cluster", "group", "topic", "partition", "minute"]
_LAST: Final = ("offset", "commit_ts", "lag", "lag_ms")


def tables(batch: "Batch") -> "dict[str, DataFrame]":
    if not batch.rows("silver_commit"):
        return {}
    return {"gold_partition_minute": partition_minutes(batch.new("silver_commit"))}


def partition_minutes(commits: "DataFrame") -> "DataFrame":
    """Of silver_commit. Commits that were removed are no commits.

    First per client, because Spark adds up numbers in place but would sort a million rows for the
    text of the last one's owner; then over the one or two clients that a minute has.
    """
    shares = (
        commits.where("kind <> 'TOMBSTONE'")
        .withColumn("minute", F.date_trunc("minute", "commit_ts"))
        .groupBy(*_MINUTE, "client_id")
        .agg(
            F.count("*").alias("commits"),
            *[
                F.count_if(F.col("kind") == kind).alias(name)
                for kind, name in (
                    ("ADVANCE", "advanced"),
                    ("REPEAT", "repeats"),
                    ("REWIND", "rewinds"),
                )
            ],
            F.coalesce(F.sum(F.when(F.col("delta") > 0, F.col("delta"))), F.lit(0)).alias(
                "consumed"
            ),
            F.max("log_offset").alias("log_offset"),
            *[F.max_by(name, "log_offset").alias(f"last_{name}") for name in _LAST],
            F.max(F.when(F.col("history_complete"), F.col("gap_ms"))).alias("max_gap_ms"),
            F.max("lag").alias("max_lag"),
        )
    )
    return (
        shares.groupBy(*_MINUTE)
        .agg(
            *[
                F.sum(name).alias(name)
                for name in ("commits", "advanced", "repeats", "rewinds", "consumed")
            ],
            F.max("max_gap_ms").alias("max_gap_ms"),
            F.max("max_lag").alias("max_lag"),
            F.max_by(
                F.struct(*[f"last_{name}" for name in _LAST], "client_id"), "log_offset"
            ).alias("last"),
        )
        .withColumn("last_offset", F.col("last.last_offset"))
        .withColumn("last_commit_ts", F.col("last.last_commit_ts"))
        .withColumn("end_lag", F.col("last.last_lag"))
        .withColumn("lag_ms", F.col("last.last_lag_ms"))
        .withColumn("owner_client_id", F.col("last.client_id"))
        .select(*TABLES["gold_partition_minute"].schema.names)
    )
