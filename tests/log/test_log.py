"""A log on a healthy disk: append, read, roll, search, truncate, delete."""

from pathlib import Path

import pytest
from kohort.log.batch import split
from kohort.log.codecs import INLINE_BYTES_MAX
from kohort.log.errors import LogError, LogFailed, OffsetOutOfRange
from kohort.log.files import DiskFiles, Files
from kohort.log.log import STEP_RECORDS, Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.segment import FileSlice
from kohort.log.tasks import run_synchronously
from kohort.protocol.budgets import ConcurrencyLimit
from support.log import (
    NOW_MS,
    NewRecord,
    append,
    batch,
    build,
    compact,
    headers,
    max_timestamp,
    offset_for_timestamp,
    stored,
    values,
)

GZIP = 1
FOLDER = Path("/data/orders-0")
SMALL = LogConfig(segment_bytes=600, index_interval_bytes=200)


@pytest.fixture(params=["memory", "disk", "disk, preallocated"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Files]:
    if request.param == "memory":
        return FOLDER, MemoryFiles()
    preallocate_bytes = 64 * 1024 if "preallocated" in request.param else 0
    return tmp_path / "orders-0", DiskFiles(preallocate_bytes=preallocate_bytes)


def test_an_empty_log_creates_no_folder(place: tuple[Path, Files]) -> None:
    folder, files = place
    log = Log.open(folder, files)
    assert (log.start_offset, log.end_offset, log.synced_offset, log.size) == (0, 0, 0, 0)
    assert log.read(0, 1000) == b""
    assert max_timestamp(log) is None
    assert offset_for_timestamp(log, 0) is None
    assert stored(log) == []
    log.sync()
    log.delete()
    log.close()
    assert not files.exists(folder)


def test_appended_batches_are_there_after_reopening(place: tuple[Path, Files]) -> None:
    folder, files = place
    log = Log.open(folder, files, SMALL)
    made = append(log, [1, 3, 2, 5, 1, 1, 8, 2])
    assert log.synced_offset < 23
    log.sync()
    assert (log.start_offset, log.end_offset, log.synced_offset) == (0, 23, 23)
    assert stored(log) == made
    log.close()
    log.close()
    again = Log.open(folder, files, SMALL)
    assert stored(again) == made
    assert (again.end_offset, again.synced_offset) == (23, 23)
    assert again.size == sum(map(len, made))
    made += append(again, [4])
    assert stored(again) == made
    again.close()


def test_segments_are_rolled_before_they_exceed_their_size(place: tuple[Path, Files]) -> None:
    folder, files = place
    log = Log.open(folder, files, SMALL)
    append(log, [3] * 20)
    log.sync()
    log.close()
    names = files.list(folder)
    assert len(names) == 4
    assert names[0] == "00000000000000000000.log"
    assert all(len(files.read_bytes(folder / name)) <= SMALL.segment_bytes for name in names)


def test_a_batch_larger_than_a_segment_gets_its_own() -> None:
    log = Log.open(FOLDER, MemoryFiles(), SMALL)
    made = append(log, [1, 100, 1])
    assert stored(log) == made


def test_a_segment_is_rolled_when_its_first_batch_is_old() -> None:
    files = MemoryFiles()
    log = Log.open(FOLDER, files, LogConfig(segment_ms=1000))
    log.append(batch(0, at_ms=NOW_MS))
    log.append(batch(1, at_ms=NOW_MS + 1000))
    log.append(batch(2, at_ms=NOW_MS + 1001))
    assert files.list(FOLDER) == ["00000000000000000000.log", "00000000000000000002.log"]


def test_a_segment_never_spans_more_than_31_bits_of_offsets() -> None:
    files = MemoryFiles()
    log = Log.open(FOLDER, files)
    log.append(batch(0))
    log.append(build([NewRecord(b"k", b"v", 0)], base_offset=1, last_offset_delta=2**31 - 2))
    log.append(batch(2**31))
    assert files.list(FOLDER) == ["00000000000000000000.log", "00000000002147483648.log"]
    assert Log.open(FOLDER, files).end_offset == 2**31 + 1


def test_every_read_returns_whole_batches_within_its_limits(place: tuple[Path, Files]) -> None:
    folder, files = place
    log = Log.open(folder, files, SMALL)
    made = append(log, [1, 3, 2, 5, 1, 1, 8, 2, 30, 1, 1])
    heads = headers(log)
    for offset in range(log.end_offset):
        first = next(n for n, header in enumerate(heads) if header.last_offset >= offset)
        for max_bytes in (0, 1, 100, 300, 700, 10_000):
            for up_to in (None, offset, offset + 3, log.end_offset):
                limit = log.end_offset if up_to is None else up_to
                visible = heads[first].last_offset < limit
                found = log.read(offset, max_bytes, up_to=up_to)
                assert found.startswith(made[first]) if visible else found == b""
                assert len(found) <= max(max_bytes, len(made[first]))
                assert all(header.last_offset < limit for _, header in split(found))
                strict = log.read(offset, max_bytes, up_to=up_to, minimum_one=False)
                assert strict == (found if len(found) <= max_bytes else b"")
                if visible and first + 1 < len(made) and heads[first + 1].last_offset < limit:
                    fits = len(made[first]) + len(made[first + 1]) <= max_bytes
                    same = segment_of(files, folder, first, heads) == segment_of(
                        files, folder, first + 1, heads
                    )
                    assert not (fits and same) or len(found) > len(made[first])
    log.close()


def segment_of(files: Files, folder: Path, number: int, heads: list) -> int:  # type: ignore[type-arg]
    bases = [int(name[:20]) for name in files.list(folder)]
    return max(base for base in bases if base <= heads[number].base_offset)


def test_reading_out_of_range_reports_the_range() -> None:
    log = Log.open(FOLDER, MemoryFiles())
    append(log, [3])
    assert log.read(3, 100) == b""
    for offset in (-1, 4):
        with pytest.raises(OffsetOutOfRange, match=r"out of range 0\.\.3"):
            log.read(offset, 100)


def test_a_long_read_crosses_chunks_and_large_batches() -> None:
    log = Log.open(FOLDER, MemoryFiles())
    made = append(log, [1, 2], text="x" * 1_500_000) + append(log, [1] * 50)
    assert stored(log) == made
    assert bytes(log.read(0, 10**8)) == b"".join(made)
    assert bytes(log.read(1, 10**8)) == b"".join(made[1:])
    assert [header.base_offset for header, _ in log.batches(2)][:2] == [1, 3]


def test_a_large_read_survives_the_deletion_of_its_segment(place: tuple[Path, Files]) -> None:
    folder, files = place
    log = Log.open(folder, files)
    made = append(log, [1, 2, 3], text="x" * 1_000_000)
    lazy = log.read(1, 10**8)
    assert isinstance(lazy, FileSlice)
    assert isinstance(log.read(0, 10**6), bytes)  # one batch
    log.close()
    for name in files.list(folder):
        files.remove(folder / name)
    expected = b"".join(made[1:])
    assert (len(lazy), bytes(lazy)) == (len(expected), expected)
    assert lazy.read(len(expected) - 10, 100) == expected[-10:]


def test_batches_begin_with_the_one_that_contains_the_offset() -> None:
    log = Log.open(FOLDER, MemoryFiles(), SMALL)
    append(log, [4] * 10)
    assert [header.base_offset for header, _ in log.batches(9)] == list(range(8, 40, 4))
    assert list(log.batches(40)) == []


def test_gaps_left_by_compaction_are_skipped() -> None:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    first = build([NewRecord(b"a", b"1", 5)], base_offset=2, last_offset_delta=3)
    second = build([NewRecord(b"b", b"2", 6)], base_offset=10)
    third = build([NewRecord(b"c", b"3", 7)], base_offset=30)
    files.contents[FOLDER / f"{0:020d}.log"] = bytearray(first + second)
    files.contents[FOLDER / f"{20:020d}.log"] = bytearray(third)
    log = Log.open(FOLDER, files)
    assert (log.start_offset, log.end_offset) == (0, 31)
    for offset in range(31):
        expected = first + second if offset < 6 else second if offset < 11 else third
        assert log.read(offset, 1000) == expected
    assert log.append(batch(31)) == 31


def test_a_batch_with_another_offset_is_rejected() -> None:
    log = Log.open(FOLDER, MemoryFiles())
    append(log, [2])
    for wrong in (batch(1), batch(3), batch(2) + b"x", batch(2) + batch(3), batch(2)[:-1]):
        with pytest.raises(LogError, match="a log that ends at 2"):
            log.append(wrong)
    assert log.end_offset == 2


def test_records_are_found_by_timestamp() -> None:
    log = Log.open(FOLDER, MemoryFiles(), SMALL)
    append(log, [1, 3, 2, 5, 1, 1, 8, 2])
    for offset in range(log.end_offset):
        assert offset_for_timestamp(log, NOW_MS + offset) == (offset, NOW_MS + offset)
    assert offset_for_timestamp(log, 0) == (0, NOW_MS)
    assert offset_for_timestamp(log, NOW_MS + 23) is None
    assert max_timestamp(log) == (22, NOW_MS + 22)


def test_decreasing_timestamps_find_the_first_record_late_enough() -> None:
    log = Log.open(FOLDER, MemoryFiles(), SMALL)
    for offset, at_ms in enumerate([50, 10, 90, 20, 90, 30, 10, 10, 10, 95, 40, 95]):
        log.append(batch(offset, at_ms=at_ms))
    for timestamp, offset in ((5, 0), (50, 0), (51, 2), (90, 2), (91, 9)):
        found = offset_for_timestamp(log, timestamp)
        assert found is not None
        assert found[0] == offset
    assert max_timestamp(log) == (9, 95)


def test_without_timestamps_the_first_record_has_the_largest_timestamp() -> None:
    log = Log.open(FOLDER, MemoryFiles())
    for offset in range(2):
        log.append(batch(offset, at_ms=-1))
    assert max_timestamp(log) == (0, -1)
    assert offset_for_timestamp(log, 0) is None


def test_a_search_by_timestamp_decodes_a_large_batch_in_steps() -> None:
    log = Log.open(FOLDER, MemoryFiles())
    append(log, [20 * STEP_RECORDS])
    last = log.end_offset - 1
    assert len(list(log.offset_for_timestamp(NOW_MS + last, ConcurrencyLimit(1)))) > 15
    assert offset_for_timestamp(log, NOW_MS + last) == (last, NOW_MS + last)


def test_segments_may_be_compacted_during_a_search_by_timestamp() -> None:
    """The first batch has a record of the time, but it is deleted."""
    log = Log.open(FOLDER, MemoryFiles(), LogConfig(segment_bytes=100))
    large = b"x" * INLINE_BYTES_MAX
    first = [NewRecord(b"a", b"", NOW_MS + 9), NewRecord(b"b", large, NOW_MS)]
    log.append(build(first, base_offset=0, codec=GZIP))
    for offset in range(2, 8):
        log.append(batch(offset, at_ms=NOW_MS + offset, text=str(offset)))
    log.delete_before(1)
    search = log.offset_for_timestamp(NOW_MS + 5, ConcurrencyLimit(1))
    decompress = next(search)
    compact(log)
    assert [header.base_offset for header in headers(log)][-2:] == [6, 7]
    assert len(log.segments) < 5
    assert decompress is not None
    decompress()
    assert run_synchronously(search) == (6, NOW_MS + 6)


def test_a_log_is_truncated_at_any_offset(place: tuple[Path, Files]) -> None:
    folder, files = place
    for offset in range(24):
        log = Log.open(folder, files, SMALL)
        made = append(log, [1, 3, 2, 5, 1, 1, 8, 2])
        heads = headers(log)
        log.sync()
        log.truncate_to(offset)
        kept = [whole for whole, head in zip(made, heads, strict=True) if head.last_offset < offset]
        assert stored(log) == kept
        assert log.end_offset == log.synced_offset
        assert log.end_offset == (heads[len(kept)].base_offset if len(kept) < 8 else 23)
        log.sync()
        kept += append(log, [2, 1])
        assert max_timestamp(log) == (log.end_offset - 1, NOW_MS + log.end_offset - 1)
        log.close()
        again = Log.open(folder, files, SMALL)
        assert stored(again) == kept
        again.delete()
        assert not files.exists(folder)


def test_a_log_is_not_truncated_below_its_start() -> None:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    files.contents[FOLDER / f"{7:020d}.log"] = bytearray(batch(7, 3))
    log = Log.open(FOLDER, files)
    with pytest.raises(OffsetOutOfRange):
        log.truncate_to(6)
    log.truncate_to(7)
    assert (log.start_offset, log.end_offset) == (7, 7)


def test_a_deleted_log_begins_at_0_again(place: tuple[Path, Files]) -> None:
    folder, files = place
    log = Log.open(folder, files)
    append(log, [3])
    log.delete()
    assert log.end_offset == 0
    assert files.list(folder.parent) == []
    log.sync()  # by a flush that began before the deletion
    assert log.failed is None
    assert stored(Log.open(folder, files)) == []


def test_a_read_only_log_accepts_nothing() -> None:
    files = MemoryFiles()
    append(Log.open(FOLDER, files), [3])
    log = Log.open(FOLDER, files, read_only=True)
    assert values(log) == [b"value 0", b"value 1", b"value 2"]
    with pytest.raises(LogFailed, match="read-only"):
        log.append(batch(3))


def test_few_files_are_open_however_many_segments_exist(tmp_path: Path) -> None:
    log = Log.open(tmp_path / "t-0", DiskFiles(), LogConfig(segment_bytes=100))
    append(log, [1] * 50)
    log.sync()
    append(log, [1])
    for offset in range(50):
        log.read(offset, 1)
    for offset in range(50):
        offset_for_timestamp(log, NOW_MS + offset)
    still_open = [segment for segment in log._segments if segment.file is not None]
    assert len(still_open) <= 3
    log.close()
