"""One broker per data folder: a lock file that the system releases when its holder dies."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import FolderInUse
from .files import Files, Lock

# The name Kafka locks too, so that neither starts on a folder the other is using.
LOCK_NAME = ".lock"
# A holder's note is one short line; whatever else lies there is not shown to anybody.
_NOTE_BYTES_MAX = 200


class FolderLock:
    """Held until `release`, or until the process ends."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def is_held(self) -> bool:
        """Whether the folder is still where it was: not removed, moved, or made anew."""
        return self._lock.is_there()

    def release(self) -> None:
        self._lock.release()


def lock_folder(
    folder: Path,
    files: Files,
    *,
    what: str = "kohort",
    way_out: str = "Stop it, or choose another --data-dir.",
) -> FolderLock:
    """Takes the data folder, which must exist, for this process.

    Raises FolderInUse, saying who holds it and what to do; OSError when it cannot be written.
    """
    path = folder / LOCK_NAME
    try:
        lock = files.lock(path)
    except (BlockingIOError, PermissionError) as error:
        # POSIX lets a system answer EACCES for a lock that is taken; a folder that cannot be
        # written says so about the file itself.
        if isinstance(error, PermissionError) and error.filename is not None:
            raise
        raise FolderInUse(f"{folder} is in use by {_holder(path, files)}. {way_out}") from None
    lock.note(f"process {os.getpid()} ({what})\n")
    return FolderLock(lock)


def _holder(path: Path, files: Files) -> str:
    note = files.read_bytes(path)[:_NOTE_BYTES_MAX].decode(errors="replace").strip()
    # Kafka holds the file and writes nothing into it.
    return note if note.startswith("process ") else "another process"
