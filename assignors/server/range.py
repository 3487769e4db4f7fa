"""`range`: assigns the partitions of each topic to its subscribers in ranges (RangeAssignor).

Static members come first, in the order of their instance ids. Longer ranges come first.
"""

from collections import Counter

from ..ordering import member_order, table_size
from .hashing import TopicHashes
from .model import Members, Target, Topic, TopicId, Topics


class _Ranges:
    """The ranges of one topic, in order."""

    __slots__ = ("end", "extra", "id", "quota")

    def __init__(self, topic: Topic, subscribers: int) -> None:
        self.id = topic.id
        self.quota, self.extra = divmod(topic.partitions, subscribers)
        self.end = 0
        """The end of the last range."""


def assign_range(members: Members, topics: Topics, homogeneous: bool) -> dict[str, Target]:
    """A ServerAssignor."""
    ordered = member_order(members)
    # In a homogeneous group, Kafka reads only the first subscription.
    subscriptions = {each: members[ordered[0] if homogeneous else each] for each in ordered}
    subscribers = Counter(name for each in subscriptions.values() for name in each.topics)
    ranges = {
        name: _Ranges(topics[name], subscribers[name]) for name in topics if subscribers[name]
    }
    hashes = TopicHashes()
    by_subscription: dict[tuple[tuple[str, ...], int], list[_Ranges]] = {}
    targets: dict[str, Target] = {}
    for member_id, subscription in subscriptions.items():
        names, unknown = subscription.topics, subscription.unknown
        of_member = by_subscription.get((names, unknown))
        if of_member is None:
            existing = {ranges[name].id: ranges[name] for name in names if name in ranges}
            buckets = table_size(len(existing) if homogeneous else len(names) + unknown)
            of_member = [existing[topic] for topic in hashes.sort(existing, buckets)]
            by_subscription[names, unknown] = of_member
        targets[member_id] = _next_ranges(of_member)
    return {member_id: targets[member_id] for member_id in members}


def _next_ranges(topics: list[_Ranges]) -> Target:
    target: dict[TopicId, list[int]] = {}
    for topic in topics:
        start, end = topic.end, topic.end + topic.quota
        if topic.extra:
            topic.extra -= 1
            end += 1
        if start < end:
            topic.end = end
            target[topic.id] = list(range(start, end))
    return target
