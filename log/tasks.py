"""Cooperative tasks: long-running work split into short steps, interleaved with other work on the
event loop.

A task is a generator that yields None after each step, or a function that blocks on the disk or on
a codec. The runner calls that function in a thread (or inline, when nothing else is waiting), then
resumes the task; the function's exceptions are raised at the yield.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TypeAlias, TypeVar

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


class TaskLimit:
    """Limits how many tasks are between `enter` and `leave`; others wait, in order."""

    def __init__(self, tasks_max: int) -> None:
        self._free = tasks_max
        self._waiting: deque[Callable[[], None]] = deque()

    def enter(self) -> CooperativeTask[None]:
        """Wait until the task may continue; it must call `leave`."""
        if self._free > 0:
            self._free -= 1
        else:
            yield WaitingStep(self)

    def leave(self) -> None:
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1

    def wait(self, resume: Callable[[], None]) -> None:
        """Call `resume` when the task that waits may continue."""
        self._waiting.append(resume)

    def exceed(self) -> None:
        """Let one more task continue than allowed."""
        self._free -= 1


class WaitingStep:
    """A step that a scheduler does not call: it ends when `resume` is called. A task that runs
    synchronously cannot wait, and calls it to continue."""

    def __init__(self, limit: TaskLimit) -> None:
        self.wait = limit.wait
        self._exceed = limit.exceed

    def __call__(self) -> None:
        self._exceed()


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
