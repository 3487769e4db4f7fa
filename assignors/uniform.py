"""The broker's default assignor for groups of the consumer protocol (UniformAssignor, KIP-848).

Produces a target assignment: members may still own partitions that now belong to others. Members
are ordered as in the other assignors (Kafka: hash order). If a partition has two owners, the one
with the newer generation keeps it, else the first.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from .model import Assignment, Assignor, Subscription, TopicPartition, Topics
from .ordering import java_order, member_order, subscribers_by_topic

MAX_ITERATION_COUNT: Final = 16  # as in Kafka: later iterations move almost nothing

Subscribers: TypeAlias = Mapping[str, list[str]]
"""By topic, in order, its subscribers, in order."""
Owners: TypeAlias = dict[str, list[str | None]]
"""By topic, the owner of each partition."""


class UniformAssignor(Assignor):
    name = "uniform"
    cooperative = False

    def assign(self, topics: Topics, members: Mapping[str, Subscription]) -> Assignment:
        subscribers = subscribers_by_topic(topics, members)
        order = member_order(members)
        owners = _current_owners(topics, members, order, subscribers)
        if len({frozenset(member.topics) for member in members.values()}) == 1:
            _assign_homogeneous(owners, order)
        else:
            _assign_heterogeneous(owners, order, subscribers)
        assignment: Assignment = {member: [] for member in members}
        for topic, of_topic in owners.items():
            for partition, member in enumerate(of_topic):
                assert member is not None
                assignment[member].append((topic, partition))
        return assignment


def _current_owners(
    topics: Topics, members: Mapping[str, Subscription], order: list[str], subscribers: Subscribers
) -> Owners:
    """Return the current owners of existing partitions that are still subscribed to the topic."""
    owners: Owners = {topic: [None] * topics.partitions[topic] for topic in subscribers}
    for member in sorted(order, key=lambda m: -_generation(members[m])):
        subscribed = set(members[member].topics)
        for topic, partition in members[member].owned_partitions:
            if topic in subscribed and topic in owners and partition < len(owners[topic]):
                owners[topic][partition] = owners[topic][partition] or member
    return owners


def _generation(member: Subscription) -> int:
    return -1 if member.generation_id is None else member.generation_id


def _assign_homogeneous(owners: Owners, order: list[str]) -> None:
    """UniformHomogeneousAssignmentBuilder: all members have the same subscription.

    Each keeps partitions up to its quota; the other partitions fill up members below their quota.
    If the partitions cannot be divided evenly, some quotas are one higher: as in Kafka 4.3, first
    those of members that already own more, then of the last members (before 4.3: the first).
    """
    min_quota, extra = divmod(sum(map(len, owners.values())), len(order))
    kept: dict[str, list[TopicPartition]] = {member: [] for member in order}
    unassigned: list[TopicPartition] = []
    for topic, of_topic in owners.items():
        for partition, member in enumerate(of_topic):
            (unassigned if member is None else kept[member]).append((topic, partition))
    quotas: dict[str, int] = {}
    for index, member in enumerate(order):
        owns_more = len(kept[member]) > min_quota
        quotas[member] = min_quota + (extra > 0 and (owns_more or len(order) - index <= extra))
        extra -= quotas[member] - min_quota
        unassigned += kept[member][quotas[member] :]
    rest = iter(unassigned)
    for member, quota in quotas.items():
        for _ in range(quota - len(kept[member])):
            topic, partition = next(rest)
            owners[topic][partition] = member


def _assign_heterogeneous(owners: Owners, order: list[str], subscribers: Subscribers) -> None:
    """UniformHeterogeneousAssignmentBuilder: unassigned partitions first, then balancing. Topics
    with the most partitions per subscriber first; the others can then even out the load."""

    def by_weight(topic: str) -> tuple[float, int, bytes]:
        count = len(subscribers[topic])
        return -len(owners[topic]) / count, count, java_order(topic)

    loads = dict.fromkeys(order, 0)
    for of_topic in owners.values():
        for member in of_topic:
            if member is not None:
                loads[member] += 1
    sorted_topics = sorted(subscribers, key=by_weight)
    for topic in sorted_topics:
        receivers = LeastLoaded(subscribers[topic], loads)
        for partition, member in enumerate(owners[topic]):
            if member is None:
                owners[topic][partition] = receivers.add_partition()
    shared = [topic for topic in sorted_topics if len(subscribers[topic]) > 1]
    balanced = 0
    for topic in shared * MAX_ITERATION_COUNT:
        if balanced == len(shared):
            return  # no topic has changed since each was last balanced
        balanced = 0 if _balance(owners[topic], subscribers[topic], loads) else balanced + 1


def _balance(owners: list[str | None], subscribers: list[str], loads: dict[str, int]) -> bool:
    """Move partitions of a topic from the most to the least loaded member. Return whether any
    moved."""
    of_each = [loads[member] for member in subscribers]
    if max(of_each) - min(of_each) <= 1:
        return False
    owned: dict[str, list[int]] = {member: [] for member in subscribers}
    for partition, member in enumerate(owners):
        if member is not None:
            owned[member].append(partition)
    receivers, givers = LeastLoaded(subscribers, loads), _MostLoaded(subscribers, loads)
    moved = False
    while giver := givers.next(owned):
        if loads[giver] - receivers.min_load <= 1:
            break
        loads[giver] -= 1
        owners[owned[giver].pop()] = receivers.add_partition()
        moved = True
    return moved


class LeastLoaded:
    """The members of one topic by increasing load; ties in the order of `members`. `loads` has all
    members and is updated by `add_partition`."""

    def __init__(self, members: Sequence[str], loads: dict[str, int]) -> None:
        self._loads = loads
        self._by_load = sorted(members, key=loads.__getitem__)
        self._heap = [(loads[member], index) for index, member in enumerate(self._by_load)]

    @property
    def min_load(self) -> int:
        return self._heap[0][0]

    def add_partition(self) -> str:
        """Increment the load of the least loaded member and return it."""
        load, index = self._heap[0]
        heapq.heapreplace(self._heap, (load + 1, index))
        member = self._by_load[index]
        self._loads[member] += 1
        return member


class _MostLoaded:
    """The members of one topic by decreasing load, one level of equal load after the other. The
    caller takes one partition from each member that `next` returns, so a member moves down one
    level. The order within a level is that of Kafka's UniformHeterogeneousAssignmentBuilder."""

    def __init__(self, members: Sequence[str], loads: Mapping[str, int]) -> None:
        self._loads = loads
        self._below = sorted(members, key=loads.__getitem__)
        self._level: list[str] = []
        self._load = 0
        self._left = 0  # number of members of the level that were not returned yet

    def next(self, owned: Mapping[str, Collection[object]]) -> str | None:
        """Return the next member that owns partitions. Members without any are dropped."""
        while self._left or self._next_level():
            self._left -= 1
            member = self._level[self._left]
            if owned[member]:
                return member
            # Swap-remove, as in Kafka.
            self._level[self._left] = self._level[-1]
            self._level.pop()
        return None

    def _next_level(self) -> bool:
        """Move to the next lower level and merge it with members that were moved down."""
        self._load -= 1
        if not self._level and self._below:
            self._load = self._loads[self._below[-1]]
        joining: list[str] = []
        while self._below and self._loads[self._below[-1]] == self._load:
            joining.append(self._below.pop())
        self._level = joining[::-1] + self._level
        self._left = len(self._level)
        return self._left > 0
