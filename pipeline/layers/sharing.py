"""Tables whose rows are made and written down in one go, by Arrow alone: by tasks of Spark, each a
share of the work and files of its own, or by this process if the rows are few.

Through Spark's rows, and from those into columns again, a record would take seven times as long.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ..lake.schemas import fitted, table_of
from ..lake.writer import COMPRESSION, Writer
from .batch import Broken
from .expectations import Violations, expected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files", "shares_of", "tasks_of", "write_by_tasks", "write_here"]

# A row group: some 30 MB in memory, and a read of it is worth its while.
ROWS_AT_ONCE: Final = 250_000
# So that a core whose shares were quick takes another's; each makes a file of every table.
TASKS_PER_CORE: Final = 2

Share = TypeVar("Share")


class Files:
    """A file of each table, if there is a row for it, or if it is the first share's: a folder with
    no file is none. They have their names once they are whole: a task that Spark runs twice leaves
    one of each."""

    def __init__(self, folders: Mapping[str, Path], number: int) -> None:
        self.violations: Violations = Violations()
        self._folders = folders
        self._number = number
        self._name = f"part-{number}.parquet"
        self._passing_name = f".{self._name}.{uuid.uuid4().hex}"
        self._open: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {table: [] for table in folders}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for table, folder in self._folders.items():
            if kind is None:
                self._flush(table)
            if table in self._open:
                passing = folder / self._passing_name
                if kind is None:
                    self._open[table].close()
                    passing.replace(folder / self._name)
                else:
                    passing.unlink(missing_ok=True)

    def write(self, table: str, rows: pa.RecordBatch | pa.Table) -> None:
        found = expected(table, rows, self.violations)
        waiting = self._waiting[table]
        if len(found):
            waiting += fitted(table, found).to_batches() if isinstance(found, pa.Table) else [found]
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            self._flush(table)

    def _flush(self, table: str) -> None:
        waiting, self._waiting[table] = self._waiting[table], []
        if not waiting and (self._number or table in self._open):
            return
        schema = table_of(table).schema
        if table not in self._open:
            path = self._folders[table] / self._passing_name
            self._open[table] = pq.ParquetWriter(path, schema, compression=COMPRESSION)
        rows = pa.Table.from_batches(waiting, schema)
        self._open[table].write_table(rows, row_group_size=ROWS_AT_ONCE)


def write_here(
    writer: Writer, tables: Iterable[str], share: Share, work: Callable[[Share, Files], None]
) -> list[Broken]:
    """All in one share. Raises what `work` does, OSError, WrongRows."""
    folders = {table: writer.fresh_folder(table).absolute() for table in tables}
    with Files(folders, 0) as files:
        work(share, files)
    return _finished(writer, folders, files.violations)


def write_by_tasks(
    writer: Writer,
    session: "SparkSession",
    tables: Iterable[str],
    shares: Sequence[Share],
    work: Callable[[Share, Files], None],
) -> list[Broken]:
    """`work` goes to Spark's workers; the lake is where every one of them finds it. Raises what
    Spark does, OSError, WrongRows."""
    folders = {table: writer.fresh_folder(table).absolute() for table in tables}
    tasks = session.range(0, len(shares), 1, len(shares))
    violations = Violations()
    run = partial(_run, shares, folders, work)
    for row in tasks.mapInArrow(run, "table string, expectation string, rows long").collect():
        violations[row["table"], row["expectation"]] += row["rows"]
    return _finished(writer, folders, violations)


def tasks_of(session: "SparkSession", pieces: Sequence[tuple[int, Share]]) -> list[list[Share]]:
    """Pieces of work, each behind its size, in as many shares as make tasks."""
    return shares_of(pieces, TASKS_PER_CORE * session.sparkContext.defaultParallelism)


def shares_of(pieces: Sequence[tuple[int, Share]], most: int) -> list[list[Share]]:
    """In at most so many shares, of about one size."""
    shares: list[list[Share]] = [[] for _ in range(min(most, len(pieces)))]
    totals = [0] * len(shares)
    for size, piece in sorted(pieces, key=lambda piece: -piece[0]):
        least = totals.index(min(totals))
        shares[least].append(piece)
        totals[least] += size
    return shares


def _run(
    shares: Sequence[Share],
    folders: Mapping[str, Path],
    work: Callable[[Share, Files], None],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In a worker of Spark: does the shares of these numbers."""
    for batch in numbers:
        for number in batch["id"].to_pylist():
            with Files(folders, number) as files:
                work(shares[number], files)
            told = [(*broken, rows) for broken, rows in files.violations.items()]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([row[place] for row in told], kind)
                    for place, kind in enumerate((pa.string(), pa.string(), pa.int64()))
                ],
                names=["table", "expectation", "rows"],
            )


def _finished(writer: Writer, tables: Iterable[str], violations: Violations) -> list[Broken]:
    for table in tables:
        writer.finish(table)
    return [Broken(*broken, rows) for broken, rows in violations.items()]
