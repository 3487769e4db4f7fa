"""The broker's event loop in its own thread, and how other threads wait for it."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import Context, ContextVar, copy_context
from typing import Any, Self, TypeVar

from .deadline import Deadline

T = TypeVar("T")

# A call to the broker returns immediately, unless the loop or the machine hangs.
CALL_TIMEOUT_SECONDS = 30
# The default timeout of barriers, in wall-clock time. Rebalances of real clients take about 50 ms
# with this broker, or three seconds if a client has to time out first.
TIMEOUT_SECONDS = 10.0


class BarrierTimeout(AssertionError):
    """A wait timed out. The message says what it waited for, and may explain the state of the
    group or transaction."""

    __module__ = "kohort.testing"  # the module that users import and test reports show


def timed_out(timeout: float, what: str, explanation: str = "") -> BarrierTimeout:
    """Return an error with the message `timed out after 10 s waiting for` …"""
    message = f"timed out after {timeout:g} s waiting for {what}"
    return BarrierTimeout("\n".join(filter(None, (message, explanation))))


def count_times(times: int) -> str:
    return "once" if times == 1 else f"{times} times"


class CancelScope:
    """Cancels a blocking wait that runs in another thread."""

    def __init__(self) -> None:
        self.is_cancelled = False
        self._awaited: Future[Any] | None = None

    def context(self) -> Context:
        """Return the context in which to run the wait: `scope.context().run(function)`."""
        context = copy_context()
        context.run(_scope.set, self)
        return context

    def enter(self, awaited: "Future[Any]") -> None:
        self._awaited = awaited
        if self.is_cancelled:
            awaited.cancel()

    def cancel(self) -> None:
        """Cancel the thread's current wait, or its next one."""
        self.is_cancelled = True
        if self._awaited is not None:
            self._awaited.cancel()


_scope: ContextVar[CancelScope | None] = ContextVar("cancel scope", default=None)


class LoopThread:
    """An event loop in its own thread, for `with LoopThread() as loop:`. Its methods are called
    from other threads."""

    def __init__(self, name: str = "kohort-broker") -> None:
        # The default event loop of Windows has no add_reader, which the server needs.
        self._loop = asyncio.SelectorEventLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(_cancel_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_TIMEOUT_SECONDS)
        self._loop.close()

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this thread."""
        return threading.current_thread() is self._thread

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float = CALL_TIMEOUT_SECONDS) -> T:
        """Run a coroutine on the loop and return its result. Raises TimeoutError."""
        if self.is_current:
            coroutine.close()
            raise RuntimeError(
                "A function that runs in the broker's thread, such as the condition of run_until, "
                "cannot wait for the broker: it may only read its state"
            )
        if not self._thread.is_alive():
            coroutine.close()
            raise RuntimeError(
                "The broker's thread is not running: it has ended, or this process was forked from "
                "the broker's process, and only that process can use the broker"
            )
        awaited = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        if (scope := _scope.get()) is not None:
            scope.enter(awaited)
        try:
            return awaited.result(min(timeout, threading.TIMEOUT_MAX))
        except CancelledError:
            raise RuntimeError("The broker was stopped during this wait") from None
        except TimeoutError:
            if awaited.done():
                raise
            raise TimeoutError(
                f"The broker did not finish this call within {timeout:g} s"
            ) from None
        finally:
            awaited.cancel()  # including after KeyboardInterrupt

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the loop, or directly if the caller is in the loop's thread."""
        if self.is_current:
            return function()

        async def call() -> T:
            return function()

        return self.run(call())


async def _cancel_tasks() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    # An aborted connection is closed in the next iteration, and a connection that was just
    # accepted after two.
    await iterations(3)


async def iterations(count: int) -> None:
    """Let the event loop run `count` iterations, including the callbacks that are scheduled."""
    for _ in range(count):
        await asyncio.sleep(0)


async def completed(begin: Callable[[Callable[[T], None]], object]) -> T:
    """Call `begin` with a callback, and return the callback's argument."""
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def resolve(value: T) -> None:
        if not result.done():  # the future may have been cancelled by the waiting thread
            result.set_result(value)

    begin(resolve)
    return await result


class Changes:
    """A condition variable of the broker's loop. Waiters check their condition after each
    `notify`."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self.count = 0
        """How many times `notify` has been called."""

    def notify(self) -> None:
        # The waiters run in a later iteration, so they see all consequences of the change.
        self.count += 1
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def wait_until(self, check: Callable[[], T | None], timeout: float) -> T | None:
        """Return the first result of `check` that is neither None nor False; None after the
        timeout (Deadline)."""
        loop = asyncio.get_running_loop()
        deadline = None
        while (result := check()) is None or result is False:
            deadline = deadline or Deadline(timeout)
            future = loop.create_future()
            self._waiting.add(future)
            try:
                async with asyncio.timeout(deadline.left):
                    await future
            except TimeoutError:
                if deadline.is_over():
                    return None
            finally:
                self._waiting.discard(future)
        return result


def check_may_block() -> None:
    """Raise RuntimeError if called from a coroutine. There, a blocking wait would stop the event
    loop, including the consumers that the wait may depend on."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return
    if task is not None:
        raise RuntimeError(
            "This wait would block the event loop of the test and everything that runs on it: use "
            "the fixture async_kafka or AsyncKafka, whose waits are coroutines, or run the wait in "
            "a thread (await asyncio.to_thread(…))"
        )


def check_callable(condition: object, description: object) -> None:
    """Raise TypeError if the result of a condition is passed instead of the condition, or the
    timeout instead of the description."""
    if not isinstance(description, str):
        raise TypeError(
            f"The description must be text, not {description!r}: wait(lambda: …, timeout=…) sets "
            "the timeout"
        )
    if not callable(condition):
        raise TypeError(
            f"The condition must be a function, not {condition!r}: wait(lambda: …) checks it "
            "repeatedly"
        )


def is_true(condition: Callable[[], object]) -> bool:
    """Return whether `condition()` is true. Raises TypeError for a coroutine function, whose result
    would always be true."""
    result = condition()
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"The condition {condition!r} is called, not awaited: pass a plain function"
        )
    return bool(result)
