"""Times the callbacks of the event loop and logs long ones, because no other client is served while
a callback runs.

Only these callbacks are timed: the handling of the requests that a connection has read, a slice of
a task, a flush, the sending of responses, the writing of events, and the timers that are due.
"""

import asyncio
import logging
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple

_log = logging.getLogger("kohort.event_loop")

seconds: Final = time.perf_counter
# Frequent callers count shorter callbacks themselves, which takes 0.1 µs per callback. Adding them
# to the histogram would take 0.3 µs.
SHORT_SECONDS: Final = 0.001
# Callbacks of this length are logged, because clients notice the delay. (100 ms is short compared
# with Kafka's heartbeat interval of 3 s, but a commit usually takes less than a millisecond.)
LONG_SECONDS: Final = 0.1
BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class CallbackTimes(NamedTuple):
    """`below` contains (bound in milliseconds, number of callbacks from the previous bound up to
    this one). The bound None means unbounded."""

    total: int
    longest_ms: float
    below: list[tuple[int | None, int]]

    def __str__(self) -> str:
        shown = ", ".join(
            f"{count} of {BOUNDS_MS[-1]} ms or more" if bound is None else f"{count} below {bound}"
            for bound, count in self.below
            if count
        )
        return f"{self.total} callbacks, the longest {self.longest_ms:.1f} ms: {shown or 'none'}"


class Watchdog:
    """Counts callbacks by duration, and logs each that takes LONG_SECONDS or more."""

    def __init__(self) -> None:
        self.short = 0
        """Number of callbacks below SHORT_SECONDS that were not passed to `ended`. Frequent callers
        increment it, and call `ended` only for longer callbacks."""
        self._long = [0] * (len(BOUNDS_MS) + 1)
        self._longest = 0.0

    @property
    def callback_times(self) -> CallbackTimes:
        counts = [self.short + self._long[0], *self._long[1:]]
        bounds: list[int | None] = [*BOUNDS_MS, None]
        below = list(zip(bounds, counts, strict=True))
        return CallbackTimes(sum(counts), self._longest * 1000, below)

    def ended(self, duration: float, what: Callable[[], str]) -> None:
        """Count a callback that took `duration` seconds. `what` describes it for the log."""
        milliseconds = duration * 1000
        self._long[bisect_right(BOUNDS_MS, milliseconds)] += 1
        self._longest = max(self._longest, duration)
        if duration >= LONG_SECONDS:
            # Not a warning, because a stalled machine may be the cause, even in a user's tests.
            _log.info(
                "No client was served for %.0f ms: %s kept the event loop busy",
                milliseconds,
                what(),
            )

    def run(self, callback: Callable[..., object], *args: object) -> None:
        """Call and time `callback`."""
        begin = seconds()
        try:
            callback(*args)
        finally:
            duration = seconds() - begin
            if duration < SHORT_SECONDS:
                self.short += 1
            else:
                self.ended(duration, lambda: name_of(callback))

    def call_soon(self, callback: Callable[[], object]) -> asyncio.Handle:
        """Schedule `callback` on the running event loop, and time it."""
        return asyncio.get_running_loop().call_soon(self.run, callback)


def name_of(function: object) -> str:
    """Return the name of a callback or of a task's generator for the log."""
    function = getattr(function, "func", function)  # functools.partial
    return str(getattr(function, "__qualname__", function))
