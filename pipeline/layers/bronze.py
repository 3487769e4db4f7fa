"""Bronze: what the source yields, parted by kind, with where it is from.

Whoever decodes records writes them down as well, by Arrow alone: tasks of Spark, each files of its
own, or this process if they are few. Through Spark's rows, and from those into columns again, a
record would take seven times as long.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..lake.writer import COMPRESSION, Writer
from ..source.source import Split, open_source
from ..tables import TABLES
from .batch import Broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Origin", "write_by_tasks", "write_here"]

KINDS: Final = {"bronze_commit": "commit", "bronze_group": "group", "bronze_other": "other"}
# A row group: some 30 MB in memory, and a read of it is worth its while.
ROWS_AT_ONCE: Final = 250_000
# So that a core whose splits were quick takes another's; each makes a file of every kind.
TASKS_PER_CORE: Final = 2


class Expectation(NamedTuple):
    """As those of expectations.py, on Arrow: `holds` says of each row whether it is so."""

    name: str
    holds: Callable[[pa.RecordBatch], Any]
    drops: bool = False


def _are_there(*names: str) -> Callable[[pa.RecordBatch], Any]:
    def holds(rows: pa.RecordBatch) -> Any:
        there = pc.is_valid(rows[names[0]])
        for name in names[1:]:
            there = pc.and_(there, pc.is_valid(rows[name]))
        return there

    return holds


EXPECTATIONS: Final[dict[str, tuple[Expectation, ...]]] = {
    "bronze_commit": (
        Expectation(
            "a commit has a group, a topic and a partition",
            _are_there("group", "topic", "partition"),
            drops=True,
        ),
        # Without any there is no minute, gap or lag; only a broken producer writes -1 twice.
        Expectation(
            "a commit has a time",
            lambda rows: pc.or_(pc.is_valid(rows["commit_ts"]), pc.is_valid(rows["append_ts"])),
            drops=True,
        ),
        Expectation(
            "a commit has an offset, a tombstone none",
            lambda rows: pc.equal(pc.is_null(rows["offset"]), rows["tombstone"]),
        ),
        Expectation(
            "an offset is no negative number",
            lambda rows: pc.greater_equal(pc.fill_null(rows["offset"], 0), 0),
        ),
    ),
    "bronze_group": (
        Expectation("a record of a group has its name", _are_there("group"), drops=True),
        Expectation(
            "a generation has a number, a tombstone none",
            lambda rows: pc.equal(pc.is_null(rows["generation"]), rows["tombstone"]),
        ),
    ),
}

Violations = Counter[tuple[str, str]]
"""(table, expectation) -> rows."""


class Origin(NamedTuple):
    """`source`: what is read, a folder or servers."""

    cluster: str
    source: str


def write_here(writer: Writer, rows: Iterable[pa.RecordBatch], origin: Origin) -> list[Broken]:
    """`rows`: of schema columns.SOURCE. Raises what reading them does, OSError, WrongRows."""
    with _Files(_folders(writer), origin, 0) as files:
        for batch in rows:
            files.write(batch)
    return _finished(writer, files.violations)


def write_by_tasks(
    writer: Writer,
    session: "SparkSession",
    options: Mapping[str, str],
    splits: Sequence[Split],
    origin: Origin,
) -> list[Broken]:
    """`options`: of the source (source.py); the lake is where every task finds it. Raises what
    Spark does, OSError, WrongRows."""
    shares = _shares(splits, TASKS_PER_CORE * session.sparkContext.defaultParallelism)
    run = partial(_run, dict(options), shares, _folders(writer), origin)
    tasks = session.range(0, len(shares), 1, len(shares))
    violations: Violations = Counter()
    for row in tasks.mapInArrow(run, "table string, expectation string, rows long").collect():
        violations[row["table"], row["expectation"]] += row["rows"]
    return _finished(writer, violations)


def _shares(splits: Sequence[Split], most: int) -> list[list[Split]]:
    """For as many tasks, or fewer: about as many records for each."""
    shares: list[list[Split]] = [[] for _ in range(min(most, len(splits)))]
    sizes = [0] * len(shares)
    for split in sorted(splits, key=lambda split: split.start - split.end):
        least = sizes.index(min(sizes))
        shares[least].append(split)
        sizes[least] += split.end - split.start
    return shares


def _run(
    options: Mapping[str, str],
    shares: Sequence[Sequence[Split]],
    folders: Mapping[str, Path],
    origin: Origin,
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In a worker of Spark: writes the shares of these numbers."""
    source = open_source(options)
    for batch in numbers:
        for number in batch["id"].to_pylist():
            with _Files(folders, origin, number) as files:
                for split in shares[number]:
                    for rows in source.read(split):
                        files.write(rows)
            told = [(*broken, rows) for broken, rows in files.violations.items()]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([row[place] for row in told], kind)
                    for place, kind in enumerate((pa.string(), pa.string(), pa.int64()))
                ],
                names=["table", "expectation", "rows"],
            )


def _folders(writer: Writer) -> dict[str, Path]:
    return {table: writer.fresh_folder(table) for table in KINDS}


def _finished(writer: Writer, violations: Violations) -> list[Broken]:
    for table in KINDS:
        writer.finish(table)
    return [Broken(*broken, rows) for broken, rows in violations.items()]


class _Files:
    """A file of each table, if there is a row for it. They have their names once they are whole: a
    task that Spark runs twice leaves one of each."""

    def __init__(self, folders: Mapping[str, Path], origin: Origin, number: int) -> None:
        self.violations: Violations = Counter()
        self._folders = folders
        self._origin = origin
        self._name = f"part-{number}.parquet"
        self._passing_name = f".{self._name}.{uuid.uuid4().hex}"
        self._open: dict[str, pq.ParquetWriter] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {table: [] for table in KINDS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for table in KINDS:
            if kind is None:
                self._flush(table)
            if table in self._open:
                self._open[table].close()
                folder = self._folders[table]
                if kind is None:
                    (folder / self._passing_name).replace(folder / self._name)

    def write(self, rows: pa.RecordBatch) -> None:
        for table, of in KINDS.items():
            found = self._expected(table, _of_kind(rows, table, of, self._origin))
            waiting = self._waiting[table]
            if len(found):
                waiting.append(found)
            if sum(map(len, waiting)) >= ROWS_AT_ONCE:
                self._flush(table)

    def _expected(self, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        kept = None
        for each in EXPECTATIONS.get(table, ()):
            holds = each.holds(rows)
            broken = len(rows) - (pc.sum(holds).as_py() or 0)
            if broken:
                self.violations[table, each.name] += broken
                if each.drops:
                    kept = holds if kept is None else pc.and_(kept, holds)
        return rows if kept is None else rows.filter(kept)

    def _flush(self, table: str) -> None:
        waiting, self._waiting[table] = self._waiting[table], []
        if not waiting:
            return
        if table not in self._open:
            path = self._folders[table] / self._passing_name
            self._open[table] = pq.ParquetWriter(
                path, TABLES[table].schema, compression=COMPRESSION
            )
        self._open[table].write_table(pa.Table.from_batches(waiting))


def _of_kind(rows: pa.RecordBatch, table: str, kind: str, origin: Origin) -> pa.RecordBatch:
    schema = TABLES[table].schema
    wanted = pc.equal(rows["kind"], kind)
    found = rows.select([name for name in schema.names if name not in Origin._fields])
    found = found.filter(wanted)
    said = {
        name: pa.repeat(pa.scalar(value, pa.string()), len(found))
        for name, value in origin._asdict().items()
    }
    columns = [said[name] if name in said else found[name] for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
