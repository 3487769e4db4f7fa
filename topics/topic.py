"""One topic: its id, its partitions, its configuration."""

import uuid
from collections.abc import Mapping

from .configs import Configs, TopicSettings
from .names import is_internal
from .partition import Partition

__all__ = ["Topic"]


class Topic:
    """Changed by the registry alone. `overrides` are the keys that were set for this topic."""

    __slots__ = ("_configs", "_settings", "id", "is_internal", "name", "overrides", "partitions")

    def __init__(self, name: str, id_: uuid.UUID, configs: Configs) -> None:
        self.name = name
        self.id = id_
        self.is_internal = is_internal(name)
        self.overrides: Mapping[str, str] = {}
        self.partitions: list[Partition] = []
        self._configs = configs
        self._settings: dict[int, TopicSettings] = {}

    def partition(self, index: int) -> Partition | None:
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    def settings_at(self, node_id: int) -> TopicSettings:
        """Those of partitions that this node leads: its own defaults count for them."""
        settings = self._settings.get(node_id)
        if settings is None:
            settings = self._configs.at(node_id).settings(self.overrides)
            self._settings[node_id] = settings
        return settings

    def configure(self, overrides: Mapping[str, str]) -> None:
        """Take these overrides, and what nodes have for defaults by now."""
        self.overrides = overrides
        self._settings.clear()
        for partition in self.partitions:
            partition.settings = self.settings_at(partition.leader_id)

    def lead(self, partition: Partition, leader_id: int, epoch: int) -> None:
        """Let this node lead one of the partitions."""
        partition.lead(leader_id, epoch)
        partition.settings = self.settings_at(leader_id)

    def take_over(self, partitions: list[Partition]) -> list[Partition]:
        """Go on with the partitions of the same topic before its registry was read again, and so
        with their open logs; returns those that this topic has not."""
        kept = partitions[: len(self.partitions)]
        for partition, stored in zip(kept, self.partitions, strict=False):
            leader_id, epoch = partition.leader_id, partition.leader_epoch
            if leader_id != stored.leader_id:
                # An epoch that was seen does not come again with another leader.
                leader_id, epoch = stored.leader_id, max(epoch + 1, stored.leader_epoch)
            self.lead(partition, leader_id, epoch)
        self.partitions[: len(kept)] = kept
        return partitions[len(kept) :]
