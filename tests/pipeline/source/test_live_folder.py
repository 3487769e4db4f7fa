"""Logs that are rolled, compacted, truncated or corrupted before or while they are read."""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kohort.log.batch import read_header
from kohort.log.log import Log
from kohort.log.memory_files import MemoryFile
from kohort.pipeline.columns import SOURCE
from kohort.pipeline.source import segments
from kohort.pipeline.source.folder import FolderSource
from kohort.pipeline.source.records import rows_of
from kohort.pipeline.source.source import NO_LIMIT, SourceError, Split
from offset_logs import batch_of, commit, write
from support.log import compact

Rows = list[dict[str, Any]]
P = 12


def make_log(folder: Path, seed: int, batches: int = 40) -> Log:
    """A log of many segments with ten groups, so that compaction removes most of it."""
    draw = random.Random(seed)
    log = write(folder / f"__consumer_offsets-{P}", segment_bytes=1_500)
    append(log, draw, batches)
    return log


def append(log: Log, draw: random.Random, batches: int) -> None:
    for _ in range(batches):
        end, count = log.end_offset, draw.randint(1, 5)
        commits = (commit(end + n, f"g-{draw.randrange(10)}") for n in range(count))
        log.append(batch_of(end, *commits))


def index_of(log: Log) -> None:
    """Write Kafka's .index of each segment, with an entry for every third batch: its last offset
    and its position. The file ends with preallocated zeros, as for a live segment."""
    for segment in log.segments:
        entries, position = [], 0
        data = segment.path.read_bytes()
        while position + 61 <= len(data) and data[position + 16] == 2:
            header = read_header(data, position)
            entries.append((header.last_offset - segment.base_offset, position))
            position += header.size
        raw = b"".join(
            offset.to_bytes(4, "big") + at.to_bytes(4, "big") for offset, at in entries[1::3]
        )
        segment.path.with_suffix(".index").write_bytes(raw + bytes(80))


def read(source: FolderSource, splits: list[Split]) -> Rows:
    return [row for split in splits for rows in source.read(split) for row in rows.to_pylist()]


def read_all(source: FolderSource, split_bytes: int = 1 << 30) -> Rows:
    return read(source, source.splits({}, source.ends(), split_bytes))


def expected(log: Log, start: int = 0) -> Rows:
    """The rows by the reader of the log package and the decoder of single records."""
    rows: Rows = []
    for _, batch in log.batches():
        rows += rows_of(batch, P, rows[-1]["log_offset"] + 1 if rows else 0)
    table = pa.Table.from_pylist(rows, schema=SOURCE)
    return [row for row in table.to_pylist() if row["log_offset"] >= start]


@given(st.integers(0, 1 << 30), st.integers(1, 3_000), st.booleans(), st.booleans())
def test_splits_of_any_size_and_limited_reads_cover_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    split_bytes: int,
    compacted: bool,
    indexed: bool,
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = make_log(folder, seed, 12)
    if compacted:
        compact(log)
        append(log, random.Random(seed), 3)
    if indexed:
        index_of(log)
    source = FolderSource(folder)
    whole = expected(log)
    assert read_all(source, split_bytes) == whole
    end, position, rows = source.ends(), {P: 0}, []
    assert end == {P: whole[-1]["log_offset"] + 1}
    while position != end:
        upto = source.limited(position, end, records_max=10, bytes_max=split_bytes)
        rows += read(FolderSource(folder), source.splits(position, upto, 500))
        assert position[P] < upto[P] <= end[P]
        position = upto
    assert rows == whole
    log.close()


def test_limits_hold_unless_one_batch_is_larger(tmp_path: Path) -> None:
    log = make_log(tmp_path, 1)
    source = FolderSource(tmp_path)
    for records_max in (1, 5, 17):
        upto = source.limited({P: 0}, source.ends(), records_max=records_max, bytes_max=NO_LIMIT)
        first = next(header.next_offset for header, _ in log.batches())
        assert upto[P] <= max(first, records_max)
    assert (
        source.limited({}, source.ends(), records_max=NO_LIMIT, bytes_max=1 << 40) == source.ends()
    )
    log.close()


