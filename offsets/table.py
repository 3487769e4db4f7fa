"""The committed offsets in memory: the cache that OffsetFetch is answered from. Never touches disk.

Groups -> partitions -> the bytes of the commit, about 100 bytes an offset. A partition is keyed by
its name as Kafka prints it, "topic-partition": one string shared by all groups, in a flat dict of
strings and bytes, which is the smallest that Python has and which its garbage collector never has
to visit; a dict for each topic of each group would cost a fifth more.
"""

import sys
from collections.abc import Iterator, Set

from .committed import Committed, read_committed
from .records import OffsetCommitted, OffsetForgotten

# Names are remembered up to here (some 20 MiB), then begun anew: a broker that has had more
# partitions than that in its life has most likely deleted them again.
_NAMES_MAX = 100_000


class OffsetsTable:
    """Who has committed what. One writer: whoever applies records."""

    __slots__ = ("_groups", "_names", "_topics")

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, bytes]] = {}
        self._names: dict[tuple[str, int], str] = {}
        self._topics: set[str] = set()

    def put(self, record: OffsetCommitted) -> None:
        group_id, topic, partition, value = record
        try:
            self._groups[group_id][self._names[topic, partition]] = value
        except KeyError:
            offsets = self._groups.setdefault(group_id, {})
            offsets[self._name(topic, partition)] = value

    def forget(self, record: OffsetForgotten) -> None:
        """Forgetting what was never committed is no fault: compaction leaves such tombstones."""
        offsets = self._groups.get(record.group_id)
        if offsets is None:
            return
        offsets.pop(f"{record.topic}-{record.partition}", None)
        if not offsets:
            del self._groups[record.group_id]

    def forget_group(self, group_id: str) -> None:
        self._groups.pop(group_id, None)

    def get(self, group_id: str, topic: str, partition: int) -> Committed | None:
        offsets = self._groups.get(group_id)
        if offsets is None:
            return None
        value = offsets.get(f"{topic}-{partition}")
        return None if value is None else read_committed(value)

    def of_group(self, group_id: str) -> dict[str, dict[int, Committed]]:
        """All that a group has committed, topic -> partition -> what; empty for a group unknown."""
        topics: dict[str, dict[int, Committed]] = {}
        for record in self.records(group_id):
            topics.setdefault(record.topic, {})[record.partition] = read_committed(record.value)
        return topics

    def records(self, group_id: str) -> Iterator[OffsetCommitted]:
        """The newest commit of each partition, as it was put. Don't change the table meanwhile."""
        for name, value in self._groups.get(group_id, {}).items():
            # A topic's name may hold dashes, a partition's number cannot.
            topic, _, partition = name.rpartition("-")
            yield OffsetCommitted(group_id, topic, int(partition), value)

    def of_topics(self, group_id: str, topics: Set[str]) -> list[OffsetForgotten]:
        """What forgets all that a group has committed for these topics. Looks at every offset of
        the group, some 15 ms for 100,000."""
        found = []
        for name in self._groups.get(group_id, ()):
            topic, _, partition = name.rpartition("-")
            if topic in topics:
                found.append(OffsetForgotten(group_id, topic, int(partition)))
        return found

    def has_had(self, topic: str) -> bool:
        """Whether there has ever been an offset of this topic. Does not look at them."""
        return topic in self._topics

    def count(self, group_id: str) -> int:
        """How many offsets a group has."""
        return len(self._groups.get(group_id, ()))

    def has(self, group_id: str) -> bool:
        """Whether the group has any committed offset."""
        return group_id in self._groups

    def groups(self) -> Iterator[str]:
        """The groups that have committed offsets."""
        return iter(self._groups)

    def __len__(self) -> int:
        """How many offsets there are; counted when asked, some 5 ms for 100,000 groups."""
        return sum(map(len, self._groups.values()))

    def _name(self, topic: str, partition: int) -> str:
        if len(self._names) >= _NAMES_MAX:
            self._names.clear()
        self._topics.add(topic)
        # Interned, so that the tables of all offsets partitions share one string.
        name = self._names[topic, partition] = sys.intern(f"{topic}-{partition}")
        return name
