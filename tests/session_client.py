"""A client that fetches in a session, over a broker's topics without a socket."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode
from support.broker import Asked, World, batch, milliseconds

SIZE = len(batch(b"x"))

Told = list[tuple[Any, int, Any]]
"""(topic, partition, how many batches of SIZE, or the error) for each partition of an answer."""


class Client:
    """Keeps its session as clients do. Topics are names, since version 13 ids."""

    def __init__(self, world: World, version: int) -> None:
        self.world, self.version = world, version
        self.session_id, self.epoch = 0, 0
        self.by_id = version >= 13
        self._key = "topic_id" if self.by_id else "topic"

    def fetch(self, *what: Any, **how: Any) -> Told:
        """What comes at once."""
        return self.took(self.send(*what, **how))

    def send(
        self,
        topics: Mapping[Any, Mapping[int, int]] | Iterable[tuple[Any, Mapping[int, int]]] = (),
        forgotten: Mapping[Any, Sequence[int]] | None = None,
        *,
        session: tuple[int, int] | None = None,
        **how: Any,
    ) -> Asked:
        """`topics`: the offset to read each partition from. The request is not waited for."""
        session_id, epoch = session or (self.session_id, self.epoch)
        fields: dict[str, Any] = {} if self.version >= 15 else {"replica_id": -1}
        fields |= {"max_wait": milliseconds(0), "min_bytes": 1, "max_bytes": 2**31 - 1}
        fields |= {"isolation_level": 0, "session_id": session_id, "session_epoch": epoch, **how}
        pairs = topics.items() if isinstance(topics, Mapping) else topics
        return self.world.send(
            "Fetch",
            self.version,
            topics=tuple(self._topic(topic, offsets) for topic, offsets in pairs),
            forgotten_topics_data=tuple(
                self._part("ForgottenTopic", partitions=tuple(indexes), **{self._key: topic})
                for topic, indexes in (forgotten or {}).items()
            ),
            **fields,
        )

    def took(self, asked: Asked) -> Told:
        """What its answer says, and go on with the session."""
        answer = asked.answer
        assert answer.error_code is ErrorCode.none
        self.session_id = answer.session_id
        self.epoch = self.epoch + 1 if answer.session_id else 0
        return [
            (getattr(topic, self._key), one.partition_index, one.error_code or _batches(one))
            for topic in answer.responses
            for one in topic.partitions
        ]

    def _topic(self, topic: Any, offsets: Mapping[int, int]) -> Any:
        partitions = tuple(
            self._part(
                "FetchPartition", partition=index, fetch_offset=offset, partition_max_bytes=2**20
            )
            for index, offset in offsets.items()
        )
        return self._part("FetchTopic", partitions=partitions, **{self._key: topic})

    def _part(self, part: str, **fields: Any) -> Any:
        return self.world.part("Fetch", self.version, part, **fields)


def _batches(partition: Any) -> int:
    return len(partition.records) // SIZE
