"""`range`: the partitions of each topic, in ranges, to its subscribers (RangeAssignor).

Static members come first, by instance id. Longer ranges come first.
"""

from ..ordering import member_order, table_size
from .hashing import TopicHashes
from .model import Members, Target, Topic, Topics


def assign_range(members: Members, topics: Topics, homogeneous: bool) -> dict[str, Target]:
    """A ServerAssignor."""
    ranges = {name: _Ranges(topic) for name, topic in topics.items()}
    for member in members.values():
        for name in member.topics:
            if name in ranges:
                ranges[name].subscribers += 1
    ordered = member_order(members)
    targets: dict[str, Target] = {}
    hashes = TopicHashes()
    for member_id in ordered:
        # In a homogeneous group, Kafka uses the existing topics of the first member's subscription.
        names = members[ordered[0] if homogeneous else member_id].topics
        of_member = [ranges[name] for name in names if name in ranges]
        taken = {
            of_topic.id: partitions for of_topic in of_member if (partitions := of_topic.take())
        }
        buckets = table_size(len(of_member) if homogeneous else len(names))
        order = hashes.sort(taken, buckets)
        targets[member_id] = {topic: list(taken[topic]) for topic in order}
    return {member_id: targets[member_id] for member_id in members}


class _Ranges:
    """The ranges of one topic, in order."""

    __slots__ = ("_next", "_partitions", "_taken", "id", "subscribers")

    def __init__(self, topic: Topic) -> None:
        self.id = topic.id
        self._partitions = topic.partitions
        self.subscribers = self._taken = self._next = 0

    def take(self) -> range:
        quota, extra = divmod(self._partitions, self.subscribers)
        start = self._next
        self._next += quota + (self._taken < extra)
        self._taken += 1
        return range(start, self._next)
