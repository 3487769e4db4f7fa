"""The broker's clock, which a test can freeze and advance.

Clients keep their own time. A test controls what the broker decides by time: sessions, rebalance
timeouts, retention. A member whose session timeout is skipped is removed, even if it is alive; as
with Kafka, the response to its next heartbeat reports the removal.
"""

from collections.abc import Callable
from datetime import timedelta

from ..broker.timers import SystemClock
from .group import Group, group_ids
from .lifecycle import BrokerHost
from .loop_thread import BarrierTimeout, check_may_block, is_true

# A month with a fake member is 860,000 heartbeats, which take half a minute of wall-clock time.
ADVANCE_TIMEOUT_SECONDS = 600
# More explanations would bury the group that the test is about.
EXPLAINED_GROUPS_MAX = 5


class VirtualClock:
    """Follows the system clock, plus the offset by which it was advanced, until it is frozen. Never
    goes back."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._offset_ms = 0
        self._frozen_ms: int | None = None

    def now_ms(self) -> int:
        if self._frozen_ms is not None:
            return self._frozen_ms
        return self._system.now_ms() + self._offset_ms

    def freeze(self) -> None:
        self._frozen_ms = self.now_ms()

    def resume(self) -> None:
        if self._frozen_ms is not None:
            self._offset_ms = self._frozen_ms - self._system.now_ms()
            self._frozen_ms = None

    def advance_to(self, ms: int) -> None:
        """Set the clock to this time, unless that is in the past."""
        missing_ms = ms - self.now_ms()
        if missing_ms <= 0:
            return
        if self._frozen_ms is not None:
            self._frozen_ms = ms
        else:
            self._offset_ms += missing_ms


class ClockControl:
    """`kafka.clock`: the broker's clock."""

    def __init__(self, host: BrokerHost, clock: VirtualClock) -> None:
        self._host = host
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms()

    def freeze(self) -> None:
        """Stop the clock: until `advance`, no deadline expires, however long the test takes."""

        def freeze() -> None:
            self._clock.freeze()
            self._record("frozen")

        self._host.call(freeze)

    def resume(self) -> None:
        """Let the clock run on from its current time."""

        def resume() -> None:
            self._clock.resume()
            self._record("resumed")
            with self._host.history.by_test():
                self._host.broker.node.timers.fire()

        self._host.call(resume)

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
        """Advance the clock by a timedelta or by the named units. Deadlines expire in order, each
        at its own time; all consequences that require no client have taken place on return.
        Clients' clocks do not move. Raises ValueError for a negative duration."""
        if not isinstance(by, timedelta):
            raise TypeError(f"{by!r} has no unit: use advance(seconds={by!r}) or a timedelta")
        by += timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=ms
        )
        total_ms = round(by / timedelta(milliseconds=1))
        if total_ms < 0:
            raise ValueError(f"The clock cannot go back: {total_ms} ms")
        self._host.run(self._advance(lambda: None, total_ms), ADVANCE_TIMEOUT_SECONDS)

    def run_until(self, condition: Callable[[], object], *, within_days: float = 30) -> None:
        """Advance the clock from deadline to deadline until `condition()` is true.

        The condition is called in the broker's thread at each deadline. It may read groups, history
        and data of the test, but must not wait. It cannot depend on actions of clients, which take
        wall-clock time: for those use `advance` and then a barrier. Raises BarrierTimeout if it is
        still false when the clock is `within_days` ahead.
        """
        check_may_block()
        limit_ms = round(within_days * 24 * 3600 * 1000)
        if not self._host.run(self._advance(condition, limit_ms), ADVANCE_TIMEOUT_SECONDS):
            raise BarrierTimeout(
                f"the condition is still false after advancing the clock by {within_days:g} days "
                "(what clients do takes wall time: use clock.advance(…), then kafka.wait(…))"
                + "".join(f"\n{line}" for line in self._describe())
            )

    def _describe(self) -> list[str]:
        due_ms = self._host.call(self._host.next_deadline_ms)
        when = "none" if due_ms is None else f"in {(due_ms - self.now_ms) / 1000:g} s"
        groups = group_ids(self._host)[:EXPLAINED_GROUPS_MAX]
        return [
            f"Next deadline of a group or fake member: {when}",
            *(Group(self._host, each).explain() for each in groups),
        ]

    def _record(self, kind: str) -> None:
        history = self._host.history
        history.record_clock_change(kind, self._clock.now_ms(), history.wall_s)

    # --- on the broker's loop

    async def _advance(self, condition: Callable[[], object], ms: int) -> bool:
        history = self._host.history
        began_ms, began_wall_s = self._clock.now_ms(), history.wall_s
        try:
            with history.by_test():
                return await self._advance_until(condition, began_ms + ms)
        finally:
            history.record_clock_change("advanced", began_ms, began_wall_s)

    async def _advance_until(self, condition: Callable[[], object], target_ms: int) -> bool:
        # First finish what is in progress: it may be the heartbeat that keeps a session alive.
        await self._host.settle()
        while not is_true(condition):
            due_ms = self._host.next_deadline_ms()
            is_last = due_ms is None or due_ms > target_ms
            self._clock.advance_to(target_ms if is_last or due_ms is None else due_ms)
            self._host.broker.node.timers.fire()
            await self._host.settle()
            if is_last:
                return is_true(condition)
        return True
