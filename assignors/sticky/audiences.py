"""Who of those that want a topic has least: asked for many partitions, so it must be quick.

Topics that the same members want share one audience, and each audience keeps its members in a heap
by load. A load that has grown since is noticed when its member comes to the top. One that has
shrunk is told to the audience at hand; the others build their heaps anew when next asked.
"""

from collections.abc import Callable, Hashable
from heapq import heapify, heappush, heapreplace


class Audiences:
    """`loads` are those of all members, by number; whoever changes them does it in place."""

    def __init__(self, loads: list[int]) -> None:
        self.loads = loads
        self.shrunk = 0  # how often a load has
        self._known: dict[tuple[int, ...], Audience] = {}
        self._parts: dict[tuple[Audience, Hashable], Audience] = {}

    def of(self, numbers: tuple[int, ...]) -> "Audience":
        if numbers not in self._known:
            self._known[numbers] = Audience(self, numbers)
        return self._known[numbers]

    def part(
        self, audience: "Audience", key: Hashable, chosen: Callable[[int], bool]
    ) -> "Audience":
        """Those members that are `chosen`, which is the same for the same `key`."""
        if (audience, key) not in self._parts:
            numbers = tuple(number for number in audience.numbers if chosen(number))
            self._parts[audience, key] = self.of(numbers)
        return self._parts[audience, key]

    def lightened(self, number: int, audience: "Audience") -> None:
        """The load of member `number` is less than it was, which `audience` will ask for next."""
        current = audience.built_at == self.shrunk
        self.shrunk += 1
        if current and number in audience.members:
            audience.built_at = self.shrunk
            audience.push(number)


class Audience:
    def __init__(self, all_: Audiences, numbers: tuple[int, ...]) -> None:
        self.numbers = numbers
        self.members = frozenset(numbers)
        self.built_at = -1
        self._all = all_
        self._count = len(all_.loads)
        self._heap: list[int] = []

    def push(self, number: int) -> None:
        heappush(self._heap, self._all.loads[number] * self._count + number)

    def least_loaded(self) -> int:
        """The first of them by number where several are. There must be one."""
        loads, count = self._all.loads, self._count
        if self.built_at != self._all.shrunk:
            self._heap = [loads[number] * count + number for number in self.numbers]
            heapify(self._heap)
            self.built_at = self._all.shrunk
        heap = self._heap
        while True:
            number = heap[0] % count
            key = loads[number] * count + number
            if heap[0] == key:
                return number
            heapreplace(heap, key)

    def load(self, partitions: int) -> list[int]:
        """Gives as many partitions away, each to whoever has least by then, and says to whom."""
        loads, count = self._all.loads, self._count
        receivers = []
        for _ in range(partitions):
            number = self.least_loaded()
            loads[number] += 1
            heapreplace(self._heap, loads[number] * count + number)
            receivers.append(number)
        return receivers
