"""Fetch sessions: who gets one, who loses one to whom, what is news. No requests, no logs."""

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
    FetchSession,
    FetchSessionCache,
    Named,
)
from kohort.protocol.errors import ErrorCode
from kohort.topics.errors import Refused
from kohort.topics.fetch import Diverging, Found

SLOTS = 8


def named(*indexes: int, topic: str = "t", offset: int = 0) -> Named:
    """Plain numbers, where a request has kio's messages."""
    parts = [SimpleNamespace(partition=index, fetch_offset=offset) for index in indexes]
    return {(topic, part.partition): CachedPartition(topic, part) for part in parts}


def found(index: int, high_watermark: int = 0, start_offset: int = 0, **more: Any) -> Found:
    return Found(index, more.pop("error", ErrorCode.none), high_watermark, start_offset, **more)


class Sessions:
    """A cache whose ids are 1, 2, 3 and whose clock is moved by hand."""

    def __init__(self, slots: int = SLOTS) -> None:
        numbers = count()
        self.cache = FetchSessionCache(slots, lambda _: next(numbers))
        self.now_ms = 0

    def create(self, size: int = 1, *, is_privileged: bool = False) -> int:
        partitions = list(named(*range(size)).values())
        told = [found(index) for index in range(size)]
        how = {"by_id": False, "is_privileged": is_privileged, "now_ms": self.now_ms}
        return self.cache.create(partitions, told, **how)

    def use(self, session_id: int, changed: Named | None = None) -> FetchSession:
        session = self.cache.get(session_id)
        assert session is not None, f"{session_id} is gone"
        resumed = self.resume(session_id, session.epoch, changed or {})
        assert resumed is session
        return resumed

    def resume(
        self,
        session_id: int,
        epoch: int,
        changed: Named | None = None,
        forgotten: Sequence[tuple[str, int]] = (),
        *,
        by_id: bool = False,
    ) -> FetchSession | None:
        return self.cache.resume(
            session_id, epoch, changed or {}, forgotten, by_id=by_id, now_ms=self.now_ms
        )

    def there(self) -> list[int]:
        return [number for number in range(1, 100) if self.cache.get(number) is not None]


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def refused(sessions: Sessions, *how: Any, **more: Any) -> ErrorCode:
    with pytest.raises(Refused) as caught:
        sessions.resume(*how, **more)
    return caught.value.error


# --- epochs


def test_each_request_of_a_session_has_the_next_epoch(sessions: Sessions) -> None:
    session_id = sessions.create()
    for epoch in (1, 2, 3):
        assert sessions.resume(session_id, epoch) is not None
    for epoch in (3, 5, 0, -1, -5):
        assert refused(sessions, session_id, epoch) is ErrorCode.invalid_fetch_session_epoch
    assert sessions.resume(session_id, 4) is not None


def test_after_the_largest_epoch_comes_1(sessions: Sessions) -> None:
    session = sessions.use(sessions.create())
    session.epoch = EPOCH_MAX
    sessions.use(session.id)
    assert session.epoch == 1


def test_what_is_not_there_is_refused(sessions: Sessions) -> None:
    for session_id in (NO_SESSION, 1, -1):
        assert refused(sessions, session_id, 1) is ErrorCode.fetch_session_id_not_found


def test_a_session_has_topics_by_name_or_by_id(sessions: Sessions) -> None:
    session_id = sessions.create()
    error = refused(sessions, session_id, 1, by_id=True)
    assert error is ErrorCode.fetch_session_topic_id_error
    assert sessions.resume(session_id, 1) is not None, "refused is not applied"


def test_ids_are_positive_and_each_is_of_one_session() -> None:
    drawn = iter([0, 0, 0, 5])
    cache = FetchSessionCache(SLOTS, lambda _: next(drawn))
    for expected in (1, 6):
        assert cache.create([], [], by_id=False, is_privileged=False, now_ms=0) == expected


# --- what it has


def test_requests_add_change_and_forget_partitions(sessions: Sessions) -> None:
    session = sessions.use(sessions.create(3))
    sessions.resume(session.id, 2, named(1, 7, offset=40), [("t", 0), ("t", 9), ("u", 2)])
    offsets = [(index, each.asked.fetch_offset) for (_, index), each in session.partitions.items()]
    assert offsets == [(1, 40), (2, 0), (7, 40)]


def test_what_is_named_and_forgotten_in_one_request_is_forgotten(sessions: Sessions) -> None:
    session_id = sessions.create()
    session = sessions.resume(session_id, 1, named(1, 2), [("t", 1)])
    assert session is not None
    assert list(session.partitions) == [("t", 0), ("t", 2)]


def test_a_session_that_needs_no_partition_any_more_is_over(sessions: Sessions) -> None:
    session_id = sessions.create()
    assert sessions.resume(session_id, 1, forgotten=[("t", 0)]) is None
    assert refused(sessions, session_id, 2) is ErrorCode.fetch_session_id_not_found


def test_a_session_that_never_had_one_is_over_unless_it_gets_one(sessions: Sessions) -> None:
    without, first = sessions.create(0), sessions.create(0)
    assert sessions.resume(without, 1) is None
    assert sessions.resume(first, 1, named(0)) is not None
    assert sessions.there() == [first]


# --- what is news


