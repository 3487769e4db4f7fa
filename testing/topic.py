"""One topic, as a test fills it and looks into it: without a producer and its threads."""

import asyncio
from collections.abc import Iterable
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING

from ..log.builder import NewRecord, build
from ..log.records import Record, records
from ..topics.partition import Partition
from ..topics.produce import Terms, append
from ..topics.topic import Topic as Found
from .loop_thread import PATIENCE_SECONDS
from .waiting import BarrierTimeout

if TYPE_CHECKING:
    from .kafka import Kafka

# Four times what each of a thousand takes to go from a disk in memory, which looks through all of
# its files for each folder.
PARTITION_SECONDS = 0.1

Value = bytes | str | None
Values = Iterable[Value | tuple[Value, Value]]


class Topic:
    """`kafka.topic("orders", partitions=3)`."""

    def __init__(self, kafka: "Kafka", name: str) -> None:
        self._kafka = kafka
        self.name = name

    @property
    def partitions(self) -> int:
        """How many it has."""
        return self._kafka.ask(lambda _broker: len(self._found().partitions))

    def produce(
        self,
        values: Values,
        *,
        partition: int | None = None,
    ) -> list[tuple[int, int]]:
        """Append records: values, or (key, value). One after the other to all partitions in turn,
        or to `partition`. Returns (partition, offset) of each. Long polls are woken."""
        pairs = pairs_of(values)
        return self._kafka.ask(lambda _broker: self._append(pairs, partition))

    def records(self, partition: int | None = None) -> list[Record]:
        """All that is there, of one partition or of all, one after the other."""
        return self._kafka.ask(lambda _broker: list(self._read(partition)))

    def end_offset(self, partition: int) -> int:
        """Where the next record goes."""
        return self._kafka.ask(lambda _broker: self._partition(partition).high_watermark)

    def add_partitions(self, total: int) -> None:
        """Let it have so many; clients see it when they next ask for metadata."""

        def grow() -> None:
            topics = self._kafka.broker.node.topics
            topics.grow(self._found(), total)

        self._kafka.change(grow)

    def delete(self) -> None:
        """And wait until its name is free. It is not before groups have forgotten what they have
        committed for it, for which none of them may be `loading`. Raises OSError."""

        async def deleted() -> OSError | None:
            told: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()

            def gone(error: OSError | None) -> None:
                if not told.done():  # else nobody waits for it any more
                    told.set_result(error)

            self._kafka.broker.node.topics.delete(self._found(), gone)
            return await told

        try:
            patience = PATIENCE_SECONDS + self.partitions * PARTITION_SECONDS
            error = self._kafka.run(deleted(), patience)
        except TimeoutError:
            raise BarrierTimeout(
                f"topic {self.name} was waited for to be gone, in vain. Is a group still loading?"
            ) from None
        if error is not None:
            raise error

    # --- on the broker's loop

    def _found(self) -> Found:
        found = self._kafka.broker.node.topics.get(self.name)
        if found is None:
            raise LookupError(f"there is no topic {self.name}")
        return found

    def _partition(self, index: int) -> Partition:
        found = self._found().partition(index)
        if found is None:
            raise LookupError(f"there is no partition {self.name}-{index}")
        return found

    def _append(
        self, pairs: list[tuple[Value, Value]], partition: int | None
    ) -> list[tuple[int, int]]:
        count = len(self._found().partitions)
        turn = cycle(range(count)) if partition is None else cycle((partition,))
        return [
            (index, self._append_one(index, *pair))
            for pair, index in zip(pairs, turn, strict=False)
        ]

    def _append_one(self, index: int, key: Value, value: Value) -> int:
        node, partition = self._kafka.broker.node, self._partition(index)
        now_ms = node.clock.now_ms()
        terms = Terms(
            now_ms=now_ms,
            zstd_allowed=True,
            transactional_id=None,
            producer_expiration_ms=partial(node.configs.broker_number, "producer.id.expiration.ms"),
        )
        done = append(partition, build([NewRecord(bytes_of(key), bytes_of(value), now_ms)]), terms)
        partition.waiters.arrived(done.size)
        return done.base_offset

    def _read(self, partition: int | None) -> Iterable[Record]:
        indexes = range(len(self._found().partitions)) if partition is None else (partition,)
        for index in indexes:
            for header, batch in self._partition(index).log.batches():
                if not header.is_control:
                    yield from records(batch)


def pairs_of(values: Values) -> list[tuple[Value, Value]]:
    """(key, value) of each. Raises TypeError for what is none: Kafka's records are bytes."""
    if isinstance(values, str | bytes):  # whose items would each become a record
        raise TypeError(f"produce takes a list of values, not one: produce([{values!r}])")
    return [each if isinstance(each, tuple) else (None, each) for each in values]


def bytes_of(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"a key or a value is bytes, str or None, not {value!r}: serialize it")
    return value.encode()
