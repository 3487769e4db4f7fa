"""The nodes of this process, which of them are up, and who is to lead what.

All nodes share one data folder, so each of them has every partition: a partition's replicas are
all the nodes, and any that is up can lead it. (In Kafka a replica is a copy of its own.)
"""

from collections.abc import Sequence
from typing import Final

__all__ = ["NO_LEADER", "Nodes"]

NO_LEADER: Final = -1


class Nodes:
    """`ids`: at least one, in the order of their ports. A new one is up."""

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = tuple(ids)
        self.up = set(self.ids)

    def replicas(self, index: int) -> tuple[int, ...]:
        """Of the partition with this index, the preferred leader first, as Kafka spreads them."""
        first = index % len(self.ids)
        return self.ids[first:] + self.ids[:first]

    def in_sync(self, index: int) -> tuple[int, ...]:
        """Those of its replicas that are up."""
        return tuple(id_ for id_ in self.replicas(index) if id_ in self.up)

    def offline(self, index: int) -> tuple[int, ...]:
        return tuple(id_ for id_ in self.replicas(index) if id_ not in self.up)

    def elected(self, index: int) -> int:
        """The first of the replicas that is up; NO_LEADER if none is."""
        return next((id_ for id_ in self.replicas(index) if id_ in self.up), NO_LEADER)
