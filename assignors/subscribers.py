"""Who is asked about which topic, and in which order (AbstractPartitionAssignor)."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import chain

from .model import Subscription, Topics


def java_order(text: str) -> bytes:
    """Java compares strings by their UTF-16 units, which beyond U+FFFF is not Python's order."""
    return text.encode("utf-16-be", "surrogatepass")


def member_order(members: Mapping[str, Subscription]) -> list[str]:
    """Static members by their instance ids, then dynamic ones by their member ids (KIP-345)."""

    def key(member: str) -> tuple[bool, bytes, bytes]:
        instance = members[member].group_instance_id
        return instance is None, java_order(instance or ""), java_order(member)

    return sorted(members, key=key)


def subscribers(topics: Topics, members: Mapping[str, Subscription]) -> dict[str, list[str]]:
    """By topic, in the topics' order, the members that want it, in the members' order.

    A topic without partitions, or one that the leader's metadata does not know, has no place here.
    Topics that the same members want have the same list.
    """
    ordered = member_order(members)
    # Members that want the same are taken together: often all do.
    groups: dict[tuple[str, ...], list[int]] = {}
    for seat, member in enumerate(ordered):
        groups.setdefault(members[member].topics, []).append(seat)
    wanted_by: defaultdict[str, list[int]] = defaultdict(list)
    for group, wanted in enumerate(groups):
        for topic in dict.fromkeys(wanted):
            wanted_by[topic].append(group)
    seats = list(groups.values())
    merged: dict[tuple[int, ...], list[str]] = {}
    wanting: dict[str, list[str]] = {}
    for topic in sorted(wanted_by, key=java_order):
        if topics.partitions.get(topic, 0) > 0:
            those = tuple(wanted_by[topic])
            if those not in merged:
                taken = sorted(chain.from_iterable(map(seats.__getitem__, those)))
                merged[those] = [ordered[seat] for seat in taken]
            wanting[topic] = merged[those]
    return wanting
