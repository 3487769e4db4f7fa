"""The offsets log in a data folder, as Arrow batches."""

from pathlib import Path

import pyarrow as pa
import pytest
from kohort.offsets.records import GroupMetadata, GroupMetadataRecord, OffsetTombstone
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source.factory import open_source
from kohort.pipeline.source.source import SourceError
from offset_logs import NOW_MS, batch_of, commit, write


@pytest.fixture
def data(tmp_path: Path) -> Path:
    group = GroupMetadata("consumer", 4, "range", "m-1", NOW_MS, ())
    first = batch_of(0, commit(1), commit(2), OffsetTombstone("orders", "clicks", 3))
    second = batch_of(3, GroupMetadataRecord("orders", group), commit(5, "other"))
    log = write(tmp_path / "__consumer_offsets-12", first, second)
    log.close()
    return tmp_path


def test_records_of_a_data_folder_are_rows_in_log_order(data: Path) -> None:
    source = open_source({"path": str(data)})
    assert source.starts() == {12: 0}
    assert source.ends() == {12: 5}
    (split,) = source.splits({}, source.ends())
    rows = pa.Table.from_batches(source.read(split))
    assert rows.schema == SOURCE
    assert rows["log_offset"].to_pylist() == [0, 1, 2, 3, 4]
    assert rows["kind"].to_pylist() == ["commit", "commit", "commit", "group", "commit"]
    assert rows["offset"].to_pylist() == [1, 2, None, None, 5]
    assert rows["tombstone"].to_pylist() == [False, False, True, False, False]
    assert rows["group"].to_pylist() == ["orders"] * 4 + ["other"]
    assert rows["missing_before"].to_pylist() == [0] * 5
    assert rows["generation"].to_pylist()[3] == 4


def test_a_split_has_the_records_from_its_start_to_its_end(data: Path) -> None:
    source = open_source({"path": str(data)})
    (split,) = source.splits({12: 1}, {12: 4})
    rows = pa.Table.from_batches(source.read(split))
    assert rows["log_offset"].to_pylist() == [1, 2, 3]
    assert rows["missing_before"].to_pylist() == [0, 0, 0]


def test_a_batch_that_is_being_written_is_not_read(data: Path) -> None:
    segment = data / "__consumer_offsets-12" / f"{0:020d}.log"
    whole = segment.read_bytes()
    for cut in (len(whole) - 1, len(whole) - 70):
        segment.write_bytes(whole[:cut])
        assert open_source({"path": str(data)}).ends() == {12: 3}
    segment.write_bytes(whole + bytes(300))
    assert open_source({"path": str(data)}).ends() == {12: 5}


def test_offsets_of_a_partition_without_a_folder_are_an_error(data: Path) -> None:
    with pytest.raises(SourceError, match="has no folder __consumer_offsets-13"):
        open_source({"path": str(data)}).splits({13: 0}, {13: 5})


def test_a_folder_without_an_offsets_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="__consumer_offsets-N"):
        open_source({"path": str(tmp_path)}).ends()
    with pytest.raises(SourceError, match="option path"):
        open_source({})
