"""Errors of the log."""

from __future__ import annotations


class LogError(Exception):
    """A log's content or its use is invalid. Disk failures are OSErrors."""


class CorruptBatch(LogError):
    """Bytes that are not a complete batch: cut short, wrong magic or wrong checksum. `position`:
    where the batch begins in the buffer or file."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.position = position
        self.reason = reason


class UnsupportedMagic(CorruptBatch):
    """A whole message set in a format before Kafka 0.11 (magic 0 or 1). It is never truncated."""


class InvalidRecord(LogError):
    """A batch with a valid checksum but inconsistent content (INVALID_RECORD)."""


class RecordsTooLarge(LogError):
    """The records of one batch together exceed max.message.bytes (MESSAGE_TOO_LARGE)."""


class OffsetOutOfRange(LogError):
    """The log does not have this offset."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is out of range {start_offset}..{end_offset}")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class InvalidProducerEpoch(LogError):
    """A producer with an older epoch has been fenced (INVALID_PRODUCER_EPOCH)."""


class OutOfOrderSequence(LogError):
    """The sequence number is not the next one of its idempotent producer."""


class CleaningStopped(LogError):
    """The log was closed, truncated or deleted during compaction; the compaction can be retried
    later. Upstream: LogCleaningAbortedException."""


class FolderInUse(LogError):
    """Another process has locked the data folder."""


class LogFailed(OSError):
    """An earlier write or sync failed, so the state on disk is unknown. The log rejects appends
    until Log.reopen() has truncated unsynced bytes."""
