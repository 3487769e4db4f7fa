"""The rows that a layer reads: those of its batch, and those of the lake before it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kohort.pipeline.lake.schema import SchemaMismatch
from kohort.pipeline.lake.spark_frames import spark_schema
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.layers import parquet_tasks
from kohort.pipeline.layers.batch import Batch
from kohort.pipeline.tables import TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
CURRENT = "gold_group_lifecycle"
APPEND = "bronze_log_end"


def batch_of(spark: Any, writer: Writer) -> Batch:
    return Batch(spark, writer, "c")


def sample(topic: str, minute: int) -> dict[str, object]:
    time = NOON.replace(minute=minute)
    return {"cluster": "c", "topic": topic, "partition": 0, "log_end": 1, "sampled_at": time}


def group(name: str) -> dict[str, object]:
    return {"cluster": "c", "group": name, "first_seen": NOON}


def frame(spark: Any, table: str, *rows: dict[str, object]) -> Any:
    schema = spark_schema(TABLES[table].schema)
    return spark.createDataFrame([tuple(row.get(n) for n in schema.names) for row in rows], schema)


def values(rows: Any, column: str) -> list[str]:
    return sorted(row[column] for row in rows.collect())


@pytest.mark.spark
def test_rows_of_the_batch_are_new_and_rows_of_earlier_batches_old(
    spark: Any, tmp_path: Path
) -> None:
    # Spark must not take the path of a lake as a pattern.
    with Writer(tmp_path / "a lake [1]") as writer:
        first = batch_of(spark, writer)
        first.write({APPEND: frame(spark, APPEND, sample("a", 1))})
        first.write({CURRENT: frame(spark, CURRENT, group("x"), group("y"))})
        assert values(first.new(APPEND), "topic") == ["a"]
        assert values(first.old(APPEND), "topic") == []
        assert (first.now, first.rows(APPEND)) == (NOON.replace(minute=1), 1)
        writer.commit(cluster="c", positions={}, inputs={}, as_of=first.now)

        second = batch_of(spark, writer)
        assert values(second.new(APPEND), "topic") == []
        second.write({APPEND: frame(spark, APPEND, sample("b", 2))})
        assert values(second.new(APPEND), "topic") == ["b"]
        assert values(second.old(APPEND), "topic") == ["a"]
        assert values(second.all(APPEND), "topic") == ["a", "b"]
        # A current table that the batch has not written has its previous rows.
        assert values(second.new(CURRENT), "group") == ["x", "y"]

        other = second.old(APPEND).drop("batch_id")
        with pytest.raises(SchemaMismatch, match=r"log_end is missing, more is unknown"):
            second.write({APPEND: other.withColumnRenamed("log_end", "more")})
        with pytest.raises(SchemaMismatch, match=r"bronze_log_end.cluster is null in 1 rows"):
            second.write({APPEND: other.replace("c", None, "cluster")})


def test_a_failed_task_leaves_no_file_open_or_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[pq.ParquetWriter] = []
    new_writer = pq.ParquetWriter

    def open_writer(*args: Any, **options: Any) -> pq.ParquetWriter:
        opened.append(new_writer(*args, **options))
        return opened[-1]

    monkeypatch.setattr(pq, "ParquetWriter", open_writer)
    monkeypatch.setattr(parquet_tasks, "ROW_GROUP_ROWS", 1)
    rows = pa.Table.from_pylist([sample("a", 1)], TABLES[APPEND].schema)

    def work(_share: None, files: parquet_tasks.PartFiles) -> None:
        files.write(APPEND, rows)
        raise OSError

    with Writer(tmp_path) as writer, pytest.raises(OSError):
        parquet_tasks.write_in_process(writer, [APPEND], None, work)
    assert [file.is_open for file in opened] == [False]
    assert not list((tmp_path / APPEND).rglob("*parquet*"))
