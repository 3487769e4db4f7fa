"""Which members and partitions are in one rack (AbstractStickyAssignor.RackInfo)."""

from collections import Counter
from collections.abc import Mapping, Sequence

from ..model import Subscription, TopicPartition, Topics
from ..racks import member_racks, partition_racks, racks_matter


class Near:
    """Where racks do not matter, every partition is near every member."""

    def __init__(
        self, topics: Topics, shared: Sequence[str], members: Mapping[str, Subscription]
    ) -> None:
        racks = member_racks(members)
        self._inhabitants = Counter(racks.values())
        # Where no member tells its rack, nobody asks for those of the replicas.
        self._replicas = {t: partition_racks(topics, t) for t in shared} if racks else {}
        everywhere = (racks_of for of_topic in self._replicas.values() for racks_of in of_topic)
        self.matters = racks_matter(set(racks.values()), everywhere)
        self._racks = racks if self.matters else {}

    def rack(self, member: str) -> str | None:
        """None where racks do not matter."""
        return self._racks.get(member)

    def replicas(self, partition: TopicPartition) -> frozenset[str]:
        return self._replicas[partition[0]][partition[1]]

    def far(self, member: str, partition: TopicPartition) -> bool:
        """A member that tells no rack is far from nothing."""
        rack = self._racks.get(member)
        return rack is not None and rack not in self.replicas(partition)

    def by_neighbours(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those first that have the fewest members in their racks.

        Upstream sorts as soon as any member tells its rack, be it of use or not.
        """
        if not self._inhabitants:
            return partitions
        neighbours: dict[frozenset[str], int] = {}
        for of_topic in self._replicas.values():
            for racks in of_topic:
                if racks not in neighbours:
                    neighbours[racks] = sum(self._inhabitants[rack] for rack in racks)
        return sorted(partitions, key=lambda partition: neighbours[self.replicas(partition)])
