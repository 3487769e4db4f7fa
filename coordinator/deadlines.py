"""When what is due: keyed, replaceable, in one heap. Knows nothing of groups.

A heartbeat moves its member's deadline a hundred times before one fires. So a deadline that moves
later leaves the heap alone: the entry comes up at its old time and is pushed again. An entry whose
key was cancelled or moved earlier is dropped when it comes up.
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

K = TypeVar("K")

# Entries of cancelled keys stay in the heap until they come up. Once they are more than half of it,
# and it is not small anyway, it is built anew: a group that churns must not fill the memory for the
# five minutes that its newest members' deadlines lie ahead.
_REBUILD_ABOVE = 1_024


class Deadlines(Generic[K]):
    """Times are int milliseconds of the clock that is handed in. Equal times fire in the order of
    their setting (of their coming up again, where they moved)."""

    __slots__ = ("_due", "_heap", "_queued", "_serial")

    def __init__(self) -> None:
        self._due: dict[K, int] = {}
        # When the entry of a key comes up; never after what is due.
        self._queued: dict[K, int] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._serial = 0

    def set(self, key: K, when: int) -> None:
        """Make `key` due at `when`, whatever it was before."""
        self._due[key] = when
        queued = self._queued.get(key)
        if queued is None or when < queued:
            self._push(key, when)

    def cancel(self, key: K) -> None:
        """Nothing happens to a key that is not set."""
        if self._due.pop(key, None) is not None:
            heap = self._heap
            if len(heap) > _REBUILD_ABOVE and len(heap) > 2 * len(self._due):
                self._rebuild()

    def clear(self) -> None:
        self._due.clear()
        self._queued.clear()
        self._heap.clear()

    @property
    def pending(self) -> Mapping[K, int]:
        """What is due when. To look at."""
        return self._due

    def earliest(self) -> int | None:
        """Nothing is due before this; None: nothing ever is. Cheap, and sometimes too early: what
        was the next may have moved. Then `pop_due` finds nothing and the next answer is right."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: int) -> tuple[K, int] | None:
        """Take out the key that is due first, if any is due by `now`; with the time it was due."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            queued, _, key = heap[0]
            if self._queued.get(key) != queued:
                heappop(heap)  # moved earlier since; another entry stands for it
                continue
            due = self._due.get(key)
            if due is not None and due > now:
                self._serial += 1
                self._queued[key] = due
                heapreplace(heap, (due, self._serial, key))
                continue
            heappop(heap)
            del self._queued[key]
            if due is not None:
                del self._due[key]
                return key, due
        return None

    def _push(self, key: K, when: int) -> None:
        self._serial += 1
        self._queued[key] = when
        heappush(self._heap, (when, self._serial, key))

    def _rebuild(self) -> None:
        self._queued = dict(self._due)
        self._heap = [(when, serial, key) for serial, (key, when) in enumerate(self._due.items())]
        heapify(self._heap)
