"""Batches written to a lake from rows in memory."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from kohort.pipeline.lake.schema import table_of
from kohort.pipeline.lake.writer import Writer

Rows = Sequence[Mapping[str, Any]]


def write_batch(
    path: Path | str,
    tables: Mapping[str, pa.Table | Rows],
    *,
    cluster: str = "test",
    positions: Mapping[int, int] | None = None,
    as_of: datetime | None = None,
) -> int:
    """Write one batch, creating the lake if needed; returns the batch id."""
    with Writer(path) as writer:
        for name, rows in tables.items():
            writer.write(name, rows if isinstance(rows, pa.Table) else from_dicts(name, rows))
        before = writer.manifest
        return writer.commit(
            cluster=cluster,
            positions={**before.positions, **(positions or {})},
            inputs=before.inputs,
            as_of=as_of or before.as_of,
        ).batch_id


def from_dicts(table: str, rows: Rows) -> pa.Table:
    """Columns that a row lacks are null; unknown columns are strings, for the writer to reject."""
    fields = [field.with_nullable(True) for field in table_of(table).schema]
    unknown = {name for row in rows for name in row} - {field.name for field in fields}
    fields += [pa.field(name, pa.string()) for name in sorted(unknown)]
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))
