"""Tasks that wait for others."""

from collections.abc import Callable

from kohort.broker.event_loop.scheduler import Scheduler
from kohort.log.tasks import CooperativeTask, begin, run_synchronously
from kohort.protocol.budgets import ConcurrencyLimit


def worker(limit: ConcurrencyLimit, ran: list[str], name: str) -> CooperativeTask[None]:
    yield from begin(limit)
    ran.append(f"{name} begins")
    yield None
    ran.append(f"{name} ends")
    limit.end()


def test_tasks_beyond_the_limit_wait_in_order_and_do_not_use_the_loop() -> None:
    callbacks: list[Callable[[], None]] = []
    limit, ran = ConcurrencyLimit(2), list[str]()
    scheduler = Scheduler(callbacks.append, lambda _work, _done: None, slice_seconds=0)
    for name in "abcd":
        scheduler.spawn(worker(limit, ran, name))
    slices = 0
    while callbacks:
        callbacks.pop(0)()
        slices += 1
    assert ran == [
        *("a begins", "b begins", "a ends", "b ends"),
        *("c begins", "d begins", "c ends", "d ends"),
    ]
    # Two slices for each task, and one more for each of the two tasks that have to wait.
    assert slices == 10
    scheduler.spawn(worker(limit, ran, "e"), eager=True)
    assert ran[-1] == "e begins"


def test_a_synchronous_task_does_not_wait() -> None:
    limit, ran = ConcurrencyLimit(1), list[str]()
    first = worker(limit, ran, "a")
    next(first)
    run_synchronously(worker(limit, ran, "b"))
    assert ran == ["a begins", "b begins", "b ends"]
    list(first)
    second = worker(limit, ran, "c")
    assert next(second) is None


def test_a_task_continues_if_another_ends_before_it_begins_to_wait() -> None:
    callbacks: list[Callable[[], None]] = []
    limit, ran = ConcurrencyLimit(1), list[str]()
    scheduler = Scheduler(callbacks.append, lambda _work, _done: None, slice_seconds=0)
    assert limit.begin_now()
    waiting = worker(limit, ran, "a")
    step = next(waiting)
    limit.end()

    def spawned_later() -> CooperativeTask[None]:
        yield step
        yield from waiting

    scheduler.spawn(spawned_later())
    while callbacks:
        callbacks.pop(0)()
    assert ran == ["a begins", "a ends"]
