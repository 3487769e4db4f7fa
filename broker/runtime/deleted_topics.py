"""Tracks which offsets partitions have removed the committed offsets of deleted topics.

The removal, here called cleanup, begins when the deletion of the topic is durable. The topic's name
can be reused once the cleanup is durable on all offsets partitions that could be loaded
(topics/registry.py), so that no offset is mistaken for an offset of the new topic. A partition
repeats an interrupted cleanup before it serves requests again. A partition that cannot be loaded
therefore does not block reuse.
"""

from collections.abc import Iterable

from ...topics.topic import Partition


class DeletedTopics:
    """The names of deleted topics in order of deletion. Stores, for each offsets partition, how
    many names it has cleaned up, including released names. `names` are topics that an earlier run
    of the broker deleted and that may still have offsets."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._released = 0  # number of names before the first of `_names`
        self._cleaned: dict[int, int] = {}

    def add(self, name: str) -> None:
        self._names.append(name)

    def __len__(self) -> int:
        return self._released + len(self._names)

    def __contains__(self, name: str) -> bool:
        """Whether an offsets partition may still contain offsets for a deleted topic of this
        name."""
        return name in self._names

    def due(self, partition: int) -> frozenset[str]:
        """Return the names that this partition has not cleaned up."""
        return frozenset(self._names[max(self.cleaned_count(partition) - self._released, 0) :])

    def cleaned_count(self, partition: int) -> int:
        """Return how many of the names this partition has cleaned up."""
        return self._cleaned.get(partition, 0)

    def set_cleaned(self, partition: int, count: int) -> None:
        self._cleaned[partition] = count

    def release(self, partitions: Iterable[Partition]) -> list[str]:
        """Drop and return the names that all offsets partitions have cleaned up."""
        count = min(self._cleaned.values(), default=len(self))
        if count == self._released:
            return []
        for each in partitions:
            if each.index not in self._cleaned and not _is_empty(each):
                return []  # not loaded yet, or failed to load
        released = self._names[: count - self._released]
        del self._names[: len(released)]
        self._released += len(released)
        return released


def _is_empty(partition: Partition) -> bool:
    try:
        return not partition.size
    except OSError:
        return False
