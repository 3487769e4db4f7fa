"""An event loop in a thread of its own: where the broker of a test lives."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import Context, ContextVar, copy_context
from typing import Any, Self, TypeVar

T = TypeVar("T")

# What a test asks is answered at once; only a loop that hangs, or a machine that does, takes this.
PATIENCE_SECONDS = 30


class Waiter:
    """Whoever waits in another thread than its own, and may give that up."""

    def __init__(self) -> None:
        self.has_given_up = False
        self._awaited: Future[Any] | None = None

    def begin(self) -> Context:
        """Where its thread is to run, so that what is awaited there is known."""
        context = copy_context()
        context.run(_waiter.set, self)
        return context

    def awaits(self, awaited: "Future[Any]") -> None:
        self._awaited = awaited
        if self.has_given_up:
            awaited.cancel()

    def give_up(self) -> None:
        """Its thread ends, and so does what it awaits now or next."""
        self.has_given_up = True
        if self._awaited is not None:
            self._awaited.cancel()


_waiter: ContextVar[Waiter | None] = ContextVar("waiter", default=None)


class LoopThread:
    """`with LoopThread() as loop:`; all methods are called from other threads."""

    def __init__(self, name: str = "kohort-broker") -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(_end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_SECONDS)
        self._loop.close()

    @property
    def is_here(self) -> bool:
        """Whether we are in its thread."""
        return threading.current_thread() is self._thread

    def run(self, awaitable: Coroutine[Any, Any, T], seconds: float = PATIENCE_SECONDS) -> T:
        """Await it on the loop."""
        if self.is_here:
            awaitable.close()
            raise RuntimeError(
                "the broker's own thread cannot wait for the broker: what is called there, as the "
                "condition of run_until, may ask for what is, and do nothing"
            )
        if not self._thread.is_alive():
            awaitable.close()
            raise RuntimeError(
                "the broker's thread is not there: it has ended, or this process was forked from "
                "the broker's, which alone can ask and steer it"
            )
        awaited = asyncio.run_coroutine_threadsafe(awaitable, self._loop)
        if (waiter := _waiter.get()) is not None:
            waiter.awaits(awaited)
        try:
            return awaited.result(min(seconds, threading.TIMEOUT_MAX))
        except CancelledError:
            raise RuntimeError("the broker was stopped while it was waited for") from None
        except TimeoutError:
            if awaited.done():
                raise
            raise TimeoutError(f"the broker has not done this within {seconds:g} s") from None
        finally:
            awaited.cancel()  # Who gave up, or was interrupted, leaves nothing under way.

    def ask(self, what: Callable[[], T]) -> T:
        """Call it on the loop, between two turns of the broker; at once, if we are there."""
        if self.is_here:
            return what()

        async def asked() -> T:
            return what()

        return self.run(asked())

    def soon(self, what: Callable[[], object]) -> None:
        """Call it on the loop, before whatever is asked after it, without waiting."""
        self._loop.call_soon_threadsafe(what)


async def _end() -> None:
    """Who still waits is told. What was aborted is closed in the next turn; a connection that came
    too late, after two."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
