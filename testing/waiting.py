"""Barriers: a test waits until something is so, and never longer than it must."""

import asyncio
import inspect
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# What a barrier waits by default, of wall time: rebalances of real clients take some 50 ms here,
# and three seconds where one of them has to time out first.
TIMEOUT_SECONDS = 10.0
# What a test's own condition looks at may be no doing of the broker, and nobody tells of it then:
# so often it is asked all the same.
LOOK_SECONDS = 0.01


class BarrierTimeout(AssertionError):
    """What a test waited for did not come; the message tells what was there instead."""


def may_wait() -> None:
    """Raises RuntimeError for a coroutine: a wait would hold up its event loop, and the consumers
    that live on it, which may well be what it waits for."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return
    if task is not None:
        raise RuntimeError(
            "you are on an event loop, which this wait would hold up with all that runs on it: "
            "await it, as the fixture async_kafka and AsyncKafka have it, or put it into a thread "
            "(await asyncio.to_thread(…))"
        )


def is_met(condition: Callable[[], object]) -> bool:
    """Raises TypeError for one that is to be awaited: what it returns is true, whatever it says."""
    said = condition()
    if inspect.isawaitable(said):
        if inspect.iscoroutine(said):
            said.close()
        raise TypeError(
            f"the condition {condition!r} is asked and not awaited: say it as a plain function"
        )
    return bool(said)


class Changes:
    """Whoever waits here is asked again after each `tell`. Belongs to the broker's loop."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self.count = 0
        """How often something has happened."""

    def tell(self) -> None:
        """Something has happened. What follows from it in the same breath is seen, too."""
        self.count += 1
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def until(self, check: Callable[[], T | None], seconds: float) -> T | None:
        """The first answer of `check` that is neither None nor False; None when time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (found := check()) is None or found is False:
            future = loop.create_future()
            self._waiting.add(future)
            try:
                async with asyncio.timeout_at(deadline):
                    await future
            except TimeoutError:
                return None
            finally:
                self._waiting.discard(future)
        return found
