"""Errors of the log, and log lines about a failing disk."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

_log = logging.getLogger("kohort.log")


class LogError(Exception):
    """The content of a log is invalid, or the log was used incorrectly. Disk failures are
    OSErrors."""


class CorruptBatch(LogError):
    """Bytes that are not a complete batch, because they are cut short or have a wrong magic or
    checksum. `position` is the start of the batch in the buffer or file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.position = position
        self.reason = reason


class UnsupportedMagic(CorruptBatch):
    """A complete message in a format before Kafka 0.11 (magic 0 or 1). It is never truncated."""


class InvalidRecord(LogError):
    """A batch with a valid checksum but inconsistent content (INVALID_RECORD)."""


class RecordsTooLarge(LogError):
    """The records of one batch together exceed max.message.bytes (MESSAGE_TOO_LARGE)."""


class OffsetOutOfRange(LogError):
    """The log does not contain this offset."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is out of range {start_offset}..{end_offset}")


class InvalidProducerEpoch(LogError):
    """The producer has been fenced by a newer epoch (INVALID_PRODUCER_EPOCH)."""


class InvalidTransaction(LogError):
    """The batch does not fit the state of its producer's transaction (INVALID_TXN_STATE), or the
    marker comes from an earlier coordinator."""


class OutOfOrderSequence(LogError):
    """The sequence number is not the next one expected from the idempotent producer."""


class CleaningStopped(LogError):
    """The log was closed or failed, or its segments changed, during compaction. Retry later.
    Upstream: LogCleaningAbortedException."""


class FolderInUse(LogError):
    """Another process has locked the data folder."""


class LogFailed(OSError):
    """The log rejects appends. After a failed write or sync, the state on disk is unknown until
    Log.reopen() has truncated unsynced bytes. Also raised if the log is closed or read-only."""


# --- logging

WRITING: Final = "Writing to"
SYNCING: Final = "Syncing"


class DiskErrors:
    """Logs when an operation on a log begins to fail and when it works again, because a line per
    rejected request would flood the broker's log."""

    def __init__(self) -> None:
        # The errno that was logged last and the number of failures, by operation and folder.
        self.current: dict[tuple[str, Path], tuple[int | None, int]] = {}

    def failed(self, operation: str, folder: Path, error: BaseException) -> None:
        """Log the first failure and any change of error, and count other failures."""
        # An error without an errno means that the log rejects appends because of an earlier error.
        number = getattr(error, "errno", None)
        logged, count = self.current.get((operation, folder), (None, 0))
        if not count or number not in (logged, None):
            _log.error("%s %s failed: %s", operation, folder, error)
            logged = number
        self.current[operation, folder] = logged, count + 1

    def succeeded(self, operation: str, folder: Path) -> None:
        """Log that an operation works again. Need not be called while `current` is empty."""
        if failed := self.current.pop((operation, folder), None):
            _log.warning("%s %s works again after %d failures", operation, folder, failed[1])
