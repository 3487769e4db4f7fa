"""One topic: its id, its partitions, its configuration."""

import uuid
from collections.abc import Mapping

from .configs import TopicSettings
from .names import is_internal
from .partition import Partition

__all__ = ["Topic"]


class Topic:
    """Changed by the registry alone. `overrides` are the keys that were set for this topic."""

    __slots__ = ("id", "is_internal", "name", "overrides", "partitions", "settings")

    def __init__(self, name: str, id_: uuid.UUID, settings: TopicSettings) -> None:
        self.name = name
        self.id = id_
        self.is_internal = is_internal(name)
        self.overrides: Mapping[str, str] = {}
        self.settings = settings
        self.partitions: list[Partition] = []

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def configure(self, overrides: Mapping[str, str], settings: TopicSettings) -> None:
        self.overrides = overrides
        self.settings = settings
        for partition in self.partitions:
            partition.settings = settings

    def take_over(self, partitions: list[Partition]) -> list[Partition]:
        """Go on with the partitions of the same topic before its registry was read again, and so
        with their open logs; returns those that this topic has not."""
        kept = partitions[: len(self.partitions)]
        for partition in kept:
            partition.settings = self.settings
        self.partitions[: len(kept)] = kept
        return partitions[len(kept) :]