@pytest.mark.parametrize(
    ("now", "news"),
    [
        (found(0, 5, 2), False),
        (found(0, 6, 2), True),
        (found(0, 4, 2), True),
        (found(0, 5, 3), True),
        (found(0, 5, 2, records=b"r"), True),
        (found(0, 5, 2, diverging=Diverging(0, 3)), True),
        (found(0, -1, -1, error=ErrorCode.offset_out_of_range), True),
    ],
)
def test_news_is_what_differs_from_what_was_told(
    sessions: Sessions, now: Found, news: bool
) -> None:
    session = sessions.use(sessions.create())
    partition = session.partitions["t", 0]
    partition.was_told(found(0, 5, 2))
    assert session.has_news(partition, now) is news
    if not (now.records or now.diverging or now.error):
        assert session.has_news(partition, now) is False, "it has been told now"


def test_an_error_is_told_each_time_and_so_is_its_end(sessions: Sessions) -> None:
    session = sessions.use(sessions.create())
    partition = session.partitions["t", 0]
    failed = found(0, -1, -1, error=ErrorCode.kafka_storage_error)
    told = [session.has_news(partition, each) for each in (failed, failed, found(0), found(0))]
    assert told == [True, True, True, False]


def test_who_got_records_is_read_last_the_next_time(sessions: Sessions) -> None:
    session = sessions.use(sessions.create(4))
    for index, records in enumerate((b"", b"r", b"r", b"")):
        session.has_news(session.partitions["t", index], found(index, records=records))
    assert list(session.partitions) == [("t", 0), ("t", 3), ("t", 1), ("t", 2)]


# --- who gets a slot


@pytest.mark.parametrize(("slots", "kept"), [(0, 0), (7, 0), (8, 8), (15, 8), (16, 16)])
def test_slots_are_shared_out_in_eights_as_kafka_does(slots: int, kept: int) -> None:
    sessions = Sessions(slots)
    for _ in range(20):
        sessions.create()
    assert len(sessions.cache) == kept


def fill(sessions: Sessions, size: int = 1, **how: bool) -> list[int]:
    return [sessions.create(size, **how) for _ in range(SLOTS)]


def test_a_full_cache_gives_no_session(sessions: Sessions) -> None:
    ids = fill(sessions)
    assert sessions.create(100) == NO_SESSION
    assert sessions.there() == ids


def test_a_session_that_ends_leaves_its_slot(sessions: Sessions) -> None:
    first, *_ = fill(sessions)
    sessions.cache.close(first)
    sessions.cache.close(first)
    assert sessions.create() != NO_SESSION
    assert sessions.create() == NO_SESSION


def test_who_was_silent_for_two_minutes_makes_room(sessions: Sessions) -> None:
    first, second, *others = fill(sessions)
    sessions.now_ms = 1
    sessions.use(first)
    sessions.now_ms = EVICTION_MS
    assert sessions.create() == NO_SESSION
    sessions.now_ms += 1
    created = sessions.create()
    assert sessions.there() == [first, *others, created], "the one that was silent for longest goes"
    assert second not in sessions.there()


def test_a_large_session_takes_the_slot_of_a_small_one_that_is_two_minutes_old(
    sessions: Sessions,
) -> None:
    small, large = sessions.create(2), sessions.create(5)
    young = [sessions.create() for _ in range(SLOTS - 2)]
    sessions.now_ms = EVICTION_MS
    for session_id in young:
        sessions.use(session_id)
    sessions.now_ms += 1
    for session_id in (small, large):
        sessions.use(session_id)
    assert sessions.create(2) == NO_SESSION, "an equal one is worth no more"
    created = sessions.create(3)
    assert sessions.there() == [large, *young, created]


def test_the_age_of_a_session_ends_with_its_last_request(sessions: Sessions) -> None:
    """Kafka looks at it when a session is used, not when somebody needs its slot."""
    ids = fill(sessions)
    sessions.now_ms = EVICTION_MS
    for session_id in ids:
        sessions.use(session_id)
    sessions.now_ms = 2 * EVICTION_MS
    assert sessions.create(100) == NO_SESSION


def test_a_follower_takes_the_slot_of_a_consumer_however_young(sessions: Sessions) -> None:
    ids = fill(sessions, 50)
    created = sessions.create(1, is_privileged=True)
    assert sessions.there() == [*ids[1:], created]


def test_a_consumer_never_takes_the_slot_of_a_follower(sessions: Sessions) -> None:
    ids = fill(sessions, is_privileged=True)
    sessions.now_ms = EVICTION_MS + 1
    for session_id in ids:
        sessions.use(session_id)
    assert sessions.create(1000) == NO_SESSION
    assert sessions.create(2, is_privileged=True) != NO_SESSION


def test_all_sessions_together_have_so_many_partitions(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
    first, second = sessions.create(2), sessions.create(2)
    assert sessions.create(2) == NO_SESSION
    sessions.use(first, named(2))
    error = refused(sessions, second, 1, named(2))
    assert error is ErrorCode.fetch_session_id_not_found
    assert sessions.there() == [first]
    assert sessions.create(2) != NO_SESSION, "what was closed does not count any more"


def test_a_node_that_stops_forgets_them(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 5)
    first = sessions.create(5)
    sessions.cache.clear()
    assert refused(sessions, first, 1) is ErrorCode.fetch_session_id_not_found
    assert sessions.create(5) != NO_SESSION
