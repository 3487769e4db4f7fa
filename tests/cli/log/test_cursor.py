"""A cursor keeps its position while the log is written, compacted, truncated or deleted."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from kohort.cli.log.partition_logs import Cursor, PartitionLog, TornTail
from kohort.log.batch import read_header
from kohort.log.files import DiskFile, DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.recovery import Corruption, ValidBatch

from .conftest import batch_of, commit, corrupt

ROLL = LogConfig(segment_bytes=350)


class Watched:
    """A log and a cursor in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log.open(folder, DiskFiles(preallocate_bytes=4096), ROLL)
        self.reports: list[str] = []
        self.cursor = Cursor(PartitionLog(folder), self.reports.append)

    def append(self, count: int, *, text: str = "g") -> list[int]:
        """Append batches of one record. Return their offsets."""
        offsets = []
        for _ in range(count):
            offsets.append(self.log.append(batch_of(self.log.end_offset, commit(text, 1))))
        return offsets

    def read(self) -> list[int]:
        """Return the offsets that the cursor has not read before."""
        offsets = []
        for _, lowest, item in self.cursor.read():
            assert isinstance(item, ValidBatch), item
            base, last = item.header.base_offset, item.header.last_offset
            offsets += range(max(base, lowest), last + 1)
        return offsets

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))


@pytest.fixture
def watched(tmp_path: Path) -> Iterable[Watched]:
    watched = Watched(tmp_path / "orders-0")
    yield watched
    watched.log.close()


def keep(segment: Path, offsets: Iterable[int], *more: Path) -> None:
    """Replace the segments by one with only the batches at these offsets, as compaction does."""
    content = b"".join(path.read_bytes() for path in (segment, *more))
    kept, at = [], 0
    while at < len(content.rstrip(b"\0")):
        header = read_header(content, at)
        if header.base_offset in offsets:
            kept.append(content[at : at + header.size])
        at += header.size
    new = segment.with_name(segment.name + ".swap")
    new.write_bytes(b"".join(kept))
    for path in more:
        path.unlink()
    new.replace(segment)


def test_appended_batches_are_read_once_across_rolls(watched: Watched) -> None:
    assert watched.read() == []
    assert watched.append(1) == watched.read()
    assert watched.append(20) == watched.read()
    assert len(watched.segments()) > 5
    assert watched.read() == []
    assert watched.append(2) == watched.read()
    assert watched.reports == []


def test_segments_compacted_after_they_were_read_are_skipped(watched: Watched) -> None:
    watched.append(12)
    watched.read()
    first, second, third, *_ = watched.segments()
    keep(first, {0}, second)
    keep(third, set())
    assert watched.append(3) == watched.read()
    assert watched.reports == []


def test_a_segment_compacted_before_its_end_was_read_continues_by_offset(watched: Watched) -> None:
    watched.append(1)
    assert watched.read() == [0]
    watched.append(11)
    first, second, *_ = watched.segments()
    keep(first, {0, 2, 4}, second)
    assert watched.read() == [2, 4, 6, 7, 8, 9, 10, 11]
    assert watched.reports == [f"{first} was compacted while it was read: continuing at offset 1"]


def test_a_segment_merged_with_the_next_while_it_is_read_is_complete(watched: Watched) -> None:
    watched.append(12)
    reading = watched.cursor.read()
    first, second, *_ = watched.segments()
    offsets = [item.header.base_offset for _, _, item in (next(reading), next(reading))]
    keep(first, range(6), second)
    offsets += [item.header.base_offset for _, _, item in reading]
    assert offsets == list(range(12))
    assert watched.reports == [f"{first} was compacted while it was read: continuing at offset 3"]


def test_an_unfinished_swap_is_read_as_the_next_start_completes_it(watched: Watched) -> None:
    watched.append(12)
    first, *_ = watched.segments()
    first.rename(first.with_name(first.name + ".swap"))
    assert watched.read() == list(range(12))


def test_a_truncated_log_continues_at_its_new_end(watched: Watched) -> None:
    watched.append(6)
    watched.read()
    watched.log.truncate_to(5)
    watched.append(2, text="other")
    assert watched.read() == [5, 6]
    assert watched.reports == ["orders-0 was truncated to offset 5"]
    watched.log.truncate_to(2)
    assert watched.read() == []
    assert watched.append(9) == watched.read()
    assert watched.reports[1:] == ["orders-0 was truncated to offset 2"]


def test_a_log_truncated_between_two_segments_ends_at_its_new_end(watched: Watched) -> None:
    watched.append(6)
    first, second, *_ = watched.segments()
    items = watched.cursor.read()
    while watched.cursor.offset < int(second.stem):
        next(items)
    watched.log.truncate_to(1)
    assert watched.segments() == [first]
    assert list(items) == []
    assert watched.reports == ["orders-0 was truncated to offset 1"]
    assert watched.append(1) == watched.read()


def test_records_removed_before_they_were_read_are_reported(watched: Watched) -> None:
    watched.append(1)
    watched.read()
    watched.append(11)
    watched.log.delete_before(6)
    assert watched.read() == [6, 7, 8, 9, 10, 11]
    assert watched.reports == ["orders-0: offsets 1..5 were removed before they were read"]


def test_a_deleted_and_recreated_partition_is_read_from_its_start(watched: Watched) -> None:
    watched.append(3)
    watched.read()
    watched.log.delete()
    assert watched.read() == []
    assert watched.read() == []
    assert watched.reports == ["orders-0 was deleted: its folder has no segments"]
    watched.log = Log.open(watched.folder, DiskFiles(), ROLL)
    assert watched.append(2) == watched.read() == [0, 1]


def test_a_batch_is_returned_when_it_is_complete(watched: Watched) -> None:
    watched.append(1)
    watched.read()
    (segment,) = watched.segments()
    whole = segment.read_bytes()[: watched.log.size] + batch_of(1, commit("g", 2))
    for size in (-20, -5):
        segment.write_bytes(whole[:size])
        ((_, _, tail),) = watched.cursor.read()
        assert isinstance(tail, TornTail)
    segment.write_bytes(whole)
    assert watched.read() == [1]


def test_corrupt_bytes_are_returned_once_and_skipped(watched: Watched) -> None:
    watched.append(9)
    corrupt(watched.segments()[1], 80)
    found = [item for _, _, item in watched.cursor.read()]
    corruptions = [item for item in found if isinstance(item, Corruption)]
    assert len(found) == 9
    assert len(corruptions) == 1
    assert watched.append(1) == watched.read()


def test_a_batch_that_is_complete_when_it_is_read_again_is_not_corrupt(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker wrote the first batch after the cursor read it, and the second batch before."""
    watched.append(2)
    size = len(batch_of(0, commit("g", 1)))
    read, reads = DiskFile.read, []

    def read_early(file: DiskFile, position: int, length: int) -> bytes:
        data = read(file, position, length)
        reads.append(position)
        return data if len(reads) > 1 else bytes(min(size, len(data))) + data[size:]

    monkeypatch.setattr(DiskFile, "read", read_early)
    assert watched.read() == [0, 1]
