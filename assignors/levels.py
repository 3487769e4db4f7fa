"""Who has least, and who has most, among members whose loads change while one asks.

Members of one level come in their order, a whole level before the next, as in Kafka's
UniformHeterogeneousAssignmentBuilder.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence


class LeastLoaded:
    """`members` in their order; `loads` is by member, and changed by what it gives."""

    def __init__(self, members: Sequence[str], loads: dict[str, int]) -> None:
        self._loads = loads
        self._by_load = sorted(members, key=loads.__getitem__)
        self._heap = [(loads[member], place) for place, member in enumerate(self._by_load)]

    @property
    def least(self) -> int:
        """The load of who is next."""
        return self._heap[0][0]

    def give(self) -> str:
        """One more for the least loaded: who that is."""
        load, place = self._heap[0]
        heapq.heapreplace(self._heap, (load + 1, place))
        member = self._by_load[place]
        self._loads[member] += 1
        return member


class MostLoaded:
    """From each that is asked for one partition is taken before the next is."""

    def __init__(self, members: Sequence[str], loads: Mapping[str, int]) -> None:
        self._loads = loads
        self._below = sorted(members, key=loads.__getitem__)
        self._level: list[str] = []
        self._load = 0
        self._left = 0  # of the level, still to be asked in this turn, from the end

    def next(self, has: Mapping[str, Collection[object]]) -> str | None:
        """The next that `has` something to give; who has nothing is not asked again."""
        while self._left or self._descend():
            self._left -= 1
            member = self._level[self._left]
            if has[member]:
                return member
            # As Kafka does it: the last takes its place.
            self._level[self._left] = self._level[-1]
            self._level.pop()
        return None

    def _descend(self) -> bool:
        """To those that have one less: all of that level, and who was there before."""
        self._load -= 1
        if not self._level and self._below:
            self._load = self._loads[self._below[-1]]
        joining: list[str] = []
        while self._below and self._loads[self._below[-1]] == self._load:
            joining.append(self._below.pop())
        self._level = joining[::-1] + self._level
        self._left = len(self._level)
        return self._left > 0
