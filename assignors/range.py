"""`range`: assigns the partitions of each topic in ranges.

With racks (KIP-881), each member first gets partitions in its rack, up to its quota. The rest is
then assigned in ranges. Topics with equal subscribers and partition counts stay co-partitioned at
the expense of rack matches, because joins rely on co-partitioning.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from .model import Assignment, Assignor, Subscription, Topics
from .ordering import subscribers_by_topic
from .racks import member_racks, partition_racks, use_racks


class RangeAssignor(Assignor):
    """Kafka's org.apache.kafka.clients.consumer.RangeAssignor."""

    name = "range"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        racks = member_racks(members)
        states = [
            _TopicAssignmentState(topic, partition_racks(topics, topic), subscribers, racks)
            for topic, subscribers in subscribers_by_topic(topics, members).items()
        ]
        if any(state.use_racks for state in states):
            _assign_by_rack(states)
        assignment: Assignment = {member: [] for member in members}
        for state in states:
            state.assign_ranges()
            for member, partitions in state.assigned.items():
                assignment[member] += [(state.topic, number) for number in sorted(partitions)]
        return assignment


class _TopicAssignmentState:
    """The assignment of one topic in progress (RangeAssignor.TopicAssignmentState)."""

    def __init__(
        self,
        topic: str,
        of_partitions: Sequence[frozenset[str]],
        members: Sequence[str],
        of_members: Mapping[str, str],
    ) -> None:
        """`of_partitions` and `of_members` are the racks of partitions and members."""
        self.topic, self.of_partitions, self.members = topic, of_partitions, members
        self.racks = tuple(of_members.get(member) for member in members)
        self.size = len(of_partitions)
        self.use_racks = use_racks({rack for rack in self.racks if rack}, of_partitions)
        self.assigned: dict[str, list[int]] = {member: [] for member in members}
        self._quota, self._extra = divmod(self.size, len(members))
        self._is_assigned = bytearray(self.size)

    def capacity(self, member: str) -> int:
        """Return how many more partitions the member may get. A capacity of 0 never increases."""
        quota = self._quota + (1 if self._extra else 0)
        return max(0, quota - len(self.assigned[member]))

    def assign(self, member: str, partitions: Sequence[int]) -> None:
        assigned = self.assigned[member]
        assigned.extend(partitions)
        if len(assigned) > self._quota:
            self._extra -= 1

    def assign_next(self, member: str, candidates: Iterator[int]) -> None:
        """Assign the next unassigned candidates, up to the member's capacity."""
        partitions: list[int] = []
        for _ in range(self.capacity(member)):
            partition = next((p for p in candidates if not self._is_assigned[p]), None)
            if partition is None:
                break
            self._is_assigned[partition] = True
            partitions.append(partition)
        if partitions:
            self.assign(member, partitions)

    def assign_ranges(self) -> None:
        """Assign the remaining partitions in ranges."""
        assigned = {partition for share in self.assigned.values() for partition in share}
        rest = [partition for partition in range(self.size) if partition not in assigned]
        start = 0
        for member in self.members:
            if capacity := self.capacity(member):
                self.assign(member, rest[start : start + capacity])
                start += capacity


def _assign_by_rack(states: Sequence[_TopicAssignmentState]) -> None:
    copartitioned: dict[object, list[_TopicAssignmentState]] = {}
    for state in states:
        copartitioned.setdefault((tuple(state.members), state.size), []).append(state)
    for together in copartitioned.values():
        if len(together) > 1:
            _assign_copartitioned_by_rack(together)
        elif together[0].use_racks:
            _assign_topic_by_rack(together[0])


def _assign_topic_by_rack(state: _TopicAssignmentState) -> None:
    """Assign each member partitions in its rack. A member without a rack gets any partitions."""
    # Members in the same rack share an iterator, so each continues where the previous one stopped.
    in_rack: dict[str | None, Iterator[int]] = {None: iter(range(state.size))}
    for member, rack in zip(state.members, state.racks, strict=True):
        if rack is not None and rack not in in_rack:
            numbered = enumerate(state.of_partitions)
            in_rack[rack] = iter([number for number, racks in numbered if rack in racks])
        state.assign_next(member, in_rack[rack])


def _assign_copartitioned_by_rack(states: Sequence[_TopicAssignmentState]) -> None:
    """Assign partition p of all topics to the first member below its quota that has no rack, or
    whose rack has a replica of p in every topic."""
    # All topics have the same members, and so far the same assignment, so the first one suffices.
    one = states[0]
    waiting: dict[str | None, deque[int]] = {}
    for index, rack in enumerate(one.racks):
        waiting.setdefault(rack, deque()).append(index)
    for partition in range(one.size):
        common_racks = frozenset.intersection(*(state.of_partitions[partition] for state in states))
        first: int | None = None
        for rack, indexes in waiting.items():
            if rack is not None and rack not in common_racks:
                continue
            while indexes and not one.capacity(one.members[indexes[0]]):
                indexes.popleft()
            if indexes and (first is None or indexes[0] < first):
                first = indexes[0]
        if first is not None:
            for state in states:
                state.assign(one.members[first], [partition])
