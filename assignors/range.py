"""Each topic by itself: its partitions in ranges, one a subscriber (RangeAssignor).

With racks (KIP-881) members first take what is in their rack, as far as their range is long, and
what is left goes by ranges. Topics that the same members want and that have as many partitions
stay together, also where that costs rack matches: joins over topics count on it.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from .model import Assignment, Assignor, Subscription, Topics
from .racks import member_racks, partition_racks, racks_matter
from .subscribers import subscribers


class Range(Assignor):
    name = "range"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        racks = member_racks(members)
        splits = [
            _Split(topic, partition_racks(topics, topic), wanting, racks)
            for topic, wanting in subscribers(topics, members).items()
        ]
        if any(split.racks_matter for split in splits):
            _match_racks(splits)
        shares: Assignment = {member: [] for member in members}
        for split in splits:
            split.give_rest()
            split.tell(shares)
        return shares


class _Split:
    """One topic: who has got how much of it so far (RangeAssignor.TopicAssignmentState)."""

    def __init__(
        self,
        topic: str,
        of_partitions: Sequence[frozenset[str]],
        members: Sequence[str],
        of_members: Mapping[str, str],
    ) -> None:
        self.topic, self.of_partitions, self.members = topic, of_partitions, members
        self.racks = tuple(of_members.get(member) for member in members)
        self.size = len(of_partitions)
        near = {rack for rack in self.racks if rack is not None}
        self.racks_matter = racks_matter(near, of_partitions)
        self._quota, self._extras = divmod(self.size, len(members))
        self._given: dict[str, list[int]] = {member: [] for member in members}
        self._taken = bytearray(self.size)

    def room(self, member: str) -> int:
        """How many more `member` may take. Once it is 0 it stays 0."""
        most = self._quota + (1 if self._extras else 0)
        return max(0, most - len(self._given[member]))

    def give(self, member: str, partitions: Sequence[int]) -> None:
        given = self._given[member]
        given.extend(partitions)
        if len(given) > self._quota:
            self._extras -= 1

    def give_near(self, member: str, candidates: Iterator[int]) -> None:
        """The next `candidates` that nobody has, as many as `member` may take."""
        partitions: list[int] = []
        for _ in range(self.room(member)):
            partition = next((p for p in candidates if not self._taken[p]), None)
            if partition is None:
                break
            self._taken[partition] = True
            partitions.append(partition)
        if partitions:
            self.give(member, partitions)

    def give_rest(self) -> None:
        """What nobody has, in ranges."""
        taken = {partition for given in self._given.values() for partition in given}
        rest = [partition for partition in range(self.size) if partition not in taken]
        start = 0
        for member in self.members:
            if room := self.room(member):
                self.give(member, rest[start : start + room])
                start += room

    def tell(self, shares: Assignment) -> None:
        for member, partitions in self._given.items():
            shares[member] += [(self.topic, partition) for partition in sorted(partitions)]


def _match_racks(splits: Sequence[_Split]) -> None:
    alike: dict[object, list[_Split]] = {}
    for split in splits:
        alike.setdefault((tuple(split.members), split.size), []).append(split)
    for together in alike.values():
        if len(together) > 1:
            _give_together(together)
        elif together[0].racks_matter:
            _give_near(together[0])


def _give_near(split: _Split) -> None:
    """Ranges, of the partitions in each member's rack only."""
    # Members of one rack go on where the one before them stopped.
    near: dict[str | None, Iterator[int]] = {None: iter(range(split.size))}
    for member, rack in zip(split.members, split.racks, strict=True):
        if rack is not None and rack not in near:
            near[rack] = iter([p for p, racks in enumerate(split.of_partitions) if rack in racks])
        split.give_near(member, near[rack])


def _give_together(splits: Sequence[_Split]) -> None:
    """Partition by partition, the same of every topic, to the first member near all of them."""
    one = splits[0]  # all have the same members, and have given them the same so far
    waiting: dict[str | None, deque[int]] = {}
    for position, rack in enumerate(one.racks):
        waiting.setdefault(rack, deque()).append(position)
    for partition in range(one.size):
        near_all = frozenset.intersection(*(split.of_partitions[partition] for split in splits))
        first: int | None = None
        for rack, positions in waiting.items():
            if rack is not None and rack not in near_all:
                continue
            while positions and not one.room(one.members[positions[0]]):
                positions.popleft()
            if positions and (first is None or positions[0] < first):
                first = positions[0]
        if first is not None:
            for split in splits:
                split.give(one.members[first], [partition])
