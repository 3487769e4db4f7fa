"""Offsets committed in open transactions: pending until the marker of their producer.

Live and when a log is loaded, the coordinator applies the records in the order of the log.
Upstream: OffsetMetadataManager.replay, replayEndTransactionMarker.
"""

from collections.abc import Iterator
from typing import TypeAlias

from .records import OffsetCommitRecord, OffsetTombstone, TransactionalOffsetCommit

OffsetKey: TypeAlias = tuple[str, str, int]
"""Group id, topic, partition."""


class PendingOffsets:
    """The pending offsets of one log."""

    def __init__(self) -> None:
        # Producer id -> partition -> (number of the commit, record; None once superseded by a newer
        # commit, whatever the outcome of the transaction).
        self._open: dict[int, dict[OffsetKey, tuple[int, OffsetCommitRecord | None]]] = {}
        # How many producers have pending commits of a partition.
        self._counts: dict[OffsetKey, int] = {}
        self._last_number = 0

    def __bool__(self) -> bool:
        return bool(self._counts)

    def __contains__(self, key: OffsetKey) -> bool:
        return key in self._counts

    def __iter__(self) -> Iterator[OffsetKey]:
        return iter(self._counts)

    def has_group(self, group_id: str) -> bool:
        return any(pending_id == group_id for pending_id, _, _ in self._counts)

    def groups_of(self, producer_id: int) -> set[str]:
        """Return the groups whose offsets the transaction of a producer changes."""
        return {group_id for group_id, _, _ in self._open.get(producer_id, ())}

    def add(self, record: TransactionalOffsetCommit) -> None:
        commit = record.commit
        key = commit[:3]
        pending = self._open.setdefault(record.producer_id, {})
        if key not in pending:
            self._counts[key] = self._counts.get(key, 0) + 1
        self._last_number += 1
        pending[key] = self._last_number, commit

    def committed(self, key: OffsetKey) -> None:
        """Supersede the pending commits of a partition, which has a newer one."""
        if key in self._counts:
            self._supersede(key, self._last_number + 1)

    def remove(self, tombstone: OffsetTombstone) -> None:
        """Remove the pending commits of a partition, of all producers."""
        if self._counts.pop(tombstone, None) is None:
            return
        for producer_id, pending in list(self._open.items()):
            pending.pop(tombstone, None)
            if not pending:
                del self._open[producer_id]

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetCommitRecord]:
        """End the transaction of a producer; return the commits that count now."""
        committed = []
        for key, (number, record) in self._open.pop(producer_id, {}).items():
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
            if is_commit and record is not None:
                self._supersede(key, number)
                committed.append(record)
        return committed

    def clear(self) -> None:
        self._open.clear()
        self._counts.clear()

    def _supersede(self, key: OffsetKey, before: int) -> None:
        for pending in self._open.values():
            if key in pending and pending[key][0] < before:
                pending[key] = pending[key][0], None
