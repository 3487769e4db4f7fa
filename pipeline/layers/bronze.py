"""Bronze: what the source yields, parted by kind, with where it is from.

Whoever decodes records writes them down as well (sharing.py).
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.writer import Writer
from ..source.source import Split, open_source
from ..tables import TABLES
from . import sharing
from .batch import Broken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Origin", "write_by_tasks", "write_here"]

KINDS: Final = {"bronze_commit": "commit", "bronze_group": "group", "bronze_other": "other"}


class Origin(NamedTuple):
    """`source`: what is read, a folder or servers."""

    cluster: str
    source: str


def write_here(writer: Writer, rows: Iterable[pa.RecordBatch], origin: Origin) -> list[Broken]:
    """`rows`: of schema columns.SOURCE. Raises what reading them does, OSError, WrongRows."""
    return sharing.write_here(writer, KINDS, rows, partial(_write, origin))


def write_by_tasks(
    writer: Writer,
    session: "SparkSession",
    options: Mapping[str, str],
    splits: Sequence[Split],
    origin: Origin,
) -> list[Broken]:
    """`options`: of the source (source.py). Raises what Spark does, OSError, WrongRows."""
    shares = sharing.tasks_of(session, [(split.end - split.start, split) for split in splits])
    work = partial(_read, dict(options), origin)
    return sharing.write_by_tasks(writer, session, KINDS, shares, work)


def _read(
    options: Mapping[str, str], origin: Origin, splits: Sequence[Split], files: sharing.Files
) -> None:
    source = open_source(options)
    for split in splits:
        _write(origin, source.read(split), files)


def _write(origin: Origin, rows: Iterable[pa.RecordBatch], files: sharing.Files) -> None:
    for batch in rows:
        for table, kind in KINDS.items():
            files.write(table, _of_kind(batch, table, kind, origin))


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
