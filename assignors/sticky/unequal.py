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
    if not shares.revoked and fresh != shares.partitions:
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
        lists = {id(names): names for names in wanting.values()}  # topics share them
        audiences = {
            key: self._audiences.of(tuple(sorted(map(self._number.__getitem__, names))))
            for key, names in lists.items()
        }
        self._audience = {topic: audiences[id(names)] for topic, names in wanting.items()}
        topics = sorted(wanting, key=lambda topic: len(wanting[topic]))
        self.partitions = [[(topic, p) for p in range(sizes[topic])] for topic in topics]
        """Of one topic each, those first that fewest want."""
        self.revoked = False
        """Whether a member may not keep what it owns: then much moves anyway."""
        self._owner: dict[TopicPartition, int] = {}
        for member, owned in claims.owned.items():
            self._keep(self._number[member], member, owned)
        self._movements = Movements()

    def _keep(self, number: int, member: str, owned: Iterable[TopicPartition]) -> None:
        loads = self._loads
        for partition in owned:
            if number not in self._audience[partition[0]].members or self._near.far(
                member, partition
            ):
                self.revoked = True
            else:
                self._owner[partition] = number
                loads[number] += 1

    def fill(self) -> list[list[TopicPartition]]:
        """Gives what nobody owns, and returns it."""
        owner = self._owner
        free = [[p for p in of_topic if p not in owner] for of_topic in self.partitions]
        free = [of_topic for of_topic in free if of_topic]
        rest = free
        if self._near.matters:
            rest = [[p for p in of_topic if not self._give_near(p)] for of_topic in free]
        for of_topic in rest:
            if of_topic:
                receivers = self._audience[of_topic[0][0]].load(len(of_topic))
                owner.update(zip(of_topic, receivers, strict=True))
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
            [self._owner[partition]] = near.load(1)
        return bool(near.members)

    def even_out(
        self,
        partitions: Iterable[Sequence[TopicPartition]],
        earlier: Mapping[TopicPartition, str],
    ) -> None:
        """Moves `partitions` until nobody who wants one has two fewer than its owner."""
        moved = True
        while moved:
            moved = False
            for of_topic in partitions:
                moved |= self._even_out_topic(of_topic, earlier)

    def _even_out_topic(
        self, of_topic: Sequence[TopicPartition], earlier: Mapping[TopicPartition, str]
    ) -> bool:
        loads, owners = self._loads, self._owner
        audience = self._audience[of_topic[0][0]]
        target = audience.least_loaded()
        moved = False
        for partition in of_topic:
            owner = owners[partition]
            if loads[owner] > loads[target] + 1:
                home = self._home(partition, earlier, audience)
                if home is None or loads[owner] <= loads[home] + 1:
                    home = target
                self._move(partition, owner, home)
                target = audience.least_loaded()
                moved = True
        return moved

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
