"""A round of several batches is refused as a whole."""

from pathlib import Path

import pytest
from kohort.log.log import Log, LogConfig
from kohort.testing.faulty_files import FaultyFiles
from support.log import append, stored

FOLDER = Path("/data/orders-0")


def test_a_sync_that_fails_refuses_what_lies_in_the_segment_before_as_well() -> None:
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
    log.recover()
    assert stored(log) == stored(Log.open(FOLDER, files)) == made
