"""What the footers of Parquet files tell, without reading a row."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq

from .errors import WrongRows
from .schemas import table_of

__all__ = ["checked_rows", "span"]


def checked_rows(table: str, file: Path) -> int:
    """A file's rows, if its columns and nulls are the table's. Raises WrongRows."""
    schema = table_of(table).schema
    with pq.ParquetFile(file) as parquet:
        names, meta = parquet.schema_arrow.names, parquet.metadata
    if sorted(names) != sorted(schema.names):
        raise WrongRows(
            f"{table} was written with the columns {', '.join(names)} instead of "
            f"{', '.join(schema.names)}."
        )
    never = {field.name for field in schema if not field.nullable}
    for column in _columns(meta):
        statistics = column.statistics
        if column.path_in_schema in never and statistics and statistics.null_count:
            raise WrongRows(
                f"{table}.{column.path_in_schema} is null in {statistics.null_count} rows."
            )
    return int(meta.num_rows)


def span(folder: Path, column: str) -> tuple[datetime, datetime] | None:
    """The first and the last time in a column of a batch's folder; null where there is none."""
    bounds: list[datetime] = []
    for file in folder.glob("*.parquet"):
        with pq.ParquetFile(file) as parquet:
            meta = parquet.metadata
        for chunk in _columns(meta):
            if chunk.path_in_schema == column and chunk.statistics and chunk.statistics.has_min_max:
                bounds += [chunk.statistics.min, chunk.statistics.max]
    return (min(bounds), max(bounds)) if bounds else None


def _columns(meta: pq.FileMetaData) -> Iterator[pq.ColumnChunkMetaData]:
    for group in range(meta.num_row_groups):
        for index in range(meta.num_columns):
            yield meta.row_group(group).column(index)
