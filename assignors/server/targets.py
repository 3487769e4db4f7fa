"""A target assignment that an assignor is changing."""

from collections.abc import Sequence

from ..ordering import bucket_count
from .hashing import PartitionSet, TopicHashes, copied_set
from .model import Target, TopicId


class TargetCopy:
    """A modifiable copy of a member's target (AssignorHelpers.deepCopyAssignment).

    Kafka reads targets from records (Assignment.fromRecord) into HashMaps and HashSets, which it
    copies before it changes them.
    """

    __slots__ = ("_buckets", "_hashes", "_sets")

    def __init__(self, target: Target, hashes: TopicHashes) -> None:
        self._hashes = hashes
        # In reverse order, because Kafka adds a new topic at the front of its bucket (see `add`).
        topics = reversed(hashes.sort(target, bucket_count(len(target))))
        self._sets: dict[TopicId, PartitionSet | Sequence[int]] = {
            topic: target[topic] for topic in topics
        }
        self._buckets = 1 << (max(len(target), 1) - 1).bit_length()
        self._grow()

    def _grow(self) -> None:
        if len(self._sets) > self._buckets * 3 // 4:
            self._buckets *= 2

    def _set(self, topic: TopicId) -> PartitionSet:
        partitions = self._sets[topic]
        if not isinstance(partitions, PartitionSet):
            partitions = copied_set(copied_set(partitions).ordered())
            self._sets[topic] = partitions
        return partitions

    def add(self, topic: TopicId, partitions: Sequence[int], buckets: int) -> None:
        """Add partitions of one topic. `buckets` is the initial size of a new set."""
        # Kafka calls HashMap.computeIfAbsent for each partition, which resizes the table if
        # necessary before it looks up the topic, and adds a new topic at the front of its bucket.
        self._grow()
        if topic in self._sets:
            self._set(topic).add(partitions)
            return
        new = PartitionSet(buckets)
        new.add(partitions)
        self._sets[topic] = new
        if len(partitions) > 1:
            self._grow()

    def remove(self, topic: TopicId, partitions: Sequence[int]) -> None:
        remaining = self._set(topic)
        for partition in partitions:
            remaining.remove(partition)
        if not remaining:
            self.remove_topic(topic)

    def remove_topic(self, topic: TopicId) -> None:
        del self._sets[topic]

    def target(self) -> Target:
        topics = self._hashes.sort(reversed(self._sets), self._buckets)
        return {topic: self._set(topic).ordered() for topic in topics}


def loaded_target(target: Target, hashes: TopicHashes) -> Target:
    """Return the target in the order in which Kafka reads it from its record
    (Assignment.fromRecord). Kafka writes this order if another member takes over the target."""
    topics = hashes.sort(target, bucket_count(len(target)))
    return {topic: copied_set(target[topic]).ordered() for topic in topics}


def have_same_partitions(one: Target, other: Target) -> bool:
    """Whether the targets are equal, regardless of order. If so, Kafka writes no record."""
    if one is other:
        return True
    return one.keys() == other.keys() and all(
        len(partitions) == len(other[topic]) and set(partitions) == set(other[topic])
        for topic, partitions in one.items()
    )
