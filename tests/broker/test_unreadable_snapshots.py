"""Snapshots that lie on bad sectors: nothing rests on them."""

import errno
from pathlib import Path

import pytest
from kohort.broker import snapshots
from kohort.coordinator.commands import OffsetFetch
from kohort.log.cache_files import OFFSETS_SNAPSHOT
from kohort.protocol.errors import ErrorCode
from kohort.testing.faulty_files import FaultyFile, FaultyFiles
from support.runtime import FOLDER, RuntimeHarness

SNAPSHOT = FOLDER / OFFSETS_SNAPSHOT
GROUPS = [f"g{number}" for number in range(6)]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> FaultyFiles:
    """Of a broker that has stopped with a snapshot: six groups, each with a commit of offset 3."""
    monkeypatch.setattr(snapshots, "AT_STOP_RECORDS", 1)
    harness = RuntimeHarness("fsync")
    for group_id in GROUPS:
        harness.commit(group_id, 3, group_id=group_id)
    harness.run_loop()
    harness.runtime.close()
    assert harness.files.exists(SNAPSHOT)
    return harness.files


class Unreadable(FaultyFiles):
    """A snapshot that cannot be opened, or not be read from byte `unread_from` to `unread_to`."""

    def __init__(self, files: FaultyFiles, unread_from: int, unread_to: int, opens: bool) -> None:
        super().__init__()
        self.contents, self.folders = files.contents, files.folders
        self._unread = range(unread_from, unread_to)
        self._opens = opens

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> FaultyFile:
        if path != SNAPSHOT:
            return super().open(path, create=create, read_only=read_only)
        if not self._opens:
            raise OSError(errno.EIO, "no word of it")
        unread = self._unread

        class BadSectors(FaultyFile):
            def read(self, position: int, size: int) -> bytes:
                if range(max(position, unread.start), min(position + size, unread.stop)):
                    raise OSError(errno.EIO, "bad sectors")
                return super().read(position, size)

        return BadSectors(self, path, self.contents[path])


@pytest.mark.parametrize(("unread", "opens"), [((0, 0), False), ((0, 9999), True), ((0, 20), True)])
def test_an_unreadable_snapshot_loses_nothing(
    files: FaultyFiles, unread: tuple[int, int], opens: bool
) -> None:
    again = RuntimeHarness("fsync", Unreadable(files, *unread, opens))
    again.committed_offset("nobody")
    again.commit("new", 7, group_id=GROUPS[1])
    again.run_loop()
    fetch = OffsetFetch(GROUPS[0], (("t", (0,)),), False, None, -1)
    again.submit("first", fetch)  # in the bad sectors, or nothing is bad any more
    again.run_loop()
    assert again.results["first"].error in (
        ErrorCode.none,
        ErrorCode.coordinator_load_in_progress,
    )
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [3, 7, 3, 3, 3, 3]
    assert not again.files.exists(SNAPSHOT)


def test_commits_after_an_unreadable_snapshot_are_loaded_from_the_log(
    files: FaultyFiles,
) -> None:
    tail = RuntimeHarness("fsync", files)
    tail.commit("tail", 7, group_id=GROUPS[0])
    tail.run_loop()  # and is killed
    again = RuntimeHarness("fsync", Unreadable(files, 0, 20, opens=True))
    again.committed_offset("nobody")
    assert [again.committed_offset(group_id) for group_id in GROUPS] == [7, 3, 3, 3, 3, 3]
