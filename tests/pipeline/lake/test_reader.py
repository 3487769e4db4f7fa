"""A lake that was written is what is read; folders that the manifest does not list are not."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from kohort.pipeline.lake import Lake, LakeError, LakeTooNew, NoLake, WrongRows, write_batch
from kohort.pipeline.lake.manifest import MANIFEST
from kohort.pipeline.lake.schemas import BATCH_ID
from kohort.pipeline.tables import TABLES

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def sample(partition: int, log_end: int) -> dict[str, object]:
    return {
        "cluster": "test",
        "topic": "orders",
        "partition": partition,
        "log_end": log_end,
        "sampled_at": NOON,
    }


def test_rows_come_back_with_the_batch_that_brought_them(tmp_path: Path) -> None:
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
def test_a_table_that_was_never_written_is_empty_and_of_its_schema(
    name: str, tmp_path: Path
) -> None:
    write_batch(tmp_path, {})
    assert Lake(tmp_path).read(name).schema == TABLES[name].schema.append(BATCH_ID)
    assert Lake(tmp_path).read(name).num_rows == 0


def test_columns_and_filters_narrow_what_is_read(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10), sample(1, 20)]})
    write_batch(tmp_path, {"bronze_log_end": [sample(1, 30)]})
    lake = Lake(tmp_path)
    only = lake.read("bronze_log_end", ["log_end"], ds.field("partition") == 1)
    assert only.to_pydict() == {"log_end": [20, 30]}
    of_batch = lake.read("bronze_log_end", ["log_end", "batch_id"], ds.field("batch_id") == 1)
    assert of_batch.to_pydict() == {"log_end": [30], "batch_id": [1]}
    assert lake.read("gold_skew", ["group"]).column_names == ["group"]


def test_of_a_current_table_the_newest_batch_alone_is_read(tmp_path: Path) -> None:
    def lifecycle(group: str) -> dict[str, object]:
        return {"cluster": "test", "group": group, "first_seen": NOON}

    write_batch(tmp_path, {"gold_group_lifecycle": [lifecycle("a"), lifecycle("b")]})
    write_batch(tmp_path, {"gold_group_lifecycle": [lifecycle("b")]})
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 1)]})
    assert Lake(tmp_path).read("gold_group_lifecycle")["group"].to_pylist() == ["b"]


def test_a_lake_is_what_it_was_when_it_was_opened(tmp_path: Path) -> None:
    row = {"cluster": "test", "group": "a", "first_seen": NOON}
    write_batch(tmp_path, {"gold_group_lifecycle": [row]})
    opened = Lake(tmp_path)
    write_batch(tmp_path, {"gold_group_lifecycle": [{**row, "first_seen": NOON + timedelta(1)}]})
    assert opened.read("gold_group_lifecycle")["first_seen"].to_pylist() == [NOON]


def test_a_folder_that_no_manifest_lists_is_not_read(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]})
    stray = tmp_path / "bronze_log_end" / "batch_id=1"
    stray.mkdir()
    pq.write_table(pa.table({"log_end": [1]}), stray / "part-0.parquet")
    assert Lake(tmp_path).read("bronze_log_end").num_rows == 1


def test_files_that_are_gone_or_damaged_are_no_empty_answer(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]})
    (file,) = (tmp_path / "bronze_log_end").glob("*/*.parquet")
    file.write_bytes(b"x" * 20)
    with pytest.raises(LakeError, match=r"bronze_log_end is damaged .*: make the lake anew"):
        Lake(tmp_path).read("bronze_log_end")
    file.unlink()
    with pytest.raises(LakeError, match=r"is damaged \(0 rows instead of 1\)"):
        Lake(tmp_path).read("bronze_log_end")


def test_nested_columns_come_back_whole(tmp_path: Path) -> None:
    event = {
        "cluster": "test",
        "ts": NOON,
        "seq": 1,
        "node": 0,
        "type": "leave",
        "group": "orders",
        "detail": [("why", "closed")],
    }
    write_batch(tmp_path, {"bronze_event": [event]})
    assert Lake(tmp_path).read("bronze_event")["detail"].to_pylist() == [[("why", "closed")]]


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({"partition": None}, "bronze_log_end.partition is null in 1 rows"),
        ({"colour": "red"}, "bronze_log_end has no column colour"),
    ],
)
def test_rows_of_another_schema_are_refused(
    row: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(WrongRows, match=complaint):
        write_batch(tmp_path, {"bronze_log_end": [{**sample(0, 1), **row}]})
    assert not Lake.exists(tmp_path)


def test_files_that_lack_a_column_are_refused(tmp_path: Path) -> None:
    write_batch(tmp_path, {"bronze_log_end": [sample(0, 10)]})
    (file,) = (tmp_path / "bronze_log_end" / "batch_id=0").glob("*.parquet")
    pq.write_table(pq.ParquetFile(file).read().drop_columns(["log_start"]), file)
    with pytest.raises(WrongRows, match="lacks log_start"):
        Lake(tmp_path).read("bronze_log_end")


def test_what_is_no_lake_says_how_to_make_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, complaint in [
        (tmp_path, "holds no lake: make one with"),
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path / "file", "is a file"),
    ]:
        assert not Lake.exists(path)
        with pytest.raises(NoLake, match=complaint):
            Lake(path)


def test_a_lake_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    write_batch(tmp_path, {})
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    (tmp_path / MANIFEST).write_text(json.dumps({**manifest, "version": 2}))
    with pytest.raises(LakeTooNew, match="version 2 and this kohort knows 1: use a newer kohort"):
        Lake(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", '{"version": 1, "batch_id": 0}', "[]"])
def test_a_manifest_that_cannot_be_read_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(LakeError, match="cannot be read"):
        Lake(tmp_path)
