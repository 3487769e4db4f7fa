"""A lake made of a log written by hand: bronze as it is, all other layers by the pipeline's own."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from hand_made_log import HandMadeLog
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LAYERS = ("consumers", "generations", "ownership", "commits", "stories", "status")


def make_lake(
    spark: "SparkSession",
    path: Path,
    log: HandMadeLog,
    cuts: Sequence[int] = (),
    layers: Iterable[str] = LAYERS,
) -> None:
    """In batches that end at the log offsets `cuts`, and where the log ends. Samples and events
    come with the batch in whose time they were taken."""
    from kohort.pipeline.layers.batch import Batch

    modules = [import_module(f"kohort.pipeline.layers.{name}") for name in layers]
    with Writer(path) as writer:
        for start, end in zip([0, *cuts], [*cuts, log.next_offset], strict=True):
            for table, rows in log.bronze(start, end).items():
                writer.write(table, pa.Table.from_pylist(rows, schema=TABLES[table].schema))
            batch = Batch(spark, writer, log.cluster, caught_up=end == log.next_offset)
            for module in modules:
                batch.write(module.tables(batch))
            writer.commit(cluster=log.cluster, positions={0: end}, inputs={}, as_of=batch.now)
