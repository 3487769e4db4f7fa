"""Time: what happens when. The clock jumps to the next event; nothing ever waits."""

import heapq
from collections.abc import Callable

from kohort.broker.timers import Timer


class Schedule:
    def __init__(self) -> None:
        self.start_ms = self._now_ms = 1_700_000_000_000
        self._heap: list[tuple[int, int, Timer]] = []
        self._serial = 0

    def now_ms(self) -> int:
        return self._now_ms

    def seconds(self) -> float:
        return self._now_ms / 1000

    def at(self, ms: int, callback: Callable[[], None]) -> Timer:
        later = Timer(ms, callback)
        self._serial += 1
        # What is due at the same time happens in the order in which it was asked for.
        heapq.heappush(self._heap, (max(ms, self._now_ms), self._serial, later))
        return later

    def after(self, ms: int, callback: Callable[[], None]) -> Timer:
        return self.at(self._now_ms + ms, callback)

    def next_due(self, until_ms: int) -> Callable[[], None] | None:
        """What happens next, by `until_ms` at the latest; the clock is put to its time."""
        heap = self._heap
        while heap and heap[0][0] <= until_ms:
            ms, _, later = heapq.heappop(heap)
            if later.callback is not None:
                self._now_ms = ms
                return later.callback
        self._now_ms = max(self._now_ms, until_ms)
        return None
