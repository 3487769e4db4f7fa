"""Compaction: which records are retained, also after a crash or disk failure at any operation."""

from __future__ import annotations

import errno
import itertools
import random
from contextlib import suppress
from pathlib import Path

import pytest
from kohort.log.errors import CorruptBatch
from kohort.log.files import Files
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.records import records
from kohort.testing.faults.files import Crashed, FaultyFiles
from support.log import (
    NOW_MS,
    TERMS,
    NewRecord,
    Pair,
    build,
    compact,
    content,
    headers,
    max_timestamp,
    newest,
    offset_for_timestamp,
    put,
)

FOLDER = Path("/data/orders-0")


def opened(files: Files, segment_bytes: int = 400) -> Log:
    files.make_folder(FOLDER.parent)
    return Log.open(FOLDER, files, LogConfig(segment_bytes=segment_bytes))


def filled(files: Files, batches: int = 30, keys: int = 4) -> Log:
    """About ten segments with batches of two records and few keys."""
    log = opened(files)
    for number in range(batches):
        pairs: list[Pair] = [
            (f"key {(number * 2 + each) % keys}", f"value {number}") for each in range(2)
        ]
        put(log, pairs, NOW_MS + number)
    log.sync()
    return log


def test_the_newest_record_of_each_key_stays_at_its_offset() -> None:
    log = filled(MemoryFiles())
    before, end_offset, active = newest(log), log.end_offset, log.segments[-1]
    all_records = content(log)
    done = compact(log)
    assert newest(log) == before
    assert log.end_offset == end_offset
    assert log.segments[-1] is active
    left = content(log)
    assert set(left) <= set(all_records)
    closed = [record for record in left if record[0] < active.base_offset]
    assert sorted(str(key) for _, key, _ in closed) == ["key 0", "key 1", "key 2", "key 3"]
    assert done.end_offset == active.base_offset
    assert done.records_after == len(closed)
    assert done.records_before == active.base_offset


def test_a_compacted_log_is_the_same_after_reopening() -> None:
    files = MemoryFiles()
    log = filled(files)
    compact(log)
    left = content(log)
    log.close()
    assert content(opened(files)) == left


