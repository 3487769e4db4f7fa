"""The topics that clients see: those of the registry, and the mirror of the offsets topic."""

import uuid
from collections.abc import Iterator

from ..protocol.errors import ApiError, ErrorCode
from .names import OFFSETS_TOPIC
from .registry import TopicRegistry
from .topic import Partition, Topic


class TopicsView:
    """The topics that clients can read: the registry's topics and the mirror.

    The mirror is the offsets topic under a second, non-internal name, for readers that ignore
    internal topics, such as Spark's Kafka connector. The mirror shares the logs. It is not in the
    registry, and is therefore read-only. Without a `mirror_name`, there is no mirror.
    """

    __slots__ = ("_mirror", "_mirror_name", "_topics")

    def __init__(self, topics: TopicRegistry, mirror_name: str = "") -> None:
        self._topics = topics
        self._mirror_name = mirror_name
        self._mirror: Topic | None = None

    @property
    def mirror(self) -> Topic | None:
        """The mirror, or None if it is disabled or if the offsets topic does not exist yet."""
        offsets_topic = self._topics.get(OFFSETS_TOPIC) if self._mirror_name else None
        if offsets_topic is None:
            return None
        # After a reload, the registry holds a new object for the offsets topic.
        if self._mirror is None or self._mirror.partitions is not offsets_topic.partitions:
            # Stable across restarts, because consumers treat a different id as a different topic.
            id_ = uuid.uuid5(offsets_topic.id, self._mirror_name)
            self._mirror = Topic(self._mirror_name, id_, self._topics.configs)
            self._mirror.partitions = offsets_topic.partitions
        self._mirror.overrides = offsets_topic.overrides
        return self._mirror

    @property
    def version(self) -> int:
        return self._topics.version

    @property
    def created_version(self) -> int:
        return self._topics.created_version

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
        """Raise ApiError if `name` is the mirror, which cannot be created separately."""
        if self._mirror_name and name == self._mirror_name:
            message = f"Topic '{name}' is the mirror of {OFFSETS_TOPIC}."
            raise ApiError(ErrorCode.invalid_topic_exception, message)
