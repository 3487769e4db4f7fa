"""Long polls, counted: who is woken by how much."""

import pytest
from kohort.topics.delayed_fetch import DelayedFetch, DelayedFetches


@pytest.fixture
def woken() -> list[str]:
    return []


def test_a_poll_is_woken_once_by_the_append_that_makes_it_enough(woken: list[str]) -> None:
    here, there = DelayedFetches(), DelayedFetches()
    poll = DelayedFetch(100, lambda: woken.append("poll"))
    poll.watch(here, 1000)
    poll.watch(there, 1000)
    here.on_append(60)
    assert woken == []
    there.on_append(40)
    assert woken == ["poll"]
    assert (here.waiting, there.waiting) == ({}, {})
    here.on_append(1000)
    assert woken == ["poll"]


def test_bytes_beyond_a_partitions_room_do_not_count(woken: list[str]) -> None:
    here = DelayedFetches()
    poll = DelayedFetch(100, lambda: woken.append("poll"))
    poll.watch(here, 70)
    here.on_append(69)
    here.on_append(500)
    assert (woken, poll.missing_bytes) == ([], 30)


def test_every_poll_at_a_partition_hears_of_an_append(woken: list[str]) -> None:
    here = DelayedFetches()
    for name in "abc":
        DelayedFetch(1, lambda name=name: woken.append(name)).watch(here, 10)
    here.on_append(1)
    assert woken == ["a", "b", "c"]


def test_a_poll_that_waits_again_while_it_is_woken_waits_for_the_next_append() -> None:
    here = DelayedFetches()
    turns = []

    def again() -> None:
        turns.append(len(turns))
        DelayedFetch(1, again).watch(here, 10)

    DelayedFetch(1, again).watch(here, 10)
    here.on_append(5)
    assert turns == [0]
    here.on_append(5)
    assert turns == [0, 1]


def test_a_cancelled_poll_is_never_woken(woken: list[str]) -> None:
    here = DelayedFetches()
    poll = DelayedFetch(1, lambda: woken.append("poll"))
    poll.watch(here, 10)
    poll.cancel()
    here.on_append(5)
    here.complete_all()
    poll.complete()
    assert (woken, here.waiting, poll.is_completed) == ([], {}, True)


def test_all_can_be_woken(woken: list[str]) -> None:
    here = DelayedFetches()
    for name in "ab":
        DelayedFetch(99, lambda name=name: woken.append(name)).watch(here, 10)
    here.complete_all()
    assert woken == ["a", "b"]
