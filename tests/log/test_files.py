"""Files on the disk and in memory behave alike."""

import errno
import os
import random
from pathlib import Path

import pytest
from kohort.log import memory_files
from kohort.log.files import DiskFiles, Files
from kohort.log.memory_files import ChunkedFiles, MemoryFiles


@pytest.fixture(params=["memory", "memory in chunks", "disk", "disk, preallocated"])
def files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Files:
    if request.param == "memory":
        return MemoryFiles()
    if "chunks" in request.param:
        monkeypatch.setattr(memory_files, "CHUNK_BYTES", 4)
        return ChunkedFiles()
    return DiskFiles(preallocate_bytes=8192 if "preallocated" in request.param else 0)


@pytest.fixture
def folder(files: Files, tmp_path: Path) -> Path:
    folder = tmp_path / "a" / "b"
    for each in (folder.parent, folder, folder):
        files.make_folder(each)
    return folder


def test_a_folder_is_not_created_without_its_parent(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        DiskFiles().make_folder(tmp_path / "removed" / "orders-0")


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_file_that_was_removed_while_open_accepts_no_writes(
    has_proc: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_proc:
        monkeypatch.setattr("kohort.log.files.OPEN_FILES_FOLDER", str(tmp_path / "none"))
    file = DiskFiles().open(tmp_path / "f", create=True)
    file.append(b"safe")
    (tmp_path / "f").unlink()
    with pytest.raises(FileNotFoundError, match="removed while it was in use"):
        file.sync()
    monkeypatch.setattr("kohort.log.files.REMOVAL_CHECK_SECONDS", 0)
    with pytest.raises(FileNotFoundError, match="removed while it was in use"):
        file.append(b"lost")
    assert file.size == 4
    file.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc/self/fd")
def test_a_read_error_contains_the_name_of_the_file(tmp_path: Path) -> None:
    """Method: a folder with the name of the file can be opened, but not read."""
    (tmp_path / "0.log").mkdir()
    file = DiskFiles().open(tmp_path / "0.log", read_only=True)
    file.size = 1 << 20
    with pytest.raises(OSError, match=r"Is a directory: '.*/0\.log'"):
        file.read(0, 10)
    file.close()


def test_chunked_files_behave_like_contiguous_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_files, "CHUNK_BYTES", 7)
    chance = random.Random(1)
    for _ in range(300):
        folder, path = Path("/data"), Path("/data/f")
        both = (MemoryFiles(), ChunkedFiles())
        for each in both:
            each.make_folder(folder)
        plain, chunked = (each.open(path, create=True) for each in both)
        for _ in range(20):
            data = chance.randbytes(chance.choice((0, 1, 3, 7, 8, 14, 30)))
            cut = chance.randint(0, plain.size)
            for file in (plain, chunked):
                file.append(data)
            if chance.random() < 0.3:
                for file in (plain, chunked):
                    file.truncate(cut)
            start, size = chance.randint(0, 60), chance.choice((0, 1, 7, 14, 20, 100))
            assert chunked.size == plain.size
            assert chunked.read(start, size) == plain.read(start, size)
            assert both[1].open(path).size == both[0].open(path).size
        assert both[1].read_bytes(path) == both[0].read_bytes(path)


def test_bytes_are_appended_read_and_truncated(files: Files, folder: Path) -> None:
    file = files.open(folder / "f", create=True)
    assert file.size == 0
    file.append(b"hello ")
    file.append(b"world")
    file.sync()
    assert file.size == 11
    assert file.read(0, 100) == b"hello world"
    assert file.read(6, 3) == b"wor"
    assert file.read(11, 5) == b""
    assert file.read(50, 5) == b""
    file.truncate(4)
    assert file.read(0, 100) == b"hell"
    file.append(b"!")
    file.close()
    assert files.read_bytes(folder / "f") == b"hell!"
    again = files.open(folder / "f", read_only=True)
    assert (again.size, again.read(0, 100)) == (5, b"hell!")
    again.close()


def test_rewriting_does_not_change_the_content(
    files: Files, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.log.files.CHUNK_BYTES", 3)
    file = files.open(folder / "f", create=True)
    file.append(b"hello world")
    for position in (0, 4, 10, 11):
        file.rewrite(position)
        assert (file.size, file.read(0, 100)) == (11, b"hello world")
    file.append(b"!")
    file.close()
    assert files.read_bytes(folder / "f") == b"hello world!"


def test_rewriting_writes_all_bytes_from_the_position_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kohort.log.files.CHUNK_BYTES", 3)
    file = DiskFiles().open(tmp_path / "f", create=True)
    file.append(b"hello world")
    written: list[tuple[bytes, int]] = []
    pwrite = os.pwrite

    def record(fd: int, data: bytes, position: int) -> int:
        if len(written) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        written.append((bytes(data), position))
        return pwrite(fd, data, position)

    monkeypatch.setattr(os, "pwrite", record)
    with pytest.raises(OSError, match="Input/output"):
        file.rewrite(4)
    assert written == [(b"o w", 4), (b"orl", 7)]
    assert (file.size, file.read(0, 100)) == (11, b"hello world")
    written.clear()
    file.rewrite(6)
    assert written == [(b"wor", 6), (b"ld", 9)]
    file.close()


def test_names_are_listed_renamed_and_removed(files: Files, folder: Path) -> None:
    assert files.list(folder / "nowhere") == []
    for name in ("b", "a"):
        files.open(folder / name, create=True).close()
    files.make_folder(folder / "c")
    assert files.list(folder) == ["a", "b", "c"]
    files.rename(folder / "a", folder / "d")
    files.remove(folder / "b")
    files.sync_folder(folder)
    assert files.list(folder) == ["c", "d"]
    files.rename(folder, folder.with_name("e"))
    assert not files.exists(folder)
    assert files.list(folder.with_name("e")) == ["c", "d"]
    files.remove_folder(folder.with_name("e"))
    assert files.list(folder.parent) == []


def test_content_is_replaced_atomically(files: Files, folder: Path) -> None:
    for content in (b"first", b"second, longer", b""):
        files.replace(folder / "f", content)
        assert files.read_bytes(folder / "f") == content
    assert files.list(folder) == ["f"]


def test_missing_files_and_folders_raise_file_not_found(files: Files, folder: Path) -> None:
    missing = folder / "nowhere" / "f"
    for call in (
        lambda: files.open(missing),
        lambda: files.open(missing, create=True),
        lambda: files.read_bytes(missing),
        lambda: files.remove(missing),
        lambda: files.rename(missing, folder / "g"),
        lambda: files.remove_folder(missing),
        lambda: files.sync_folder(missing),
    ):
        with pytest.raises(FileNotFoundError):
            call()


def test_a_lock_has_one_holder(files: Files, folder: Path) -> None:
    lock = files.lock(folder / ".lock")
    lock.write_holder("first, with a longer name\n")
    lock.write_holder("second\n")
    assert files.read_bytes(folder / ".lock") == b"second\n"
    with pytest.raises(BlockingIOError):
        files.lock(folder / ".lock")
    lock.release()
    files.lock(folder / ".lock").release()


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole_write = os.pwrite

    def short_write(fd: int, data: bytes, position: int) -> int:
        return whole_write(fd, bytes(data)[:7], position)

    monkeypatch.setattr(os, "pwrite", short_write)
    file = DiskFiles().open(tmp_path / "f", create=True)
    file.append(bytes(range(100)))
    file.append(b"end")
    assert file.read(0, 200) == bytes(range(100)) + b"end"
    file.close()


def test_a_write_that_fails_midway_does_not_change_the_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_write = os.pwrite

    def filling_disk(fd: int, data: bytes, position: int) -> int:
        if position >= 14:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole_write(fd, bytes(data)[:7], position)

    file = DiskFiles().open(tmp_path / "f", create=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", filling_disk)
        with pytest.raises(OSError, match="No space left"):
            file.append(bytes(100))
        patch.setattr(os, "pwrite", lambda fd, data, position: 0)
        with pytest.raises(OSError, match="accepts no more bytes"):
            file.append(bytes(100))
    assert file.size == 0
    file.truncate(0)
    file.append(b"ok")
    file.close()
    assert (tmp_path / "f").read_bytes() == b"ok"


def test_files_are_preallocated_and_truncated_at_close(tmp_path: Path) -> None:
    file = DiskFiles(preallocate_bytes=4096).open(tmp_path / "f", create=True)
    file.append(b"x" * 10)
    assert (tmp_path / "f").stat().st_size == 10 + 4096
    assert file.size == 10
    assert file.read(0, 100) == b"x" * 10
    file.close()
    file.close()
    assert (tmp_path / "f").read_bytes() == b"x" * 10


def test_at_most_2_gib_are_preallocated(tmp_path: Path) -> None:
    """Segments have 31-bit positions. After a crash, a larger one could not be opened."""
    path = tmp_path / "f"
    with path.open("wb") as sparse:
        sparse.truncate(2**31 - 3)
    file = DiskFiles(preallocate_bytes=4096).open(path)
    for count in (1, 1, 2):  # the last one is beyond 2 GiB - 1
        file.append(b"x" * count)
        assert path.stat().st_size == max(2**31 - 1, file.size)
    file.close()
    assert path.stat().st_size == 2**31 + 1


def test_files_are_written_without_preallocation_if_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(fd: int, position: int, size: int) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(os, "posix_fallocate", fail, raising=False)
    file = DiskFiles(preallocate_bytes=4096).open(tmp_path / "f", create=True)
    file.append(b"x")
    file.append(b"y")
    assert (tmp_path / "f").read_bytes() == b"xy"
    file.close()


@pytest.mark.interpreted
def test_a_failed_replacement_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles()
    files.replace(tmp_path / "f", b"old")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr("kohort.log.files._datasync", fail)
        with pytest.raises(OSError, match="Input/output"):
            files.replace(tmp_path / "f", b"new")
    assert (tmp_path / "f").read_bytes() == b"old"


def test_disk_space_is_reported(tmp_path: Path) -> None:
    total, usable = DiskFiles().disk_space(tmp_path)
    assert 0 < usable <= total
    assert MemoryFiles().disk_space(tmp_path) == (-1, -1)
    with pytest.raises(FileNotFoundError):
        DiskFiles().disk_space(tmp_path / "nowhere")
