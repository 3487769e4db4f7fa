"""Fetch sessions (KIP-227): what a client fetches, and what its last responses contained. Requests
then name only the partitions that change, and responses only those with news. Pure state: no bytes,
no clock, no I/O.

Upstream: FetchManager, FetchSession, FetchSessionCacheShard. A session ends when its client says
so or needs no partition any more, or when another session takes its slot; not with the connection.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from ..protocol.errors import ApiError, ErrorCode
from ..topics.fetch import PartitionData

NO_SESSION: Final = 0
# Epochs of a full request, with and without a new session (upstream: FetchMetadata).
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
# Kafka's cache has this many shards of equal size: a remainder of slots is not used.
SHARDS: Final = 8
# The largest session id that one of Kafka's shards assigns.
SESSION_ID_MAX: Final = (2**31 - 1) // SHARDS * SHARDS - 1
# A session that was idle for longer may be evicted by any other, one that is older by a larger one
# (upstream: MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
EVICTION_MS: Final = 120_000
# Of all sessions together, half a kilobyte each: 128 MB at most. Kafka has no such limit; it
# recommends 200,000 partitions at most for a whole cluster.
PARTITIONS_MAX: Final = 250_000

PartitionKey: TypeAlias = tuple[str | UUID | None, int]
"""A topic as the client names it (since v13 by its id) and a partition of it."""

_NONE = ErrorCode.none


@dataclass(slots=True, eq=False)
class CachedPartition:
    """A partition as its client requested it, and what the last response contained."""

    topic: str | UUID | None
    request: Any
    """kio's FetchPartition, of any version."""
    name: str | None = None
    """The name of a topic id once it was resolved. It stays when the topic is deleted."""
    high_watermark: int = -1
    start_offset: int = -1

    @property
    def key(self) -> PartitionKey:
        return self.topic, self.request.partition

    def update_response(self, data: PartitionData) -> None:
        self.high_watermark = data.high_watermark
        self.start_offset = data.start_offset


CachedPartitions: TypeAlias = dict[PartitionKey, CachedPartition]


@dataclass(slots=True, eq=False)
class FetchSession:
    id: int
    partitions: CachedPartitions
    """In the order in which they are read."""
    by_id: bool
    is_privileged: bool
    created_ms: int
    used_ms: int
    epoch: int = INITIAL_EPOCH + 1
    """That of the next request."""

    @property
    def rank(self) -> tuple[bool, int]:
        """A session of a lower rank is evicted first (upstream: EvictableKey)."""
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
        """Whether the response must contain this partition (upstream:
        CachedPartition.maybeUpdateResponseData). One with records is read last the next time, so
        that all partitions are served."""
        has_news = (
            data.high_watermark != partition.high_watermark
            or data.start_offset != partition.start_offset
            or data.error is not _NONE
            or data.diverging is not None
        )
        partition.update_response(data)
        if data.records:
            key = partition.key
            self.partitions[key] = self.partitions.pop(key)
            return True
        return has_news


class FetchSessionCache:
    """The sessions of a node. `new_id(n)`: a random number from 0 to n - 1."""

    def __init__(self, slots: int, new_id: Callable[[int], int]) -> None:
        self._slots = slots - slots % SHARDS
        self._new_id = new_id
        # The least recently used first.
        self._sessions: dict[int, FetchSession] = {}
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, session_id: int) -> FetchSession | None:
        return self._sessions.get(session_id)

    def clear(self) -> None:
        """The node has stopped."""
        self._sessions.clear()
        self._partitions = 0

    def close(self, session_id: int) -> None:
        """A full request ends the session that it names, if there is one."""
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
        """The session of an incremental request, updated by it; None if no partition is left, and
        the session closed. Raises ApiError."""
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
        if not after or self._partitions > PARTITIONS_MAX:
            self.close(session_id)
            if not after:
                return None
            # As if it had been evicted: the client continues with full requests.
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
        """The id of a new session whose first response contains `results`; NO_SESSION if there is
        no room for it."""
        size = len(partitions)
        if self._partitions + size > PARTITIONS_MAX:
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
        """Make room for a session of this rank, if another may be evicted for it."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self.close(oldest.id)
            return True
        is_privileged, _ = rank
        # A session's age ends with its last request (upstream: touch).
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
