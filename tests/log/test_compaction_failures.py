"""A sync fails while a log is compacted: the log is recovered and the compaction stops."""

from contextlib import suppress
from pathlib import Path

import pytest
from kohort.log.cleaner import clean
from kohort.log.errors import CleaningStopped
from kohort.log.log import Log, LogConfig
from kohort.testing.faults.files import FaultyFiles
from support.log import NOW_MS, TERMS, newest, put

FOLDER = Path("/data/orders-0")


def filled() -> Log:
    """Several small segments, which compaction merges into one."""
    files = FaultyFiles()
    files.make_folder(FOLDER.parent)
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=400))
    for number in range(20):
        put(log, [(f"key {number % 7}", f"value {number}")], NOW_MS + number)
    log.sync()
    assert len(log.segments) > 4
    return log


def compacted_until_a_sync_fails(log: Log, at: int, failing: str, after: int) -> bool:
    """Fail a sync at a step of the compaction, and optionally the operation `failing` of the
    recovery, then continue the compaction. Return False if the compaction ended before that step.
    """
    files = log.files
    assert isinstance(files, FaultyFiles)
    work = clean(log, 0, log.segments[-1].base_offset, TERMS)
    has_failed = False
    with suppress(CleaningStopped):
        for number, step in enumerate(work):
            if number == at:
                put(log, [("failed", "x")], NOW_MS)
                files.fail("sync")
                with pytest.raises(OSError):
                    log.sync()
                if failing:
                    files.fail(failing, after=after)
                with suppress(OSError):
                    log.reopen()
                files.heal()
                has_failed = True
            if step is not None:
                step()
    if log.failed is not None:
        log.reopen()
    return has_failed


@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("failing", ["", "remove", "rename", "sync_folder", "truncate", "sync"])
def test_a_failed_sync_at_any_step_only_stops_the_compaction(failing: str, after: int) -> None:
    before = newest(filled())
    at = 0
    while compacted_until_a_sync_fails(log := filled(), at, failing, after):
        at += 1
        assert newest(log) == before
        assert newest(Log.open(FOLDER, log.files)) == before
        put(log, [("after", "y")], NOW_MS)
        log.sync()
        assert newest(Log.open(FOLDER, log.files)).keys() - before.keys() == {"after"}
    assert at > 5
