"""Offsets committed in open transactions. They are pending until the log contains the producer's
transaction marker.

The coordinator applies the records in the order of the log, both live and when a log is loaded.
Upstream: OffsetMetadataManager.replay, replayEndTransactionMarker.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from .records import OffsetCommitRecord, OffsetTombstone, TransactionalOffsetCommit

OffsetKey: TypeAlias = tuple[str, str, int]
"""Group id, topic, partition."""


class PendingOffsets:
    """The pending offsets of one log."""

    def __init__(self) -> None:
        # By producer id and partition: (number of the commit, record). A record that is superseded
        # by a newer commit becomes None, and has no effect even if the transaction is committed.
        self._open: dict[int, dict[OffsetKey, tuple[int, OffsetCommitRecord | None]]] = {}
        # By group id and partition: the producers with pending commits of this partition.
        self._groups: dict[str, dict[OffsetKey, set[int]]] = {}
        self._last_number = 0

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __contains__(self, key: OffsetKey) -> bool:
        return key in self._groups.get(key[0], ())

    def __iter__(self) -> Iterator[OffsetKey]:
        return chain.from_iterable(self._groups.values())

    def of_group(self, group_id: str) -> Iterable[OffsetKey]:
        """Return the partitions with pending commits of a group."""
        return self._groups.get(group_id, ())

    def has_group(self, group_id: str) -> bool:
        return group_id in self._groups

    def groups_of(self, producer_id: int) -> set[str]:
        """Return the groups for which a producer's transaction has pending commits."""
        return {group_id for group_id, _, _ in self._open.get(producer_id, ())}

    def partitions_of(self, group_id: str) -> dict[int, list[OffsetKey]]:
        """Return partitions whose offsets a transaction may commit, by producer id."""
        found: dict[int, list[OffsetKey]] = {}
        for key, producers in self._groups.get(group_id, {}).items():
            for producer_id in producers:
                if self._open[producer_id][key][1] is not None:
                    found.setdefault(producer_id, []).append(key)
        return found

    def to_commit(self, producer_id: int) -> list[OffsetCommitRecord]:
        """Return the commits that take effect if a producer's transaction is committed."""
        pending = self._open.get(producer_id, {}).values()
        return [record for _, record in pending if record is not None]

    def add(self, record: TransactionalOffsetCommit) -> None:
        commit = record.commit
        key = commit[:3]
        pending = self._open.setdefault(record.producer_id, {})
        if key not in pending:
            group = self._groups.setdefault(key[0], {})
            group.setdefault(key, set()).add(record.producer_id)
        self._last_number += 1
        pending[key] = self._last_number, commit

    def supersede(self, key: OffsetKey) -> None:
        """Supersede the pending commits of a partition, because it has a newer commit."""
        self._supersede_before(key, self._last_number + 1)

    def remove(self, tombstone: OffsetTombstone) -> None:
        """Remove all producers' pending commits of a partition."""
        for producer_id in self._producers_of(tombstone).copy():
            pending = self._open[producer_id]
            del pending[tombstone]
            if not pending:
                del self._open[producer_id]
            self._discard(tombstone, producer_id)

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetCommitRecord]:
        """End a producer's transaction. Return the commits that take effect."""
        committed = []
        for key, (number, record) in self._open.pop(producer_id, {}).items():
            self._discard(key, producer_id)
            if is_commit and record is not None:
                self._supersede_before(key, number)
                committed.append(record)
        return committed

    def clear(self) -> None:
        self._open.clear()
        self._groups.clear()

    def _supersede_before(self, key: OffsetKey, before: int) -> None:
        for producer_id in self._producers_of(key):
            pending = self._open[producer_id]
            if pending[key][0] < before:
                pending[key] = pending[key][0], None

    def _producers_of(self, key: OffsetKey) -> set[int]:
        return self._groups.get(key[0], {}).get(key, set())

    def _discard(self, key: OffsetKey, producer_id: int) -> None:
        group = self._groups[key[0]]
        group[key].remove(producer_id)
        if not group[key]:
            del group[key]
        if not group:
            del self._groups[key[0]]