def test_a_log_compacted_after_planning_returns_the_remaining_records(tmp_path: Path) -> None:
    log = make_log(tmp_path, 2)
    source = FolderSource(tmp_path)
    splits = source.splits({}, source.ends(), 700)
    assert len(splits) > 5
    before = {row["log_offset"]: row for row in expected(log)}
    compact(log)
    rows = read(source, splits)
    remaining = [row["log_offset"] for row in expected(log)]
    assert [row["log_offset"] for row in rows] == remaining
    for row in rows:
        assert {**row, "missing_before": 0} == before[row["log_offset"]]
    gaps = [after - before - 1 for before, after in zip([-1, *remaining], remaining, strict=False)]
    split_starts = {split.start for split in splits}
    # If a gap spans two splits, the later split only counts its own part of the gap.
    for row, gap in zip(rows, gaps, strict=True):
        if not split_starts & set(range(row["log_offset"] - gap, row["log_offset"] + 1)):
            assert row["missing_before"] == gap
        assert row["missing_before"] <= gap
    assert sum(gaps) > 0
    log.close()


def test_a_compaction_during_a_read_loses_no_live_record(tmp_path: Path) -> None:
    log = make_log(tmp_path, 3)
    source = FolderSource(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "BLOCK_BYTES", 400)
        (split,) = source.splits({}, source.ends())
        found: Rows = []
        for number, rows in enumerate(source.read(split)):
            found += rows.to_pylist()
            if number == 3:
                compact(log)
    offsets = [row["log_offset"] for row in found]
    assert offsets == sorted(set(offsets))
    assert {row["log_offset"] for row in expected(log)} <= set(offsets)
    log.close()


def test_appended_and_rolled_segments_are_read_incrementally(tmp_path: Path) -> None:
    log = make_log(tmp_path, 4, 3)
    source, draw = FolderSource(tmp_path), random.Random(4)
    rows, position = read_all(source), source.ends()
    for _ in range(10):
        append(log, draw, 4)
        end = source.ends()
        assert end == {P: log.end_offset}
        rows += read(FolderSource(tmp_path), source.splits(position, end))
        position = end
    assert rows == expected(log)
    log.close()


def test_removed_segments_count_as_missing_and_a_truncated_log_is_an_error(tmp_path: Path) -> None:
    log = make_log(tmp_path, 5)
    source = FolderSource(tmp_path)
    splits = source.splits({}, source.ends())
    log.close()
    paths = sorted((tmp_path / f"__consumer_offsets-{P}").glob("*.log"))
    paths[0].unlink()
    base = int(paths[1].stem)
    rows = read(source, splits)
    assert (rows[0]["log_offset"], rows[0]["missing_before"]) == (base, base)
    assert source.starts() == {P: base}
    paths[-1].unlink()
    with pytest.raises(SourceError, match="truncated or recreated"):
        read(source, splits)


def test_a_log_that_was_truncated_and_grew_is_read_as_it_is(tmp_path: Path) -> None:
    log = make_log(tmp_path, 6)
    source = FolderSource(tmp_path)
    end = source.ends()
    log.close()
    last = max((tmp_path / f"__consumer_offsets-{P}").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-10])
    assert source.ends()[P] < end[P]
    log = write(tmp_path / f"__consumer_offsets-{P}")
    append(log, random.Random(7), 2)
    assert source.ends() == {P: log.end_offset}
    assert read_all(source) == expected(log)
    log.close()


def test_corrupted_bytes_only_lose_their_batch(tmp_path: Path) -> None:
    log = make_log(tmp_path, 8, 12)
    whole = expected(log)
    log.close()
    source = FolderSource(tmp_path)
    path = sorted((tmp_path / f"__consumer_offsets-{P}").glob("*.log"))[0]
    intact = path.read_bytes()
    hops = list(segments.hops(MemoryFile(bytearray(intact)), 0))
    for hop in hops[1:-1]:
        for at in (0, 7, 8, 16, 17, 40, 70):
            corrupted = bytearray(intact)
            corrupted[hop.position + at] ^= 0x41
            path.write_bytes(corrupted)
            rows = read_all(source)
            offsets = {row["log_offset"] for row in rows}
            lost = set(range(hop.base_offset, hop.next_offset))
            assert offsets == {row["log_offset"] for row in whole} - lost, (hop, at)
            after = next(row for row in rows if row["log_offset"] == hop.next_offset)
            assert after["missing_before"] == len(lost)
            limited = source.limited({}, source.ends(), records_max=2, bytes_max=NO_LIMIT)
            assert limited[P] > 0


def test_a_batch_larger_than_a_block_is_read_whole(tmp_path: Path) -> None:
    log = make_log(tmp_path, 9, 5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "BLOCK_BYTES", 100)
        assert read_all(FolderSource(tmp_path), 300) == expected(log)
    log.close()
