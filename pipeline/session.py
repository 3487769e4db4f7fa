"""A Spark session for the pipeline: on this machine, or on the cluster that `master` names."""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["new_session"]

_ALWAYS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    # Without it a data source that has pushFilters is refused.
    "spark.sql.python.filterPushdown.enabled": "true",
    # The default, INT96, is read by few and has no statistics.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # One file of a window's rows per task; a mini cluster needs no two hundred.
    "spark.sql.shuffle.partitions": "4",
}
# What a job on this machine adds: nobody else is to reach it.
_HERE = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}


def new_session(master: str | None = None, more: Mapping[str, str] | None = None) -> "SparkSession":
    """`master` null: what `spark-submit` says, else all cores of this machine."""
    from pyspark.sql import SparkSession

    # Otherwise workers run whatever `python3` is in their PATH, and die without a word about it.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kohort")
    submitted = "SPARK_ENV_LOADED" in os.environ or master is not None
    for key, value in {**_ALWAYS, **({} if submitted else _HERE), **(more or {})}.items():
        builder = builder.config(key, value)
    if master is not None or not submitted:
        builder = builder.master(master or "local[*]")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
