"""Tables of the lake as Spark's DataFrames, both ways."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from .errors import WrongRows
from .reader import Lake
from .schemas import BATCH_ID, table_of
from .writer import Writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

__all__ = ["empty_frame", "frame_of", "frame_of_folders", "spark_schema", "write_frame"]


def spark_schema(schema: pa.Schema) -> "StructType":
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def frame_of(spark: "SparkSession", lake: Lake, table: str) -> "DataFrame":
    """The rows of a table that count, with `batch_id`."""
    return frame_of_folders(spark, table, lake.path / table, lake.folders(table))


def frame_of_folders(
    spark: "SparkSession", table: str, base: Path, folders: list[Path]
) -> "DataFrame":
    """`folders`: some `batch_id=` folders under `base`."""
    schema = table_of(table).schema.append(BATCH_ID)
    if not folders:
        return empty_frame(spark, schema)
    reader = spark.read.schema(spark_schema(schema)).option("basePath", _url(base, literal=True))
    return reader.parquet(*(_url(folder) for folder in folders))


def empty_frame(spark: "SparkSession", schema: pa.Schema) -> "DataFrame":
    """By Arrow, so that Spark knows that it is empty: what is joined or sorted with it then falls
    out of a plan, where rows of Python's might come from anywhere."""
    return spark.createDataFrame(schema.empty_table(), spark_schema(schema))


def write_frame(writer: Writer, table: str, rows: "DataFrame") -> int:
    """Into the batch that `writer` writes; how many. Raises WrongRows."""
    want = spark_schema(table_of(table).schema)
    have = {field.name: field.dataType for field in rows.schema}
    wrong = [
        f"{field.name} {'is lacking' if got is None else f'is {got.simpleString()}'}"
        for field in want
        if (got := have.pop(field.name, None)) is None or not _same(got, field.dataType)
    ]
    wrong += [f"{name} is not of it" for name in have]
    if wrong:
        raise WrongRows(f"rows for {table}: {', '.join(wrong)}; it is {want.simpleString()}.")
    folder = writer.folder(table)
    rows.select(*want.names).write.mode("overwrite").parquet(_url(folder, literal=True))
    return writer.finish(table)


def _same(one: "DataType", other: "DataType") -> bool:
    """But for which parts may be null: Spark holds that of most expressions."""
    return one.simpleString() == other.simpleString()


def _url(path: Path, *, literal: bool = False) -> str:
    """A path of this machine, whatever file system Spark takes by default. What is read is a
    pattern to Spark, unless it is escaped; what is written is not."""
    text = str(path.absolute())
    return "file://" + (text if literal else re.sub(r"([\\*?\[\]{}])", r"\\\1", text))
