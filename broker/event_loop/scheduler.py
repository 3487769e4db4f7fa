"""Runs cooperative tasks on the event loop. A task does long work in short steps, between which
requests are served. Loading, expiration, snapshots, compaction, topic deletion and long requests
run here.

A task is a generator (log/tasks.py). It yields None after a short step, a function to be called in
a thread, or a WaitingStep. An exception that the function raises is thrown into the task.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ...log.tasks import CooperativeTask, Step, WaitingStep
from .watchdog import name_of

# Time slice of a task per iteration of the event loop, about as long as a flush of commits.
SLICE_SECONDS: Final = 0.002

RunInThread = Callable[[Callable[[], object], Callable[[BaseException | None], None]], None]
"""run_in_thread(work, done): call `work` in a thread, then `done(error)` on the event loop."""


class ScheduledTask:
    """A task that the scheduler runs; `slice_seconds` may be changed while it runs."""

    __slots__ = ("_task", "name", "slice_seconds")

    def __init__(self, task: CooperativeTask[Any], name: object, slice_seconds: float) -> None:
        self._task: CooperativeTask[Any] | None = task
        self.name = name
        self.slice_seconds = slice_seconds

    @property
    def is_done(self) -> bool:
        return self._task is None

    def cancel(self) -> None:
        """Cancel the task at its current yield. None of its steps may be running."""
        task, self._task = self._task, None
        if task is not None:
            task.close()

    def run_slice(
        self, seconds: Callable[[], float], error: BaseException | None, *, only_one_step: bool
    ) -> Step:
        """Run steps until the slice is used up (return None), or until a step must run in a thread
        or wait (return this step). An exception ends the task and is raised."""
        task = self._task
        assert task is not None, "a finished task is not scheduled"
        end = seconds() + self.slice_seconds
        try:
            step = next(task) if error is None else task.throw(error)
            while step is None and not only_one_step and seconds() < end:
                step = next(task)
        except StopIteration:
            self._task = None
            return None
        except BaseException:
            self._task = None
            raise
        return step


class Scheduler:
    """Schedules tasks round-robin: one task for one slice in each iteration of the event loop."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        run_in_thread: RunInThread,
        *,
        seconds: Callable[[], float] = time.perf_counter,
        slice_seconds: float = SLICE_SECONDS,
        on_slice: Callable[[float, ScheduledTask], None] = lambda _duration, _task: None,
    ) -> None:
        """`seconds` is the clock that measures slices. `on_slice` is called after each slice with
        the slice's length in seconds and its task."""
        self._call_soon = call_soon
        self._run_in_thread = run_in_thread
        self.seconds = seconds
        self._slice_seconds = slice_seconds
        self._on_slice = on_slice
        self._runnable: deque[ScheduledTask] = deque()
        self._is_turn_due = False
        self._in_threads = 0
        self._is_stopped = False
        self._threads_done: Callable[[], None] | None = None

    def spawn(
        self, task: CooperativeTask[Any], *, name: object = None, eager: bool = False
    ) -> ScheduledTask:
        """Schedule a task. If `eager`, run its first step immediately. `name` is the task's name in
        the log, by default the generator function's name."""
        scheduled = ScheduledTask(task, name or name_of(task), self._slice_seconds)
        if eager:
            self._continue(scheduled, only_one_step=True)
        else:
            self._enqueue(scheduled)
        return scheduled

    def call(self, callback: Callable[[], object]) -> ScheduledTask:
        """Call `callback` in a separate iteration of the event loop."""

        def task() -> CooperativeTask[None]:
            callback()
            yield from ()

        return self.spawn(task(), name=name_of(callback))

    @property
    def is_idle(self) -> bool:
        """Whether no task is runnable. Tasks may be waiting for a thread."""
        return not self._runnable

    def stop(self, stopped: Callable[[], None]) -> None:
        """Cancel runnable tasks now, and others when they would continue. Call `stopped` once no
        thread is running a step of a task."""
        self._is_stopped = True
        runnable, self._runnable = self._runnable, deque()
        for scheduled in runnable:
            scheduled.cancel()
        if self._in_threads:
            self._threads_done = stopped
        else:
            stopped()

    def _enqueue(self, scheduled: ScheduledTask) -> None:
        if self._is_stopped:
            scheduled.cancel()
            return
        self._runnable.append(scheduled)
        if not self._is_turn_due:
            self._is_turn_due = True
            self._call_soon(self._turn)

    def _turn(self) -> None:
        self._is_turn_due = False
        if not self._runnable:
            return  # stopped
        scheduled = self._runnable[0]
        try:
            self._continue(scheduled)
        finally:
            # Removed only now, so that `is_idle` is False while the task runs.
            if self._runnable and self._runnable[0] is scheduled:
                self._runnable.popleft()
            if self._runnable and not self._is_turn_due:
                self._is_turn_due = True
                self._call_soon(self._turn)

    def _continue(
        self,
        scheduled: ScheduledTask,
        error: BaseException | None = None,
        *,
        only_one_step: bool = False,
    ) -> None:
        begin = self.seconds()
        try:
            step = scheduled.run_slice(self.seconds, error, only_one_step=only_one_step)
        finally:
            self._on_slice(self.seconds() - begin, scheduled)
        if scheduled.is_done:
            return
        if step is None:
            self._enqueue(scheduled)
            return
        if isinstance(step, WaitingStep):
            step.wait(lambda: self._enqueue(scheduled))
            return
        self._in_threads += 1

        def done(raised: BaseException | None) -> None:
            self._in_threads -= 1
            if not self._is_stopped:
                self._continue(scheduled, raised)
                return
            scheduled.cancel()
            if not self._in_threads and self._threads_done is not None:
                self._threads_done()

        self._run_in_thread(step, done)
