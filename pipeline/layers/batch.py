"""What a layer is given: the rows of one batch, beside what the lake held before it.

A layers module offers `tables(batch) -> {name of a table: its rows}`. The loop calls one after the
other and writes what they return before it calls the next, which then reads Parquet: a record is
decoded once, and no plan grows from layer to layer. commits.py writes most of its tables by itself,
in tasks (sharing.py).
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import pyarrow as pa

from ..diagnosis.story import OFFSETS_RETENTION_MS
from ..lake.footers import span
from ..lake.frames import empty_frame, frame_of, frame_of_folders, write_frame
from ..lake.manifest import Live, Manifest
from ..lake.reader import Lake, batch_folder
from ..lake.schemas import BATCH_ID, table_of
from ..lake.writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Batch", "Broken", "Layer"]

# The columns by which the inputs tell the time. Samples and events are ahead of a log that has not
# been read to its end: what it tells next would be older than the batch before.
_RECORDS = ("bronze_commit", "bronze_group", "bronze_other")
_AHEAD = (("bronze_log_end", "sampled_at"), ("bronze_event", "ts"))
# What Arrow reads and writes (commits.py), and Spark hardly or not at all.
_OF_COMMITS = (
    "bronze_commit",
    "silver_commit",
    "gold_partition_minute",
    "state_commit",
    "state_place",
    "state_open_txn",
    "state_delta",
)
_NO_TIME = datetime.fromtimestamp(0, UTC)


class Broken(NamedTuple):
    """So many rows of a table were not as expected (expectations.py)."""

    table: str
    expectation: str
    rows: int


class Batch:
    """`caught_up`: the log held no more when it was planned. Bronze has been written before the
    first layer is called."""

    def __init__(
        self,
        spark: "SparkSession",
        writer: Writer,
        cluster: str,
        *,
        caught_up: bool = True,
        offsets_retention_ms: int = OFFSETS_RETENTION_MS,
    ) -> None:
        self.spark = spark
        self.cluster = cluster
        self.caught_up = caught_up
        self.offsets_retention_ms = offsets_retention_ms
        self.writer = writer
        self.lake = Lake(writer.path.absolute(), writer.manifest)
        """Before this batch; wherever a task runs."""
        self.broken: list[Broken] = []
        self._kept: list[DataFrame] = []

    @property
    def batch_id(self) -> int:
        return self.writer.batch_id

    @property
    def now(self) -> datetime:
        """The newest time that the inputs have told of, once bronze is written. Not the wall
        clock: a batch that is done again gives the same rows."""
        records = self.span()
        told = [self.lake.as_of, records and records[1]]
        if self.caught_up:
            spans = [self._span(table, column) for table, column in _AHEAD]
            told += [span[1] for span in spans if span]
        return max((time for time in told if time is not None), default=_NO_TIME)

    def span(self) -> tuple[datetime, datetime] | None:
        """When the oldest and the newest record of this batch were appended, once bronze is
        written; null: it has none."""
        spans = [span for table in _RECORDS if (span := self._span(table, "append_ts"))]
        if not spans:
            return None
        return min(span[0] for span in spans), max(span[1] for span in spans)

    def read_to(self) -> dict[str, int]:
        """The offset behind the last record of each offsets partition, for the manifest."""
        found: dict[str, int] = dict(self.lake.manifest.inputs.get("read_to", {}))
        for table in filter(self.rows, _RECORDS):
            rows = self.written.read(table, ["offsets_partition", "log_offset"])
            last = rows.group_by("offsets_partition").aggregate([("log_offset", "max")])
            for each in last.to_pylist():
                at, behind = str(each["offsets_partition"]), each["log_offset_max"] + 1
                found[at] = max(found.get(at, 0), behind)
        return found

    def topics(self) -> set[str]:
        """Which topics the commits of this batch are of."""
        return set(self.written.read("bronze_commit", ["topic"])["topic"].unique().to_pylist())

    def _span(self, table: str, column: str) -> tuple[datetime, datetime] | None:
        if not self.rows(table):
            return None
        return span(batch_folder(self.lake.path, table, self.batch_id), column)

    def rows(self, table: str) -> int:
        """How many rows of a table this batch has written; costs nothing."""
        live = self.writer.written().get(table)
        return live.rows if live else 0

    @property
    def records(self) -> int:
        """How many it has of the log, until it is committed; costs nothing."""
        return sum(map(self.rows, _RECORDS))

    @property
    def rows_for_spark(self) -> int:
        """About how many rows the layers of groups are given; costs nothing."""
        written = self.writer.written()
        given = [live.rows for name, live in written.items() if name not in _OF_COMMITS]
        found = [
            live.rows
            for name, lives in self.writer.manifest.tables.items()
            if table_of(name).growth == "current" and name not in {*_OF_COMMITS, *written}
            for live in lives
        ]
        return sum(given) + sum(found)

    def new(self, table: str) -> "DataFrame":
        """What this batch wrote: rows of an append table, a current table whole. Not written by
        it: no rows, or the current table as it was."""
        if self.rows(table):
            base = self.lake.path / table
            folder = batch_folder(self.lake.path, table, self.batch_id)
            return frame_of_folders(self.spark, table, base, [folder])
        if table_of(table).growth == "current" and table not in self.writer.written():
            return self.old(table)
        return empty_frame(self.spark, table_of(table).schema.append(BATCH_ID))

    def old(self, table: str) -> "DataFrame":
        """What the lake held before this batch."""
        return frame_of(self.spark, self.lake, table)

    def all(self, table: str) -> "DataFrame":
        """Of an append table: what the lake held, and what this batch wrote."""
        base = self.lake.path / table
        folders = self.lake.folders(table)
        if self.rows(table):
            folders.append(batch_folder(self.lake.path, table, self.batch_id))
        return frame_of_folders(self.spark, table, base, folders)

    def carried(self, table: str, touched: "DataFrame") -> "DataFrame":
        """A current table as it was, without the groups in `touched` (cluster, group); its
        columns are the table's alone."""
        old = self.old(table).drop(BATCH_ID.name)
        return old.join(touched.select("cluster", "group").distinct(), ["cluster", "group"], "anti")

    def keep(self, rows: "DataFrame") -> "DataFrame":
        """Computed once though used twice, until the layer's tables are written."""
        self._kept.append(rows.persist())
        return self._kept[-1]

    def write(self, tables: "Mapping[str, Rows]") -> None:
        """What a layer has returned. Raises WrongRows."""
        try:
            for name, rows in tables.items():
                if isinstance(rows, pa.Table):
                    self.writer.write(name, rows)
                else:
                    write_frame(self.writer, name, rows)
        finally:
            for kept in self._kept:
                kept.unpersist()
            self._kept.clear()

    @property
    def written(self) -> Lake:
        """What this batch has written so far, as a lake of its own."""
        tables: dict[str, tuple[Live, ...]] = {
            name: (live,) for name, live in self.writer.written().items()
        }
        return Lake(self.lake.path, Manifest(batch_id=self.batch_id, tables=tables))


Rows: TypeAlias = "DataFrame | pa.Table"
Layer = Callable[[Batch], Mapping[str, Rows]]
