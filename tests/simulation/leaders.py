"""Who leads what, by the registry's word: the model behind I8.

A leader epoch belongs to one leader, and only grows: while the broker lives, and over a crash from
what was durable on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.violation import Violation

if TYPE_CHECKING:
    from kohort.topics.registry import Topics
    from kohort.topics.topic import Partition, Topic
    from simulation.server import Life

Standing = tuple[int, int]  # epoch, leader


class Leaders:
    def __init__(self) -> None:
        self._seen: dict[tuple[object, int], Standing] = {}  # by topic id and partition
        self._durable: dict[tuple[object, int], Standing] = {}
        self._version = -1  # of the registry, when it was looked at

    def started(self, life: Life) -> None:
        self._seen = dict(self._durable)
        self._version = -1
        self.check(life)

    def elected(self, topics: Topics, topic: Topic, partition: Partition) -> None:
        """Once somebody could be told that it is durable, no crash takes it back."""
        place, standing = (topic.id, partition.index), _standing(partition)
        topics.on_durable(lambda error: self._durable.update({} if error else {place: standing}))

    def check(self, life: Life) -> None:
        for node_id, node in life.cluster.nodes.items():
            for index in node.coordinators._contexts:
                leader_id = life.partition(index).leader_id
                if leader_id != node_id:
                    raise Violation(f"I8: node {node_id} coordinates {index}, {leader_id} leads it")
        if life.topics.version == self._version:
            return
        self._version = life.topics.version
        for topic in life.topics:
            for partition in topic.partitions:
                now = _standing(partition)
                before = self._seen.setdefault((topic.id, partition.index), now)
                if now != before and now[0] <= before[0]:
                    raise Violation(
                        f"I8: {partition.name} was at (epoch, leader) {before}, and is at {now}"
                    )
                self._seen[topic.id, partition.index] = now


def _standing(partition: Partition) -> Standing:
    return partition.leader_epoch, partition.leader_id
