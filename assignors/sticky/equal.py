"""Shares of a group whose members all want the same topics (ConstrainedAssignmentBuilder).

With T partitions and n members each gets ⌊T / n⌋, and T mod n of them one more. That is known
beforehand, so no partition moves that need not: who has less keeps all, who has more keeps as much
as is due, and what is left fills up those who have too little.
"""

from collections import Counter
from collections.abc import Mapping

from ..model import TopicPartition
from ..subscribers import java_order
from .claims import Claims
from .near import Near


def equal_shares(
    sizes: Mapping[str, int], claims: Claims, near: Near
) -> dict[str, list[TopicPartition]]:
    """`sizes` are the partitions of the topics, in their order; `claims` of the members."""
    return _Dealer(sizes, claims, near).shares()


class _Dealer:
    def __init__(self, sizes: Mapping[str, int], claims: Claims, near: Near) -> None:
        self._sizes, self._near, self._contested = sizes, near, claims.contested
        self._quota, self._want = divmod(sum(sizes.values()), len(claims.owned))
        self._over = 0  # members that have one more than the quota
        self._under: list[str] = []
        self._exact: list[str] = []  # who may still get that one
        self._far: dict[TopicPartition, str] = {}  # what was taken from its owner for that
        self._given = {member: self._keep(member, own) for member, own in claims.owned.items()}
        self._under.sort(key=java_order)
        self._exact.sort(key=java_order)

    def shares(self) -> dict[str, list[TopicPartition]]:
        kept = {partition for share in self._given.values() for partition in share}
        every = [(topic, p) for topic, size in self._sizes.items() for p in range(size)]
        free = self._near.by_neighbours([p for p in every if p not in kept])
        if self._near.matters:
            free = self._give_back(self._deal_near(free))
        self._deal(free)
        return self._given

    def _keep(self, member: str, owned: list[TopicPartition]) -> list[TopicPartition]:
        if self._contested or self._near.matters:
            owned = [partition for partition in owned if partition not in self._contested]
            far = {partition: member for partition in owned if self._near.far(member, partition)}
            owned = [partition for partition in owned if partition not in far]
            self._far |= far
        most = self._quota + (1 if self._want else 0)
        if len(owned) < self._quota:
            self._under.append(member)
            return owned.copy()
        if len(owned) >= most and self._over < self._want:
            self._count_over()
        else:
            most = self._quota
            if self._over < self._want:
                self._exact.append(member)
        if len(owned) > most:
            # Upstream keeps by partition first, and hands out by topic first.
            owned = sorted(owned, key=lambda partition: (partition[1], partition[0]))
        return owned[:most]

    def _count_over(self) -> None:
        self._over += 1
        if self._over == self._want:
            self._exact.clear()

    def _give(self, member: str, partition: TopicPartition) -> int:
        self._given[member].append(partition)
        return len(self._given[member])

    def _deal_near(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """Gives what has a member in its rack that may take it; returns the rest."""
        left, turn = [], 0
        racks_under = Counter(map(self._near.rack, self._under))
        for partition in free:
            racks = self._near.replicas(partition)
            turn %= len(self._under) or 1
            seats = range(0)
            if any(racks_under[rack] for rack in racks):
                seats = range(turn, turn + len(self._under))
            for seat in seats:
                seat %= len(self._under)
                member = self._under[seat]
                if self._near.rack(member) in racks:
                    turn = seat + 1
                    if self._give(member, partition) >= self._quota:
                        turn = seat
                        del self._under[seat]
                        racks_under[self._near.rack(member)] -= 1
                        if self._over < self._want:
                            self._exact.append(member)
                    break
            else:
                if not self._give_over(partition, racks):
                    left.append(partition)
        return left

    def _give_over(self, partition: TopicPartition, racks: frozenset[str]) -> bool:
        """As the one partition above the quota, to the first member near it."""
        for seat, member in enumerate(self._exact):
            if self._near.rack(member) in racks:
                del self._exact[seat]
                self._give(member, partition)
                self._count_over()
                return True
        return False

    def _give_back(self, free: list[TopicPartition]) -> list[TopicPartition]:
        """What nobody near can take stays where it was, if there is room; other than upstream."""
        left = []
        for partition in free:
            owner = self._far.get(partition)
            most = self._quota + (1 if self._over < self._want else 0)
            if owner is None or len(self._given[owner]) >= most:
                left.append(partition)
            elif self._give(owner, partition) > self._quota:
                self._over += 1
        full = [m for m in self._under if len(self._given[m]) >= self._quota]
        self._under = [m for m in self._under if len(self._given[m]) < self._quota]
        exact = [m for m in self._exact + full if len(self._given[m]) == self._quota]
        self._exact = exact if self._over < self._want else []
        return left

    def _deal(self, free: list[TopicPartition]) -> None:
        rest = iter(free)
        under = self._under
        while under:
            still_under = []
            for member in under:
                partition = next(rest, None)
                if partition is None:
                    return
                if self._give(member, partition) < self._quota:
                    still_under.append(member)
                else:
                    self._exact.append(member)
            under = still_under
        for member, partition in zip(self._exact, rest, strict=False):
            self._give(member, partition)
