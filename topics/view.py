"""All that clients may read: the topics of the registry, and the mirror.

The mirror is the offsets topic under a second name, which is not internal: for readers that pass
internal topics over, as Spark's Kafka connector does. What is read is the very same log.
"""

import uuid
from collections.abc import Iterator

from ..protocol.errors import ErrorCode
from .errors import Refused
from .names import OFFSETS_TOPIC
from .partition import Partition
from .registry import Topics
from .topic import Topic

__all__ = ["TopicsView"]


class TopicsView:
    """`mirror_name` "": there is no mirror. The registry does not know it, so nothing can be
    written to it and nobody can change or delete it."""

    __slots__ = ("_mirror", "_mirror_name", "_topics")

    def __init__(self, topics: Topics, mirror_name: str = "") -> None:
        self._topics = topics
        self._mirror_name = mirror_name
        self._mirror: Topic | None = None

    @property
    def mirror(self) -> Topic | None:
        """None as well while there is no offsets topic yet."""
        offsets_topic = self._topics.get(OFFSETS_TOPIC) if self._mirror_name else None
        if offsets_topic is None:
            return None
        # A registry that was read again has made the offsets topic anew.
        if self._mirror is None or self._mirror.partitions is not offsets_topic.partitions:
            # Of the same id after each start, or consumers would take it for another topic.
            id_ = uuid.uuid5(offsets_topic.id, self._mirror_name)
            self._mirror = Topic(self._mirror_name, id_, self._topics.configs)
            self._mirror.partitions = offsets_topic.partitions
        self._mirror.overrides = offsets_topic.overrides
        return self._mirror

    def __iter__(self) -> Iterator[Topic]:
        yield from self._topics
        if (mirror := self.mirror) is not None:
            yield mirror

    def get(self, name: str) -> Topic | None:
        topic = self._topics.get(name)
        if topic is None and self._mirror_name and name == self._mirror_name:
            return self.mirror
        return topic

    def by_id(self, id_: uuid.UUID | None) -> Topic | None:
        topic = self._topics.by_id(id_)
        if topic is None and (mirror := self.mirror) is not None and mirror.id == id_:
            return mirror
        return topic

    def partition(self, name: str, index: int) -> Partition | None:
        topic = self.get(name)
        return None if topic is None else topic.partition(index)

    def check_new_topic(self, name: str) -> None:
        """Nobody makes the mirror: it comes with the offsets topic. Raises Refused."""
        if self._mirror_name and name == self._mirror_name:
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"Topic '{name}' is the second name of {OFFSETS_TOPIC}.",
            )
