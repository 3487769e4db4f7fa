"""Which snapshots match a log, and which are removed."""

from pathlib import Path

import pytest
from kohort.log.cache_files import OFFSETS_SNAPSHOT
from kohort.log.memory_files import MemoryFiles
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord
from kohort.offsets.snapshot import SnapshotWriter, open_snapshot
from kohort.offsets.table import OffsetsTable

FOLDER = Path("/data/__consumer_offsets-0")
BEGUN, ENDED = 3, 5


@pytest.fixture
def files() -> MemoryFiles:
    """Files with a snapshot of a log that ended at offset 5 when the snapshot was complete."""
    files = MemoryFiles()
    files.make_folder(FOLDER)
    table = OffsetsTable()
    table.put(OffsetCommitRecord("g", "t", 0, encode_commit_value(7, -1, "", 0)))
    writer = SnapshotWriter(FOLDER, files, BEGUN, table, iter(()))
    for _ in writer.steps:
        pass
    writer.finish(ENDED)
    return files


@pytest.mark.parametrize(("start", "end"), [(0, ENDED), (BEGUN, ENDED), (0, ENDED + 1)])
def test_a_snapshot_is_used_if_the_log_contains_all_of_its_offsets(
    files: MemoryFiles, start: int, end: int
) -> None:
    found = open_snapshot(FOLDER, files, start, end)
    assert found is not None
    assert (found.start_offset, list(found.extents), found.topics) == (BEGUN, ["g"], {"t"})


@pytest.mark.parametrize(("start", "end"), [(0, ENDED - 1), (BEGUN + 1, ENDED + 1)])
def test_a_snapshot_of_offsets_that_the_log_lacks_is_removed(
    files: MemoryFiles, start: int, end: int
) -> None:
    """The mismatch could not be detected once the log has grown again."""
    assert open_snapshot(FOLDER, files, start, end) is None
    assert not files.exists(FOLDER / OFFSETS_SNAPSHOT)


def test_group_metadata_is_read_from_the_snapshot_as_it_was_written() -> None:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    metadata = [(b"group 1", b"x" * 1_000), (b"group 2", b"")]
    writer = SnapshotWriter(FOLDER, files, BEGUN, OffsetsTable(), iter(metadata), step_offsets=1)
    assert len(list(writer.steps)) == 2
    writer.finish(ENDED)
    found = open_snapshot(FOLDER, files, BEGUN, ENDED)
    assert found is not None
    assert found.metadata == metadata


def test_a_snapshot_that_cannot_be_read_is_removed(
    files: MemoryFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError("input/output error")

    file = files.open(FOLDER / OFFSETS_SNAPSHOT)
    monkeypatch.setattr(type(file), "read", fail)
    assert open_snapshot(FOLDER, files, 0, ENDED) is None
    assert not files.exists(FOLDER / OFFSETS_SNAPSHOT)


def test_a_snapshot_whose_index_is_corrupted_is_removed(files: MemoryFiles) -> None:
    path = FOLDER / OFFSETS_SNAPSHOT
    file = files.open(path)
    content = bytearray(file.read(0, file.size))
    position = content.rindex(b"\x01g")  # the group's id in the index
    content[position + 1] ^= 1
    file.truncate(0)
    file.append(bytes(content))
    assert open_snapshot(FOLDER, files, 0, ENDED) is None
    assert not files.exists(path)