def test_small_segments_are_merged_up_to_the_segment_size() -> None:
    files = MemoryFiles()
    log = filled(files, batches=60, keys=40)
    assert len(log.segments) > 10
    sizes = sum(segment.size for segment in log.segments[:-1])
    compact(log)
    assert len(log.segments) == 2
    other = filled(MemoryFiles(), batches=60, keys=40)
    compact(other, terms=TERMS._replace(segment_bytes=sizes // 2))
    assert len(other.segments) == 4
    assert [name for name in files.list(FOLDER) if not name.endswith(".log")] == []


def test_reading_a_removed_offset_returns_the_next_record() -> None:
    log = filled(MemoryFiles())
    compact(log)
    left = [header.base_offset for header in headers(log)]
    for offset in range(log.end_offset):
        batch = log.read(offset, 1)
        found = int.from_bytes(batch[:8], "big")
        assert found == min(base for base in left if base + 1 >= offset)
    assert log.read(log.end_offset, 1) == b""


def test_an_iterator_continues_across_a_compaction() -> None:
    log = filled(MemoryFiles())
    walk = log.batches()
    seen = [next(walk)[0].base_offset for _ in range(7)]
    compact(log)
    seen += [header.base_offset for header, _ in walk]
    assert seen == sorted(set(seen))
    assert seen[-1] == log.end_offset - 2


def test_timestamp_lookups_agree_with_a_full_scan_after_compaction() -> None:
    files = MemoryFiles()
    log = opened(files)
    for number in range(24):
        key = None if number in (11, 23) else f"key {number % 5}"
        put(log, [(key, "x" * 60)], NOW_MS + (number * 7) % 24)
    log.roll()
    compact(log)
    # The last batch is empty now; no record has the timestamp in its header.
    assert headers(log)[-1].count == 0
    for each in (log, opened(files)):
        left = [record for _, whole in each.batches() for record in records(whole)]
        for time in range(NOW_MS - 1, NOW_MS + 25):
            found = next(((r.offset, r.timestamp) for r in left if r.timestamp >= time), None)
            assert offset_for_timestamp(each, time) == found
        latest = max(left, key=lambda record: record.timestamp)
        assert max_timestamp(each) == (latest.offset, latest.timestamp)


def test_records_without_a_key_are_removed() -> None:
    log = opened(MemoryFiles())
    put(log, [(None, "no key"), ("a", "1")])
    for _ in range(10):
        put(log, [("b", "2"), (None, "x" * 20)])
    compact(log)
    closed = [r for r in content(log) if r[0] < log.segments[-1].base_offset]
    assert [key for _, key, _ in closed] == ["a", "b"]


@pytest.mark.parametrize("codec", range(5))
@pytest.mark.parametrize("count", [3, 3000])
def test_a_rebuilt_batch_keeps_its_codec_and_header(codec: int, count: int) -> None:
    log = opened(MemoryFiles())
    many = [
        NewRecord(b"%d" % n, b"v" * (n % 50), NOW_MS + n, (("h", b"x"), ("n", None)))
        for n in range(count)
    ]
    log.append(build(many, codec=codec, leader_epoch=3))
    put(log, [("0", "newer")])
    put(log, [("1", "in the active segment")])
    put(log, [("2", "y" * 400)])
    before = headers(log)[0]
    compact(log)
    after = headers(log)[0]
    assert after._replace(batch_length=0, crc=0) == before._replace(
        batch_length=0,
        crc=0,
        count=count - 1 - (log.segments[-1].base_offset > count + 1),
        base_timestamp=after.base_timestamp,
    )
    assert after.base_timestamp in (NOW_MS + 1, NOW_MS + 2)
    kept = [r for r in content(log) if r[0] < count]
    assert [int(key or "") for _, key, _ in kept] == list(range(count - after.count, count))


def test_when_the_offset_map_is_full_the_next_run_continues_there() -> None:
    log = filled(MemoryFiles(), batches=80, keys=50)
    before = newest(log)
    terms = TERMS._replace(dedupe_buffer_bytes=20 * 180)
    ends = [0]
    while ends[-1] < log.segments[-1].base_offset:
        ends.append(compact(log, ends[-1], terms).end_offset)
    assert ends == sorted(set(ends))
    assert len(ends) > 3
    assert newest(log) == before
    closed = [key for offset, key, _ in content(log) if offset < ends[-1]]
    assert len(closed) == len(set(closed))


def test_a_corrupt_batch_stops_the_run_and_is_not_rewritten() -> None:
    files = MemoryFiles()
    log = filled(files)
    before = content(log)
    path = log.segments[3].path
    files.contents[path][70] ^= 1
    with pytest.raises(CorruptBatch, match=path.name):
        compact(log)
    files.contents[path][70] ^= 1
    assert content(log) == before
    assert [name for name in files.list(FOLDER) if not name.endswith(".log")] == []


# --- crashes and disk failures


SMALL = TERMS._replace(segment_bytes=1500)


def filled_with_unique_keys(files: Files) -> Log:
    """Like `filled`, but no segment becomes empty."""
    log = opened(files)
    for number in range(16):
        put(log, [(f"key {number % 3}", str(number)), (f"unique {number}", "1")], NOW_MS + number)
    log.sync()
    return log


def compacted_twice(log: Log) -> None:
    done = compact(log, terms=SMALL)
    log.roll()
    compact(log, done.end_offset, SMALL)


def test_a_run_uses_every_kind_of_file_operation() -> None:
    files = FaultyFiles()
    compacted_twice(filled_with_unique_keys(files))
    assert {name for name, _ in files.operations} >= {
        "create",
        "append",
        "truncate",
        "sync",
        "rename",
        "sync_folder",
        "remove",
    }


@pytest.mark.parametrize("seed", [None, *range(8)])
def test_a_crash_at_any_file_operation_loses_nothing(seed: int | None) -> None:
    for number in itertools.count():
        files = FaultyFiles()
        log = filled_with_unique_keys(files)
        before, end_offset = newest(log), log.end_offset
        files.crash_at = files.count + number
        completed = True
        try:
            compacted_twice(log)
        except Crashed:
            completed = False
        files.crash(None if seed is None else random.Random(seed * 1000 + number))
        # Also crash at each operation of the next opening.
        for again in itertools.count():
            files.crash_at = files.count + again
            try:
                log = opened(files)
            except Crashed:
                files.crash(None if seed is None else random.Random(seed + again))
            else:
                break
        files.crash_at = None
        assert newest(log) == before, number
        assert (log.start_offset, log.end_offset) == (0, end_offset)
        assert [name for name in files.list(FOLDER) if not name.endswith(".log")] == []
        if seed is not None:
            # Also crash in the next run, which begins at the same offset.
            chance = random.Random(seed * 1000 + number)
            files.crash_at = files.count + chance.randrange(8)
            with suppress(Crashed):
                compact(log)
            files.crash(chance)
            log = opened(files)
            assert newest(log) == before, number
        compact(log)
        assert newest(log) == before, number
        log.append(build([NewRecord(b"next", b"", NOW_MS)], base_offset=end_offset))
        if completed:
            break
    assert number > 40


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_disk_failure_at_any_operation_is_harmless_and_the_next_run_succeeds(error: int) -> None:
    operations = {}
    files = FaultyFiles()
    log = filled(files)
    first = len(files.operations)
    compact(log, terms=TERMS._replace(segment_bytes=1500))
    for name, _ in files.operations[first:]:
        operations[name] = operations.get(name, 0) + 1
    for name, times in operations.items():
        for after in range(times):
            files = FaultyFiles()
            log = filled(files)
            before, end_offset = newest(log), log.end_offset
            files.fail(name, after=after, error=error, written=7)
            with pytest.raises(OSError, match=r"\[Errno"):
                compact(log, terms=TERMS._replace(segment_bytes=1500))
            files.heal()
            assert log.failed is None
            assert newest(log) == before, (name, after)
            put(log, [("more", "1")])
            compact(log, terms=TERMS._replace(segment_bytes=1500))
            assert newest(log) == before | {"more": (end_offset, "1")}
            assert content(Log.open(FOLDER, files, read_only=True)) == content(log)
            assert [n for n in files.list(FOLDER) if not n.endswith(".log")] == []
