"""Disk failures, full disks and power losses: synced records are kept, failed ones never appear,
and nothing is appended after bytes whose write failed."""

import errno
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from kohort.log.errors import LogFailed
from kohort.log.files import finish_deletions
from kohort.log.log import Log, LogConfig
from kohort.testing.faults.files import Crashed, FaultyFiles
from support.log import append, batch, stored

FOLDER = Path("/data/orders-0")
SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100)


@pytest.mark.parametrize("written", [0, 1, 12, 61, 80, 10_000])
def test_a_failed_write_leaves_nothing_and_can_be_retried(written: int) -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    made = append(log, [3, 2])
    files.fail("append", error=errno.ENOSPC, written=written)
    with pytest.raises(OSError, match="No space left"):
        log.append(batch(5, 9))
    assert (log.end_offset, log.failed) == (5, None)
    assert stored(log) == made
    # shorter than the failed batch, the rest of which must not reappear
    made += append(log, [1, 1])
    assert stored(Log.open(FOLDER, files)) == made
    assert not [name for name in files.list(FOLDER) if name.endswith(".cut")]


def test_a_failed_write_that_cannot_be_truncated_fails_the_log_until_recovery() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    made = append(log, [3])
    log.sync()
    unsynced = append(log, [2])
    files.fail("append", written=50)
    files.fail("truncate")
    with pytest.raises(OSError, match="Input/output"):
        log.append(batch(5))
    for call in (lambda: log.append(batch(5)), log.sync):
        with pytest.raises(LogFailed, match="rejects appends after"):
            call()
    assert stored(log) == made + unsynced
    log.reopen()
    assert (log.failed, log.end_offset, log.synced_offset) == (None, 3, 3)
    made += append(log, [1])
    assert stored(Log.open(FOLDER, files)) == made


def test_recovery_skips_the_checksums_of_durable_segments() -> None:
    """Durable segments may be large, and a flipped bit in one must not truncate a log in use."""
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    append(log, [1] * 20)
    log.sync()
    log.append(batch(20))
    files.contents[FOLDER / f"{0:020d}.log"][-1] ^= 1
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    log.reopen()
    assert log.end_offset == 20
    assert Log.open(FOLDER, files).end_offset < 20


@pytest.mark.parametrize("operation", ["sync", "sync_folder"])
def test_after_a_failed_first_sync_the_next_one_syncs_the_folder(operation: str) -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    append(log, [1])
    files.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    log.reopen()
    made = append(log, [2])
    log.sync()
    files.crash()
    assert stored(Log.open(FOLDER, files)) == made


@pytest.mark.parametrize("operation", ["sync", "sync_folder"])
def test_after_a_failed_sync_nothing_it_covered_is_trusted(operation: str) -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    made = append(log, [3, 2])
    log.sync()
    append(log, [1, 4])
    log._folder_dirty = True  # as after a roll
    files.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    assert log.synced_offset == 5
    with pytest.raises(LogFailed):
        log.append(batch(10))
    files.fail("truncate")
    with pytest.raises(OSError, match="Input/output"):
        log.reopen()
    with pytest.raises(LogFailed):
        log.append(batch(5))
    log.reopen()
    assert stored(log) == made
    made += append(log, [2])
    log.sync()
    files.crash()
    assert stored(Log.open(FOLDER, files)) == made


@pytest.mark.parametrize("has_manifest", [False, True])
def test_the_next_process_rewrites_what_could_not_be_synced(has_manifest: bool) -> None:
    """The next process finds bytes in the page cache that may never reach the disk."""
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    made = append(log, [3, 20, 1])
    log.sync()
    if has_manifest:
        log.write_manifest()
    made += append(log, [2, 30, 4])
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        log.sync()
    # The process is killed before it can truncate them.
    files.fail("append")
    with pytest.raises(OSError, match="Input/output"):
        Log.open(FOLDER, files, SMALL)
    log = Log.open(FOLDER, files, SMALL)
    made += append(log, [1])
    log.sync()
    files.crash()
    assert stored(Log.open(FOLDER, files, SMALL)) == made


@pytest.mark.parametrize("operation", ["make_folder", "create"])
def test_a_log_whose_folder_cannot_be_created_works_later(operation: str) -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    files.fail(operation, error=errno.EACCES)
    with pytest.raises(PermissionError):
        log.append(batch(0))
    made = append(log, [2])
    log.sync()
    files.crash()
    assert stored(Log.open(FOLDER, files)) == made


@pytest.mark.parametrize("operation", ["truncate", "sync", "create"])
def test_a_failed_roll_loses_nothing(operation: str) -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    made = append(log, [3, 2])
    log.sync()
    files.fail(operation)
    with pytest.raises(OSError, match="Input/output"):
        log.append(batch(5, 20))
    if log.failed:
        log.reopen()
    made += append(log, [20, 1])
    log.sync()
    files.crash()
    assert stored(Log.open(FOLDER, files, SMALL)) == made


def test_an_unreadable_disk_is_an_error_and_not_an_empty_log() -> None:
    files = FaultyFiles()
    append(Log.open(FOLDER, files), [1])
    files.fail("sync")
    with pytest.raises(OSError, match="Input/output"):
        Log.open(FOLDER, files)


