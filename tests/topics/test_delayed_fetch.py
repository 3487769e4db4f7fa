"""Delayed fetches: the number of appended bytes that completes a fetch."""

import pytest
from kohort.topics.delayed_fetch import DelayedFetch, DelayedFetches


@pytest.fixture
def completed() -> list[str]:
    return []


def test_a_fetch_is_completed_once_when_all_partitions_together_have_enough_bytes(
    completed: list[str],
) -> None:
    first, second = DelayedFetches(), DelayedFetches()
    fetch = DelayedFetch(100, lambda: completed.append("fetch"))
    fetch.watch(first, 1000)
    fetch.watch(second, 1000)
    first.on_append(60)
    assert completed == []
    second.on_append(40)
    assert completed == ["fetch"]
    assert (first.waiting, second.waiting) == ({}, {})
    first.on_append(1000)
    assert completed == ["fetch"]


def test_bytes_beyond_the_limit_of_a_partition_do_not_count(completed: list[str]) -> None:
    fetches = DelayedFetches()
    fetch = DelayedFetch(100, lambda: completed.append("fetch"))
    fetch.watch(fetches, 70)
    fetches.on_append(69)
    fetches.on_append(500)
    assert (completed, fetch.missing_bytes) == ([], 30)


def test_an_append_counts_for_every_fetch_of_the_partition(completed: list[str]) -> None:
    fetches = DelayedFetches()
    for name in "abc":
        DelayedFetch(1, lambda name=name: completed.append(name)).watch(fetches, 10)
    fetches.on_append(1)
    assert completed == ["a", "b", "c"]


def test_a_fetch_repeated_on_completion_waits_for_the_next_append() -> None:
    fetches = DelayedFetches()
    completions = []

    def repeat() -> None:
        completions.append(len(completions))
        DelayedFetch(1, repeat).watch(fetches, 10)

    DelayedFetch(1, repeat).watch(fetches, 10)
    fetches.on_append(5)
    assert completions == [0]
    fetches.on_append(5)
    assert completions == [0, 1]


def test_a_cancelled_fetch_is_never_completed(completed: list[str]) -> None:
    fetches = DelayedFetches()
    fetch = DelayedFetch(1, lambda: completed.append("fetch"))
    fetch.watch(fetches, 10)
    fetch.cancel()
    fetches.on_append(5)
    fetches.complete_all()
    fetch.complete()
    assert (completed, fetches.waiting) == ([], {})


def test_all_fetches_of_a_partition_can_be_completed(completed: list[str]) -> None:
    fetches = DelayedFetches()
    for name in "ab":
        DelayedFetch(99, lambda name=name: completed.append(name)).watch(fetches, 10)
    fetches.complete_all()
    assert completed == ["a", "b"]
