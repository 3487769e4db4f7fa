"""Fetch sessions: epochs, updates, which partitions a response contains, eviction."""

from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
from kohort.broker import fetch_sessions
from kohort.broker.fetch_sessions import (
    EPOCH_MAX,
    EVICTION_MS,
    NO_SESSION,
    CachedPartition,
    CachedPartitions,
    FetchSession,
    FetchSessionCache,
)
from kohort.protocol.errors import ApiError, ErrorCode
from kohort.topics.fetch import DivergingEpoch, PartitionData

SLOTS = 8


def partitions_of(*indexes: int, topic: str = "t", offset: int = 0) -> CachedPartitions:
    """Return partitions as in a request, with plain objects instead of kio's messages."""
    parts = [SimpleNamespace(partition=index, fetch_offset=offset) for index in indexes]
    return {(topic, part.partition): CachedPartition(topic, part) for part in parts}


def found(index: int, high_watermark: int = 0, start_offset: int = 0, **more: Any) -> PartitionData:
    error = more.pop("error", ErrorCode.none)
    return PartitionData(index, error, high_watermark, high_watermark, start_offset, **more)


class Sessions:
    """A cache with session ids 1, 2, 3 … and a clock that tests set."""

    def __init__(self, slots: int = SLOTS) -> None:
        numbers = count()
        self.cache = FetchSessionCache(slots, lambda _: next(numbers))
        self.now_ms = 0

    def create(self, size: int = 1, *, is_privileged: bool = False) -> int:
        partitions = list(partitions_of(*range(size)).values())
        results = [found(index) for index in range(size)]
        return self.cache.create(
            partitions, results, by_id=False, is_privileged=is_privileged, now_ms=self.now_ms
        )

    def use(self, session_id: int, changed: CachedPartitions | None = None) -> FetchSession:
        session = self.cache.get(session_id)
        assert session is not None, f"session {session_id} was closed"
        resumed = self.resume(session_id, session.epoch, changed or {})
        assert resumed is session
        return resumed

    def resume(
        self,
        session_id: int,
        epoch: int,
        changed: CachedPartitions | None = None,
        forgotten: Sequence[tuple[str, int]] = (),
        *,
        by_id: bool = False,
    ) -> FetchSession | None:
        return self.cache.resume(
            session_id, epoch, changed or {}, forgotten, by_id=by_id, now_ms=self.now_ms
        )

    def open_ids(self) -> list[int]:
        return [number for number in range(1, 100) if self.cache.get(number) is not None]


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def error_of(sessions: Sessions, *args: Any, **kwargs: Any) -> ErrorCode:
    """Return the error that `sessions.resume` raises."""
    with pytest.raises(ApiError) as caught:
        sessions.resume(*args, **kwargs)
    return caught.value.error


# --- epochs


def test_the_epoch_after_the_largest_is_1(sessions: Sessions) -> None:
    session = sessions.use(sessions.create())
    session.epoch = EPOCH_MAX
    sessions.use(session.id)
    assert session.epoch == 1


def test_session_ids_are_positive_and_unique() -> None:
    drawn = iter([0, 0, 0, 5])
    cache = FetchSessionCache(SLOTS, lambda _: next(drawn))
    for expected in (1, 6):
        assert cache.create([], [], by_id=False, is_privileged=False, now_ms=0) == expected


# --- updates


def test_a_session_created_empty_is_closed_unless_it_gets_a_partition(sessions: Sessions) -> None:
    without, first = sessions.create(0), sessions.create(0)
    assert sessions.resume(without, 1) is None
    assert sessions.resume(first, 1, partitions_of(0)) is not None
    assert sessions.open_ids() == [first]


# --- which partitions a response contains


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (found(0, 5, 2), False),
        (found(0, 6, 2), True),
        (found(0, 4, 2), True),
        (found(0, 5, 3), True),
        (found(0, 5, 2, records=b"r"), True),
        (found(0, 5, 2, diverging=DivergingEpoch(0, 3)), True),
        (found(0, -1, -1, error=ErrorCode.offset_out_of_range), True),
    ],
)
def test_a_response_contains_what_differs_from_the_last_one(
    sessions: Sessions, result: PartitionData, expected: bool
) -> None:
    session = sessions.use(sessions.create())
    partition = session.partitions["t", 0]
    partition.update_response(found(0, 5, 2))
    assert session.update_response(partition, result) is expected
    if not (result.records or result.diverging or result.error):
        assert session.update_response(partition, result) is False, "the last one contained it"


