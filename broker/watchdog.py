"""Measures the turns of the event loop, and logs the long ones: while one lasts, no other client is
served.

A turn is one callback of the event loop that works for clients: the requests that a connection has
read, a slice of a task, a flush, the timers that are due.
"""

import logging
import time
from bisect import bisect_right
from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

_log = logging.getLogger("kohort.event_loop")

T = TypeVar("T")

# Two calls and a comparison per turn: 0.1 µs. With the histogram it would be 0.3 µs.
seconds: Final = time.perf_counter
# Turns below this are only counted.
SHORT_SECONDS: Final = 0.001
# Clients notice a turn of this length (Kafka's default heartbeat interval is 3 s, but a commit
# takes less than a millisecond), and the log says what it was about.
LONG_SECONDS: Final = 0.1
BOUNDS_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Turns(NamedTuple):
    """`below`: (milliseconds, turns that were shorter, but not below the bound before); None: all
    others."""

    total: int
    longest_ms: float
    below: list[tuple[int | None, int]]

    def __str__(self) -> str:
        shown = ", ".join(
            f"{turns} of {BOUNDS_MS[-1]} ms or more" if bound is None else f"{turns} below {bound}"
            for bound, turns in self.below
            if turns
        )
        return f"{self.total} turns, the longest {self.longest_ms:.1f} ms: {shown or 'none'}"


class Watchdog:
    """Counts turns by their length, and logs one line for each that is longer than LONG_SECONDS."""

    def __init__(self) -> None:
        self.short = 0
        """Turns below SHORT_SECONDS; incremented by the caller of `ended`, which calls it for other
        turns only."""
        self._long = [0] * (len(BOUNDS_MS) + 1)
        self._longest = 0.0

    @property
    def turns(self) -> Turns:
        counts = [self.short + self._long[0], *self._long[1:]]
        bounds: list[int | None] = [*BOUNDS_MS, None]
        below = list(zip(bounds, counts, strict=True))
        return Turns(sum(counts), self._longest * 1000, below)

    def ended(self, duration: float, what: Callable[[], str]) -> None:
        """A turn has ended after `duration` seconds. `what` names its request in the log."""
        milliseconds = duration * 1000
        self._long[bisect_right(BOUNDS_MS, milliseconds)] += 1
        self._longest = max(self._longest, duration)
        if duration >= LONG_SECONDS:
            # Not a warning: the machine may have stalled, also in tests of a user.
            _log.info(
                "No client was served for %.0f ms: %s kept the event loop busy",
                milliseconds,
                what(),
            )

    def watch(self, callback: Callable[..., T]) -> Callable[..., T]:
        """Return `callback` as a function whose calls are turns."""

        def watched(*args: object) -> T:
            begin = seconds()
            try:
                return callback(*args)
            finally:
                duration = seconds() - begin
                if duration < SHORT_SECONDS:
                    self.short += 1
                else:
                    self.ended(duration, lambda: name_of(callback))

        return watched


def name_of(function: object) -> str:
    """Name a callback, or the generator of a task, in the log."""
    function = getattr(function, "func", function)  # functools.partial
    return str(getattr(function, "__qualname__", function))
