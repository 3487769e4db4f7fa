"""Tracks the cleanup of the committed offsets of deleted topics.

The deletion of a topic is durable before its cleanup begins, and the name can be reused only after
the cleanup is durable on all partitions (topics/registry.py). A cleanup that a crash or a failed
write interrupts is repeated when the partition is next loaded, before it serves requests, so that a
commit never refers to a newer topic of the same name. A partition that cannot be loaded does not
block reuse, because it serves no requests.
"""

from collections.abc import Iterable

from ...topics.topic import Partition


class DeletedTopics:
    """Deleted topics in order of deletion, and how many of them each offsets partition has cleaned
    up. `names` are topics that were deleted in an earlier run and may still have offsets. Counts
    include names that were released."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(names)
        self._released = 0  # number of names before the first of `_names`
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
