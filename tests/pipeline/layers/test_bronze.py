"""Bronze: records split by kind, written completely or not at all."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.inputs import Inputs
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.lake.writer import Writer
from kohort.pipeline.layers import bronze, parquet_tasks
from kohort.pipeline.layers.batch import Batch
from kohort.pipeline.layers.expectations import Violations

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000
ORIGIN = bronze.Origin("east", "here")
Row = dict[str, Any]

POSITION: Row = {
    "offsets_partition": 0,
    "leader_epoch_batch": 0,
    "producer_id": -1,
    "txn": False,
    "missing_before": 0,
    "append_ts": NOON,
    "tombstone": False,
    "control": False,
}
COMMIT: Row = {
    **POSITION,
    "kind": "commit",
    "group": "g",
    "topic": "t",
    "partition": 0,
    "offset": 1,
    "commit_ts": NOON,
}
GROUP: Row = {**POSITION, "kind": "group", "group": "g", "generation": 1, "members": []}
OTHER: Row = {**POSITION, "kind": "other", "key": b"k", "key_version": 9}


def batches(*rows: Row) -> list[pa.RecordBatch]:
    numbered = [{"log_offset": offset, **row} for offset, row in enumerate(rows)]
    return pa.Table.from_pylist(numbered, schema=SOURCE).to_batches()


def written(lake: Path, rows: Iterator[pa.RecordBatch] | list[pa.RecordBatch]) -> Violations:
    with Writer(lake) as writer:
        violations = bronze.write_records(writer, rows, ORIGIN)
        writer.commit(cluster="east", positions={}, inputs={}, as_of=NOON)
    return violations


def test_records_are_split_by_kind(tmp_path: Path) -> None:
    assert not written(tmp_path / "lake", batches(COMMIT, GROUP, COMMIT, OTHER))
    lake = Lake(tmp_path / "lake")
    found = {table: lake.read(table).to_pylist() for table in bronze.KINDS}
    assert {table: [row["log_offset"] for row in rows] for table, rows in found.items()} == {
        "bronze_commit": [0, 2],
        "bronze_group": [1],
        "bronze_other": [3],
    }
    assert {(row["cluster"], row["source"]) for rows in found.values() for row in rows} == {ORIGIN}
    assert found["bronze_commit"][0]["commit_ts"] == NOON
    assert found["bronze_group"][0]["members"] == []
    assert found["bronze_other"][0]["key"] == b"k"


def test_a_kind_without_records_has_no_rows(tmp_path: Path) -> None:
    written(tmp_path / "lake", batches(COMMIT))
    assert Lake(tmp_path / "lake").rows("bronze_group") == 0


def test_violations_are_counted_and_some_rows_dropped(tmp_path: Path) -> None:
    rows = [
        COMMIT,
        {**COMMIT, "offset": -1},
        {**COMMIT, "topic": None},
        {**COMMIT, "commit_ts": None, "append_ts": None},
        {**COMMIT, "offset": None},
        {**COMMIT, "offset": None, "tombstone": True},
        {**GROUP, "group": None},
        {**GROUP, "generation": None},
    ]
    assert written(tmp_path / "lake", batches(*rows)) == {
        ("bronze_commit", "a commit has a group, a topic and a partition"): 1,
        ("bronze_commit", "a commit has a time"): 1,
        ("bronze_commit", "a commit has an offset, a tombstone has none"): 1,
        ("bronze_commit", "an offset is not negative"): 1,
        ("bronze_group", "a group record contains its group"): 1,
        ("bronze_group", "a generation has a number, a tombstone has none"): 1,
    }
    lake = Lake(tmp_path / "lake")
    assert sorted(lake.read("bronze_commit")["log_offset"].to_pylist()) == [0, 1, 4, 5]
    assert lake.read("bronze_group")["log_offset"].to_pylist() == [7]


def test_a_write_that_fails_at_its_end_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk(pq.ParquetWriter):
        def close(self) -> None:
            super().close()
            raise OSError("no space left")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter", FullDisk)
    with Writer(tmp_path / "lake") as writer, pytest.raises(OSError, match="no space"):
        bronze.write_records(writer, batches(COMMIT), ORIGIN)
    assert [each for each in (tmp_path / "lake").rglob(".part-*") if each.is_file()] == []


def test_splits_are_balanced_among_tasks() -> None:
    sizes = [50, 10, 20, 30, 1]
    shares = parquet_tasks.balance([(size, size) for size in sizes], 2)
    assert sorted(map(sum, shares)) == [51, 60]
    assert len(parquet_tasks.balance([(size, size) for size in sizes], 99)) == len(sizes)


@pytest.mark.spark
def test_spark_tasks_write_the_rows_of_this_process_and_report_progress(
    spark: Any, offsets_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_tasks, "POLL_SECONDS", 0.01)
    shares: list[float] = []
    for partition in range(5):
        for step in range(3):
            commits = [
                OffsetCommitRecord("g", "t", at, encode_commit_value(step, -1, "", NOON_MS))
                for at in range(4)
            ]
            offsets_log.append(partition, *commits, at_ms=NOON_MS + step)
    inputs = Inputs({"path": str(offsets_log.path)}, cluster="east")
    splits = inputs.source.splits({}, inputs.source.ends())
    rows = [batch for split in splits for batch in inputs.source.read(split)]
    written(tmp_path / "here", rows)
    with Writer(tmp_path / "tasks") as writer:
        batch = Batch(spark, writer, "east", report_share=shares.append)
        assert not bronze.write_splits(batch, inputs.options, splits, ORIGIN)
        writer.commit(cluster="east", positions={}, inputs={}, as_of=NOON)
    lakes = [Lake(tmp_path / name) for name in ("here", "tasks")]
    for table in bronze.KINDS:
        here, tasks = (
            lake.read(table).sort_by(
                [("offsets_partition", "ascending"), ("log_offset", "ascending")]
            )
            for lake in lakes
        )
        assert here.equals(tasks)
    assert lakes[1].rows("bronze_commit") == 60
    assert shares
    assert shares == sorted(shares)
    assert shares[-1] <= 1
