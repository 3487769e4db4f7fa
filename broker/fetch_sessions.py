"""Fetch sessions (KIP-227): what a client fetches and what it was told of that last. Its requests
then name only what has changed, and its answers only what is new. No bytes, no clock, no I/O.

Upstream: FetchManager, FetchSession, FetchSessionCacheShard. A session ends when its client says
so or needs no partition any more, and when another needs its slot; not with the connection.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID

from ..protocol.errors import ErrorCode
from ..topics.errors import Refused
from ..topics.fetch import Found

NO_SESSION: Final = 0
# Epochs of a full request: a session is asked for, or none (FetchMetadata).
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EPOCH_MAX: Final = 2**31 - 1
# Kafka's cache has as many parts, and all have as many slots: what does not go into them is lost.
PARTS: Final = 8
# The largest id that a part of Kafka's gives.
SESSION_ID_MAX: Final = (2**31 - 1) // PARTS * PARTS - 1
# Who has not been heard of for longer makes room for anybody; who has been there for longer, for
# one with more partitions (MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
EVICTION_MS: Final = 120_000
# Of all sessions together, half a kilobyte each: 128 MB at most. Kafka has no such limit; 200,000
# partitions are what it is recommended for as a whole.
PARTITIONS_MAX: Final = 250_000

Place: TypeAlias = tuple[str | UUID | None, int]
"""A topic as the client names it (since v13 by its id) and a partition of it."""

_NONE = ErrorCode.none


class CachedPartition:
    """What a client wants of a partition, and what it was told of it."""

    __slots__ = ("asked", "high_watermark", "name", "start_offset", "topic")

    def __init__(self, topic: str | UUID | None, asked: Any) -> None:
        self.topic = topic
        self.asked = asked
        """kio's FetchPartition, of whatever version."""
        self.name: str | None = None
        """That of a topic id, once it was known: it outlives the topic."""
        self.high_watermark = -1
        self.start_offset = -1

    @property
    def place(self) -> Place:
        return self.topic, self.asked.partition

    def was_told(self, found: Found) -> None:
        self.high_watermark = found.high_watermark
        self.start_offset = found.start_offset


Named: TypeAlias = dict[Place, CachedPartition]


class FetchSession:
    """`epoch`: that of the next request."""

    __slots__ = (
        "by_id",
        "created_ms",
        "epoch",
        "id",
        "is_privileged",
        "partitions",
        "used_ms",
    )

    def __init__(
        self, id_: int, partitions: Named, *, by_id: bool, is_privileged: bool, now_ms: int
    ) -> None:
        self.id = id_
        self.partitions = partitions
        """In the order in which they are read."""
        self.by_id = by_id
        self.is_privileged = is_privileged
        self.created_ms = self.used_ms = now_ms
        self.epoch = _next(INITIAL_EPOCH)

    @property
    def value(self) -> tuple[bool, int]:
        """Of the smaller one the slot is given away (upstream: EvictableKey)."""
        return self.is_privileged, len(self.partitions)

    def update(self, named: Named, forgotten: Iterable[Place]) -> None:
        partitions = self.partitions
        for place, partition in named.items():
            known = partitions.get(place)
            if known is None:
                partitions[place] = partition
            else:
                known.asked = partition.asked
        for place in forgotten:
            partitions.pop(place, None)

    def has_news(self, partition: CachedPartition, found: Found) -> bool:
        """Whether an answer has to say so, which it then does. Who got records is read last the
        next time, so that all have their turn."""
        news = (
            found.high_watermark != partition.high_watermark
            or found.start_offset != partition.start_offset
            or found.error is not _NONE
            or found.diverging is not None
        )
        partition.was_told(found)
        if found.records:
            place = partition.place
            self.partitions[place] = self.partitions.pop(place)
            return True
        return news


class FetchSessionCache:
    """The sessions of a node. `new_id(n)`: a random number from 0 to n - 1."""

    def __init__(self, slots: int, new_id: Callable[[int], int]) -> None:
        self._slots = slots - slots % PARTS
        self._new_id = new_id
        # Who was heard of longest ago is first.
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
        named: Named,
        forgotten: Iterable[Place],
        *,
        by_id: bool,
        now_ms: int,
    ) -> FetchSession | None:
        """The session of an incremental request, which may add and change partitions; None: it
        had none left and is closed. Raises Refused."""
        session = self._sessions.get(session_id)
        if session is None:
            raise Refused(ErrorCode.fetch_session_id_not_found)
        if session.epoch != epoch:
            raise Refused(ErrorCode.invalid_fetch_session_epoch)
        if session.by_id != by_id:
            raise Refused(ErrorCode.fetch_session_topic_id_error)
        before = len(session.partitions)
        session.update(named, forgotten)
        after = len(session.partitions)
        self._partitions += after - before
        if not after or self._partitions > PARTITIONS_MAX:
            self.close(session_id)
            if not after:
                return None
            # The client goes on without, as it does when others took its slot.
            raise Refused(ErrorCode.fetch_session_id_not_found)
        session.epoch = _next(epoch)
        session.used_ms = now_ms
        self._sessions[session_id] = self._sessions.pop(session_id)
        return session

    def create(
        self,
        partitions: Sequence[CachedPartition],
        told: Iterable[Found],
        *,
        by_id: bool,
        is_privileged: bool,
        now_ms: int,
    ) -> int:
        """The id of a new session of a client that was `told` this; NO_SESSION: there is no room
        for it."""
        size = len(partitions)
        if self._partitions + size > PARTITIONS_MAX:
            return NO_SESSION
        if len(self) >= self._slots and not self._evict((is_privileged, size), now_ms):
            return NO_SESSION
        for partition, found in zip(partitions, told, strict=True):
            partition.was_told(found)
        id_ = NO_SESSION
        while id_ == NO_SESSION or id_ in self._sessions:
            id_ = 1 + self._new_id(SESSION_ID_MAX)
        cached = {each.place: each for each in partitions}
        self._sessions[id_] = FetchSession(
            id_, cached, by_id=by_id, is_privileged=is_privileged, now_ms=now_ms
        )
        self._partitions += size
        return id_

    def _evict(self, value: tuple[bool, int], now_ms: int) -> bool:
        """Make room for a session of this value, if another is worth less."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            self.close(oldest.id)
            return True
        is_privileged, _ = value
        # A session's age counts from its last request on (upstream: touch).
        evictable = [
            each
            for each in self._sessions.values()
            if each.used_ms - each.created_ms > EVICTION_MS
            or (is_privileged and not each.is_privileged)
        ]
        least = min(evictable, key=lambda each: (each.value, each.id), default=None)
        if least is None or value <= least.value:
            return False
        self.close(least.id)
        return True


def _next(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1
