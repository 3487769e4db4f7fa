"""Fetch sessions (KIP-227) store the partitions that a client fetches and their last offsets, so
that requests contain only changed partitions and responses only partitions with new data.

A session ends when the client closes it or removes its last partition, when it is evicted, or when
it makes the node exceed the limit of cached partitions. It does not end when the connection is
closed. Upstream: FetchManager, FetchSession, FetchSessionCacheShard.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from ..protocol.budgets import SESSION_PARTITIONS_MAX
from ..protocol.errors import ApiError, ErrorCode
from ..topics.fetch import PartitionData

NO_SESSION: Final = 0
# Epochs of full fetch requests: INITIAL requests a new session, and FINAL does not (upstream:
# FetchMetadata).
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
# Kafka splits the cache into this many equal shards; leftover slots are unused.
SHARDS: Final = 8
# The largest session id that any of Kafka's shards assigns.
SESSION_ID_MAX: Final = (2**31 - 1) // SHARDS * SHARDS - 1
# Any session can evict a session that has been idle for longer than this. A larger session can
# evict a session older than this (upstream: MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
EVICTION_MS: Final = 120_000

PartitionKey: TypeAlias = tuple[str | UUID | None, int]
"""(topic name, or topic id since v13; partition)"""

_NONE = ErrorCode.none


@dataclass(slots=True, eq=False)
class CachedPartition:
    """A partition as the client requested it, and the offsets that the last response contained."""

    topic: str | UUID | None
    request: Any
    """kio's FetchPartition, of any version."""
    name: str | None = None
    """The topic name that the id was resolved to. It is kept after the topic is deleted."""
    high_watermark: int = -1
    start_offset: int = -1

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.request.partition

    def has_news(self, data: PartitionData) -> bool:
        """Whether an incremental response must include this partition even without records."""
        return (
            data.high_watermark != self.high_watermark
            or data.start_offset != self.start_offset
            or data.error is not _NONE
            or data.diverging is not None
        )

    def update_response(self, data: PartitionData) -> None:
        self.high_watermark = data.high_watermark
        self.start_offset = data.start_offset


CachedPartitions: TypeAlias = dict[PartitionKey, CachedPartition]


@dataclass(slots=True, eq=False)
class FetchSession:
    id: int
    partitions: CachedPartitions
    """Partitions in the order in which they will be read."""
    by_id: bool
    is_privileged: bool
    created_ms: int
    used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    """Epoch expected in the next request."""

    @property
    def rank(self) -> tuple[bool, int]:
        """The eviction priority. Lower ranks are evicted first (upstream: EvictableKey)."""
        return self.is_privileged, len(self.partitions)

    def update(self, requested: CachedPartitions, forgotten: Iterable[PartitionKey]) -> None:
        partitions = self.partitions
        for key, partition in requested.items():
            known = partitions.get(key)
            if known is None:
                partitions[key] = partition
            else:
                known.request = partition.request
        for key in forgotten:
            partitions.pop(key, None)

    def update_response(self, partition: CachedPartition, data: PartitionData) -> bool:
        """Store the offsets of a response. Return whether the response must include this partition.
        A partition that returned records moves to the end, so that all partitions are served fairly
        (upstream: CachedPartition.maybeUpdateResponseData)."""
        has_news = partition.has_news(data)
        partition.update_response(data)
        if data.records:
            key = partition.key
            self.partitions[key] = self.partitions.pop(key)
            return True
        return has_news


class FetchSessionCache:
    """The sessions of a node. `new_id(n)` returns a random number from 0 to n - 1."""

    def __init__(self, slots: int, new_id: Callable[[int], int]) -> None:
        self._slots = slots - slots % SHARDS
        self._new_id = new_id
        # Least recently used first.
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def clear(self) -> None:
        """Drop all sessions, because the node has stopped."""
        self._sessions.clear()
        self._partitions = 0

    def close(self, session_id: int) -> None:
        """Close the session named by a full request, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)

    def resume(
        self,
        session_id: int,
        epoch: int,
        requested: CachedPartitions,
        forgotten: Iterable[PartitionKey],
        *,
        by_id: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """Apply an incremental request and return its session, or None if no partition is left and
        the session was closed. Raises ApiError."""
        session = self._sessions.get(session_id)
        if session is None:
            raise ApiError(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise ApiError(ErrorCode.fetch_session_topic_id_error)
        before = len(session.partitions)
        session.update(requested, forgotten)
        after = len(session.partitions)
        self._partitions += after - before
        if not after or self._partitions > SESSION_PARTITIONS_MAX:
            self.close(session_id)
            if not after:
                return None
            # The same error as for an evicted session, so that the client sends a full fetch.
            raise ApiError(ErrorCode.fetch_session_id_not_found)
        session.epoch = _next(epoch)
        session.used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def create(
        self,
        partitions: Sequence[CachedPartition],
        results: Iterable[PartitionData],
        *,
        by_id: bool,
        is_privileged: bool,
        now_ms: int,
    ) -> int:
        """Create a session for a full request. Return its id, or NO_SESSION if there is no room."""
        size = len(partitions)
        if self._partitions + size > SESSION_PARTITIONS_MAX:
            return NO_SESSION
        if len(self) >= self._slots and not self._evict((is_privileged, size), now_ms):
            return NO_SESSION
        for partition, data in zip(partitions, results, strict=True):
            partition.update_response(data)
        id_ = NO_SESSION
        while id_ == NO_SESSION or id_ in self._sessions:
            id_ = 1 + self._new_id(SESSION_ID_MAX)
        cached = {each.key: each for each in partitions}
        self._sessions[id_] = FetchSession(id_, cached, by_id, is_privileged, now_ms, now_ms)
        self._partitions += size
        return id_

    def _evict(self, rank: tuple[bool, int], now_ms: int) -> bool:
        """Make room for a session of this rank by evicting another session, if possible."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self.close(oldest.id)
            return True
        is_privileged, _ = rank
        # The age is the time from the session's creation to its last request (upstream: touch).
        evictable = [
            each
            for each in self._sessions.values()
            if each.used_ms - each.created_ms > EVICTION_MS
            or (is_privileged and not each.is_privileged)
        ]
        least = min(evictable, key=lambda each: (each.rank, each.id), default=None)
        if least is None or rank <= least.rank:
            return False
        self.close(least.id)
        return True


def _next(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1
