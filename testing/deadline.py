"""The end of a wait. On a machine that is too busy to run the test, a timeout proves nothing: time
in which this process had no CPU does not count."""

import time
from contextlib import suppress
from pathlib import Path

# A wait of 10 s ends after a minute at the latest.
STRETCH_MAX = 6


class Deadline:
    """`timeout` seconds from now, without the time for which the thread that waited longest for a
    CPU had to wait. Clients in other processes do not count. Where the kernel does not measure it
    (Linux does), all time counts."""

    def __init__(self, timeout: float) -> None:
        self._began = time.monotonic()
        self._timeout = timeout
        self._delays = _cpu_delays()
        self._end = self._began + timeout

    @property
    def left(self) -> float:
        """Return the seconds until the deadline, if no further time has to be excluded."""
        return max(self._end - time.monotonic(), 0)

    def is_over(self) -> bool:
        """Whether it is over now."""
        if self.left > 0:
            return False
        before = self._delays
        delay = max((each - before.get(who, 0) for who, each in _cpu_delays().items()), default=0)
        self._end = self._began + min(self._timeout + delay, self._timeout * STRETCH_MAX)
        return self.left <= 0


def longest(timeout: float) -> float:
    """Return the number of seconds after which a deadline is over in any case."""
    return timeout * STRETCH_MAX


def _cpu_delays() -> dict[str, float]:
    """Return how many seconds each thread has been ready to run without a CPU since it started."""
    delays = {}
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # it has ended
                delays[thread.name] = int((thread / "schedstat").read_text().split()[1]) / 1e9
    return delays
