"""Tasks that wait for others."""

from collections.abc import Callable

from kohort.broker.scheduler import Scheduler
from kohort.log.tasks import CooperativeTask, TaskLimit, run_synchronously


def worker(limit: TaskLimit, ran: list[str], name: str) -> CooperativeTask[None]:
    yield from limit.enter()
    ran.append(f"{name} begins")
    yield None
    ran.append(f"{name} ends")
    limit.leave()


def test_tasks_beyond_the_limit_wait_in_order_and_do_not_use_the_loop() -> None:
    callbacks: list[Callable[[], None]] = []
    limit, ran = TaskLimit(2), list[str]()
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
    # Two for each, and one in which each of the others begins to wait.
    assert slices == 10
    scheduler.spawn(worker(limit, ran, "e"), eager=True)
    assert ran[-1] == "e begins"


def test_a_synchronous_task_does_not_wait() -> None:
    limit, ran = TaskLimit(1), list[str]()
    first = worker(limit, ran, "a")
    next(first)
    run_synchronously(worker(limit, ran, "b"))
    assert ran == ["a begins", "b begins", "b ends"]
    list(first)
    second = worker(limit, ran, "c")
    assert next(second) is None
