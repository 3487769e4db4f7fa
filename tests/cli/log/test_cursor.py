"""A reader keeps its place whatever becomes of the log under it."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from kohort.cli.log.cursor import Cursor, Tail
from kohort.cli.log.sources import Source
from kohort.log.batch import read_header
from kohort.log.files import DiskFiles
from kohort.log.log import Log, LogConfig
from kohort.log.recovery import Corruption, ValidBatch

from .conftest import batch_of, bend, commit

ROLL = LogConfig(segment_bytes=350)


class Watched:
    """A log that is written, and a cursor in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log.open(folder, DiskFiles(preallocate_bytes=4096), ROLL)
        self.said: list[str] = []
        self.cursor = Cursor(Source(folder), DiskFiles(), self.said.append)

    def append(self, count: int, *, text: str = "g") -> list[int]:
        """Batches of one record; their offsets."""
        offsets = []
        for _ in range(count):
            offsets.append(self.log.append(batch_of(self.log.end_offset, commit(text, 1))))
        return offsets

    def read(self) -> list[int]:
        """The offsets that are new to the reader."""
        offsets = []
        for _, floor, item in self.cursor.read():
            assert isinstance(item, ValidBatch), item
            base, last = item.header.base_offset, item.header.last_offset
            offsets += range(max(base, floor), last + 1)
        return offsets

    def segments(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))


@pytest.fixture
def watched(tmp_path: Path) -> Iterable[Watched]:
    watched = Watched(tmp_path / "orders-0")
    yield watched
    watched.log.close()


def keep(segment: Path, offsets: Iterable[int], *more: Path) -> None:
    """Swaps in a segment with only the batches at these offsets, as a compaction does."""
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


def test_what_is_appended_is_read_once_across_rolls(watched: Watched) -> None:
    assert watched.read() == []
    assert watched.append(1) == watched.read()
    assert watched.append(20) == watched.read()
    assert len(watched.segments()) > 5
    assert watched.read() == []
    assert watched.append(2) == watched.read()
    assert watched.said == []


def test_segments_that_were_compacted_after_they_were_read_are_passed_over(
    watched: Watched,
) -> None:
    watched.append(12)
    watched.read()
    first, second, third, *_ = watched.segments()
    keep(first, {0}, second)
    keep(third, set())
    assert watched.append(3) == watched.read()
    assert watched.said == []


def test_a_segment_that_is_compacted_before_it_was_read_to_its_end_goes_on_behind(
    watched: Watched,
) -> None:
    watched.append(1)
    assert watched.read() == [0]
    watched.append(11)
    first, second, *_ = watched.segments()
    keep(first, {0, 2, 4}, second)
    assert watched.read() == [2, 4, 6, 7, 8, 9, 10, 11]
    assert watched.said == [f"{first} was compacted while it was read: going on at offset 1"]


def test_a_segment_that_grows_by_a_merge_while_it_is_read_gives_all_of_it(
    watched: Watched,
) -> None:
    watched.append(12)
    reading = watched.cursor.read()
    first, second, *_ = watched.segments()
    offsets = [item.header.base_offset for _, _, item in (next(reading), next(reading))]
    keep(first, range(6), second)
    offsets += [item.header.base_offset for _, _, item in reading]
    assert offsets == list(range(12))
    assert watched.said == [f"{first} was compacted while it was read: going on at offset 3"]


def test_a_swap_that_a_crash_interrupted_is_read_as_the_next_start_will_have_it(
    watched: Watched,
) -> None:
    watched.append(12)
    first, *_ = watched.segments()
    first.rename(first.with_name(first.name + ".swap"))
    assert watched.read() == list(range(12))


def test_a_log_that_is_cut_back_goes_on_where_it_is_cut(watched: Watched) -> None:
    watched.append(6)
    watched.read()
    watched.log.truncate_to(5)
    watched.append(2, text="other")
    assert watched.read() == [5, 6]
    assert watched.said == ["orders-0 was cut back to offset 5"]
    watched.log.truncate_to(2)
    assert watched.read() == []
    assert watched.append(9) == watched.read()
    assert watched.said[1:] == ["orders-0 was cut back to offset 2"]


def test_records_that_went_before_they_were_read_are_told(watched: Watched) -> None:
    watched.append(1)
    watched.read()
    watched.append(11)
    watched.log.delete_before(6)
    assert watched.read() == [6, 7, 8, 9, 10, 11]
    assert watched.said == ["orders-0: offsets 1..5 were removed before they could be read"]


def test_a_partition_that_goes_and_comes_again_is_read_from_its_start(watched: Watched) -> None:
    watched.append(3)
    watched.read()
    watched.log.delete()
    assert watched.read() == []
    assert watched.read() == []
    assert watched.said == ["orders-0 is gone: its folder has no segments any more"]
    watched.log = Log.open(watched.folder, DiskFiles(), ROLL)
    assert watched.append(2) == watched.read() == [0, 1]


def test_a_batch_comes_when_it_is_whole(watched: Watched) -> None:
    watched.append(1)
    watched.read()
    (segment,) = watched.segments()
    whole = segment.read_bytes()[: watched.log.size] + batch_of(1, commit("g", 2))
    for size in (-20, -5):
        segment.write_bytes(whole[:size])
        ((_, _, tail),) = watched.cursor.read()
        assert isinstance(tail, Tail)
    segment.write_bytes(whole)
    assert watched.read() == [1]


def test_bad_bytes_are_told_once_and_passed_over(watched: Watched) -> None:
    watched.append(9)
    bend(watched.segments()[1], 80)
    found = [item for _, _, item in watched.cursor.read()]
    flaws = [item for item in found if isinstance(item, Corruption)]
    assert len(found) == 9
    assert len(flaws) == 1
    assert watched.append(1) == watched.read()
