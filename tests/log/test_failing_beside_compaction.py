"""A log whose disk fails while it is compacted is read again, and what was begun lets it be."""

from contextlib import suppress
from pathlib import Path

import pytest
from kohort.log.cleaner import clean
from kohort.log.errors import CleaningStopped
from kohort.log.log import Log, LogConfig
from kohort.testing.faulty_files import FaultyFiles
from support.log import NOW_MS, TERMS, newest, put

FOLDER = Path("/data/orders-0")


def filled() -> Log:
    """Of several small segments, of which compaction makes one."""
    files = FaultyFiles()
    files.make_folder(FOLDER.parent)
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=400))
    for number in range(20):
        put(log, [(f"key {number % 7}", f"value {number}")], NOW_MS + number)
    log.sync()
    assert len(log.segments) > 4
    return log


def compacted_until_a_sync_fails(log: Log, at: int, refused: str, after: int) -> bool:
    """Fails a sync at a step of the compaction, perhaps the first recovery as well, and goes on
    with the compaction. False: it ended before."""
    files = log.files
    assert isinstance(files, FaultyFiles)
    work = clean(log, 0, log.segments[-1].base_offset, TERMS)
    has_failed = False
    with suppress(CleaningStopped):
        for number, step in enumerate(work):
            if number == at:
                put(log, [("refused", "x")], NOW_MS)
                files.fail("sync")
                with pytest.raises(OSError):
                    log.sync()
                if refused:
                    files.fail(refused, after=after)
                with suppress(OSError):
                    log.recover()
                files.heal()
                has_failed = True
            if step is not None:
                step()
    if log.failed is not None:
        log.recover()
    return has_failed


@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("refused", ["", "remove", "rename", "sync_folder", "truncate", "sync"])
def test_a_sync_that_fails_at_any_step_of_a_compaction_costs_nothing_but_the_compaction(
    refused: str, after: int
) -> None:
    before = newest(filled())
    at = 0
    while compacted_until_a_sync_fails(log := filled(), at, refused, after):
        at += 1
        assert newest(log) == before
        assert newest(Log.open(FOLDER, log.files)) == before
        put(log, [("after", "y")], NOW_MS)
        log.sync()
        assert newest(Log.open(FOLDER, log.files)).keys() - before.keys() == {"after"}
    assert at > 5
