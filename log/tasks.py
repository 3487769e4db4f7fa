"""Cooperative tasks: long-running work in short steps, interleaved with other work on the event
loop.

A task is a generator. It yields None after each step, or a function that blocks on the disk or on a
codec. The scheduler calls the function in a thread, and `run_synchronously` calls it directly; then
they resume the task. The function's exceptions are raised at the yield.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

from ..protocol.budgets import ConcurrencyLimit

Step: TypeAlias = Callable[[], object] | None
T = TypeVar("T")
CooperativeTask: TypeAlias = Generator[Step, None, T]


def in_thread(function: Callable[[], T]) -> CooperativeTask[T]:
    """Call the blocking `function` in a thread and return its result."""
    results: list[T] = []
    yield lambda: results.append(function())
    return results[0]


def no_steps() -> CooperativeTask[None]:
    yield from ()


def at_once(function: Callable[[], T]) -> CooperativeTask[T]:
    """Call a function that takes little time, without yielding a step, and return its result."""
    yield from no_steps()
    return function()


def begin(limit: ConcurrencyLimit) -> CooperativeTask[None]:
    """Begin an operation once the limit allows it. The task must call `limit.end`."""
    if not limit.begin_now():
        yield WaitingStep(limit)


class WaitingStep:
    """A step that the scheduler does not call. It ends when `resume` is called. A task that runs
    synchronously cannot wait, so it calls the step and exceeds the limit."""

    def __init__(self, limit: ConcurrencyLimit) -> None:
        self._limit = limit

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` when the task may continue, or immediately if an operation has ended since
        this step was created."""
        self._limit.begin(resume)

    def __call__(self) -> None:
        self._limit.begin_now(may_exceed=True)


def run_synchronously(task: CooperativeTask[T]) -> T:
    """Run the whole task and return its result."""
    try:
        step = next(task)
        while True:
            try:
                if step is not None:
                    step()
            except BaseException as error:
                step = task.throw(error)
            else:
                step = next(task)
    except StopIteration as end:
        result: T = end.value
        return result
