"""What can be wrong with a log. Each message says what was found and, where there is one, the
way out.
"""

from __future__ import annotations


class LogError(Exception):
    """Anything wrong with a log's content or use; disk failures stay OSError."""


class CorruptBatch(LogError):
    """Bytes that are no whole batch: cut short, wrong magic, wrong checksum.

    `position`: where in the buffer or file the bad batch begins.
    """

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"{reason} (at byte {position})")
        self.position = position
        self.reason = reason


class UnsupportedMagic(CorruptBatch):
    """A whole message set in Kafka's formats before 0.11 (magic 0 or 1): never cut, never read."""


class InvalidRecord(LogError):
    """A batch whose checksum is right but whose content contradicts itself (INVALID_RECORD)."""


class RecordsTooLarge(LogError):
    """Records that must be in one batch make one above max.message.bytes (MESSAGE_TOO_LARGE)."""


class OffsetOutOfRange(LogError):
    """The log has no such offset; `start_offset` and `end_offset` say what it has."""

    def __init__(self, offset: int, start_offset: int, end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside of {start_offset}..{end_offset}")
        self.offset = offset
        self.start_offset = start_offset
        self.end_offset = end_offset


class CleaningStopped(LogError):
    """The log was closed, cut or emptied while it was compacted; that begins anew another time."""


class FolderInUse(LogError):
    """Another broker holds the data folder's lock."""


class LogFailed(OSError):
    """An earlier write or sync failed and what is on disk is unknown: nothing is accepted until
    `Log.recover()` has cut what was never synced. An OSError, so that whoever handles a failing
    disk handles this too."""
