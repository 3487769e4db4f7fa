"""A log that is opened on the word of its survey is the log that was: whatever happened to the
bytes, to the survey, or to the machine in between."""

import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from inspect import isdatadescriptor
from pathlib import Path
from typing import Any

import pytest
from kohort.log.cache_files import SEGMENT_MANIFEST
from kohort.log.cleaner import clean
from kohort.log.log import Log, LogConfig
from kohort.log.memory_files import MemoryFiles
from kohort.log.segment import Segment
from kohort.testing.faulty_files import Crashed, FaultyFiles
from support.log import NOW_MS, TERMS, append, batch, put, stored

FOLDER = Path("/data/orders-0")
SURVEY = FOLDER / SEGMENT_MANIFEST
SMALL = LogConfig(segment_bytes=500, index_interval_bytes=150)
UNSYNCED = LogConfig(segment_bytes=500, index_interval_bytes=150, sync_at_open=False)
COUNTS = (3, 1, 6, 2, 1, 4, 1, 1, 2, 5, 1, 1)


def surveyed(config: LogConfig = SMALL) -> tuple[FaultyFiles, list[bytes]]:
    """A log of some segments that were walked to their ends."""
    files = FaultyFiles()
    log = Log.open(FOLDER, files, config)
    made = append(log, COUNTS)
    if config.sync_at_open:
        log.sync()
    log.write_manifest()
    log.close()
    return files, made


def known(log: Log) -> list[dict[str, Any]]:
    """All that a log knows of its segments, but for what a survey is for."""
    told = []
    for segment in log.segments:
        fields = (name for name, field in vars(Segment).items() if isdatadescriptor(field))
        values = {name: getattr(segment, name) for name in fields if name[0] != "_"}
        values["index"] = (segment.index.to_bytes(), segment.index._next_position)
        for name in ("file", "manifest_end_offset", "dirty"):
            del values[name]
        told.append(values)
    return told


def without_survey(files: FaultyFiles) -> MemoryFiles:
    copy = MemoryFiles()
    copy.folders = set(files.folders)
    copy.contents = {p: bytearray(data) for p, data in files.contents.items() if p != SURVEY}
    return copy


def check_same(files: FaultyFiles, config: LogConfig = SMALL) -> Log:
    """Opened with the survey, and without it on a disk with the same bytes."""
    walked = Log.open(FOLDER, without_survey(files), config)
    log = Log.open(FOLDER, files, config)
    assert known(log) == known(walked)
    assert stored(log) == stored(walked)
    return log


def test_what_was_walked_is_known_and_not_walked_again() -> None:
    files, made = surveyed()
    log = check_same(files)
    assert len(log.segments) > 2
    assert log.manifest_end_offset == log.end_offset
    files.contents[FOLDER / f"{0:020d}.log"][len(made[0]) - 1] ^= 1  # where nobody looks
    assert Log.open(FOLDER, files, SMALL).end_offset == sum(COUNTS)
    assert stored(Log.open(FOLDER, files, SMALL, read_only=True)) == []


def test_what_came_since_is_walked() -> None:
    files, made = surveyed()
    log = Log.open(FOLDER, files, SMALL)
    made += append(log, [2, 1, 7, 1])
    log.close()
    assert stored(check_same(files)) == made
    files.contents[log.segments[-1].path] += b"\xff" * 70
    assert stored(Log.open(FOLDER, files, SMALL)) == made


def test_nothing_is_synced_that_was() -> None:
    files, _ = surveyed()
    begun = len(files.operations)
    log = Log.open(FOLDER, files, SMALL)
    assert {operation for operation, _ in files.operations[begun:]} == {"sync_folder"}
    assert not any(segment.dirty for segment in log.segments)


def test_what_came_since_is_synced_when_it_is_found() -> None:
    files, made = surveyed()
    log = Log.open(FOLDER, files, SMALL)
    made += append(log, [1])
    log.close()
    Log.open(FOLDER, files, SMALL)
    files.crash()
    assert stored(Log.open(FOLDER, files, SMALL)) == made


def test_of_bytes_that_are_not_synced_nothing_is_said() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    append(log, COUNTS)
    synced_end = log.segments[-1].base_offset  # by the roll
    log.write_manifest()
    assert (log.manifest_end_offset, log.end_offset) == (synced_end, sum(COUNTS))
    files.crash()
    assert check_same(files).end_offset == synced_end


def test_a_log_whose_sync_failed_is_not_surveyed() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, SMALL)
    append(log, [1])
    files.fail("sync")
    with suppress(OSError):
        log.sync()
    log.write_manifest()
    assert not files.exists(SURVEY)


def test_where_nobody_syncs_it_is_believed_until_the_machine_starts_anew() -> None:
    files, _ = surveyed(UNSYNCED)
    assert check_same(files, UNSYNCED).manifest_end_offset == sum(COUNTS)
    # Under the other durability now, for which all must be synced that was not.
    log = Log.open(FOLDER, files, SMALL)
    assert ("sync", log.segments[0].path.name) in files.operations
    files.boots += 1
    assert Log.open(FOLDER, files, UNSYNCED).manifest_end_offset == 0
    assert not files.exists(SURVEY)


