"""The broker's clock, which a test can freeze and advance.

Clients keep their own time. A test controls the broker's time-based decisions: sessions, rebalance
timeouts, retention. `advance` does not wait for heartbeats, so a member is removed when the clock
passes the end of its session, even if its client is alive. As with Kafka, the response to the
client's next heartbeat reports the removal. `advance_with_heartbeats` keeps the sessions of live
clients alive.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from itertools import count, islice
from typing import TypedDict, Unpack, cast

from ..broker.event_loop.timers import SystemClock
from ..coordinator.outcome import EventType
from ..suggestions import SuggestsAttributes, did_you_mean
from .group import Group, group_ids
from .group_view import connected_members
from .lifecycle import BrokerHost
from .loop_thread import TIMEOUT_SECONDS, BarrierTimeout, check_may_block, is_true, timed_out

ADVANCE_TIMEOUT_SECONDS = 600
# After this number of deadlines and heartbeats, `advance` skips heartbeats; see DAY_MS. With Java's
# session timeout, 10,000 heartbeats of one member cover 40 hours, and take a few seconds. Ten years
# would take hours.
STOPS_MAX = 10_000
# After STOPS_MAX stops, fake members that only send heartbeats send one per this interval.
DAY_MS = 24 * 3600 * 1000
# More explanations would bury the relevant group.
EXPLAINED_GROUPS_MAX = 5


class Units(TypedDict, total=False):
    """A duration, as the sum of its parts."""

    weeks: float
    days: float
    hours: float
    minutes: float
    seconds: float
    ms: float


class VirtualClock:
    """The system clock plus an offset, or a constant time while it is frozen. `now_ms` never goes
    back."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._offset_ms = 0
        self._frozen_ms: int | None = None

    def now_ms(self) -> int:
        if self._frozen_ms is not None:
            return self._frozen_ms
        return self._system.now_ms() + self._offset_ms

    def wall_ms(self) -> int:
        if self._frozen_ms is not None:
            return self._frozen_ms
        return self._system.wall_ms() + self._offset_ms

    @property
    def is_frozen(self) -> bool:
        return self._frozen_ms is not None

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


