"""Deadlines of the broker's clock on the event loop: one heap, one armed `call_later`.

Everything that waits for a time (group deadlines, long polls) waits here, so that a broker whose
clock is steered by a test needs to steer this one place.
"""

import asyncio
import heapq
import itertools
from collections import deque
from collections.abc import Callable

from .clock import Clock

# Entries of cancelled timers stay in the heap until they come up. Once they are more than half of
# it, and it is not small anyway, it is built anew: a consumer has a hundred polls answered in a
# second, and may have been willing to wait an hour for each.
_REBUILD_ABOVE = 64


class Timer:
    """A callback that is due at `deadline_ms`; `cancel()` makes it do nothing, and tells
    `cancelled` if it had not run before."""

    __slots__ = ("_cancelled", "callback", "deadline_ms")

    def __init__(
        self,
        deadline_ms: int,
        callback: Callable[[], None],
        cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self.deadline_ms = deadline_ms
        self.callback: Callable[[], None] | None = callback
        self._cancelled = cancelled

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self._cancelled()


class Timers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Timer]] = []
        self._cancelled = 0  # of those in the heap
        self._order = itertools.count()
        self._armed: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._slices: deque[Timer] = deque()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def call_at(self, deadline_ms: int, callback: Callable[[], None]) -> Timer:
        """Run `callback` once the broker's clock has reached `deadline_ms`."""
        timer = Timer(deadline_ms, callback, self._has_cancelled)
        heapq.heappush(self._heap, (deadline_ms, next(self._order), timer))
        if self._armed is None or deadline_ms < self._armed_ms:
            self._arm()
        return timer

    def in_turn(self, callback: Callable[[], None]) -> Timer:
        """Run `callback` soon: one such callback in a turn of the loop, in the order in which they
        came. For long work in slices: whoever has a request is served between two of them."""
        timer = Timer(self._clock.now_ms(), callback)
        self._slices.append(timer)
        if len(self._slices) == 1:
            asyncio.get_running_loop().call_soon(self._next_slice)
        return timer

    @property
    def is_slicing(self) -> bool:
        """Whether something of `in_turn` is still to run."""
        return bool(self._slices)

    def _next_slice(self) -> None:
        if not self._slices:
            return  # closed
        callback = self._slices[0].callback
        try:
            if callback is not None:
                callback()
        finally:
            # Taken out only now: what the callback adds does not begin a second row.
            if self._slices:
                self._slices.popleft()
            if self._slices:
                asyncio.get_running_loop().call_soon(self._next_slice)

    def fire(self) -> None:
        """Run all that is due, earliest first, and arm for the next."""
        self._disarm()
        now = self._clock.now_ms()
        heap = self._heap
        try:
            while heap and heap[0][0] <= now:
                timer = heapq.heappop(heap)[2]
                callback, timer.callback = timer.callback, None
                if callback is None:
                    self._cancelled -= 1
                else:
                    callback()
        finally:
            # Also after a callback that raised: the others must not wait for ever.
            self._arm()

    def close(self) -> None:
        self._heap.clear()
        self._cancelled = 0
        self._slices.clear()
        self._disarm()

    def _has_cancelled(self) -> None:
        self._cancelled += 1
        heap = self._heap
        if len(heap) > _REBUILD_ABOVE and self._cancelled > len(heap) // 2:
            # In place: `fire` may be going through it.
            heap[:] = [entry for entry in heap if entry[2].callback is not None]
            heapq.heapify(heap)
            self._cancelled = 0

    def _arm(self) -> None:
        heap = self._heap
        while heap and heap[0][2].callback is None:
            heapq.heappop(heap)
            self._cancelled -= 1
        self._disarm()
        if heap:
            self._armed_ms = heap[0][0]
            delay_ms = max(self._armed_ms - self._clock.now_ms(), 0)
            self._armed = asyncio.get_running_loop().call_later(delay_ms / 1000, self.fire)

    def _disarm(self) -> None:
        if self._armed is not None:
            self._armed.cancel()
            self._armed = None
