"""A log opened with its manifest equals the scanned log, whatever happened to the segments, the
manifest or the machine since."""

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from kohort.log.cache_files import SEGMENT_MANIFEST
from kohort.log.cleaner import clean
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.testing.faults.files import Crashed, FaultyFiles
from support.log import NOW_MS, TERMS, append, batch, put, stored

FOLDER = Path("/data/orders-0")
MANIFEST = FOLDER / SEGMENT_MANIFEST
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=150)
UNSYNCED = LogConfig(segment_bytes=500, index_interval_bytes=150, sync_at_open=False)
COUNTS = (3, 1, 6, 2, 1, 4, 1, 1, 2, 5, 1, 1)


def log_with_manifest(config: LogConfig = SMALL) -> tuple[FaultyFiles, list[bytes]]:
    """Create a log of several segments, all covered by a manifest."""
    files = FaultyFiles()
    log = Log.open(FOLDER, files, config)
    made = append(log, COUNTS)
    if config.sync_at_open:
        log.sync()
    log.write_manifest()
    log.close()
    return files, made


def known(log: Log) -> list[dict[str, Any]]:
    """The state of a log's segments, except for what a manifest changes."""
    known = []
    for segment in log.segments:
        values = {name: getattr(segment, name) for name in dir(segment) if name[0] != "_"}
        values = {name: value for name, value in values.items() if not callable(value)}
        values["index"] = (segment.index.to_bytes(), segment.index._next_position)
        for name in ("file", "files", "manifest_end_offset", "dirty", "gap"):
            del values[name]
        known.append(values)
    return known


def without_manifest(files: FaultyFiles) -> MemoryFiles:
    copy = MemoryFiles()
    copy.folders.update(files.folders)
    copy.contents.update(
        (p, bytearray(data)) for p, data in files.contents.items() if p != MANIFEST
    )
    return copy


def check_same(files: FaultyFiles, config: LogConfig = SMALL) -> Log:
    """Open the log with the manifest, and a copy of the disk without it, and compare the logs."""
    scanned = Log.open(FOLDER, without_manifest(files), config)
    log = Log.open(FOLDER, files, config)
    assert known(log) == known(scanned)
    assert stored(log) == stored(scanned)
    return log


def test_covered_segments_are_known_and_not_scanned() -> None:
    files, made = log_with_manifest()
    log = check_same(files)
    assert len(log.segments) > 2
    assert log.manifest_end_offset == log.end_offset
    files.contents[FOLDER / f"{0:020d}.log"][len(made[0]) - 1] ^= 1  # a covered byte
    assert Log.open(FOLDER, files, SMALL).end_offset == sum(COUNTS)
    assert stored(Log.open(FOLDER, files, SMALL, read_only=True)) == []


def test_later_batches_are_scanned() -> None:
    files, made = log_with_manifest()
    log = Log.open(FOLDER, files, SMALL)
    made += append(log, [2, 1, 7, 1])
    log.close()
    assert stored(check_same(files)) == made
    files.contents[log.segments[-1].path] += b"\xff" * 70
    assert stored(Log.open(FOLDER, files, SMALL)) == made


def test_covered_segments_are_not_synced_again() -> None:
    files, _ = log_with_manifest()
    begun = len(files.operations)
    log = Log.open(FOLDER, files, SMALL)
    assert {operation for operation, _ in files.operations[begun:]} == {"sync_folder"}
    assert not any(segment.dirty for segment in log.segments)


def test_later_batches_are_synced_at_opening() -> None:
    files, made = log_with_manifest()
    log = Log.open(FOLDER, files, SMALL)
    made += append(log, [1])
    log.close()
    Log.open(FOLDER, files, SMALL)
    files.crash()
    assert stored(Log.open(FOLDER, files, SMALL)) == made


def test_unsynced_bytes_are_not_covered() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    append(log, COUNTS)
    synced_end = log.segments[-1].base_offset  # synced by the roll
    log.write_manifest()
    assert (log.manifest_end_offset, log.end_offset) == (synced_end, sum(COUNTS))
    files.crash()
    assert check_same(files).end_offset == synced_end


def test_a_log_whose_sync_failed_gets_no_manifest() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    append(log, [1])
    files.fail("sync")
    with pytest.raises(OSError):
        log.sync()
    log.write_manifest()
    assert not files.exists(MANIFEST)


def test_without_syncs_it_is_valid_until_the_machine_restarts() -> None:
    files, _ = log_with_manifest(UNSYNCED)
    assert check_same(files, UNSYNCED).manifest_end_offset == sum(COUNTS)
    # With durability fsync, opening syncs everything that was not synced.
    log = Log.open(FOLDER, files, SMALL)
    assert ("sync", log.segments[0].path.name) in files.operations
    files.boots += 1
    assert Log.open(FOLDER, files, UNSYNCED).manifest_end_offset == 0
    assert not files.exists(MANIFEST)


def test_files_in_memory_get_no_manifest() -> None:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    log = Log.open(FOLDER, files, UNSYNCED)
    append(log, COUNTS)
    log.write_manifest()
    assert not files.exists(MANIFEST)


def test_a_corrupt_or_torn_manifest_is_removed_and_the_log_scanned() -> None:
    files, made = log_with_manifest()
    whole = bytes(files.contents[MANIFEST])
    changed = [whole[:end] for end in range(len(whole))]
    changed += [
        whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole))
    ]
    for content in changed:
        files.contents[MANIFEST] = bytearray(content)
        log = Log.open(FOLDER, files, SMALL)
        assert log.manifest_end_offset == 0
        assert stored(log) == made
        assert not files.exists(MANIFEST)


