"""Which partition to move, so that none goes there and another one of its topic back
(AbstractStickyAssignor.PartitionMovements)."""

from collections.abc import Sequence

from ..model import TopicPartition
from .hash_order import bucket, buckets, string_hash

_MASK = 0xFFFF_FFFF


class Movements:
    """What has moved since the members' own claims, from whom to whom. Members are numbers."""

    def __init__(self) -> None:
        self._moved: dict[TopicPartition, tuple[int, int]] = {}
        self._between: dict[tuple[str, int, int], dict[TopicPartition, None]] = {}

    def source(self, partition: TopicPartition, owner: int) -> int:
        """Whose it was before it moved to its `owner`."""
        return self._moved[partition][0] if partition in self._moved else owner

    def moved(self, topic: str, source: int, target: int) -> TopicPartition | None:
        """A partition of `topic` that went that way and may come back."""
        between = self._between.get((topic, source, target))
        return _first(list(between)) if between else None

    def move(self, partition: TopicPartition, owner: int, target: int) -> None:
        source = owner
        if partition in self._moved:
            source, last = self._moved.pop(partition)
            del self._between[(partition[0], source, last)][partition]
        if source != target:
            self._moved[partition] = source, target
            self._between.setdefault((partition[0], source, target), {})[partition] = None


def _first(partitions: Sequence[TopicPartition]) -> TopicPartition:
    """The one that Java would meet first in a HashSet (TopicPartition.hashCode)."""
    if len(partitions) == 1:
        return partitions[0]
    of_topic, number = string_hash(partitions[0][0]), buckets(len(partitions))
    return min(partitions, key=lambda p: bucket((31 * (31 + p[1]) + of_topic) & _MASK, number))
