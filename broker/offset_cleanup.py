"""Deleted topics whose committed offsets must be deleted, in every group, whatever its state.

The deletion of the topic is durable before this begins, and its name cannot be used again before
all of this is durable (topics/registry.py). What a crash or a failed write leaves undone is done
when the partition is loaded next, before it serves requests: a commit for a name that is still to
be cleaned up never belongs to a newer topic. Only a partition that cannot be loaded does not keep a
name from being used; it serves nobody.
"""

from collections.abc import Iterable

from ..topics.topic import Partition


class DeletedTopics:
    """The names of deleted topics in the order of their deletion, and how many of them each offsets
    partition has cleaned up. Shared by all nodes.

    `names`: topics deleted in an earlier run of the broker, of which a log may still have offsets.
    Names are counted from there, including those that have been released since.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._released = 0  # names before the first of `_names`
        self._cleaned: dict[int, int] = {}

    def add(self, name: str) -> None:
        self._names.append(name)

    def __len__(self) -> int:
        return self._released + len(self._names)

    def __contains__(self, name: str) -> bool:
        """Whether an offsets partition may still have offsets of a deleted topic of this name."""
        return name in self._names

    def due(self, partition: int) -> frozenset[str]:
        """Return the names that this partition has not cleaned up."""
        return frozenset(self._names[max(self.cleaned(partition) - self._released, 0) :])

    def cleaned(self, partition: int) -> int:
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
                return []  # not loaded yet, or it cannot be
        released = self._names[: count - self._released]
        del self._names[: len(released)]
        self._released += len(released)
        return released


def _is_empty(partition: Partition) -> bool:
    try:
        return not partition.size
    except OSError:
        return False
