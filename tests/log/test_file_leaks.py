"""No file descriptor leaks when opening a log or writing a snapshot fails: an offsets partition is
retried every second."""

import errno
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from kohort.broker.config.broker_config import BrokerConfig
from kohort.log.checkpoint import PartitionCheckpoints
from kohort.log.files import DiskFiles, Files
from kohort.log.log import Log, LogConfig
from kohort.log.segment import Segment
from kohort.offsets.record_codec import encode_commit_value
from kohort.offsets.records import OffsetCommitRecord
from kohort.offsets.snapshot import SnapshotWriter
from kohort.offsets.table import OffsetsTable
from kohort.topics.configs.effective import Configs
from kohort.topics.topic import Partition
from support.log import batch, open_below


class FailingFiles:
    """Real files whose methods with these names fail. A method of an open file is named
    `file.truncate`."""

    def __init__(self, *names: str, files: Files | Any = None) -> None:
        self._files = files or DiskFiles()
        self._names = names

    def __getattr__(self, name: str) -> Any:
        return _fail if name in self._names else getattr(self._files, name)

    def open(self, path: Path, **options: bool) -> Any:
        file = self._files.open(path, **options)
        names = [name.removeprefix("file.") for name in self._names if name.startswith("file.")]
        return FailingFiles(*names, files=file) if names else file


def _fail(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, "injected error")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A log of two segments."""
    log = Log.open(tmp_path / "a-0", DiskFiles())
    log.append(batch(0))
    log.roll()
    log.append(batch(1))
    log.close()
    assert open_below(tmp_path) == []
    return log.folder


def test_a_log_whose_segments_cannot_be_removed(folder: Path) -> None:
    with pytest.raises(OSError, match="injected error"):
        Log.open(folder, FailingFiles("remove"), start_offset=1)
    assert open_below(folder) == []


def test_a_log_that_cannot_be_truncated(folder: Path) -> None:
    files = FailingFiles("file.truncate")
    settings = Configs(BrokerConfig({}), 1).settings({})
    partition = Partition(
        folder.name,
        0,
        folder.parent,
        files,
        settings,
        PartitionCheckpoints(folder, files),
        replicas=(1,),
        isr=(1,),
        leader_id=1,
        durable_reads_only=False,
    )
    with pytest.raises(OSError, match="injected error"):
        partition.reopen(0)
    assert open_below(folder) == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_log_that_is_closed_before_it_is_synced(folder: Path, fails: bool) -> None:
    """This happens to the log of a topic whose creation is undone during a flush."""
    log = Log.open(folder, FailingFiles(*["sync_folder"] * fails), LogConfig(sync_at_open=False))
    log.append(batch(2))
    log.close()
    with pytest.raises(OSError, match="injected error") if fails else nullcontext():
        log.sync()
    assert open_below(folder) == []


def test_a_segment_that_two_threads_open_at_once(folder: Path) -> None:
    class RacingFiles(FailingFiles):
        def open(self, path: Path, **options: bool) -> Any:
            file = super().open(path, **options)
            if segment.file is None:
                segment.file = super().open(path, **options)  # by the other thread
            return file

    segment = Segment(folder, RacingFiles(), 0)
    assert segment.open() is segment.file
    segment.close()
    assert open_below(folder) == []


def test_a_snapshot_abandoned_before_its_first_step(folder: Path) -> None:
    table = OffsetsTable()
    SnapshotWriter(folder, DiskFiles(), 0, table, iter(())).abandon()
    assert open_below(folder) == []


def test_a_snapshot_on_a_full_disk(folder: Path) -> None:
    table = OffsetsTable()
    table.put(OffsetCommitRecord("g", "orders", 0, encode_commit_value(7, -1, "", 1)))
    writer = SnapshotWriter(folder, FailingFiles("file.append"), 0, table, iter(()))
    with pytest.raises(OSError, match="injected error"):
        list(writer.steps)
    writer.abandon()
    assert open_below(folder) == []
    assert table.get("g", "orders", 0) is not None


def test_an_abandoned_snapshot_still_serves_the_groups_in_it(folder: Path) -> None:
    """The groups were evicted from memory while the snapshot was written."""
    table = OffsetsTable(lambda _: None)
    for group_id in ("f", "g", "h"):
        table.put(OffsetCommitRecord(group_id, "orders", 0, encode_commit_value(7, -1, "", 1)))
    writer = SnapshotWriter(folder, DiskFiles(), 0, table, iter(()), step_offsets=1)
    next(writer.steps)
    table.evict(2, lambda: pytest.fail("must use the snapshot"))
    writer.abandon()
    assert [len(list(table.read(group_id))) for group_id in ("f", "g", "h")] == [1, 1, 1]
    table.close()
    assert open_below(folder) == []
