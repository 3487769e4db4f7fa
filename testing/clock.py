"""The broker's time. Clients keep their own: they measure heartbeats and polls by the wall clock.

So a test that moves the broker's clock moves what the broker alone decides by time: sessions,
rebalance deadlines, ids that were never used, retention. A member whose session is passed over is
expelled, alive or not, and finds out with its next heartbeat, as it would from Kafka.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from ..broker.timers import SystemClock
from .waiting import BarrierTimeout, is_met, may_wait

if TYPE_CHECKING:
    from .kafka import Kafka


# A month with a puppet is 860,000 heartbeats, which take half a minute of wall time.
PASSING_SECONDS = 600
# The story of more groups would hide what a test looks for.
GROUPS_MAX = 5


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
        by: timedelta = timedelta(0),
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> None:
        """Let so much time pass at once: a timedelta, or as said by name. What falls due on the way
        does so in its order and at its time, and all that follows from it without a client's doing
        is done when this returns. Clients' clocks do not move. Raises ValueError for a time before
        now."""
        if not isinstance(by, timedelta):
            raise TypeError(f"{by!r} of what? advance(seconds={by!r}), or a timedelta")
        by += timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms
        )
        total_ms = round(by / timedelta(milliseconds=1))
        if total_ms < 0:
            raise ValueError("time does not go back")
        self._kafka.run(self._pass(lambda: None, total_ms), PASSING_SECONDS)

    def run_until(self, condition: Callable[[], object], *, within_days: float = 30) -> None:
        """Jump from one deadline to the next until `condition()` is true.

        `condition` is asked from the broker's thread, at each deadline: it looks at this broker's
        groups and history, or at plain data of the test, not at anything that waits. What a client
        does takes time of its own, for which this does not wait: `advance`, and then a barrier.
        Raises BarrierTimeout when it is still false `within_days` from now."""
        may_wait()
        limit_ms = round(within_days * 24 * 3600 * 1000)
        if not self._kafka.run(self._pass(condition, limit_ms), PASSING_SECONDS):
            raise BarrierTimeout(
                f"the clock has gone {within_days:g} days ahead, and the condition is still "
                "false. (What clients do takes wall time: clock.advance(…), then kafka.wait(…).)"
                + "".join(f"\n{each}" for each in self._told())
            )

    def _told(self) -> list[str]:
        """What there is now, and when the next thing falls due."""
        due_ms = self._kafka.ask(lambda _broker: self._kafka.next_deadline_ms())
        left = "nothing" if due_ms is None else f"something in {(due_ms - self.now_ms) / 1000:g} s"
        told = [f"Of what groups and puppets do, {left} would fall due next."]
        return told + [group.explain() for group in self._kafka.groups[:GROUPS_MAX]]

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
        # Who is about to do something shall have done it: it may be what keeps a session.
        await self._kafka.settled()
        while not is_met(condition):
            due_ms = self._kafka.next_deadline_ms()
            if due_ms is None or due_ms > target_ms:
                self._clock.reach(target_ms)
                self._kafka.timers.fire()
                await self._kafka.settled()
                return is_met(condition)
            self._clock.reach(due_ms)
            self._kafka.timers.fire()
            await self._kafka.settled()
        return True


async def turns(count: int) -> None:
    """Let the loop turn so many times: what was called soon has been called."""
    for _ in range(count):
        await asyncio.sleep(0)