def test_what_does_not_outlive_the_process_gets_none() -> None:
    files = MemoryFiles()
    files.make_folder(FOLDER)
    log = Log.open(FOLDER, files, UNSYNCED)
    append(log, COUNTS)
    log.write_manifest()
    assert not files.exists(SURVEY)


def test_a_survey_with_a_wrong_bit_or_torn_anywhere_costs_nothing_but_time() -> None:
    files, made = surveyed()
    whole = bytes(files.contents[SURVEY])
    bent = [whole[:end] for end in range(len(whole))]
    bent += [whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :] for at in range(len(whole))]
    for content in bent:
        files.contents[SURVEY] = bytearray(content)
        log = Log.open(FOLDER, files, SMALL)
        assert log.manifest_end_offset == 0
        assert stored(log) == made
        assert not files.exists(SURVEY)


def test_a_survey_that_cannot_be_read_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    files, made = surveyed()

    def refuse(path: Path) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    monkeypatch.setattr(files, "read_bytes", refuse)
    assert stored(Log.open(FOLDER, files, SMALL)) == made
    assert not files.exists(SURVEY)


def shorter(content: bytearray) -> None:
    del content[-1:]


def other(content: bytearray) -> None:
    content[-1] ^= 1


@pytest.mark.parametrize("change", [shorter, other, bytearray.clear])
@pytest.mark.parametrize("number", [0, -1])
def test_segments_that_it_does_not_fit_are_walked(
    number: int, change: Callable[[bytearray], None]
) -> None:
    files, _ = surveyed()
    names = [name for name in files.list(FOLDER) if name.endswith(".log")]
    change(files.contents[FOLDER / names[number]])
    log = check_same(files)
    assert log.manifest_end_offset == 0
    assert not files.exists(SURVEY)


def test_segments_that_retention_took_are_not_missed() -> None:
    files, made = surveyed()
    log = Log.open(FOLDER, files, SMALL)
    second = log.segments[1].base_offset
    log.delete_before(second)
    log.close()
    log = check_same(files)
    assert (log.start_offset, log.manifest_end_offset) == (second, sum(COUNTS))
    assert stored(log) == made[-len(stored(log)) :]


def test_a_log_that_is_cut_below_its_survey_loses_it_first() -> None:
    files, _ = surveyed()
    log = Log.open(FOLDER, files, SMALL)
    begun = len(files.operations)
    log.truncate_to(log.segments[1].base_offset)
    assert files.operations[begun : begun + 2] == [
        ("remove", SURVEY.name),
        ("sync_folder", FOLDER.name),
    ]
    assert not files.exists(SURVEY)


def test_a_log_that_is_cut_behind_its_survey_keeps_it() -> None:
    files, _ = surveyed()
    log = Log.open(FOLDER, files, SMALL)
    append(log, [2, 1])
    log.truncate_to(sum(COUNTS))
    assert check_same(files).manifest_end_offset == sum(COUNTS)


def test_a_full_disk_costs_the_survey_and_nothing_else() -> None:
    files, made = surveyed()
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


def busy_life(files: FaultyFiles, said: Callable[[Log], None]) -> None:
    """Surveys between everything that befalls a log: appends, rolls, cuts, compactions, retention
    and openings. What comes in the place of what was cut is as long, and of another time."""
    log = Log.open(FOLDER, files, SMALL)
    for turn in range(3):
        for number in range(9):
            put(log, [(f"key {number % 3}", f"value {turn}")], NOW_MS + 100 * turn + number)
            if number % 3 == 0:
                log.sync()
                said(log)
                log.write_manifest()
        log.sync()
        said(log)
        log.write_manifest()
        log.truncate_to(log.end_offset - 3)
        said(log)
        for number in (8, 7, 6):
            put(log, [(f"key {number % 3}", f"value {turn}")], NOW_MS + 100 * turn + number)
        log.sync()
        said(log)
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
    said(log)
    log.write_manifest()
    log.close()


@pytest.mark.parametrize("seed", range(4))
def test_a_crash_at_any_operation_leaves_a_survey_that_is_true_or_none(seed: int) -> None:
    """Seed 0 loses all that was not synced, the others any part of it."""
    whole = FaultyFiles()
    busy_life(whole, lambda log: None)
    for number in range(len(whole.operations)):
        files = FaultyFiles()
        files.crash_at = number
        ends = [0]
        with suppress(Crashed):
            busy_life(files, lambda log, ends=ends: ends.append(log.end_offset))
        files.crash(random.Random(seed * 1000 + number) if seed else None)
        log = check_same(files)
        assert log.end_offset >= ends[-1] - 3  # a cut may have been under way
        put(log, [("after", "the crash")])
        log.sync()
        log.write_manifest()
        files.crash(random.Random(seed) if seed else None)
        assert stored(check_same(files))[-1] == stored(log)[-1]


def test_a_segment_whose_end_is_another_batch_of_the_same_size_is_walked() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files)
    log.append(batch(0, 1, text="one"))
    log.sync()
    log.write_manifest()
    log.close()
    path = FOLDER / f"{0:020d}.log"
    files.contents[path][:] = batch(0, 2, text="")[: len(files.contents[path])]
    assert Log.open(FOLDER, files).end_offset == 0
