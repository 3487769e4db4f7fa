"""How far a group has come: what it has committed, and what of a topic is left."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from ..broker.cluster import Node
from ..broker.context import CoordinatorContext
from ..log.log import Log
from ..offsets.table import OffsetsTable
from .asked import TopicPartition
from .topic import Topic

if TYPE_CHECKING:
    from .kafka import Kafka

T = TypeVar("T")


class Progress:
    """Part of Group (group.py)."""

    kafka: "Kafka"
    group_id: str

    if TYPE_CHECKING:

        @property
        def node(self) -> Node: ...
        @property
        def _context(self) -> CoordinatorContext | None: ...

    def committed(self, topic: str, partition: int) -> int | None:
        """The committed offset, that of the next record to read; None where there is none."""
        return self._safely(lambda: self._committed(topic, partition))

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """All that is committed."""
        return self._safely(self._offsets)

    def lag(self, topic: str, partition: int | None = None) -> int:
        """How many records it is behind, in one partition or in all of the topic: where the log
        ends, less what is committed, as `kafka-consumer-groups` has it. Where nothing is committed
        (`-` there) all that the log has counts. Raises LookupError where there is no such topic or
        partition."""
        return self._safely(lambda: sum(self._lags(topic, partition)))

    # --- on the broker's loop, but for `_safely`

    def _safely(self, what: Callable[[], T]) -> T:
        """What this says of its offsets, as an OffsetFetch is answered: when all that it rests on
        is written. The broker's loop cannot wait for that, and hears what is decided."""

        async def said() -> T:
            while True:
                await self.kafka.there()
                found = what()
                log = self._log
                if log is None or await self._written(log) is None:
                    return found
                # What was decided has come to nothing.

        return what() if self.kafka.thread.is_here else self.kafka.run(said())

    async def _written(self, log: Log) -> OSError | None:
        told: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()

        def tell(error: OSError | None) -> None:
            if not told.done():  # else nobody waits for it any more
                told.set_result(error)

        self.kafka.broker.node.group_commit.on_durable(log, tell)
        return await told

    @property
    def _log(self) -> Log | None:
        """Where its offsets are written; None: nothing has been."""
        context = self._context
        return None if context is None else context.log

    def _is_being_written(self) -> bool:
        log = self._log
        return log is not None and self.node.group_commit.is_pending(log)

    def _committed(self, topic: str, partition: int) -> int | None:
        offsets = self._offsets_table()
        found = None if offsets is None else offsets.get(self.group_id, topic, partition)
        return None if found is None else found.offset

    def _offsets_table(self) -> OffsetsTable | None:
        context = self._context
        if context is not None:
            context.offsets.load(self.group_id)  # they may have been evicted
        return None if context is None else context.offsets

    def _lags(self, topic: str, partition: int | None) -> Iterator[int]:
        for index, (start, end) in self._bounds(topic, partition).items():
            committed = self._committed(topic, index)
            yield end - (start if committed is None else committed)

    def _bounds(self, topic: str, partition: int | None) -> dict[int, tuple[int, int]]:
        """Partition -> its first offset, and that of the next record."""
        found = Topic(self.kafka, topic)
        indexes = range(found.partitions) if partition is None else (partition,)
        return {index: (found.start_offset(index), found.end_offset(index)) for index in indexes}

    def _offsets(self) -> dict[TopicPartition, int]:
        offsets = self._offsets_table()
        topics = {} if offsets is None else offsets.of_group(self.group_id)
        places = [(topic, index) for topic, indexes in topics.items() for index in indexes]
        found = {place: self._committed(*place) for place in places}
        return {place: offset for place, offset in found.items() if offset is not None}
