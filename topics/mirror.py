"""The offsets topic under a second name, which is not internal: for readers that pass internal
topics over, as Spark's Kafka connector does. What is read is the very same log."""

import uuid

from ..protocol.errors import ErrorCode
from .errors import Refused
from .names import OFFSETS_TOPIC
from .partition import Partition
from .registry import Topics
from .topic import Topic

__all__ = ["Mirror"]


class Mirror:
    """`name` "": there is none. The registry does not know it, so nothing can be written to it and
    nobody can change or delete it."""

    __slots__ = ("_topic", "_topics", "name")

    def __init__(self, name: str, topics: Topics) -> None:
        self.name = name
        self._topics = topics
        self._topic: Topic | None = None

    @property
    def topic(self) -> Topic | None:
        """None as well while there is no offsets topic yet."""
        offsets_topic = self._topics.get(OFFSETS_TOPIC) if self.name else None
        if offsets_topic is None:
            return None
        # A registry that was read again has made the offsets topic anew.
        if self._topic is None or self._topic.partitions is not offsets_topic.partitions:
            # Of the same id after each start, or consumers would take it for another topic.
            id_ = uuid.uuid5(offsets_topic.id, self.name)
            self._topic = Topic(self.name, id_, self._topics.configs)
            self._topic.partitions = offsets_topic.partitions
        self._topic.overrides = offsets_topic.overrides
        return self._topic

    def check_new_topic(self, name: str) -> None:
        """Nobody makes it: it comes with the offsets topic. Raises Refused."""
        if self.name and name == self.name:
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' is the second name of {OFFSETS_TOPIC}.",
            )

    def get(self, name: str) -> Topic | None:
        return self.topic if self.name and name == self.name else None

    def by_id(self, id_: uuid.UUID | None) -> Topic | None:
        topic = self.topic
        return topic if topic is not None and topic.id == id_ else None

    def partition_of(self, name: str, index: int) -> Partition | None:
        topic = self.get(name)
        return None if topic is None else topic.partition(index)
