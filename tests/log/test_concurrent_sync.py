"""A sync in another thread only covers what was appended before it began."""

import threading
from pathlib import Path

from kohort.log.log import Log, LogConfig
from kohort.testing.faults.files import FaultyFile, FaultyFiles
from support.log import append, batch, stored

FOLDER = Path("/data/orders-0")


class SlowFiles(FaultyFiles):
    """Each sync of a file blocks until `go_on` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.in_sync = threading.Event()
        self.go_on = threading.Event()

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        super().open(path, create=create, read_only=read_only)
        return SlowFile(self, path, self.contents[path])


class SlowFile(FaultyFile):
    def sync(self) -> None:
        files = self._files
        assert isinstance(files, SlowFiles)
        super().sync()
        if files.slow:
            files.in_sync.set()
            assert files.go_on.wait(30)


def begin_sync(files: SlowFiles, log: Log) -> threading.Thread:
    """Return the thread, which waits in the sync of a file."""
    files.slow = True
    thread = threading.Thread(target=log.sync)
    thread.start()
    assert files.in_sync.wait(30)
    return thread


def test_appends_during_a_sync_belong_to_the_next_one() -> None:
    files = SlowFiles()
    log = Log.open(FOLDER, files)
    made = append(log, [3])
    thread = begin_sync(files, log)
    late = append(log, [2])
    assert log.synced_offset == 0
    files.go_on.set()
    thread.join()
    assert (log.synced_offset, log.end_offset) == (3, 5)
    log.sync()
    assert log.synced_offset == 5
    files.crash()
    assert stored(Log.open(FOLDER, files)) == made + late


def test_a_segment_created_during_a_sync_is_covered_by_the_next() -> None:
    files = SlowFiles()
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=300, sync_at_open=False))
    append(log, [3])
    thread = begin_sync(files, log)
    append(log, [5, 5])
    files.go_on.set()
    thread.join()
    assert log.synced_offset == 3
    log.sync()
    files.crash()
    assert Log.open(FOLDER, files).end_offset == 13


def test_closing_waits_for_a_sync_in_progress() -> None:
    files = SlowFiles()
    log = Log.open(FOLDER, files)
    append(log, [3])
    syncing = begin_sync(files, log)
    closing = threading.Thread(target=log.close)
    closing.start()
    files.go_on.set()
    syncing.join()
    closing.join()
    assert log.synced_offset == 3


def test_concurrent_syncs_and_appends_lose_nothing() -> None:
    files = FaultyFiles()
    log = Log.open(FOLDER, files, LogConfig(segment_bytes=2000, sync_at_open=False))
    done = threading.Event()
    claimed = [0]

    def syncing() -> None:
        while not done.is_set():
            log.sync()
            claimed.append(log.synced_offset)

    thread = threading.Thread(target=syncing)
    thread.start()
    for _ in range(2000):
        log.append(batch(log.end_offset))
    done.set()
    thread.join()
    assert claimed == sorted(claimed)
    log.sync()
    files.crash()
    assert Log.open(FOLDER, files).end_offset == 2000
