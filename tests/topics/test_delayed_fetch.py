"""Long polls, counted: who is woken by how much."""

import pytest
from kohort.topics.delayed_fetch import DelayedFetches, LongPoll


@pytest.fixture
def woken() -> list[str]:
    return []


def test_a_poll_is_woken_once_by_the_append_that_makes_it_enough(woken: list[str]) -> None:
    here, there = DelayedFetches(), DelayedFetches()
    poll = LongPoll(100, lambda: woken.append("poll"))
    poll.wait_at(here, 1000)
    poll.wait_at(there, 1000)
    here.arrived(60)
    assert woken == []
    there.arrived(40)
    assert woken == ["poll"]
    assert (len(here), len(there)) == (0, 0)
    here.arrived(1000)
    assert woken == ["poll"]


def test_bytes_beyond_a_partitions_room_do_not_count(woken: list[str]) -> None:
    here = DelayedFetches()
    poll = LongPoll(100, lambda: woken.append("poll"))
    poll.wait_at(here, 70)
    here.arrived(69)
    here.arrived(500)
    assert (woken, poll.missing_bytes) == ([], 30)


def test_every_poll_at_a_partition_hears_of_an_append(woken: list[str]) -> None:
    here = DelayedFetches()
    for name in "abc":
        LongPoll(1, lambda name=name: woken.append(name)).wait_at(here, 10)
    here.arrived(1)
    assert woken == ["a", "b", "c"]


def test_a_poll_that_waits_again_while_it_is_woken_waits_for_the_next_append() -> None:
    here = DelayedFetches()
    turns = []

    def again() -> None:
        turns.append(len(turns))
        LongPoll(1, again).wait_at(here, 10)

    LongPoll(1, again).wait_at(here, 10)
    here.arrived(5)
    assert turns == [0]
    here.arrived(5)
    assert turns == [0, 1]


def test_a_cancelled_poll_is_never_woken(woken: list[str]) -> None:
    here = DelayedFetches()
    poll = LongPoll(1, lambda: woken.append("poll"))
    poll.wait_at(here, 10)
    poll.cancel()
    here.arrived(5)
    here.wake_all()
    poll.wake()
    assert (woken, len(here), poll.is_over) == ([], 0, True)


def test_all_can_be_woken(woken: list[str]) -> None:
    here = DelayedFetches()
    for name in "ab":
        LongPoll(99, lambda name=name: woken.append(name)).wait_at(here, 10)
    here.wake_all()
    assert woken == ["a", "b"]
