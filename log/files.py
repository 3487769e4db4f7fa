"""Every file call of kohort's storage goes through here, so that a test can hand in a disk
that tears, fills up or lies. `DiskFiles` is the real one, `MemoryFiles` keeps nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Protocol

from .memory_files import MemoryFiles

__all__ = ["DiskFiles", "File", "Files", "Lock", "MemoryFiles"]


class Lock(Protocol):
    """A lock held on a folder. The system drops it when the process dies."""

    def note(self, text: str) -> None:
        """Leaves word of who holds it, for whoever finds it taken."""

    def is_there(self) -> bool:
        """Whether what is locked is still what lies at its path."""

    def release(self) -> None: ...


class File(Protocol):
    """One open file. `size` is where the next append goes; bytes beyond it do not exist."""

    size: int

    def append(self, data: bytes) -> None:
        """Writes all of `data` at `size`, continuing short writes, or raises OSError. After an
        error `size` is unchanged, but bytes beyond it may be on disk: `truncate(size)` first."""

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""

    def write_again(self, position: int) -> None:
        """Writes what is there from `position` on once more, for the next sync. Once a sync has
        failed, here or in another process, the system may take it for written."""

    def sync(self) -> None:
        """Returns when all that was appended before is durable. Safe beside append in a thread."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """The file system as the storage engine uses it. All raise OSError."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File: ...

    def list(self, folder: Path) -> list[str]:
        """Names in the folder, sorted; empty when there is no such folder."""

    def exists(self, path: Path) -> bool: ...

    def make_folder(self, folder: Path) -> None:
        """An existing one is fine, a missing parent is not: whoever removed the data folder must
        not get a new one in silence. Durable once the parent is synced."""

    def read_bytes(self, path: Path) -> bytes: ...

    def replace(self, path: Path, data: bytes) -> None:
        """Whole old content or whole new content, whatever happens; durable on return."""

    def rename(self, path: Path, target: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, folder: Path) -> None:
        """With everything in it."""

    def sync_folder(self, folder: Path) -> None:
        """Makes creations, renames and removals in the folder durable."""

    def space(self, folder: Path) -> tuple[int, int]:
        """Bytes of the volume that the folder is on, and how many of them can still be had; -1
        where nobody knows."""

    def boot_id(self) -> str:
        """Another one after each start of the machine: what was written and never synced is there
        while it is the same. Empty where nobody knows."""

    def lock(self, path: Path) -> Lock:
        """Takes the lock file `path`; raises BlockingIOError when another holds it."""


# How often at least a file that grows is looked for in its folder; each sync looks as well. It
# takes as long as the write, so not every time.
LOOK_SECONDS = 0.5
# What is written again is held in memory by so much at once.
CHUNK_BYTES = 1024 * 1024
NAMES_OF_OPEN_FILES = "/proc/self/fd"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _datasync(fd: int) -> None:
    # macOS acknowledges fsync before the drive has written; only F_FULLFSYNC waits for it.
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def _is_removed(fd: int) -> bool:
    # Linux says so in the name. fstat tells the file's time too, and since Linux 6.13 (multigrain
    # timestamps) the write after that changes it: a sync then takes half as long again.
    try:
        return os.readlink(f"{NAMES_OF_OPEN_FILES}/{fd}").endswith(" (deleted)")  # noqa: PTH115 - twice as quick
    except OSError:  # macOS, or a container without /proc
        return not os.fstat(fd).st_nlink


