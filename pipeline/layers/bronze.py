"""Bronze: the records of a source, split into tables by kind, with their origin. The tasks that
decode records also write them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..lake.writer import Writer
from ..source.factory import open_source
from ..source.source import Split
from ..tables import TABLES
from .batch import Batch
from .expectations import Violations
from .parquet_tasks import PartFiles, split_for_tasks, write_in_process, write_in_tasks

KINDS: Final = {"bronze_commit": "commit", "bronze_group": "group", "bronze_other": "other"}


class Origin(NamedTuple):
    """`source`: the folder or the bootstrap servers."""

    cluster: str
    source: str


def write_records(writer: Writer, rows: Iterable[pa.RecordBatch], origin: Origin) -> Violations:
    """Write rows of schema SOURCE. Raises OSError, SchemaMismatch, and the errors of reading
    them."""
    return write_in_process(writer, KINDS, rows, partial(_write, origin))


def write_splits(
    batch: Batch, options: Mapping[str, str], splits: Sequence[Split], origin: Origin
) -> Violations:
    """Read splits in Spark tasks. `options` are those of the source (factory.py). Raises OSError,
    SchemaMismatch, and Spark's exceptions."""
    shares = split_for_tasks(batch.spark, [(split.end - split.start, split) for split in splits])
    work = partial(_read, dict(options), origin)
    return write_in_tasks(batch, KINDS, shares, work)


def _read(
    options: Mapping[str, str], origin: Origin, splits: Sequence[Split], files: PartFiles
) -> None:
    source = open_source(options)
    for split in splits:
        _write(origin, source.read(split), files)


def _write(origin: Origin, rows: Iterable[pa.RecordBatch], files: PartFiles) -> None:
    for batch in rows:
        for table, kind in KINDS.items():
            files.write(table, _of_kind(batch, table, kind, origin))


def _of_kind(rows: pa.RecordBatch, table: str, kind: str, origin: Origin) -> pa.Table:
    schema = TABLES[table].schema
    found = rows.select([name for name in schema.names if name not in Origin._fields])
    found = found.filter(pc.equal(rows["kind"], kind))
    constants = {
        name: pa.repeat(pa.scalar(value, pa.string()), len(found))
        for name, value in origin._asdict().items()
    }
    columns = [constants[n] if n in constants else found[n] for n in schema.names]
    return pa.Table.from_arrays(columns, schema=schema)