# --- slots and eviction


@pytest.mark.parametrize(("slots", "usable"), [(0, 0), (7, 0), (8, 8), (15, 8), (16, 16)])
def test_the_number_of_slots_is_rounded_down_to_eights(slots: int, usable: int) -> None:
    sessions = Sessions(slots)
    for _ in range(20):
        sessions.create()
    assert len(sessions.cache) == usable


def fill(sessions: Sessions, size: int = 1, **how: bool) -> list[int]:
    return [sessions.create(size, **how) for _ in range(SLOTS)]


def test_a_full_cache_creates_no_session(sessions: Sessions) -> None:
    ids = fill(sessions)
    assert sessions.create(100) == NO_SESSION
    assert sessions.open_ids() == ids


def test_a_closed_session_frees_its_slot(sessions: Sessions) -> None:
    first, *_ = fill(sessions)
    sessions.cache.close(first)
    sessions.cache.close(first)
    assert sessions.create() != NO_SESSION
    assert sessions.create() == NO_SESSION


def test_a_session_idle_for_two_minutes_is_evicted(sessions: Sessions) -> None:
    first, second, *others = fill(sessions)
    sessions.now_ms = 1
    sessions.use(first)
    sessions.now_ms = EVICTION_MS
    assert sessions.create() == NO_SESSION
    sessions.now_ms += 1
    created = sessions.create()
    assert sessions.open_ids() == [first, *others, created], "the one that was idle longest"
    assert second not in sessions.open_ids()


def test_a_larger_session_evicts_a_smaller_one_that_is_two_minutes_old(sessions: Sessions) -> None:
    small, large = sessions.create(2), sessions.create(5)
    young = [sessions.create() for _ in range(SLOTS - 2)]
    sessions.now_ms = EVICTION_MS
    for session_id in young:
        sessions.use(session_id)
    sessions.now_ms += 1
    for session_id in (small, large):
        sessions.use(session_id)
    assert sessions.create(2) == NO_SESSION, "a session of equal size does not"
    created = sessions.create(3)
    assert sessions.open_ids() == [large, *young, created]


def test_the_age_of_a_session_ends_with_its_last_request(sessions: Sessions) -> None:
    """Kafka updates the age when the session is used, not when another session needs its slot."""
    ids = fill(sessions)
    sessions.now_ms = EVICTION_MS
    for session_id in ids:
        sessions.use(session_id)
    sessions.now_ms = 2 * EVICTION_MS
    assert sessions.create(100) == NO_SESSION


def test_a_follower_evicts_a_consumer_of_any_age(sessions: Sessions) -> None:
    ids = fill(sessions, 50)
    created = sessions.create(1, is_privileged=True)
    assert sessions.open_ids() == [*ids[1:], created]


def test_a_consumer_never_evicts_a_follower(sessions: Sessions) -> None:
    ids = fill(sessions, is_privileged=True)
    sessions.now_ms = EVICTION_MS + 1
    for session_id in ids:
        sessions.use(session_id)
    assert sessions.create(1000) == NO_SESSION
    assert sessions.create(2, is_privileged=True) != NO_SESSION


def test_the_partitions_of_all_sessions_are_bounded(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSION_PARTITIONS_MAX", 5)
    first, second = sessions.create(2), sessions.create(2)
    assert sessions.create(2) == NO_SESSION
    sessions.use(first, partitions_of(2))
    error = error_of(sessions, second, 1, partitions_of(2))
    assert error is ErrorCode.fetch_session_id_not_found
    assert sessions.open_ids() == [first]
    assert sessions.create(2) != NO_SESSION, "closed sessions do not count"


def test_a_stopped_node_has_no_sessions(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSION_PARTITIONS_MAX", 5)
    first = sessions.create(5)
    sessions.cache.clear()
    assert error_of(sessions, first, 1) is ErrorCode.fetch_session_id_not_found
    assert sessions.create(5) != NO_SESSION
