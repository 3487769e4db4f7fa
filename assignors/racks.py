"""Which racks members and replicas are in, and whether they matter (KIP-881)."""

from collections.abc import Collection, Iterable, Mapping

from .model import Subscription, Topics

NOWHERE: frozenset[str] = frozenset()


def member_racks(members: Mapping[str, Subscription]) -> dict[str, str]:
    """Of those members that tell one; an empty one is none, one of spaces is a rack like others."""
    told = ((member, subscription.rack) for member, subscription in members.items())
    return {member: rack for member, rack in told if rack}


def partition_racks(topics: Topics, topic: str) -> list[frozenset[str]]:
    """For each partition of `topic` the racks of its replicas, of all, in sync or not."""
    told = topics.replica_racks.get(topic, ())
    if not told:
        return [NOWHERE] * topics.partitions[topic]
    # Few combinations and many partitions: one set each.
    sets: dict[tuple[str | None, ...], frozenset[str]] = {}
    racks = []
    for partition in range(topics.partitions[topic]):
        replicas = tuple(told[partition]) if partition < len(told) else ()
        if replicas not in sets:
            sets[replicas] = frozenset(rack for rack in replicas if rack is not None)
        racks.append(sets[replicas])
    return racks


def racks_matter(of_members: Collection[str], of_partitions: Iterable[frozenset[str]]) -> bool:
    """Not if no member is near any replica, nor if every partition is in all racks alike."""
    distinct = set(of_partitions)
    everywhere = NOWHERE.union(*distinct)
    return not everywhere.isdisjoint(of_members) and distinct != {everywhere}
