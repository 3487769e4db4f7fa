"""The broker's clock, and its timers on the event loop.

Group deadlines and intervals use the broker's clock, so that a test can control time. Long polls
use timers on the system clock (`Node.client_timers`).
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, Protocol

from ...coordinator.deadlines import Deadlines
from .scheduler import SLICE_SECONDS
from .watchdog import Watchdog, name_of, seconds

# A timer that is this late was delayed by a stall of the event loop (a stopped process, a slow
# disk, a garbage collection). Heartbeats of live members may wait in the sockets.
STALL_MS: Final = 100
# Iterations of the event loop after a stall before late timers fire. An open connection is read
# within two iterations, and a connection that was opened during the stall within six. The other two
# are for requests that are handled over several iterations.
READ_ITERATIONS: Final = 8
# If the loop stalls again during these iterations, their count starts again, up to this total. An
# overloaded broker, in which every iteration takes STALL_MS, must also remove silent members.
READ_ITERATIONS_MAX: Final = 64


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC, for deadlines. Never goes backwards."""
        ...

    def wall_ms(self) -> int:
        """The time of the system clock, for comparisons with the timestamps of clients. It may be
        adjusted in either direction."""
        ...


class SystemClock:
    """Wall-clock time at the start plus monotonic time since then. An adjustment of the system
    clock therefore does not expire sessions, and deadlines and timestamps are comparable."""

    def __init__(self) -> None:
        self._epoch_ns = time.time_ns() - time.monotonic_ns()

    def now_ms(self) -> int:
        return (self._epoch_ns + time.monotonic_ns()) // 1_000_000

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Timer:
    """A callback that is due at `deadline_ms`."""

    __slots__ = ("_deadlines", "callback", "deadline_ms")

    def __init__(
        self, deadlines: "Deadlines[Timer]", deadline_ms: int, callback: Callable[[], None]
    ) -> None:
        self._deadlines = deadlines
        self.deadline_ms = deadline_ms
        self.callback = callback

    def cancel(self) -> None:
        """Cancel the timer, unless it has fired. The heap of deadlines keeps the timer, but not the
        objects that its callback refers to, such as the partitions of a Fetch."""
        self._deadlines.cancel(self)
        self.callback = _do_nothing


def _do_nothing() -> None:
    pass


class Timers:
    """Timers on the event loop. After a stall of the loop, sockets are read before late timers
    fire, because a member whose heartbeat arrived during the stall must not be removed."""

    def __init__(self, clock: Clock, watchdog: Watchdog) -> None:
        self._clock = clock
        self._watchdog = watchdog
        self._deadlines: Deadlines[Timer] = Deadlines()
        self._armed: asyncio.Handle | None = None
        self._armed_ms = 0
        self._is_closed = False

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Call `callback` when the clock has reached `deadline_ms`."""
        timer = Timer(self._deadlines, deadline_ms, callback)
        self._deadlines.set(timer, deadline_ms)
        if self._armed is None or deadline_ms < self._armed_ms:
            self._arm()
        return timer

    def fire(self) -> None:
        """Call all callbacks that are due, earliest first, and arm the next deadline."""
        self._disarm()
        now = self._clock.now_ms()
        try:
            while (popped := self._deadlines.pop_due(now)) is not None:
                popped[0].callback()
        finally:
            # Even if a callback has raised an exception, later deadlines must fire.
            self._arm()

    def _fire_slice(self) -> None:
        """Like `fire`, but let other callbacks of the event loop run in between, because thousands
        of sessions may expire at once."""
        self._disarm()
        now, begin, duration = self._clock.now_ms(), seconds(), 0.0
        callback: object = None
        try:
            while duration < SLICE_SECONDS and (popped := self._deadlines.pop_due(now)) is not None:
                callback = popped[0].callback
                popped[0].callback()
                duration = seconds() - begin
        finally:
            self._arm()
            self._watchdog.ended(seconds() - begin, lambda: name_of(callback))

    def close(self) -> None:
        """Stop all timers, including any that are set later."""
        self._is_closed = True
        self._deadlines.clear()
        self._disarm()

    def _arm(self) -> None:
        """Arm the event loop's timer for the earliest deadline. If that deadline has been
        cancelled, nothing is due when the timer fires, and the timer is armed again."""
        self._disarm()
        earliest_ms = self._deadlines.earliest()
        if earliest_ms is not None and not self._is_closed:
            self._armed_ms = earliest_ms
            delay_ms = max(earliest_ms - self._clock.now_ms(), 0)
            self._armed = asyncio.get_running_loop().call_later(
                delay_ms / 1000, self._on_time, earliest_ms
            )

    def _on_time(self, previous_ms: int, iteration: int = 0, fires_at: int = 0) -> None:
        """Fire in iteration `fires_at`. Postpone that iteration if the loop has stalled since
        `previous_ms`, because an event loop may run timers before it reads sockets."""
        now = self._clock.now_ms()
        postponed = iteration + READ_ITERATIONS
        if now - previous_ms >= STALL_MS and postponed <= READ_ITERATIONS_MAX:
            fires_at = postponed
        if iteration >= fires_at:
            self._fire_slice()
            return
        self._armed = asyncio.get_running_loop().call_soon(
            self._on_time, now, iteration + 1, fires_at
        )

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