def test_an_unreadable_manifest_is_removed_and_the_log_scanned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files, made = log_with_manifest()

    def fail(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(files, "read_bytes", fail)
    assert stored(Log.open(FOLDER, files, SMALL)) == made
    assert not files.exists(MANIFEST)


def shorter(content: bytearray) -> None:
    del content[-1:]


def other(content: bytearray) -> None:
    content[-1] ^= 1


@pytest.mark.parametrize("change", [shorter, other, bytearray.clear])
@pytest.mark.parametrize("number", [0, -1])
def test_segments_that_do_not_match_it_are_scanned(
    number: int, change: Callable[[bytearray], None]
) -> None:
    files, _ = log_with_manifest()
    names = [name for name in files.list(FOLDER) if name.endswith(".log")]
    change(files.contents[FOLDER / names[number]])
    log = check_same(files)
    assert log.manifest_end_offset == 0
    assert not files.exists(MANIFEST)


def test_segments_removed_by_retention_are_ignored() -> None:
    files, made = log_with_manifest()
    log = Log.open(FOLDER, files, SMALL)
    second = log.segments[1].base_offset
    log.delete_before(second)
    log.close()
    log = check_same(files)
    assert (log.start_offset, log.manifest_end_offset) == (second, sum(COUNTS))
    assert stored(log) == made[-len(stored(log)) :]


def test_truncating_covered_bytes_removes_the_manifest_first() -> None:
    files, _ = log_with_manifest()
    log = Log.open(FOLDER, files, SMALL)
    begun = len(files.operations)
    log.truncate_to(log.segments[1].base_offset)
    assert files.operations[begun : begun + 2] == [
        ("remove", MANIFEST.name),
        ("sync_folder", FOLDER.name),
    ]
    assert not files.exists(MANIFEST)


def test_truncating_later_bytes_keeps_the_manifest() -> None:
    files, _ = log_with_manifest()
    log = Log.open(FOLDER, files, SMALL)
    append(log, [2, 1])
    log.truncate_to(sum(COUNTS))
    assert check_same(files).manifest_end_offset == sum(COUNTS)


def test_a_full_disk_only_prevents_the_manifest() -> None:
    files, made = log_with_manifest()
    log = Log.open(FOLDER, files, SMALL)
    made += append(log, [1, 1])
    log.sync()
    for operation in ("create", "append", "rename"):
        files.fail(operation)
        with pytest.raises(OSError, match="Input/output"):
            log.write_manifest()
    assert stored(check_same(files)) == made
    log.write_manifest()
    assert check_same(files).manifest_end_offset == log.end_offset


def run_workload(files: FaultyFiles, on_sync: Callable[[Log], None]) -> None:
    """Write manifests between appends, rolls, truncations, compactions, retention and openings.
    Batches that replace truncated ones have the same size but another timestamp."""
    log = Log.open(FOLDER, files, SMALL)
    for turn in range(2):
        for number in range(9):
            put(log, [(f"key {number % 3}", f"value {turn}")], NOW_MS + 100 * turn + number)
            if number % 3 == 0:
                log.sync()
                on_sync(log)
                log.write_manifest()
        log.sync()
        on_sync(log)
        log.write_manifest()
        log.truncate_to(log.end_offset - 3)
        on_sync(log)
        for number in (8, 7, 6):
            put(log, [(f"key {number % 3}", f"value {turn}")], NOW_MS + 100 * turn + number)
        log.sync()
        on_sync(log)
        for number, step in enumerate(clean(log, 0, log.segments[-1].base_offset, TERMS)):
            if step is not None:
                step()
            if number % 3 == turn:
                log.write_manifest()
        log.write_manifest()
        log.close()
        log = Log.open(FOLDER, files, SMALL)
    log.delete_before(log.segments[1].base_offset)
    put(log, [("last", "value x")])
    log.sync()
    on_sync(log)
    log.write_manifest()
    log.close()


@pytest.mark.parametrize("seed", range(2))
def test_a_crash_at_any_operation_leaves_a_correct_manifest_or_none(seed: int) -> None:
    """With seed 0 all unsynced bytes are lost, with seed 1 a random part of them."""
    whole = FaultyFiles()
    run_workload(whole, lambda log: None)
    for number in range(len(whole.operations)):
        files = FaultyFiles()
        files.crash_at = number
        ends = [0]
        with suppress(Crashed):
            run_workload(files, lambda log, ends=ends: ends.append(log.end_offset))
        files.crash(random.Random(seed * 1000 + number) if seed else None)
        log = check_same(files)
        assert log.end_offset >= ends[-1] - 3  # a truncation may have been in progress
        put(log, [("after", "the crash")])
        log.sync()
        log.write_manifest()
        files.crash(random.Random(seed) if seed else None)
        assert stored(check_same(files))[-1] == stored(log)[-1]


def test_a_segment_that_ends_with_another_batch_of_the_same_size_is_scanned() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    log.append(batch(0, 1, text="one"))
    log.sync()
    log.write_manifest()
    log.close()
    path = FOLDER / f"{0:020d}.log"
    files.contents[path][:] = batch(0, 2, text="")[: len(files.contents[path])]
    assert Log.open(FOLDER, files).end_offset == 0