class ClockControl(SuggestsAttributes):
    """`kafka.clock`: the broker's clock."""

    def __init__(self, host: BrokerHost, clock: VirtualClock) -> None:
        self._host = host
        self._clock = clock

    @property
    def now_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC."""
        return self._clock.now_ms()

    def freeze(self) -> None:
        """Stop the clock. No deadline expires until `advance`, however long the test takes."""

        def freeze() -> None:
            self._clock.freeze()
            self._record("frozen")

        self._host.call(freeze)

    def resume(self) -> None:
        """Let the clock continue from its current time."""

        def resume() -> None:
            self._clock.resume()
            self._record("resumed")
            with self._host.history.by_test():
                self._host.broker.node.timers.fire()

        self._host.call(resume)

    def advance(self, by: timedelta | None = None, **units: Unpack[Units]) -> None:
        """Advance the clock by a timedelta, or by weeks=, days=, hours=, minutes=, seconds= and
        ms=. Deadlines expire in order, each at its own time. When the method returns, all
        consequences that require no client have taken effect. Clients' clocks do not move, so a
        member is removed if the clock passes the end of its session. After 10,000 deadlines and
        heartbeats, fake members that only send heartbeats send one per day. Raises TypeError
        without a duration, and ValueError for a negative one."""
        ms = total_ms(by, units)
        self._host.run(self._advance(lambda: None, ms), ADVANCE_TIMEOUT_SECONDS)

    def advance_with_heartbeats(
        self,
        by: timedelta | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        **units: Unpack[Units],
    ) -> None:
        """Advance the clock like `advance`, but keep the sessions of connected members alive. The
        clock stops before the end of each session until the client has sent a heartbeat, which
        takes wall-clock time. Raises BarrierTimeout if a client sends no heartbeat within `timeout`
        seconds."""
        check_may_block()
        ms = total_ms(by, units)
        silent = self._host.run(
            self._advance_with_heartbeats(ms, timeout), ADVANCE_TIMEOUT_SECONDS + timeout
        )
        if silent:
            what = f"a heartbeat from {', '.join(silent)}"
            raise timed_out(timeout, what, "To let the session expire, use clock.advance(…).")

    def run_until(self, condition: Callable[[], object], *, within_days: float = 30) -> None:
        """Advance the clock from deadline to deadline until `condition()` is true.

        The condition is called in the broker's thread at each deadline. It may read groups, the
        history and data of the test, but must not wait. If the condition depends on clients, which
        act in wall-clock time, use `advance` and then a barrier instead. Raises BarrierTimeout if
        the condition is still false after `within_days`.
        """
        check_may_block()
        limit_ms = round(within_days * 24 * 3600 * 1000)
        if not self._host.run(self._advance(condition, limit_ms), ADVANCE_TIMEOUT_SECONDS):
            raise BarrierTimeout(
                f"the condition is still false after advancing the clock by {within_days:g} days "
                "(clients act in wall-clock time: use clock.advance(…), then kafka.wait(…))"
                + "".join(f"\n{line}" for line in self._describe())
            )

    def _describe(self) -> list[str]:
        due_ms = self._host.call(self._host.next_deadline_ms)
        when = "none" if due_ms is None else f"in {(due_ms - self.now_ms) / 1000:g} s"
        groups = group_ids(self._host)[:EXPLAINED_GROUPS_MAX]
        return [
            f"Next deadline of a group, transaction or fake member: {when}",
            *(Group(self._host, each).explain() for each in groups),
        ]

    def _record(self, kind: str) -> None:
        history = self._host.history
        history.record_clock_change(kind, self._clock.now_ms(), history.wall_s)

    # --- on the broker's loop

    async def _advance(self, condition: Callable[[], object], ms: int) -> bool:
        history = self._host.history
        began_ms, began_wall_s = self._clock.now_ms(), history.wall_s
        connected = {each.member_id for each in connected_members(self._host)}
        try:
            with history.by_test():
                return await self._advance_until(condition, began_ms + ms, count())
        finally:
            expired = (
                each.event.member_id
                for each in history.events
                if each.event.type is EventType.MEMBER_EXPIRED and each.wall_s >= began_wall_s
            )
            skipped = tuple(each for each in expired if each in connected) if connected else ()
            history.record_clock_change("advanced", began_ms, began_wall_s, skipped)

    async def _advance_with_heartbeats(self, ms: int, timeout: float) -> list[str]:
        """Return the members that sent no heartbeat in time; empty if the clock was advanced."""
        history, clock = self._host.history, self._clock
        began_ms, began_wall_s = clock.now_ms(), history.wall_s
        target_ms, was_frozen, stops = began_ms + ms, clock.is_frozen, count()
        clock.freeze()
        try:
            with history.by_test():
                while True:
                    await self._host.wait_until_idle()
                    next_ms = min([target_ms, *self._session_ends(target_ms).values()])
                    await self._advance_until(lambda: None, next_ms, stops)
                    if next_ms == target_ms:
                        return []
                    if await self._host.until(partial(self._has_no_ends, next_ms), timeout) is None:
                        return sorted(self._session_ends(next_ms))
        finally:
            if not was_frozen:
                clock.resume()
            history.record_clock_change("advanced", began_ms, began_wall_s)

    def _has_no_ends(self, until_ms: int) -> bool:
        return not self._session_ends(until_ms)

    def _session_ends(self, until_ms: int) -> dict[str, int]:
        """Return the last millisecond of each session that ends at this time or before, by member
        id, for members with a connected client."""
        return {
            each.member_id: due_ms - 1
            for each in connected_members(self._host)
            if (due_ms := each.session_due_ms) is not None and due_ms <= until_ms + 1
        }

    async def _advance_until(
        self, condition: Callable[[], object], target_ms: int, stops: "count[int]"
    ) -> bool:
        """Advance the clock to `target_ms`, or until the condition is true, and return whether it
        is true. `stops` counts the deadlines and heartbeats in one call of the test."""
        # First finish pending work, which may include the heartbeat that keeps a session alive.
        await self._host.wait_until_idle()
        while not is_true(condition):
            # Each fake member that only sends heartbeats may send one at each stop of the clock.
            heartbeats = max(len(self._host.fake_members.steady), 1)
            is_long = next(islice(stops, heartbeats - 1, None)) >= STOPS_MAX
            due_ms = self._next_stop_ms(is_long=is_long)
            is_last = due_ms is None or due_ms > target_ms
            self._clock.advance_to(target_ms if is_last or due_ms is None else due_ms)
            if is_long:
                # Fake members send heartbeats before the coordinator checks their sessions.
                self._host.fake_members.send_heartbeats()
                await self._host.wait_until_idle()
            self._host.broker.node.timers.fire()
            await self._host.wait_until_idle()
            if is_last:
                return is_true(condition)
        return True

    def _next_stop_ms(self, *, is_long: bool) -> int | None:
        due_ms = self._host.next_deadline_ms(with_heartbeats=not is_long)
        if not is_long or not self._host.fake_members.steady:
            return due_ms
        tomorrow_ms = self._clock.now_ms() + DAY_MS
        return tomorrow_ms if due_ms is None else min(due_ms, tomorrow_ms)


def total_ms(by: timedelta | None, units: Units) -> int:
    """Return the duration in ms. Raises TypeError without a duration, and ValueError for a negative
    one."""
    if by is None and not units:
        raise TypeError("The clock needs a duration: advance(seconds=45)")
    if not isinstance(by, timedelta | None):
        raise TypeError(f"{by!r} has no unit: use advance(seconds={by!r}) or a timedelta")
    if unknown := units.keys() - Units.__annotations__.keys():
        known = Units.__annotations__
        hint = did_you_mean(min(unknown), known) or f"; the units: {', '.join(known)}"
        raise TypeError(f"Unknown unit {min(unknown)}{hint}")
    amounts = cast("Mapping[str, float]", units)
    parts = {"milliseconds" if unit == "ms" else unit: n for unit, n in amounts.items()}
    total_by = (by or timedelta()) + timedelta(**parts)
    total = round(total_by / timedelta(milliseconds=1))
    if total < 0:
        raise ValueError(f"The clock cannot go back: {total} ms")
    return total
