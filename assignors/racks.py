"""Racks of members and replicas, and when they influence an assignment (KIP-881)."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from .model import Subscription, TopicPartition, Topics

NO_RACKS: Final[frozenset[str]] = frozenset()


def member_racks(members: Mapping[str, Subscription]) -> dict[str, str]:
    """Return the racks of the members that have one. As in Kafka, "" means no rack."""
    racks = ((member, subscription.rack_id) for member, subscription in members.items())
    return {member: rack for member, rack in racks if rack}


def partition_racks(topics: Topics, topic: str) -> list[frozenset[str]]:
    """Return the racks of all replicas of each partition, whether or not they are in sync."""
    replica_racks = topics.replica_racks.get(topic, ())
    if not replica_racks:
        return [NO_RACKS] * topics.partitions[topic]
    # There are few distinct combinations, so the sets are shared.
    sets: dict[tuple[str | None, ...], frozenset[str]] = {}
    racks = []
    for partition in range(topics.partitions[topic]):
        replicas = tuple(replica_racks[partition]) if partition < len(replica_racks) else ()
        if replicas not in sets:
            sets[replicas] = frozenset(rack for rack in replicas if rack is not None)
        racks.append(sets[replicas])
    return racks


def use_racks(of_members: Collection[str], of_partitions: Iterable[frozenset[str]]) -> bool:
    """Whether racks influence the assignment (AbstractPartitionAssignor.useRackAwareAssignment).
    False if no member shares a rack with a replica, or every partition has replicas in all racks.
    """
    distinct = set(of_partitions)
    all_racks = NO_RACKS.union(*distinct)
    return not all_racks.isdisjoint(of_members) and distinct != {all_racks}


class RackInfo:
    """Racks for the sticky assignors (AbstractStickyAssignor.RackInfo)."""

    def __init__(
        self, topics: Topics, subscribed: Sequence[str], members: Mapping[str, Subscription]
    ) -> None:
        racks = member_racks(members)
        self._members_per_rack = Counter(racks.values())
        self._replicas = {t: partition_racks(topics, t) for t in subscribed} if racks else {}
        all_sets = (racks_of for of_topic in self._replicas.values() for racks_of in of_topic)
        self.in_use = use_racks(set(racks.values()), all_sets)
        self._racks = racks if self.in_use else {}

    def rack(self, member: str) -> str | None:
        """Return the member's rack; None if racks are not in use."""
        return self._racks.get(member)

    def replicas(self, partition: TopicPartition) -> frozenset[str]:
        return self._replicas[partition[0]][partition[1]]

    def is_mismatch(self, member: str, partition: TopicPartition) -> bool:
        """Whether the member has a rack that contains no replica of the partition; False if racks
        are not in use."""
        rack = self._racks.get(member)
        return rack is not None and rack not in self.replicas(partition)

    def sorted_by_rack_members(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Sort partitions by the number of members in their racks, ascending. As in Kafka, they are
        sorted even if racks are not in use, as long as a member has a rack."""
        if not self._members_per_rack:
            return partitions
        member_counts: dict[frozenset[str], int] = {}
        for of_topic in self._replicas.values():
            for racks in of_topic:
                if racks not in member_counts:
                    member_counts[racks] = sum(self._members_per_rack[rack] for rack in racks)
        return sorted(partitions, key=lambda partition: member_counts[self.replicas(partition)])
