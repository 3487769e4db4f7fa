"""A broker with one offsets partition whose topics are deleted: loop, disk and crashes are the
test's."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from kohort.broker.cluster import Cluster
from kohort.broker.config.broker_config import BrokerConfig
from kohort.testing.faulty_files import FaultyFiles
from kohort.topics.configs import Configs
from kohort.topics.registry import Topics
from kohort.topics.topic import Nodes, Topic
from support.coordinator import offset_commit
from support.runtime import World

DATA = Path("/data")


class Life(World):
    """A broker with one offsets partition, from its start to its end or to a crash."""

    def __init__(self, files: FaultyFiles) -> None:
        super().__init__("fsync", files)
        if not files.exists(DATA):
            files.make_folder(DATA)
        self.topics = Topics(
            folder=DATA,
            files=files,
            group_commit=self.group_commit,
            configs=Configs(BrokerConfig({"offsets.topic.num.partitions": "1"}), 1),
            nodes=Nodes([1]),
            new_id=uuid4,
            now_ms=self.clock.now_ms,
            call_soon=self.scheduler.call,
        )
        cluster = Cluster("a cluster", self.topics, self.scheduler)
        # The runtime was made before there were topics.
        for name in self.topics.deleted_names:
            self.deleted_topics.add(name)
        cluster.deleted_topics = self.deleted_topics
        node: Any = SimpleNamespace(coordinators=self.runtime, timers=self.timers)
        cluster.nodes[1] = node
        self.topics.on_deleted = cluster.topic_deleted
        self.runtime.on_cleaned_up = cluster.check_cleaned_up
        self.topics.ensure_offsets_topic()
        self.turn()

    def make(self, name: str = "t", partitions: int = 1) -> Topic:
        topic = self.topics.create(name, partitions, {})
        self.turn()
        return topic

    def delete(self, told: Callable[[OSError | None], None], name: str = "t") -> None:
        topic = self.topics.get(name)
        assert topic is not None
        self.topics.delete(topic, told)

    def commit_many(self, count: int) -> None:
        self.ask("many", offset_commit("many", [("t", each, 1) for each in range(count)]))
        self.turn()

    def step(self) -> None:
        """The next thing that the loop has to do."""
        if self.slices:
            self.next_slice()
        else:
            self.due.pop(0)()

    @property
    def shard(self) -> Any:
        return self.runtime._contexts[0]
