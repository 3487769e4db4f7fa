"""Who is asked about which topic, and in which order (AbstractPartitionAssignor)."""

from collections.abc import Mapping

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
    """
    wanting: dict[str, list[str]] = {}
    for member in member_order(members):
        for topic in dict.fromkeys(members[member].topics):
            wanting.setdefault(topic, []).append(member)
    known = sorted((t for t in wanting if topics.partitions.get(t, 0) > 0), key=java_order)
    return {topic: wanting[topic] for topic in known}
