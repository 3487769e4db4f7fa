"""The input of a layer: the rows of one batch, and the lake before it.

A layer module has `tables(batch) -> {table: rows}`. The loop (run.py) writes these tables before it
calls the next layer, which reads them back from Parquet. This way, records are decoded only once,
and Spark's plans do not grow from layer to layer. commits.py writes most of its tables itself, in
parallel tasks.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from ..diagnosis.group_history import OFFSETS_RETENTION_MS
from ..lake.manifest import Manifest
from ..lake.reader import Lake, batch_folder
from ..lake.schema import table_of, time_range
from ..lake.spark_frames import read_folders, write_frame
from ..lake.writer import Writer
from .expectations import Violations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORD_TABLES = ("bronze_commit", "bronze_group", "bronze_other")
# Samples and events may be ahead of a log that has not been read to its end.
_AHEAD = (("bronze_log_end", "sampled_at"), ("bronze_event", "ts"))
# Tables that Arrow processes (commits.py). Spark rarely or never reads them.
_ARROW_TABLES = (
    "bronze_commit",
    "silver_commit",
    "gold_partition_minute",
    "state_commit",
    "state_place",
    "state_open_txn",
    "state_delta",
)
_EPOCH = datetime.fromtimestamp(0, UTC)


class Batch:
    """One batch. Its bronze tables are written before the first layer is called. `caught_up`:
    whether the batch reaches the end that the log had when the batch was planned."""

    def __init__(
        self,
        spark: "SparkSession",
        writer: Writer,
        cluster: str,
        *,
        caught_up: bool = True,
        offsets_retention_ms: int = OFFSETS_RETENTION_MS,
        report_share: Callable[[float], None] = lambda _share: None,
        topic_ids: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.caught_up = caught_up
        self.offsets_retention_ms = offsets_retention_ms
        # Reports the progress of a stage that knows how much of its work is done. Thread-safe.
        self.report_share = report_share
        # The names of the topics that exist now, by id; requested only if records contain topic
        # ids.
        self.topic_ids = topic_ids
        self.writer = writer
        # The lake before this batch, by a path that is valid wherever a task runs.
        self.lake = Lake(writer.path.absolute(), writer.manifest)
        self.violations = Violations()
        self._cached: list[DataFrame] = []

    @property
    def now(self) -> datetime:
        """The newest time in the inputs, not the wall clock, so that repeating a batch yields the
        same rows."""
        records = self.span()
        times = [self.lake.as_of, records and records[1]]
        if self.caught_up:
            spans = [self._span(table, column) for table, column in _AHEAD]
            times += [span[1] for span in spans if span]
        return max((time for time in times if time is not None), default=_EPOCH)

    def span(self) -> tuple[datetime, datetime] | None:
        """The first and last append time of the batch's records; None if it has no records."""
        spans = [span for table in RECORD_TABLES if (span := self._span(table, "append_ts"))]
        if not spans:
            return None
        return min(span[0] for span in spans), max(span[1] for span in spans)

    def read_to(self) -> dict[str, int]:
        """The offset after the last record of each offsets partition, for the manifest."""
        found: dict[str, int] = dict(self.lake.manifest.inputs.get("read_to", {}))
        for table in filter(self.rows, RECORD_TABLES):
            rows = self.written.read(table, ["offsets_partition", "log_offset"])
            last = rows.group_by("offsets_partition").aggregate([("log_offset", "max")])
            for row in last.to_pylist():
                partition = str(row["offsets_partition"])
                found[partition] = max(found.get(partition, 0), row["log_offset_max"] + 1)
        return found

    def topics(self) -> set[str]:
        """Topics with commits in this batch."""
        return set(self.written.read("bronze_commit", ["topic"])["topic"].unique().to_pylist())

    def _span(self, table: str, column: str) -> tuple[datetime, datetime] | None:
        folders = self._new_folders(table)
        return time_range(folders[0], column) if folders else None

    def rows(self, table: str) -> int:
        """Return the number of rows that this batch has written to a table, without reading it."""
        live = self.writer.written.get(table)
        return live.rows if live else 0

    @property
    def records(self) -> int:
        """The number of records in the batch; 0 once the batch is committed."""
        return sum(map(self.rows, RECORD_TABLES))

    @property
    def rows_for_spark(self) -> int:
        """Approximate number of rows that the layers using Spark will read."""
        written = self.writer.written
        new = [live.rows for name, live in written.items() if name not in _ARROW_TABLES]
        old = [
            folder.rows
            for name, live in self.writer.manifest.tables.items()
            if table_of(name).growth == "current" and name not in {*_ARROW_TABLES, *written}
            for folder in live
        ]
        return sum(new) + sum(old)

    def new(self, table: str) -> "DataFrame":
        """Return the rows written by this batch: the new rows of an append table, or a whole
        current table. If this batch has not written the table, return no rows or the unchanged
        current table."""
        if table_of(table).growth == "current" and table not in self.writer.written:
            return self.old(table)
        return self._frame(table, self._new_folders(table))

    def old(self, table: str) -> "DataFrame":
        """Return a table before this batch."""
        return self._frame(table, self.lake.folders(table))

    def all(self, table: str) -> "DataFrame":
        """Return an append table including the rows of this batch."""
        return self._frame(table, [*self.lake.folders(table), *self._new_folders(table)])

    def _frame(self, table: str, folders: list[Path]) -> "DataFrame":
        return read_folders(self.spark, table, self.lake.path / table, folders)

    def _new_folders(self, table: str) -> list[Path]:
        """Return the folder of a table that this batch has written, unless it has no rows."""
        path = batch_folder(self.lake.path, table, self.writer.batch_id)
        return [path] if self.rows(table) else []

    def cache(self, rows: "DataFrame") -> "DataFrame":
        """Cache rows that are used several times, until the layer's tables are written."""
        self._cached.append(rows.persist())
        return self._cached[-1]

    def write(self, tables: "Mapping[str, Rows]") -> None:
        """Write the result of a layer. Raises SchemaMismatch."""
        try:
            for name, rows in tables.items():
                if isinstance(rows, pa.Table):
                    self.writer.write(name, rows)
                else:
                    write_frame(self.writer, name, rows)
        finally:
            for cached in self._cached:
                cached.unpersist()
            self._cached.clear()

    @property
    def written(self) -> Lake:
        """The tables written by this batch so far, as a lake."""
        manifest = Manifest(batch_id=self.writer.batch_id)
        manifest.tables.update({name: (live,) for name, live in self.writer.written.items()})
        return Lake(self.lake.path, manifest)


Rows: TypeAlias = "DataFrame | pa.Table"
Layer = Callable[[Batch], Mapping[str, Rows]]
