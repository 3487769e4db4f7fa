"""The partitions of an internal topic, each used by one coordinator. Maps ids of groups or
transactions to partitions, and opens and recovers the partitions' logs."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from struct import unpack
from typing import Protocol

from ..log.errors import LogError
from ..log.group_commit import GroupCommit, OnDurable
from ..log.log import Log

# Number of ids whose partition is cached. A miss hashes the id; see `partition_for`.
_CACHED_IDS_MAX = 131_072


class StoredPartition(Protocol):
    """A partition of the topic."""

    @property
    def log(self) -> Log:
        """The log, opened and recovered at first use. Raises OSError and LogError."""

    def reopen(self, end_offset: int | None = None) -> Log:
        """Reopen the log, truncated to `end_offset` unless it is None."""


class CoordinatorTopic:
    """The partitions of the topic, to which the ids of groups or transactions are mapped.
    `partition(index)` returns one partition."""

    def __init__(
        self,
        *,
        partitions: int,
        partition: Callable[[int], StoredPartition],
        group_commit: GroupCommit,
    ) -> None:
        self.partitions = partitions
        self._partition = partition
        self._group_commit = group_commit
        self.partition_of: Callable[[str], int] = lru_cache(_CACHED_IDS_MAX)(
            partial(partition_for, partitions=partitions)
        )

    def open_log(self, partition: int, failed: Log | None) -> Log:
        """Return the log of a partition, ready to read. `failed` is the log that failed before, if
        any. Its unsynced bytes are truncated, so that the records of the rejected requests do not
        reappear. Raises OSError or LogError while the disk still fails."""
        if failed is None:
            log = self._partition(partition).log
            if log.failed is None:
                return log
            failed = log  # the log failed while another node led the partition
        if self._group_commit.durability == "fsync":
            failed.reopen()
            return failed
        # With durability `os`, the page cache is authoritative.
        log = self._partition(partition).reopen(failed.end_offset)
        if log.end_offset < failed.end_offset:
            raise LogError(
                f"{log.folder} ends at offset {log.end_offset}, but offsets up to "
                f"{failed.end_offset} were acknowledged, so another program changed the file"
            )
        return log

    def on_durable(self, log: Log, callback: OnDurable) -> None:
        """Call `callback` when all records appended so far are durable, or with an OSError."""
        self._group_commit.on_durable(log, callback)

    def fail_pending(self, log: Log, error: OSError) -> None:
        """After a failed write or sync, fail all requests that wait for the next flush."""
        self._group_commit.fail_pending(log, error)


def partition_for(id_: str, partitions: int) -> int:
    """Return the partition of a group id or a transactional id, by String.hashCode. Callers should
    cache it, because hashing twenty characters takes several microseconds."""
    number = java_hash(id_)
    # Utils.abs maps Integer.MIN_VALUE to 0.
    return 0 if number == -(1 << 31) else abs(number) % partitions


def java_hash(text: str) -> int:
    """Return String.hashCode of `text`: a signed 32-bit hash over UTF-16 code units."""
    number = 0
    for unit in text.encode() if text.isascii() else _utf16_units(text):
        number = (31 * number + unit) & 0xFFFF_FFFF
    return number - (1 << 32) if number >= 1 << 31 else number


def _utf16_units(text: str) -> Sequence[int]:
    raw = text.encode("utf-16-be", "surrogatepass")
    return unpack(f">{len(raw) // 2}H", raw)
