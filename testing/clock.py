"""The broker's time. Clients keep their own: they measure heartbeats and polls by the wall clock.

So a test that moves the broker's clock moves what the broker alone decides by time: sessions,
rebalance deadlines, ids that were never used, retention. A member whose session is passed over is
expelled, alive or not, and finds out with its next heartbeat, as it would from Kafka.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..broker.clock import SystemClock

if TYPE_CHECKING:
    from .kafka import Kafka


# A month with a puppet is 860,000 heartbeats, which take half a minute of wall time.
PASSING_SECONDS = 600


class VirtualClock:
    """Follows the wall clock until it is frozen; what it was moved by stays. Never goes back."""

    def __init__(self) -> None:
        self._wall = SystemClock()
        self._ahead_ms = 0
        self._frozen_ms: int | None = None

    def now_ms(self) -> int:
        if self._frozen_ms is not None:
            return self._frozen_ms
        return self._wall.now_ms() + self._ahead_ms

    def freeze(self) -> None:
        self._frozen_ms = self.now_ms()

    def resume(self) -> None:
        """Goes on from where it stands."""
        if self._frozen_ms is not None:
            self._ahead_ms = self._frozen_ms - self._wall.now_ms()
            self._frozen_ms = None

    def reach(self, ms: int) -> None:
        """Stand at this time, or stay where it is if that has passed."""
        missing_ms = ms - self.now_ms()
        if missing_ms <= 0:
            return
        if self._frozen_ms is not None:
            self._frozen_ms = ms
        else:
            self._ahead_ms += missing_ms


class ClockControl:
    """`kafka.clock`: what a test does with the broker's time."""

    def __init__(self, kafka: "Kafka", clock: VirtualClock) -> None:
        self._kafka = kafka
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms()

    def freeze(self) -> None:
        """Nothing falls due any more, however long a test takes, until it says `advance`."""

        def freeze() -> None:
            self._clock.freeze()
            self._moved("frozen")

        self._kafka.ask(lambda _broker: freeze())

    def resume(self) -> None:
        """Time goes on from where it stands."""

        def resume() -> None:
            self._clock.resume()
            self._moved("resumed")
            with self._kafka.history.by_test():
                self._kafka.timers.fire()

        self._kafka.ask(lambda _broker: resume())

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: int = 0,
    ) -> None:
        """Let so much time pass at once. What falls due on the way does so in its order and at its
        time, and all that follows from it without a client's doing is done when this returns."""
        minutes += (days * 24 + hours) * 60
        total_ms = round((minutes * 60 + seconds) * 1000) + ms
        if total_ms < 0:
            raise ValueError("time does not go back")
        self._kafka.run(self._pass(lambda: None, total_ms), PASSING_SECONDS)

    def run_until(self, condition: Callable[[], object], *, within_days: float = 30) -> None:
        """Jump from one deadline to the next until `condition()` is true.

        `condition` is asked from the broker's thread: it looks at this broker's groups and history,
        or at plain data of the test, not at anything that waits. Raises AssertionError when nothing
        is left to fall due, or would not `within_days` from now."""
        limit_ms = round(within_days * 24 * 3600 * 1000)
        if not self._kafka.run(self._pass(condition, limit_ms), PASSING_SECONDS):
            raise AssertionError(
                f"the clock has gone {within_days:g} days ahead, and the condition is still false"
            )

    def _moved(self, what: str) -> None:
        history = self._kafka.history
        history.moved(what, self._clock.now_ms(), history.wall_s)

    async def _pass(self, condition: Callable[[], object], ms: int) -> bool:
        began_ms, began_wall_s = self._clock.now_ms(), self._kafka.history.wall_s
        try:
            with self._kafka.history.by_test():
                return await self._pass_until(condition, began_ms + ms)
        finally:
            self._kafka.history.moved("advanced", began_ms, began_wall_s)

    async def _pass_until(self, condition: Callable[[], object], target_ms: int) -> bool:
        timers = self._kafka.timers
        # Who is about to do something shall have done it: it may be what keeps a session.
        await self._kafka.settled()
        while not condition():
            due_ms = self._kafka.next_deadline_ms()
            if due_ms is None or due_ms > target_ms:
                self._clock.reach(target_ms)
                timers.fire()
                await self._kafka.settled()
                return bool(condition())
            self._clock.reach(due_ms)
            timers.fire()
            await self._kafka.settled()
        return True


async def turns(count: int) -> None:
    """Let the loop turn so many times: what was called soon has been called."""
    for _ in range(count):
        await asyncio.sleep(0)
