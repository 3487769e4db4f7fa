"""What rows of a table have to be, by name; the two ends of the lake are checked against it."""

from typing import Final

import pyarrow as pa

from ..columns import Table
from ..state_tables import STATE
from ..tables import TABLES
from .errors import WrongRows

__all__ = ["BATCH_ID", "fitted", "table_of"]

BATCH_ID: Final = pa.field("batch_id", pa.int64(), nullable=False)
"""The column that a row's folder says."""


def table_of(name: str) -> Table:
    """Raises WrongRows for a name that is none."""
    table = TABLES.get(name) or STATE.get(name)
    if table is None:
        raise WrongRows(f"there is no table {name!r}: see pipeline/tables.py.")
    return table


def fitted(name: str, rows: pa.Table) -> pa.Table:
    """The rows in the table's order of columns, absent ones null. Raises WrongRows."""
    schema = table_of(name).schema
    unknown = sorted(set(rows.column_names) - set(schema.names))
    if unknown:
        raise WrongRows(f"{name} has no column {', '.join(unknown)}.")
    arrays = []
    for field in schema:
        if field.name in rows.column_names:
            array = rows.column(field.name)
        else:
            array = pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
        if array.null_count and not field.nullable:
            raise WrongRows(f"{name}.{field.name} is null in {array.null_count} rows.")
        try:
            arrays.append(array.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise WrongRows(f"{name}.{field.name} is no {field.type}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema)
