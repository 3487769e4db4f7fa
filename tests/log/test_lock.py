"""Only one broker can use a data folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kohort.log.errors import FolderInUse
from kohort.log.files import DiskFiles, lock_folder
from kohort.log.memory_files import MemoryFiles

HOLD = """
import sys
from pathlib import Path
from kohort.log.files import DiskFiles, lock_folder
lock_folder(Path(sys.argv[1]), DiskFiles(), program="a test")
print("held", flush=True)
sys.stdin.read()
"""
HOLD_AS_KAFKA_DOES = """
import fcntl, sys
file = open(sys.argv[1] + "/.lock", "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""


def holder(script: str, folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_broker_fails_with_the_holder_and_a_remedy(tmp_path: Path) -> None:
    with holder(HOLD, tmp_path) as process:
        with pytest.raises(FolderInUse) as caught:
            lock_folder(tmp_path, DiskFiles())
        assert str(caught.value) == (
            f"{tmp_path} is in use by process {process.pid} (a test). "
            "Stop it, or choose another --data-dir."
        )
        process.kill()
    lock_folder(tmp_path, DiskFiles()).release()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's open file description locks")
def test_a_folder_used_by_kafka_is_locked(tmp_path: Path) -> None:
    with holder(HOLD_AS_KAFKA_DOES, tmp_path) as process:
        with pytest.raises(FolderInUse, match="in use by another process"):
            lock_folder(tmp_path, DiskFiles())
        process.kill()


def test_two_brokers_in_one_process_cannot_share_a_folder() -> None:
    files, folder = MemoryFiles(), Path("/data")
    files.make_folder(folder)
    lock = lock_folder(folder, files)
    with pytest.raises(FolderInUse, match=f"process {os.getpid()}"):
        lock_folder(folder, files)
    lock.release()
    lock_folder(folder, files)


def test_an_unwritable_folder_is_not_reported_as_in_use() -> None:
    class Unwritable(MemoryFiles):
        def lock(self, path: Path):  # type: ignore[no-untyped-def]
            raise PermissionError(13, "Permission denied", str(path))

    with pytest.raises(PermissionError):
        lock_folder(Path("/data"), Unwritable())
