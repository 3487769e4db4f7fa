"""Tables of the lake as Spark DataFrames: reading and writing."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .schema import BATCH_ID, SchemaMismatch, table_of
from .writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def read_folders(spark: "SparkSession", table: str, base: Path, folders: list[Path]) -> "DataFrame":
    """Return the rows in `folders` (`batch_id=` folders of a table, under `base`), with a column
    `batch_id`."""
    arrow_schema = table_of(table).schema.append(BATCH_ID)
    schema = spark_schema(arrow_schema)
    if not folders:
        # The optimizer removes joins and sorts with an empty frame that was created from Arrow; an
        # RDD of Python rows would be opaque to it.
        return spark.createDataFrame(arrow_schema.empty_table(), schema)
    reader = spark.read.schema(schema).option("basePath", _url(base, literal=True))
    return reader.parquet(*map(_url, folders))


def write_frame(writer: Writer, table: str, rows: "DataFrame") -> int:
    """Write rows into the current batch; return their number. Raises SchemaMismatch."""
    expected = spark_schema(table_of(table).schema)
    actual = {field.name: field.dataType.simpleString() for field in rows.schema}
    wrong = []
    for field in expected:
        # Nullability is not compared, because Spark infers that most expressions are nullable.
        type_ = actual.pop(field.name, None)
        if type_ != field.dataType.simpleString():
            wrong.append(f"{field.name} {'is missing' if type_ is None else f'is {type_}'}")
    wrong += [f"{name} is unknown" for name in actual]
    if wrong:
        raise SchemaMismatch(
            f"rows of {table}: {', '.join(wrong)}; expected {expected.simpleString()}."
        )
    folder = writer.folder(table)
    rows.select(*expected.names).write.mode("overwrite").parquet(_url(folder, literal=True))
    return writer.finish(table)


def _url(path: Path, *, literal: bool = False) -> str:
    """Return a local URL, independent of Spark's default file system. Paths to read are glob
    patterns unless escaped; `basePath` and paths to write are literal."""
    text = str(path.absolute())
    return "file://" + (text if literal else re.sub(r"([\\*?\[\]{}])", r"\\\1", text))
