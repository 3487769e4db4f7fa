"""The deadline of a wait. Time in which this process had no CPU does not count, because a timeout
on a machine that is too busy to run the test proves nothing."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.05
# A wait of 10 s ends after a minute at the latest.
STRETCH_MAX = 6


class Deadline:
    """A deadline `timeout` seconds from now, extended by the time for which a thread of this
    process has waited for a CPU (the maximum over all threads), up to STRETCH_MAX times the
    timeout. Only Linux measures this time; elsewhere the deadline is never extended. Threads of
    other processes do not count."""

    def __init__(self, timeout: float) -> None:
        self._began = time.monotonic()
        self._timeout = timeout
        self._delays = _cpu_delays()
        self._end = self._began + timeout

    @property
    def left(self) -> float:
        """The seconds until the deadline, including its extensions so far."""
        return max(self._end - time.monotonic(), 0)

    def is_over(self) -> bool:
        """Extend the deadline, and return whether it has passed."""
        if self.left > 0:
            return False
        before = self._delays
        delay = max((each - before.get(who, 0) for who, each in _cpu_delays().items()), default=0)
        self._end = self._began + min(self._timeout + delay, self._timeout * STRETCH_MAX)
        return self.left <= 0


def poll(check: Callable[[], T | None], timeout: float, pause: float = POLL_SECONDS) -> T | None:
    """Return the first result of `check` that is neither None nor False; None after the timeout."""
    deadline = Deadline(timeout)
    while (result := check()) is None or result is False:
        if deadline.is_over():
            return None
        time.sleep(pause)
    return result


def longest(timeout: float) -> float:
    """Return the maximum number of seconds that a wait with this timeout can take."""
    return timeout * STRETCH_MAX


def _cpu_delays() -> dict[str, float]:
    """Return how many seconds each thread has been ready to run without a CPU since it started."""
    delays = {}
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # the thread has ended
                delays[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return delays
