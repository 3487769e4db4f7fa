"""Validation of rows and Parquet files against the schemas of their tables, and the errors of a
lake."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..tables import STATE_TABLES, TABLES, Table

BATCH_ID: Final = pa.field("batch_id", pa.int64(), nullable=False)
"""The column whose value is in the name of a row's folder."""


class LakeError(Exception):
    """A lake is invalid, or is used incorrectly. Disk failures are OSErrors."""


class LakeNotFound(LakeError):
    """The folder does not exist or contains no lake."""


class LakeTooNew(LakeError):
    """The lake was written by a newer version of kohort."""


class SchemaMismatch(LakeError):
    """Rows that do not match their table: an unknown, missing, null or mistyped column."""


def table_of(name: str) -> Table:
    """Return a table by name. Raises SchemaMismatch for an unknown name."""
    table = TABLES.get(name) or STATE_TABLES.get(name)
    if table is None:
        raise SchemaMismatch(f"unknown table {name!r}: see pipeline/tables.py.")
    return table


def conform(name: str, rows: pa.Table | pa.RecordBatch) -> pa.Table:
    """Return rows with the table's columns, in its order and types; missing columns become null.
    Raises SchemaMismatch."""
    schema = table_of(name).schema
    unknown = sorted(set(rows.schema.names) - set(schema.names))
    if unknown:
        raise SchemaMismatch(f"{name} has no column {', '.join(unknown)}.")
    arrays = []
    for field in schema:
        known = field.name in rows.schema.names
        array = rows.column(field.name) if known else pa.nulls(rows.num_rows, field.type)
        if array.null_count and not field.nullable:
            raise SchemaMismatch(f"{name}.{field.name} is null in {array.null_count} rows.")
        try:
            arrays.append(array.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatch(f"{name}.{field.name} is not {field.type}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema)


def verified_rows(name: str, file: Path) -> int:
    """Return the number of rows in a file. Raises SchemaMismatch for a null in a non-nullable
    column, which Spark does not reject."""
    with pq.ParquetFile(file) as parquet:
        footer = parquet.metadata
    not_null = {field.name for field in table_of(name).schema if not field.nullable}
    for chunk in _column_chunks(footer):
        statistics, path = chunk.statistics, chunk.path_in_schema
        if path in not_null and statistics and statistics.null_count:
            raise SchemaMismatch(f"{name}.{path} is null in {statistics.null_count} rows.")
    return int(footer.num_rows)


def time_range(folder: Path, column: str) -> tuple[datetime, datetime] | None:
    """Return the first and last time in a column of a batch's folder, from file footers; None if
    there are no times."""
    bounds: list[datetime] = []
    for file in folder.glob("*.parquet"):
        with pq.ParquetFile(file) as parquet:
            footer = parquet.metadata
        for chunk in _column_chunks(footer):
            if chunk.path_in_schema == column and chunk.statistics and chunk.statistics.has_min_max:
                bounds += [chunk.statistics.min, chunk.statistics.max]
    return (min(bounds), max(bounds)) if bounds else None


def _column_chunks(footer: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            yield footer.row_group(group).column(index)
