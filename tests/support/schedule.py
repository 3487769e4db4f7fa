"""Virtual time: callbacks run in the order of their deadlines, and the clock jumps to each."""

from collections.abc import Callable

from kohort.broker.timers import Timer
from kohort.coordinator.deadlines import Deadlines


class Schedule:
    def __init__(self) -> None:
        self.start_ms = self._now_ms = 1_700_000_000_000
        self._deadlines: Deadlines[Timer] = Deadlines()

    def now_ms(self) -> int:
        return self._now_ms

    def seconds(self) -> float:
        return self._now_ms / 1000

    def at(self, ms: int, callback: Callable[[], None]) -> Timer:
        """Callbacks with the same deadline run in the order in which they were scheduled."""
        timer = Timer(self._deadlines, ms, callback)
        self._deadlines.set(timer, max(ms, self._now_ms))
        return timer

    def after(self, ms: int, callback: Callable[[], None]) -> Timer:
        return self.at(self._now_ms + ms, callback)

    def next_due(self, until_ms: int) -> Callable[[], None] | None:
        """Advance to the next callback by `until_ms` and return it, or else to `until_ms`."""
        popped = self._deadlines.pop_due(until_ms)
        if popped is not None:
            timer, self._now_ms = popped
            return timer.callback
        self._now_ms = max(self._now_ms, until_ms)
        return None
