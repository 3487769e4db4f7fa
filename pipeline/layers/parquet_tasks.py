"""Tables that Arrow computes and writes, in Spark tasks or, if there are few rows, in this process.
Each task processes a share of the work, and writes its own files.

Passing a record through Spark's rows and back into columns would take seven times as long.
"""

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ..columns import columns
from ..lake.schema import conform, table_of
from ..lake.writer import COMPRESSION, Writer
from .batch import Batch
from .expectations import Violations, enforce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# About 30 MB in memory; large enough for efficient reads.
ROW_GROUP_ROWS: Final = 250_000
# With two shares per core, a core that finishes early takes another share. More shares would mean
# more files, because each task writes a file of every table.
TASKS_PER_CORE: Final = 2

POLL_SECONDS: Final = 0.5

_VIOLATION: Final = "table string, expectation string, rows long"

Share = TypeVar("Share")


class PartFiles:
    """Writes one file of each table that has rows; the first share also writes empty files, because
    a folder without a file is not a table. Files get their names when complete, so that a task that
    Spark runs twice leaves one file per table."""

    def __init__(self, folders: Mapping[str, Path], number: int) -> None:
        self.violations: Violations = Violations()
        self._folders = folders
        self._number = number
        self._name = f"part-{number}.parquet"
        self._temporary_name = f".{self._name}.{uuid.uuid4().hex}"
        self._open: dict[str, pq.ParquetWriter] = {}
        self._pending: dict[str, list[pa.RecordBatch]] = {table: [] for table in folders}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            for table in self._folders if kind is None else ():
                self._complete(table)
        finally:
            for file in self._open.values():
                with suppress(OSError):  # such as the one that is being raised
                    file.close()
            for folder in self._folders.values():
                (folder / self._temporary_name).unlink(missing_ok=True)

    def write(self, table: str, rows: pa.Table) -> None:
        kept = enforce(table, rows, self.violations)
        pending = self._pending[table]
        if len(kept):
            pending += conform(table, kept).to_batches()
        if sum(map(len, pending)) >= ROW_GROUP_ROWS:
            self._flush(table)

    def _complete(self, table: str) -> None:
        self._flush(table)
        if table in self._open:
            self._open[table].close()
            folder = self._folders[table]
            (folder / self._temporary_name).replace(folder / self._name)

    def _flush(self, table: str) -> None:
        pending, self._pending[table] = self._pending[table], []
        if not pending and (self._number or table in self._open):
            return
        schema = table_of(table).schema
        if table not in self._open:
            path = self._folders[table] / self._temporary_name
            self._open[table] = pq.ParquetWriter(path, schema, compression=COMPRESSION)
        rows = pa.Table.from_batches(pending, schema)
        self._open[table].write_table(rows, row_group_size=ROW_GROUP_ROWS)


def write_in_process(
    writer: Writer, tables: Iterable[str], share: Share, work: Callable[[Share, PartFiles], None]
) -> Violations:
    """Run `work` in this process. Raises OSError, SchemaMismatch, and the errors of `work`."""
    folders = {table: writer.empty_folder(table).absolute() for table in tables}
    with PartFiles(folders, 0) as files:
        work(share, files)
    for table in folders:
        writer.finish(table)
    return files.violations


def write_in_tasks(
    batch: Batch,
    tables: Iterable[str],
    shares: Sequence[Share],
    work: Callable[[Share, PartFiles], None],
) -> Violations:
    """Run `work`, which is pickled, in Spark tasks, and report the fraction of completed tasks; the
    lake must have the same path on all workers. Raises OSError, SchemaMismatch, and Spark's
    exceptions."""
    folders = {table: batch.writer.empty_folder(table).absolute() for table in tables}
    tasks = batch.spark.range(0, len(shares), 1, len(shares))
    violations = Violations()
    run = partial(_run, shares, folders, work)
    with _reported(batch, len(shares)):
        for row in tasks.mapInArrow(run, _VIOLATION).collect():
            violations[row["table"], row["expectation"]] += row["rows"]
    for table in folders:
        batch.writer.finish(table)
    return violations


@contextmanager
def _reported(batch: Batch, tasks: int) -> Iterator[None]:
    """Poll the number of completed tasks while the job runs."""
    tracker, ended = batch.spark.sparkContext.statusTracker(), threading.Event()

    def poll() -> None:
        done = 0
        while not ended.wait(POLL_SECONDS):
            # A completed stage is no longer active.
            stages = filter(None, map(tracker.getStageInfo, tracker.getActiveStageIds()))
            done = max(done, sum(stage.numCompletedTasks for stage in stages))
            batch.report_share(min(done / tasks, 1))

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def split_for_tasks(
    session: "SparkSession", pieces: Sequence[tuple[int, Share]]
) -> list[list[Share]]:
    """Distribute `pieces`, (size, piece of work), to two shares per core."""
    return balance(pieces, TASKS_PER_CORE * session.sparkContext.defaultParallelism)


def balance(pieces: Sequence[tuple[int, Share]], most: int) -> list[list[Share]]:
    """Distribute pieces to at most `most` shares of similar size."""
    shares: list[list[Share]] = [[] for _ in range(min(most, len(pieces)))]
    totals = [0] * len(shares)
    for size, piece in sorted(pieces, key=lambda piece: -piece[0]):
        smallest = totals.index(min(totals))
        shares[smallest].append(piece)
        totals[smallest] += size
    return shares


def _run(
    shares: Sequence[Share],
    folders: Mapping[str, Path],
    work: Callable[[Share, PartFiles], None],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Process the shares with these numbers in a Spark worker; yield the violations."""
    for batch in numbers:
        for number in batch["id"].to_pylist():
            with PartFiles(folders, number) as files:
                work(shares[number], files)
            names = ("table", "expectation", "rows")
            rows = [dict(zip(names, (*key, n), strict=True)) for key, n in files.violations.items()]
            yield pa.RecordBatch.from_pylist(rows, pa.schema(columns(_VIOLATION)))
