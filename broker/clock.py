"""The broker's one clock, in integer milliseconds since the epoch.

It starts at the wall clock and then follows the monotonic one, so that deadlines and timestamps
are the same kind of number and no step of the system's time makes a session expire.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; never goes back."""
        ...


class SystemClock:
    def __init__(self) -> None:
        self._epoch_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (self._epoch_ns + time.monotonic_ns()) // 1_000_000
