"""Shares of a group whose members want different topics (GeneralAssignmentBuilder).

What has no owner goes to whoever has least. Then partitions move, one at a time, from a member to
one that has at least two fewer, until there is no such pair: each move makes the loads more even,
so it ends. Upstream's other steps (setting aside what cannot move, going back when the balance is
no better) find nothing left to do where every move keeps to that rule.
"""

from collections.abc import Iterable, Mapping, Sequence

from ..model import TopicPartition
from ..subscribers import java_order
from .audiences import Audience, Audiences
from .claims import Claims
from .movements import Movements
from .near import Near


def unequal_shares(
    wanting: Mapping[str, Sequence[str]],
    sizes: Mapping[str, int],
    claims: Claims,
    earlier: Mapping[TopicPartition, str],
    near: Near,
) -> dict[str, list[TopicPartition]]:
    """By topic `wanting` are its members and `sizes` its partitions; `earlier` owned them once."""
    shares = _Shares(wanting, sizes, claims, near)
    fresh = shares.fill()
    if not shares.revoked:
        shares.even_out(fresh, earlier)
    shares.even_out(shares.partitions, earlier)
    return shares.given()


class _Shares:
    """Members are numbers, in the order of their ids."""

    def __init__(
        self,
        wanting: Mapping[str, Sequence[str]],
        sizes: Mapping[str, int],
        claims: Claims,
        near: Near,
    ) -> None:
        self._names = sorted(claims.owned, key=java_order)
        self._number = {name: number for number, name in enumerate(self._names)}
        self._near = near
        self._loads = [0] * len(self._names)
        self._audiences = Audiences(self._loads)
        self._audience = {
            topic: self._audiences.of(tuple(sorted(map(self._number.__getitem__, members))))
            for topic, members in wanting.items()
        }
        topics = sorted(wanting, key=lambda topic: len(wanting[topic]))
        self.partitions = [(topic, p) for topic in topics for p in range(sizes[topic])]
        self.revoked = False
        """Whether a member may not keep what it owns: then much moves anyway."""
        self._owner: dict[TopicPartition, int] = {}
        for member, owned in claims.owned.items():
            self._keep(self._number[member], member, owned)
        self._movements = Movements()

    def _keep(self, number: int, member: str, owned: Iterable[TopicPartition]) -> None:
        for partition in owned:
            if number not in self._audience[partition[0]].members or self._near.far(
                member, partition
            ):
                self.revoked = True
            else:
                self._own(number, partition)

    def _own(self, number: int, partition: TopicPartition) -> None:
        self._owner[partition] = number
        self._loads[number] += 1

    def fill(self) -> list[TopicPartition]:
        """Gives what nobody owns, and returns it."""
        free = [partition for partition in self.partitions if partition not in self._owner]
        rest = free
        if self._near.matters:
            rest = [partition for partition in free if not self._give_near(partition)]
        for partition in rest:
            self._own(self._audience[partition[0]].least_loaded(), partition)
        return free

    def _give_near(self, partition: TopicPartition) -> bool:
        """To a member that is not far: other than with equal shares, one without a rack is not."""
        racks = self._near.replicas(partition)
        near = self._audiences.part(
            self._audience[partition[0]],
            racks,
            lambda number: not self._near.far(self._names[number], partition),
        )
        if near.members:
            self._own(near.least_loaded(), partition)
        return bool(near.members)

    def even_out(
        self, partitions: Iterable[TopicPartition], earlier: Mapping[TopicPartition, str]
    ) -> None:
        """Moves `partitions` until nobody who wants one has two fewer than its owner."""
        moved = True
        while moved:
            moved = False
            for partition in partitions:
                audience = self._audience[partition[0]]
                owner = self._owner[partition]
                target = self._home(partition, earlier, audience) if earlier else None
                if target is None or self._loads[owner] <= self._loads[target] + 1:
                    target = audience.least_loaded()
                if self._loads[owner] > self._loads[target] + 1:
                    self._move(partition, owner, target)
                    moved = True

    def _home(
        self, partition: TopicPartition, earlier: Mapping[TopicPartition, str], audience: Audience
    ) -> int | None:
        """Its owner of an earlier generation, if it still wants the topic."""
        number = self._number.get(earlier.get(partition, ""))
        return number if number in audience.members else None

    def _move(self, partition: TopicPartition, owner: int, target: int) -> None:
        source = self._movements.source(partition, owner)
        back = self._movements.moved(partition[0], target, source)
        # Upstream takes it back also where that makes the loads less even, and may never end.
        if back is not None and self._loads[source] > self._loads[target] + 1:
            partition, owner = back, source
        self._movements.move(partition, owner, target)
        self._owner[partition] = target
        self._loads[target] += 1
        self._loads[owner] -= 1
        self._audiences.lightened(owner, self._audience[partition[0]])

    def given(self) -> dict[str, list[TopicPartition]]:
        shares: dict[str, list[TopicPartition]] = {name: [] for name in self._names}
        for partition, number in self._owner.items():
            shares[self._names[number]].append(partition)
        return shares