def run_workload(files: FaultyFiles, on_sync: Callable[[Log], None]) -> None:
    """Appends, syncs, rolls and closes; `on_sync` is called after each sync."""
    log = Log.open(FOLDER, files, SMALL)
    for count in (3, 1, 6, 2, 1, 4, 1, 1):
        log.append(batch(log.end_offset, count))
        if count != 1:
            log.sync()
            on_sync(log)
    log.close()
    log = Log.open(FOLDER, files, SMALL)
    on_sync(log)
    append(log, [2, 5])
    log.sync()
    on_sync(log)


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_at_any_operation_keeps_what_was_synced(seed: int) -> None:
    """Repeat the workload with a power loss before each operation. With seed 0 all unsynced bytes
    are lost, with other seeds a random part of them."""
    whole = FaultyFiles()
    run_workload(whole, lambda log: None)
    operations = len(whole.operations)
    expected = stored(Log.open(FOLDER, whole, SMALL))
    for number in range(operations):
        files = FaultyFiles()
        files.crash_at = number
        synced = [0]
        with pytest.raises(Crashed):
            run_workload(files, lambda log, synced=synced: synced.append(log.synced_offset))
        files.crash(random.Random(seed * 1000 + number) if seed else None)
        log = Log.open(FOLDER, files, SMALL)
        kept = stored(log)
        assert kept == expected[: len(kept)]
        assert log.end_offset >= synced[-1]
        log.append(batch(log.end_offset, 2, text="after"))
        log.sync()
        files.crash()
        assert stored(Log.open(FOLDER, files, SMALL))[:-1] == kept


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_during_a_truncation_leaves_the_log_before_or_after_it(seed: int) -> None:
    def truncating(files: FaultyFiles) -> tuple[list[bytes], int]:
        log = Log.open(FOLDER, files, SMALL)
        made = append(log, [3, 1, 6, 2, 1, 4, 1, 1])
        log.sync()
        begun = files.count
        log.truncate_to(4)
        return made, begun

    whole = FaultyFiles()
    made, begun = truncating(whole)
    assert whole.count - begun > 4
    for number in range(begun, whole.count + 1):
        files = FaultyFiles()
        files.crash_at = number
        if number < whole.count:
            with pytest.raises(Crashed):
                truncating(files)
        else:
            truncating(files)
        files.crash(random.Random(seed * 1000 + number) if seed else None)
        kept = stored(Log.open(FOLDER, files, SMALL))
        assert kept == made[: len(kept)]
        assert len(kept) >= 2
        assert len(kept) == 2 or number < whole.count


def test_a_crash_during_a_deletion_leaves_all_or_nothing() -> None:
    def deleting(files: FaultyFiles) -> int:
        log = Log.open(FOLDER, files, SMALL)
        append(log, [3, 1, 6, 2])
        log.sync()
        begun = len(files.operations)
        log.delete()
        return begun

    whole = FaultyFiles()
    begun = deleting(whole)
    for number in range(begun, len(whole.operations) + 1):
        for seed in range(6):
            files = FaultyFiles()
            files.crash_at = number
            with suppress(Crashed):  # the last iteration does not crash
                deleting(files)
            files.crash(random.Random(seed))
            finish_deletions(FOLDER.parent, files)
            assert len(stored(Log.open(FOLDER, files, SMALL))) in (0, 4)
            assert not [n for n in files.list(FOLDER.parent) if n.endswith("-delete")]


def test_bytes_lost_in_the_middle_end_the_log_there() -> None:
    """The page cache is written back in any order: only a later batch may reach the disk."""
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    made = append(log, [3])
    log.sync()
    append(log, [5, 2])
    content = files.contents[FOLDER / f"{0:020d}.log"]
    content[len(made[0]) : len(made[0]) + 200] = bytes(200)
    assert stored(Log.open(FOLDER, files)) == made


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("segment_bytes", [100, 1000])
def test_failed_records_do_not_return_if_the_first_truncation_was_not_durable(
    segment_bytes: int, seed: int
) -> None:
    """The sync of the truncation fails, and power is lost after the next attempt. There is a
    manifest; the failed batch begins a new segment or does not."""
    files = FaultyFiles()
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=segment_bytes))
    made = append(log, [1])
    log.sync()
    files.fail("append")
    with pytest.raises(OSError, match="Input"):
        append(log, [1])  # creates the next segment
    log.sync()
    log.write_manifest()
    append(log, [1])
    assert len(log.segments) == (2 if segment_bytes == 100 else 1)
    files.fail("sync")
    with pytest.raises(OSError, match="Input"):
        log.sync()
    files.fail("sync")
    files.fail("sync_folder")
    with pytest.raises(OSError, match="Input"):
        log.reopen()
    files.heal()
    log.reopen()
    files.crash(random.Random(seed))
    assert stored(Log.open(FOLDER, files)) == made


def test_a_file_whose_name_was_not_synced_before_a_kill_survives_a_power_loss() -> None:
    """Ordinary topics are not synced when they are opened, but each batch may be
    (flush.messages=1)."""
    files = FaultyFiles()
    config = LogConfig(sync_at_open=False)
    made = append(Log.open(FOLDER, files, config), [1])
    log = Log.open(FOLDER, files, config)  # the process was killed before it had synced anything
    made += append(log, [1])
    log.sync()
    files.crash(None)
    assert stored(Log.open(FOLDER, files, config)) == made


def test_a_failed_sync_fails_the_records_in_the_previous_segment_too() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=200))
    made = append(log, [1])
    log.sync()
    append(log, [1, 1])  # the second one begins a segment, and the full one is synced for that
    assert len(log.segments) == 2
    assert log.synced_offset == 1
    files.fail("sync")
    with pytest.raises(OSError, match="Input"):
        log.sync()
    log.reopen()
    assert stored(log) == stored(Log.open(FOLDER, files)) == made
