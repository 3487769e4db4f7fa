"""The assignment if subscriptions differ (GeneralAssignmentBuilder).

Partitions without an owner go to the least loaded subscriber. Then partitions move, one at a time,
from a member to a subscriber with at least two partitions fewer, until there is no such pair. Every
move makes the loads more even, so the algorithm terminates. Kafka's other steps (setting aside what
cannot move, reverting if the balance is not better) have no effect if every move follows this rule.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from heapq import heapify, heappush, heapreplace

from ..model import TopicPartition
from ..ordering import UINT32_MASK, bucket, bucket_count, java_order, string_hash
from ..racks import RackInfo
from .ownership import Ownership


def assign_general(
    subscribers: Mapping[str, Sequence[str]],
    sizes: Mapping[str, int],
    ownership: Ownership,
    previous: Mapping[TopicPartition, str],
    racks: RackInfo,
) -> dict[str, list[TopicPartition]]:
    """Return the assignment. `sizes` are the partition counts of the topics, and `previous` the
    owners in older generations."""
    builder = _Builder(subscribers, sizes, ownership, racks)
    unassigned = builder.assign_unassigned()
    if not builder.revocation_required and unassigned != builder.partitions:
        builder.balance(unassigned, previous)
    builder.balance(builder.partitions, previous)
    return builder.assignment()


class _Builder:
    """Members are numbers, in the order of their ids."""

    def __init__(
        self,
        subscribers: Mapping[str, Sequence[str]],
        sizes: Mapping[str, int],
        ownership: Ownership,
        racks: RackInfo,
    ) -> None:
        self._names = sorted(ownership.partitions, key=java_order)
        self._number = {name: number for number, name in enumerate(self._names)}
        self._racks = racks
        self._loads = [0] * len(self._names)
        self._heaps = CandidateHeaps(self._loads)
        lists = {id(names): names for names in subscribers.values()}  # shared between topics
        heaps = {
            key: self._heaps.of(tuple(sorted(map(self._number.__getitem__, names))))
            for key, names in lists.items()
        }
        self._candidates = {topic: heaps[id(names)] for topic, names in subscribers.items()}
        topics = sorted(subscribers, key=lambda topic: len(subscribers[topic]))
        self.partitions = [[(topic, p) for p in range(sizes[topic])] for topic in topics]
        """Partitions by topic; the topics with the fewest subscribers come first."""
        self.revocation_required = False
        """Whether any member had to give up a partition."""
        self._owner: dict[TopicPartition, int] = {}
        for member, owned in ownership.partitions.items():
            self._keep(self._number[member], member, owned)
        self._movements = PartitionMovements()

    def _keep(self, number: int, member: str, owned: Iterable[TopicPartition]) -> None:
        loads = self._loads
        for partition in owned:
            if number not in self._candidates[partition[0]].members or self._racks.is_mismatch(
                member, partition
            ):
                self.revocation_required = True
            else:
                self._owner[partition] = number
                loads[number] += 1

    def assign_unassigned(self) -> list[list[TopicPartition]]:
        """Assign the partitions without an owner, and return them by topic."""
        owner = self._owner
        unassigned = [[p for p in of_topic if p not in owner] for of_topic in self.partitions]
        unassigned = [of_topic for of_topic in unassigned if of_topic]
        rest = unassigned
        if self._racks.in_use:
            rest = [[p for p in of_topic if not self._assign_by_rack(p)] for of_topic in unassigned]
        for of_topic in rest:
            if of_topic:
                receivers = self._candidates[of_topic[0][0]].add_partitions(len(of_topic))
                owner.update(zip(of_topic, receivers, strict=True))
        return unassigned

    def _assign_by_rack(self, partition: TopicPartition) -> bool:
        """Assign the partition to a member without a rack mismatch. (A member without a rack never
        has a mismatch.)"""
        racks = self._racks.replicas(partition)
        matching = self._heaps.filtered(
            self._candidates[partition[0]],
            racks,
            lambda number: not self._racks.is_mismatch(self._names[number], partition),
        )
        if matching.members:
            [self._owner[partition]] = matching.add_partitions(1)
        return bool(matching.members)

    def balance(
        self, partitions: Iterable[Sequence[TopicPartition]], previous: Mapping[TopicPartition, str]
    ) -> None:
        """Move partitions until no owner has two or more partitions more than a subscriber."""
        moved = True
        while moved:
            moved = False
            for of_topic in partitions:
                moved |= self._balance_topic(of_topic, previous)

    def _balance_topic(
        self, of_topic: Sequence[TopicPartition], previous: Mapping[TopicPartition, str]
    ) -> bool:
        loads, owners = self._loads, self._owner
        candidates = self._candidates[of_topic[0][0]]
        target = candidates.least_loaded()
        moved = False
        for partition in of_topic:
            owner = owners[partition]
            if loads[owner] > loads[target] + 1:
                preferred = self._number.get(previous.get(partition, ""))
                if (
                    preferred is None
                    or preferred not in candidates.members
                    or loads[owner] <= loads[preferred] + 1
                ):
                    preferred = target
                self._move(partition, owner, preferred)
                target = candidates.least_loaded()
                moved = True
        return moved

    def _move(self, partition: TopicPartition, owner: int, target: int) -> None:
        source = self._movements.source(partition, owner)
        reverse = self._movements.between(partition[0], target, source)
        # Kafka reverts the earlier move even if the balance gets worse, and may then loop forever.
        if reverse is not None and self._loads[source] > self._loads[target] + 1:
            partition, owner = reverse, source
        self._movements.move(partition, owner, target)
        self._owner[partition] = target
        self._loads[target] += 1
        self._loads[owner] -= 1
        self._heaps.load_decreased(owner, self._candidates[partition[0]])

    def assignment(self) -> dict[str, list[TopicPartition]]:
        assigned: dict[str, list[TopicPartition]] = {name: [] for name in self._names}
        for partition, number in self._owner.items():
            assigned[self._names[number]].append(partition)
        return assigned


class PartitionMovements:
    """The movements so far. They prevent two members from exchanging partitions of a topic
    (AbstractStickyAssignor.PartitionMovements)."""

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[int, int]] = {}
        self._by_pair: dict[tuple[str, int, int], dict[TopicPartition, None]] = {}

    def source(self, partition: TopicPartition, owner: int) -> int:
        """Return the member from which the partition has moved, or `owner` if it has not moved."""
        return self._moved[partition][0] if partition in self._moved else owner

    def between(self, topic: str, source: int, target: int) -> TopicPartition | None:
        """Return a partition of `topic` that has moved from `source` to `target`, or None."""
        partitions = self._by_pair.get((topic, source, target))
        return _first_in_hash_set(list(partitions)) if partitions else None

    def move(self, partition: TopicPartition, owner: int, target: int) -> None:
        source = owner
        if partition in self._moved:
            source, last = self._moved.pop(partition)
            del self._by_pair[(partition[0], source, last)][partition]
        if source != target:
            self._moved[partition] = source, target
            self._by_pair.setdefault((partition[0], source, target), {})[partition] = None


def _first_in_hash_set(partitions: Sequence[TopicPartition]) -> TopicPartition:
    """Return the first partition in the iteration order of a HashSet (TopicPartition.hashCode)."""
    if len(partitions) == 1:
        return partitions[0]
    topic_hash, buckets = string_hash(partitions[0][0]), bucket_count(len(partitions))
    return min(
        partitions, key=lambda p: bucket((31 * (31 + p[1]) + topic_hash) & UINT32_MASK, buckets)
    )


class CandidateHeaps:
    """Heaps that find the least loaded subscriber of a topic. Topics with the same subscribers
    share a heap. An increased load is corrected when its entry reaches the top. A decreased load is
    pushed to the current heap; other heaps are rebuilt when they are used next."""

    def __init__(self, loads: list[int]) -> None:
        """`loads` is indexed by member number. The caller changes it in place."""
        self.loads = loads
        self.decreases = 0
        self._heaps: dict[tuple[int, ...], CandidateHeap] = {}
        self._filtered: dict[tuple[CandidateHeap, Hashable], CandidateHeap] = {}

    def of(self, numbers: tuple[int, ...]) -> "CandidateHeap":
        if numbers not in self._heaps:
            self._heaps[numbers] = CandidateHeap(self, numbers)
        return self._heaps[numbers]

    def filtered(
        self, heap: "CandidateHeap", key: Hashable, condition: Callable[[int], bool]
    ) -> "CandidateHeap":
        """Return the heap of the members that match `condition`. `key` identifies the condition."""
        if (heap, key) not in self._filtered:
            numbers = tuple(number for number in heap.numbers if condition(number))
            self._filtered[heap, key] = self.of(numbers)
        return self._filtered[heap, key]

    def load_decreased(self, number: int, heap: "CandidateHeap") -> None:
        """Record that the load of member `number` has decreased. `heap` is the heap used next."""
        is_current = heap.built_at == self.decreases
        self.decreases += 1
        if is_current and number in heap.members:
            heap.built_at = self.decreases
            heap.push(number)


class CandidateHeap:
    """A heap with an entry for each member: load * (number of members) + member number."""

    def __init__(self, heaps: CandidateHeaps, numbers: tuple[int, ...]) -> None:
        self.numbers = numbers
        self.members = frozenset(numbers)
        self.built_at = -1
        self._heaps = heaps
        self._count = len(heaps.loads)
        self._heap: list[int] = []

    def push(self, number: int) -> None:
        heappush(self._heap, self._heaps.loads[number] * self._count + number)

    def least_loaded(self) -> int:
        """Return the least loaded member. The lowest number breaks ties."""
        loads, count = self._heaps.loads, self._count
        if self.built_at != self._heaps.decreases:
            self._heap = [loads[number] * count + number for number in self.numbers]
            heapify(self._heap)
            self.built_at = self._heaps.decreases
        heap = self._heap
        while True:
            number = heap[0] % count
            key = loads[number] * count + number
            if heap[0] == key:
                return number
            heapreplace(heap, key)

    def add_partitions(self, partitions: int) -> list[int]:
        """Add partitions one by one to the least loaded member. Return these members."""
        loads, count = self._heaps.loads, self._count
        receivers = []
        for _ in range(partitions):
            number = self.least_loaded()
            loads[number] += 1
            heapreplace(self._heap, loads[number] * count + number)
            receivers.append(number)
        return receivers
