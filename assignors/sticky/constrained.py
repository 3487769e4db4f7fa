"""The assignment if all members have the same subscription (ConstrainedAssignmentBuilder).

With T partitions and n members, each member gets ⌊T / n⌋ partitions, and T mod n members get one
more. Quotas are fixed, so there are no unnecessary moves. Members below their quota keep
everything, members above it keep their quota, and the rest is distributed.
"""

from collections import Counter
from collections.abc import Mapping

from ..model import TopicPartition
from ..ordering import java_order
from ..racks import RackInfo
from .ownership import Ownership


def assign_constrained(
    sizes: Mapping[str, int], ownership: Ownership, racks: RackInfo
) -> dict[str, list[TopicPartition]]:
    """Return the assignment of the members in `ownership`. `sizes` are the partition counts of the
    topics."""
    return _Builder(sizes, ownership, racks).build()


class _Builder:
    def __init__(self, sizes: Mapping[str, int], ownership: Ownership, racks: RackInfo) -> None:
        self._sizes, self._racks, self._contested = sizes, racks, ownership.contested
        total = sum(sizes.values())
        self._min_quota, self._expected_over = divmod(total, len(ownership.partitions))
        self._over = 0  # members with one partition more than the minimum quota
        self._under: list[str] = []
        self._exact: list[str] = []  # members that may get one more than the minimum quota
        self._mismatched: dict[TopicPartition, str] = {}  # previous owners in other racks
        self._assigned = {
            member: self._keep(member, owned) for member, owned in ownership.partitions.items()
        }
        self._under.sort(key=java_order)
        self._exact.sort(key=java_order)

    def build(self) -> dict[str, list[TopicPartition]]:
        kept = {partition for share in self._assigned.values() for partition in share}
        every = [(topic, p) for topic, size in self._sizes.items() for p in range(size)]
        unassigned = self._racks.sorted_by_rack_members([p for p in every if p not in kept])
        if self._racks.in_use:
            unassigned = self._give_back(self._assign_by_rack(unassigned))
        self._assign(unassigned)
        return self._assigned

    def _keep(self, member: str, owned: list[TopicPartition]) -> list[TopicPartition]:
        """Return the owned partitions that the member keeps."""
        if self._contested or self._racks.in_use:
            owned = [partition for partition in owned if partition not in self._contested]
            mismatched = {p: member for p in owned if self._racks.is_mismatch(member, p)}
            owned = [partition for partition in owned if partition not in mismatched]
            self._mismatched |= mismatched
        quota = self._min_quota + (1 if self._expected_over else 0)
        if len(owned) < self._min_quota:
            self._under.append(member)
            return owned.copy()
        if len(owned) >= quota and self._over < self._expected_over:
            self._count_over()
        else:
            quota = self._min_quota
            if self._over < self._expected_over:
                self._exact.append(member)
        if len(owned) > quota:
            # Kafka sorts the partitions that a member keeps by partition and topic, but assigned
            # partitions by topic and partition.
            owned = sorted(owned, key=lambda partition: (partition[1], partition[0]))
        return owned[:quota]

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._expected_over:
            self._exact.clear()

    def _add(self, member: str, partition: TopicPartition) -> int:
        self._assigned[member].append(partition)
        return len(self._assigned[member])

    def _assign_by_rack(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions to members in their racks. Return the remaining partitions."""
        left, next_index = [], 0
        racks_under = Counter(map(self._racks.rack, self._under))
        for partition in unassigned:
            racks = self._racks.replicas(partition)
            next_index %= len(self._under) or 1
            indexes = range(0)
            if any(racks_under[rack] for rack in racks):
                indexes = range(next_index, next_index + len(self._under))
            for index in indexes:
                index %= len(self._under)
                member = self._under[index]
                if self._racks.rack(member) in racks:
                    next_index = index + 1
                    if self._add(member, partition) >= self._min_quota:
                        next_index = index
                        del self._under[index]
                        racks_under[self._racks.rack(member)] -= 1
                        if self._over < self._expected_over:
                            self._exact.append(member)
                    break
            else:
                if not self._assign_over_quota(partition, racks):
                    left.append(partition)
        return left

    def _assign_over_quota(self, partition: TopicPartition, racks: frozenset[str]) -> bool:
        """Assign the partition to the first member in one of `racks` that may exceed the minimum
        quota. Return False if there is no such member."""
        for index, member in enumerate(self._exact):
            if self._racks.rack(member) in racks:
                del self._exact[index]
                self._add(member, partition)
                self._count_over()
                return True
        return False

    def _give_back(self, unassigned: list[TopicPartition]) -> list[TopicPartition]:
        """Assign partitions without a matching member to their previous owners, up to their quotas.
        Return the remaining partitions. Kafka does not do this."""
        left = []
        for partition in unassigned:
            owner = self._mismatched.get(partition)
            quota = self._min_quota + (1 if self._over < self._expected_over else 0)
            if owner is None or len(self._assigned[owner]) >= quota:
                left.append(partition)
            elif self._add(owner, partition) > self._min_quota:
                self._over += 1
        full = [m for m in self._under if len(self._assigned[m]) >= self._min_quota]
        self._under = [m for m in self._under if len(self._assigned[m]) < self._min_quota]
        exact = [m for m in self._exact + full if len(self._assigned[m]) == self._min_quota]
        self._exact = exact if self._over < self._expected_over else []
        return left

    def _assign(self, unassigned: list[TopicPartition]) -> None:
        """Assign in turn to the members below the quota, then to members that may exceed it."""
        rest = iter(unassigned)
        under = self._under
        while under:
            still_under = []
            for member in under:
                partition = next(rest, None)
                if partition is None:
                    return
                if self._add(member, partition) < self._min_quota:
                    still_under.append(member)
                else:
                    self._exact.append(member)
            under = still_under
        for member, partition in zip(self._exact, rest, strict=False):
            self._add(member, partition)
