"""Budgets, which several clients share."""

from functools import partial

from kohort.protocol.budgets import LONG_REQUESTS_MAX, ConcurrencyLimit, MemoryBudget


def test_long_requests_wait_for_others_in_order() -> None:
    requests, started = ConcurrencyLimit(LONG_REQUESTS_MAX), list[int]()
    for number in range(LONG_REQUESTS_MAX + 2):
        requests.begin(partial(started.append, number))
    assert started == list(range(LONG_REQUESTS_MAX))
    requests.end()
    assert started == list(range(LONG_REQUESTS_MAX + 1))
    requests.end()
    requests.end()
    requests.begin(partial(started.append, 99))
    assert started[-2:] == [LONG_REQUESTS_MAX + 1, 99]


def test_a_request_that_ends_at_once_starts_the_next() -> None:
    requests, started = ConcurrencyLimit(LONG_REQUESTS_MAX), list[int]()

    def start(number: int) -> None:
        started.append(number)
        requests.end()

    for number in range(3 * LONG_REQUESTS_MAX):
        requests.begin(partial(start, number))
    assert started == list(range(3 * LONG_REQUESTS_MAX))


def test_thousands_of_waiting_requests_may_end_at_once() -> None:
    requests, started = ConcurrencyLimit(1), list[int]()
    requests.begin(partial(started.append, 0))

    def start(number: int) -> None:
        started.append(number)
        requests.end()

    for number in range(1, 5_000):
        requests.begin(partial(start, number))
    requests.end()
    assert started == list(range(5_000))


def test_an_operation_that_cannot_wait_is_rejected_or_exceeds_the_limit() -> None:
    operations, started = ConcurrencyLimit(1), list[str]()
    assert operations.begin_now()
    assert not operations.begin_now()
    assert operations.begin_now(may_exceed=True)
    operations.begin(partial(started.append, "waited"))
    operations.end()
    assert not started
    operations.end()
    assert started == ["waited"]


def test_the_user_that_waits_for_the_longest_time_gives_up_its_bytes() -> None:
    budget = MemoryBudget[str](100)
    budget.hold("a", 60)
    budget.hold("b", 40)
    assert budget.excess() is None
    budget.hold("a", 61)
    assert budget.excess() == "b"
    budget.hold("b", 0)
    assert budget.excess() is None
    assert budget.total == 61
