"""File system abstraction for the log, so that tests can inject disk faults, full disks and lost
unsynced writes (testing/faults/files.py).

`DiskFiles` uses the disk, and memory_files.py has two in-memory implementations. This module also
locks data folders and deletes folders safely.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import sys
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final, Protocol

from .errors import FolderInUse

# --- the interface


class Lock(Protocol):
    """A lock on a file. The OS releases it when the process dies."""

    def write_holder(self, text: str) -> None:
        """Write the holder's name into the file, for the error messages of other processes."""

    def is_held(self) -> bool:
        """Whether the path still refers to the locked file (not removed, moved or recreated)."""

    def release(self) -> None: ...


class File(Protocol):
    """An open file. `size` is the append position. Bytes beyond it are ignored."""

    size: int

    def append(self, data: bytes) -> None:
        """Write all of `data` at `size`, continuing short writes, or raise OSError. After an error,
        `size` is unchanged, but call `truncate(size)`, because bytes beyond it may be on the
        disk."""

    def read(self, position: int, size: int) -> bytes:
        """Return `size` bytes, or fewer at the end of the file."""

    def rewrite(self, position: int) -> None:
        """Rewrite all bytes from `position` on, so that the next sync writes them to the disk.
        After a failed sync in any process, the OS may consider these pages clean."""

    def sync(self) -> None:
        """Make all bytes appended so far durable. Other threads may append during the call."""

    def truncate(self, size: int) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """A file system. All methods raise OSError."""

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> File: ...

    def list(self, folder: Path) -> list[str]:
        """Return the sorted names in the folder; empty if it does not exist or is a file."""

    def exists(self, path: Path) -> bool: ...

    def make_folder(self, folder: Path) -> None:
        """Create the folder unless it exists. The parent must exist, so that a removed data
        directory is not silently recreated. The folder is durable once its parent is synced."""

    def read_bytes(self, path: Path) -> bytes: ...

    def replace(self, path: Path, data: bytes) -> None:
        """Replace the content atomically. It is durable on return."""

    def rename(self, path: Path, target: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def remove_folder(self, folder: Path) -> None:
        """Remove the folder and its contents."""

    def sync_folder(self, folder: Path) -> None:
        """Make creations, renames and removals in the folder durable."""

    def disk_space(self, folder: Path) -> tuple[int, int]:
        """Return the total and the usable bytes of the folder's volume, or -1 if unknown."""

    def boot_id(self) -> str:
        """Return an id of the machine's last boot, or "" if it is unknown. While the id is
        unchanged, unsynced writes survive in the page cache."""

    def lock(self, path: Path) -> Lock:
        """Lock the file `path`. Raises BlockingIOError if another process holds it."""


# --- the disk

# Interval at which appends check whether the file was removed. A check costs as much as a write.
REMOVAL_CHECK_SECONDS = 0.5
# Kafka and kohort use 31-bit positions in segments and indexes.
SEGMENT_BYTES_MAX: Final = 0x7FFFFFFF
# Bytes that `rewrite` reads and writes at a time.
CHUNK_BYTES = 1024 * 1024
OPEN_FILES_FOLDER = "/proc/self/fd"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def _datasync(fd: int) -> None:
    # On macOS, fsync returns before the drive has written its cache. F_FULLFSYNC waits for it.
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def _is_removed(fd: int) -> bool:
    # Linux appends "(deleted)" to the link's target. fstat would also read the file's times. Since
    # Linux 6.13 (multigrain timestamps), the next write would then have to update them, and its
    # sync would take 50 % longer.
    try:
        return os.readlink(f"{OPEN_FILES_FOLDER}/{fd}").endswith(" (deleted)")  # noqa: PTH115 - twice as fast
    except OSError:  # macOS, or a container without /proc
        return not os.fstat(fd).st_nlink


class DiskFile:
    """A file on disk. An append that needs more space also allocates `preallocate_bytes` of zeros,
    so that most syncs need not update the file size. `close` truncates the zeros, or recovery
    does after a crash."""

    __slots__ = ("_allocated", "_checked", "_fd", "_preallocate_bytes", "size")

    def __init__(self, fd: int, preallocate_bytes: int = 0) -> None:
        self._fd = fd
        self._preallocate_bytes = preallocate_bytes
        self.size = os.fstat(fd).st_size
        self._allocated = self.size
        self._checked = 0.0

    def append(self, data: bytes) -> None:
        position = self.size
        end = position + len(data)
        if end > self._allocated and self._preallocate_bytes:
            self._preallocate(end)
        written = os.pwrite(self._fd, data, position)
        if position + written != end:
            self._append_rest(data, written)
        now = monotonic()
        if now > self._checked + REMOVAL_CHECK_SECONDS:
            self._checked = now
            self._check_not_removed()
        self.size = end

    def _check_not_removed(self) -> None:
        """Raise if the file was unlinked, because the OS keeps accepting writes to it."""
        if _is_removed(self._fd):
            raise FileNotFoundError(errno.ENOENT, "the file was removed while it was in use")

    def _append_rest(self, data: bytes, written: int) -> None:
        view = memoryview(data)
        while written < len(data):
            more = os.pwrite(self._fd, view[written:], self.size + written)
            if more == 0:
                raise OSError(errno.EIO, "the disk accepts no more bytes")
            written += more

    def _preallocate(self, end: int) -> None:
        # A larger file could not be opened after a crash.
        allocated = min(end + self._preallocate_bytes, SEGMENT_BYTES_MAX)
        try:
            os.posix_fallocate(self._fd, self._allocated, allocated - self._allocated)
        except OSError:
            # The disk may be full, or may not support preallocation. The write reports real errors.
            self._preallocate_bytes = 0
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
            # The OS error does not contain the path.
            with suppress(OSError):
                error.filename = os.readlink(f"{OPEN_FILES_FOLDER}/{self._fd}")  # noqa: PTH115 - as above
            raise
        return data

    def rewrite(self, position: int) -> None:
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
        self._check_not_removed()

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

    def __del__(self) -> None:
        # If two threads open a segment at once, the segment keeps only one of the files. Close the
        # other one.
        if self._fd >= 0:
            os.close(self._fd)


class DiskLock:
    __slots__ = ("_fd", "_path")

    def __init__(self, fd: int, path: Path) -> None:
        self._fd = fd
        self._path = path

    def is_held(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except OSError:
            return False

    def write_holder(self, text: str) -> None:
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text.encode(), 0)

    def release(self) -> None:
        # Keep the lock file. Otherwise, two processes could lock different files of this name.
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class DiskFiles:
    """The operating system's file system. For `preallocate_bytes` see DiskFile."""

    def __init__(self, *, preallocate_bytes: int = 0) -> None:
        # posix_fallocate is missing on macOS.
        self._preallocate_bytes = preallocate_bytes if hasattr(os, "posix_fallocate") else 0

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> DiskFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        fd = os.open(path, flags | os.O_CLOEXEC, 0o644)
        return DiskFile(fd, 0 if read_only else self._preallocate_bytes)

    def list(self, folder: Path) -> list[str]:
        try:
            return sorted(path.name for path in folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: Path) -> bool:
        return path.exists()

    def make_folder(self, folder: Path) -> None:
        folder.mkdir(0o755, exist_ok=True)

    def read_bytes(self, path: Path) -> bytes:
        return path.read_bytes()

    def replace(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            _datasync(fd)
        temporary.replace(path)
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

    def disk_space(self, folder: Path) -> tuple[int, int]:
        usage = shutil.disk_usage(folder)
        return usage.total, usage.free

    def boot_id(self) -> str:
        try:
            return BOOT_ID.read_text().strip()
        except OSError:
            return ""  # not Linux

    def lock(self, path: Path) -> DiskLock:
        try:
            import fcntl
        except ImportError as error:
            reason = "data on disk needs Linux or macOS: keep it in memory, or use WSL"
            raise OSError(errno.ENOSYS, reason, str(path)) from error
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if hasattr(fcntl, "F_OFD_SETLK"):
                # Kafka uses a POSIX record lock on `.lock`, which does not conflict with flock.
                whole_file = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
                fcntl.fcntl(fd, fcntl.F_OFD_SETLK, whole_file)
        except OSError:
            os.close(fd)
            raise
        return DiskLock(fd, path)


# --- locking a data folder

# Kafka's lock file name, so that kohort and Kafka exclude each other.
LOCK_NAME: Final = ".lock"
# The holder's name is one short line. Longer content is not shown.
_HOLDER_BYTES_MAX: Final = 200


DISK: Final = DiskFiles()


def inode_of(path: Path | None) -> int:
    """Return the inode of a file on disk, or -1 if there is none."""
    try:
        return -1 if path is None else path.stat().st_ino
    except FileNotFoundError:
        return -1


def lock_folder(
    folder: Path,
    files: Files,
    *,
    program: str = "kohort",
    remedy: str = "Stop it, or choose another --data-dir.",
) -> Lock:
    """Lock an existing folder for this process. Raises FolderInUse with the holder and the remedy,
    and OSError if the folder is not writable."""
    path = folder / LOCK_NAME
    try:
        lock = files.lock(path)
    except (BlockingIOError, PermissionError) as error:
        # POSIX allows EACCES for a held lock. Only the EACCES for an unwritable folder includes a
        # filename.
        if isinstance(error, PermissionError) and error.filename is not None:
            raise
        raise FolderInUse(f"{folder} is in use by {_holder(path, files)}. {remedy}") from None
    lock.write_holder(f"process {os.getpid()} ({program})\n")
    return lock


def _holder(path: Path, files: Files) -> str:
    text = files.read_bytes(path)[:_HOLDER_BYTES_MAX].decode(errors="replace").strip()
    # Kafka leaves the lock file empty.
    return text if text.startswith("process ") else "another process"


# --- deleting folders

# kohort's own leftover folders are removed before the next deletion, so a constant id is enough.
_DELETED_SUFFIX: Final = f".{0:032x}-delete"
# Maximum length of a file name (upstream: UnifiedLog.logDirNameWithSuffixCappedLength).
_NAME_BYTES_MAX: Final = 255


def suffixed_folder(folder: Path, number: int, suffix: str) -> Path:
    """Return `topic-partition.id-suffix`, Kafka's name for a deleted or stray folder, which cannot
    clash with topic folders. Long topic names are truncated."""
    topic, _, index = folder.name.rpartition("-")
    ending = f"-{index}.{number:032x}-{suffix}"
    return folder.with_name(topic[: _NAME_BYTES_MAX - len(ending)] + ending)


def delete_folder(folder: Path, files: Files) -> None:
    """Rename the folder, sync, then remove it, so that a crash never leaves a partial log. A
    missing folder is ignored."""
    if not files.exists(folder):
        return
    renamed = suffixed_folder(folder, 0, "delete")
    if files.exists(renamed):
        files.remove_folder(renamed)
    files.rename(folder, renamed)
    files.sync_folder(folder.parent)
    files.remove_folder(renamed)


def finish_deletions(data_folder: Path, files: Files) -> None:
    """Remove folders whose deletion a crash interrupted, except folders that Kafka was deleting."""
    for name in files.list(data_folder):
        if name.endswith(_DELETED_SUFFIX):
            files.remove_folder(data_folder / name)
