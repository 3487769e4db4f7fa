"""Reading a lake: tables, filters, and errors of damaged or foreign files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from kohort.pipeline.lake.manifest import MANIFEST
from kohort.pipeline.lake.reader import Lake
from kohort.pipeline.lake.schema import (
    BATCH_ID,
    LakeError,
    LakeNotFound,
    LakeTooNew,
    SchemaMismatch,
)
from kohort.pipeline.tables import TABLES
from lake_builder import write_batch

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(partition: int, log_end: int) -> dict[str, object]:
    return {
        "cluster": "test",
        "topic": "orders",
        "partition": partition,
        "log_end": log_end,
        "sampled_at": NOON,
    }


def test_rows_are_read_with_the_id_of_their_batch(tmp_path: Path) -> None:
    assert write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]}, positions={7: 4}) == 0
    assert write_batch(tmp_path, {"bronze_log_end": [sample(1, 20)]}, as_of=NOON) == 1

    lake = Lake(tmp_path)
    rows = lake.read("bronze_log_end")
    assert rows.schema == TABLES["bronze_log_end"].schema.append(BATCH_ID)
    assert [(row["partition"], row["log_end"], row["batch_id"]) for row in rows.to_pylist()] == [
        (0, 10, 0),
        (1, 20, 1),
    ]
    assert (lake.positions, lake.as_of, lake.cluster, lake.batch_id) == ({7: 4}, NOON, "test", 1)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_without_folders_is_empty_and_has_its_schema(name: str, tmp_path: Path) -> None:
    write_batch(tmp_path, {})
    assert Lake(tmp_path).read(name).schema == TABLES[name].schema.append(BATCH_ID)
    assert Lake(tmp_path).read(name).num_rows == 0


def test_reads_can_be_limited_to_columns_and_filtered(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10), sample(1, 20)]})
    write_batch(tmp_path, {"bronze_log_end": [sample(1, 30)]})
    lake = Lake(tmp_path)
    of_partition = lake.read("bronze_log_end", ["log_end"], ds.field("partition") == 1)
    assert of_partition.to_pydict() == {"log_end": [20, 30]}
    of_batch = lake.read("bronze_log_end", ["log_end", "batch_id"], ds.field("batch_id") == 1)
    assert of_batch.to_pydict() == {"log_end": [30], "batch_id": [1]}
    assert lake.read("gold_skew", ["group"]).column_names == ["group"]


def test_a_current_table_has_only_the_rows_of_its_newest_batch(tmp_path: Path) -> None:
    def lifecycle(group: str) -> dict[str, object]:
        return {"cluster": "test", "group": group, "first_seen": NOON}

    write_batch(tmp_path, {"gold_group_lifecycle": [lifecycle("a"), lifecycle("b")]})
    write_batch(tmp_path, {"gold_group_lifecycle": [lifecycle("b")]})
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 1)]})
    assert Lake(tmp_path).read("gold_group_lifecycle")["group"].to_pylist() == ["b"]


def test_an_open_lake_does_not_see_later_batches(tmp_path: Path) -> None:
    row = {"cluster": "test", "group": "a", "first_seen": NOON}
    write_batch(tmp_path, {"gold_group_lifecycle": [row]})
    opened = Lake(tmp_path)
    write_batch(tmp_path, {"gold_group_lifecycle": [{**row, "first_seen": NOON + timedelta(1)}]})
    assert opened.read("gold_group_lifecycle")["first_seen"].to_pylist() == [NOON]


def test_a_folder_that_is_not_in_the_manifest_is_not_read(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]})
    unlisted = tmp_path / "bronze_log_end" / "batch_id=1"
    unlisted.mkdir()
    pq.write_table(pa.table({"log_end": [1]}), unlisted / "part-0.parquet")
    assert Lake(tmp_path).read("bronze_log_end").num_rows == 1


def test_missing_and_damaged_files_are_errors(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]})
    (file,) = (tmp_path / "bronze_log_end").glob("*/*.parquet")
    file.write_bytes(b"x" * 20)
    with pytest.raises(LakeError, match=r"bronze_log_end is damaged .*: remove the lake and run"):
        Lake(tmp_path).read("bronze_log_end")
    file.unlink()
    with pytest.raises(LakeError, match=r"is damaged \(0 rows instead of 1\)"):
        Lake(tmp_path).read("bronze_log_end")


def test_nested_columns_are_read(tmp_path: Path) -> None:
    event = {
        "cluster": "test",
        "ts": NOON,
        "seq": 1,
        "node": 0,
        "type": "leave",
        "group": "orders",
        "detail": [("reason", "closed")],
    }
    write_batch(tmp_path, {"bronze_event": [event]})
    assert Lake(tmp_path).read("bronze_event")["detail"].to_pylist() == [[("reason", "closed")]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"partition": None}, "bronze_log_end.partition is null in 1 rows"),
        ({"color": "red"}, "bronze_log_end has no column color"),
    ],
)
def test_rows_of_another_schema_are_rejected(
    row: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaMismatch, match=message):
        write_batch(tmp_path, {"bronze_log_end": [{**sample(0, 1), **row}]})
    assert not Lake.exists(tmp_path)


def test_a_file_without_a_column_is_an_error(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]})
    (file,) = (tmp_path / "bronze_log_end" / "batch_id=0").glob("*.parquet")
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["log_start"]), file)
    with pytest.raises(SchemaMismatch, match="has no log_start"):
        Lake(tmp_path).read("bronze_log_end")


def test_the_error_for_a_missing_lake_explains_how_to_create_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, message in [
        (tmp_path, "is not a lake: create one with"),
        (tmp_path / "missing", "does not exist"),
        (tmp_path / "file", "is a file"),
    ]:
        assert not Lake.exists(path)
        with pytest.raises(LakeNotFound, match=message):
            Lake(path)


def test_a_lake_of_a_newer_version_is_rejected(tmp_path: Path) -> None:
    write_batch(tmp_path, {})
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(
        LakeTooNew, match="of version 2; this kohort supports 1: use a newer kohort"
    ):
        Lake(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{}", b'{"version": 1, "batch_id": 0}', b"[]", b"\xff"),
        b'{"version": 1, "batch_id": 0, "cluster": "c", "as_of": null, "tables": []}',
    ],
)
def test_a_corrupted_manifest_is_an_error_with_its_path(content: bytes, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(content)
    with pytest.raises(LakeError, match=f"{MANIFEST} is corrupted"):
        Lake(tmp_path)
