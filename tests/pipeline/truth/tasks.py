"""Coroutines in a time that jumps: what a client or a script does, one step after another."""

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from support.virtual_time import Schedule

Register = Callable[[Callable[[Any], None]], None]
"""Is handed what to call, once, when the wait is over."""


@types.coroutine
def wait(register: Register) -> Generator[Register, Any, Any]:
    return (yield register)


class Tasks:
    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self.failure: BaseException | None = None
        """What the first that failed has raised."""

    def begin(self, coroutine: Coroutine[Any, Any, Any]) -> "Task":
        task = Task(self, coroutine)
        self._schedule.after(0, lambda: task.go_on(None))
        return task

    async def sleep(self, ms: float) -> None:
        await wait(lambda wake: self._schedule.after(round(ms), lambda: wake(None)))


class Task:
    def __init__(self, tasks: Tasks, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._tasks, self._coroutine = tasks, coroutine
        self.is_over = False

    def go_on(self, value: Any) -> None:
        if self.is_over:
            return
        try:
            register = self._coroutine.send(value)
        except StopIteration:
            self.is_over = True
        except BaseException as failure:
            self.is_over = True
            self._tasks.failure = self._tasks.failure or failure
        else:
            if not self.is_over:
                register(self.go_on)

    def kill(self) -> None:
        """It goes on no more. (May be its own doing.)"""
        self.is_over = True
        if not self._coroutine.cr_running:  # type: ignore[attr-defined]
            self._coroutine.close()