class DiskFile:
    """`ahead_bytes` > 0 keeps that much of the file allocated and zeroed before it is written,
    so that a sync need not write the file's new size as well. The zeros are cut off at close
    and, after a crash, by recovery."""

    __slots__ = ("_ahead_bytes", "_allocated", "_fd", "_looked", "size")

    def __init__(self, fd: int, ahead_bytes: int = 0) -> None:
        self._fd = fd
        self._ahead_bytes = ahead_bytes
        self.size = os.fstat(fd).st_size
        self._allocated = self.size
        self._looked = 0.0

    def append(self, data: bytes) -> None:
        position = self.size
        end = position + len(data)
        if end > self._allocated and self._ahead_bytes:
            self._allocate(end)
        written = os.pwrite(self._fd, data, position)
        if position + written != end:
            self._append_rest(data, written)
        now = monotonic()
        if now > self._looked + LOOK_SECONDS:
            self._looked = now
            self._look()
        self.size = end

    def _look(self) -> None:
        """The system takes bytes for a removed file as long as somebody has it open."""
        if _is_removed(self._fd):
            raise FileNotFoundError(errno.ENOENT, "the file was removed while it was in use")

    def _append_rest(self, data: bytes, written: int) -> None:
        view = memoryview(data)
        while written < len(data):
            more = os.pwrite(self._fd, view[written:], self.size + written)
            if more == 0:
                raise OSError(errno.EIO, "the disk takes no more bytes and does not say why")
            written += more

    def _allocate(self, end: int) -> None:
        allocated = end + self._ahead_bytes
        try:
            os.posix_fallocate(self._fd, self._allocated, allocated - self._allocated)
        except OSError:
            # No room or no such call here: it only saves time, the write itself will tell.
            self._ahead_bytes = 0
            return
        self._allocated = allocated

    def read(self, position: int, size: int) -> bytes:
        size = min(size, self.size - position)
        if size <= 0:
            return b""
        try:
            data = os.pread(self._fd, size, position)
            while len(data) < size:
                more = os.pread(self._fd, size - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            # The system does not say of which file; whoever has to mend the disk needs its name.
            with suppress(OSError):
                error.filename = os.readlink(f"{NAMES_OF_OPEN_FILES}/{self._fd}")  # noqa: PTH115 - as above
            raise
        return data

    def write_again(self, position: int) -> None:
        size = self.size
        try:
            while data := self.read(position, CHUNK_BYTES):
                self.size = position
                self.append(data)
                position, self.size = self.size, size
        finally:
            self.size = size

    def sync(self) -> None:
        _datasync(self._fd)
        self._look()

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self.size = self._allocated = size

    def close(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        try:
            if self._allocated > self.size:
                os.ftruncate(fd, self.size)
        finally:
            os.close(fd)


class DiskLock:
    __slots__ = ("_fd", "_path")

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path

    def is_there(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except OSError:
            return False

    def note(self, text: str) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def release(self) -> None:
        # The file stays: removing it would let two processes hold locks on two files of one name.
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskFiles:
    """The operating system's files. `ahead_bytes`: see DiskFile; 0 allocates nothing ahead."""

    def __init__(self, *, ahead_bytes: int = 0) -> None:
        # posix_fallocate is missing on macOS.
        self._ahead_bytes = ahead_bytes if hasattr(os, "posix_fallocate") else 0

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> DiskFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        return DiskFile(fd, 0 if read_only else self._ahead_bytes)

    def list(self, folder: Path) -> list[str]:
        try:
            return sorted(path.name for path in folder.iterdir())
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        return path.exists()

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)

    def read_bytes(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes) -> None:
        aside = path.with_name(path.name + ".tmp")
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            _datasync(fd)
        aside.replace(path)
        self.sync_folder(path.parent)

    def rename(self, path: Path, target: Path) -> None:
        path.rename(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def remove_folder(self, folder: Path) -> None:
        shutil.rmtree(folder)

    def sync_folder(self, folder: Path) -> None:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def space(self, folder: Path) -> tuple[int, int]:
        usage = shutil.disk_usage(folder)
        return usage.total, usage.free

    def boot_id(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return ""  # no Linux

    def lock(self, path: Path) -> DiskLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if hasattr(fcntl, "F_OFD_SETLK"):
                # Kafka takes a POSIX record lock on the same `.lock`, which flock does not see.
                whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole_file)
        except OSError:
            os.close(fd)
            raise
        return DiskLock(fd, path)
