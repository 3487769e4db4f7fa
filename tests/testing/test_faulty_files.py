"""The in-memory disk of tests: what survives a crash, and that everything else is freed."""

import random
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kohort.testing.faults.files import RENAMES_MAX, Crashed, FaultyFiles

FOLDER = Path("/data/orders-0")
LOG = FOLDER / "0.log"


@pytest.fixture
def files() -> FaultyFiles:
    """A disk with a durable folder."""
    files = FaultyFiles()
    files.make_folder(FOLDER)
    files.sync_folder(FOLDER.parent)
    return files


class Chance(random.Random):
    """`is_kept`: written data has reached the disk, but truncations and names have not."""

    def __init__(self, *, is_kept: bool) -> None:
        super().__init__(0)
        self._drawn = 0.6 if is_kept else 0.9

    def random(self) -> float:
        return self._drawn


def written(files: FaultyFiles, path: Path, data: bytes) -> bytes:
    files.open(path, create=True).append(data)
    return data


def known(files: FaultyFiles) -> list[bytes]:
    return [bytes(each) for each in files.image.buffers]


# --- buffers without a name


@pytest.mark.parametrize("how", ["remove", "remove_folder", "replace", "rename"])
def test_an_unsynced_file_without_a_name_is_dropped(files: FaultyFiles, how: str) -> None:
    written(files, LOG, b"old")
    if how == "remove":
        files.remove(LOG)
    elif how == "remove_folder":
        files.remove_folder(FOLDER)
    elif how == "replace":
        files.replace(LOG, b"new")
    else:
        written(files, FOLDER / "new", b"new")
        files.rename(FOLDER / "new", LOG)
    assert b"old" not in known(files)


def test_a_removed_file_comes_back_unless_its_folder_was_synced(files: FaultyFiles) -> None:
    for is_synced in (False, True):
        written(files, LOG, b"a")
        files.open(LOG).sync()
        files.sync_folder(FOLDER)
        files.remove(LOG)
        assert known(files) == [b"a"]
        if is_synced:
            files.sync_folder(FOLDER)
            assert known(files) == []
        files.crash()
        assert files.exists(LOG) is not is_synced
        if not is_synced:
            files.remove(LOG)


def test_the_synced_files_of_a_renamed_folder_survive_a_crash(files: FaultyFiles) -> None:
    new = FOLDER.with_name("orders-1")
    for name in ("synced", "unsynced"):
        file = files.open(FOLDER / name, create=True)
        file.append(b"a")
        file.sync()
        if name == "synced":
            files.sync_folder(FOLDER)
    files.rename(FOLDER, new)
    files.sync_folder(FOLDER.parent)
    files.crash()
    assert files.list(FOLDER.parent) == [new.name]
    assert files.list(new) == ["synced"]
    assert files.read_bytes(new / "synced") == b"a"


def test_writes_to_a_removed_file_can_be_read_but_are_not_kept(files: FaultyFiles) -> None:
    file = files.open(LOG, create=True)
    files.remove(LOG)
    file.append(b"a")
    file.sync()
    assert file.read(0, 1) == b"a"
    assert known(files) == []


def test_only_the_last_pending_renames_to_one_name_are_kept(files: FaultyFiles) -> None:
    for number in range(3 * RENAMES_MAX):
        last = written(files, FOLDER / "new", b"%d" % number)
        files.rename(FOLDER / "new", LOG)
    assert len(known(files)) == RENAMES_MAX
    assert known(files)[-1] == last


# --- pending changes


def test_pending_writes_are_not_copied(files: FaultyFiles) -> None:
    file = files.open(LOG, create=True)
    tracemalloc.start()
    try:
        for _ in range(500):
            file.append(bytes(10_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1.5 * 5_000_000


@pytest.mark.parametrize(
    ("is_kept", "left"), [(True, b"abXdeYghi"), (False, b"")], ids=["kept", "lost"]
)
def test_a_truncated_write_may_have_reached_the_disk(
    files: FaultyFiles, is_kept: bool, left: bytes
) -> None:
    file = files.open(LOG, create=True)
    files.sync_folder(FOLDER)
    file.append(b"abcdefghi")
    file.truncate(2)
    file.append(b"XYZ")
    file.truncate(3)
    file.append(b"deY")
    assert file.read(0, 9) == b"abXdeY"
    files.crash(Chance(is_kept=is_kept))
    assert files.read_bytes(LOG) == left


def test_a_write_over_a_torn_one_can_be_synced(files: FaultyFiles) -> None:
    file = files.open(LOG, create=True)
    files.sync_folder(FOLDER)
    files.fail("append", written=4)
    with pytest.raises(OSError, match="Input/output error"):
        file.append(b"torn")
    file.append(b"ab")
    file.rewrite(1)
    assert (file.read(0, 9), files.read_bytes(LOG)) == (b"ab", b"abrn")
    file.sync()
    files.crash()
    assert files.read_bytes(LOG) == b"abrn"


# --- recorded calls


def test_the_last_calls_are_kept_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.testing.faults.files.CALLS_MAX", 3)
    files = FaultyFiles()
    files.make_folder(FOLDER)
    for name in "abcd":
        written(files, FOLDER / name, b"")
    assert files.operations == [("append", "c"), ("create", "d"), ("append", "d")]
    files.crash_at = files.count + 1
    assert files.count == 9
    file = files.open(LOG, create=True)
    with pytest.raises(Crashed):
        file.append(b"a")


def test_folders_are_synced_in_threads_while_files_are_created() -> None:
    files = FaultyFiles()
    folders = [Path(f"/data/{number}") for number in range(200)]
    for folder in folders:
        files.make_folder(folder)
        files.open(folder / "0.log", create=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            synced = [pool.submit(files.sync_folder, folder) for folder in folders]
            for folder in folders:
                files.replace(folder / "1.log", b"")
            for each in synced:
                each.result()
    finally:
        sys.setswitchinterval(interval)
    files.sync_folder(Path("/data"))
    files.crash()
    assert len(files.contents) == 2 * len(folders)
