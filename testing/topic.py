"""One topic, as a test fills it and looks into it: without a producer and its threads."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple

from ..log.batch import BatchBuilder
from ..log.records import records
from ..protocol.errors import ApiError, ErrorCode
from ..topics.admin import NewTopic, check_new_topic, plan_topic
from ..topics.produce import AppendError, ProduceContext, append
from ..topics.topic import Partition
from ..topics.topic import Topic as Found
from .loop_thread import PATIENCE_SECONDS
from .waiting import BarrierTimeout

if TYPE_CHECKING:
    from .kafka import Kafka

# Each of a thousand takes 4 ms to go from a disk in memory, which looks through all of its files
# for each folder; this leaves room for more of them, and for a busy machine.
PARTITION_SECONDS = 0.1

Value = bytes | str | None
Values = Iterable[Value | tuple[Value, Value]]
Headers = Mapping[str, Value] | Iterable[tuple[str, Value]]


class StoredRecord(NamedTuple):
    """What is stored of a record. `timestamp` in milliseconds; a null key or value is None; a name
    may stand in several headers."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int


class Topic:
    """`kafka.topic("orders", partitions=3)`. Raises LookupError where it, or a partition that is
    asked for, is not there."""

    def __init__(self, kafka: "Kafka", name: str) -> None:
        self._kafka = kafka
        self.name = name

    def __repr__(self) -> str:
        return f"<Topic {self.name} of {self._kafka}>"

    @property
    def partitions(self) -> int:
        """How many it has."""
        return self._kafka.ask(lambda _broker: len(self._found().partitions))

    def produce(
        self,
        values: Values,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        """Append records: values, or (key, value). One after the other to all partitions in turn,
        or to `partition`. `headers` ({"trace": "1"}) and `timestamp_ms` (now, by the broker's
        clock) are those of each. Returns (partition, offset) of each. Long polls are woken.

        Raises ValueError for what the broker would refuse, and Refused where its disk fails."""
        wanted = new_records(values, headers, timestamp_ms)
        try:
            return self._kafka.ask(lambda _broker: self._append(wanted, partition))
        except ApiError as error:
            if error.error is ErrorCode.kafka_storage_error:
                raise  # What was asked for is right.
            raise refusal(self.name, error) from error

    def records(self, partition: int | None = None) -> list[StoredRecord]:
        """All that is there, of one partition or of all, one after the other."""
        return self._kafka.ask(lambda _broker: list(self._read(partition)))

    def start_offset(self, partition: int) -> int:
        """That of the first record that is there."""
        return self._kafka.ask(lambda _broker: self._partition(partition).start_offset)

    def end_offset(self, partition: int) -> int:
        """Where the next record goes."""
        return self._kafka.ask(lambda _broker: self._partition(partition).high_watermark)

    def make(self, partitions: int | None, config: Mapping[str, str]) -> None:
        """If it is not there. Raises ValueError for what Kafka would refuse, and for what a topic
        that is there is not: another number of partitions, another config."""

        def make() -> None:
            topics = self._kafka.broker.node.topics
            found = topics.get(self.name)
            if found is not None:
                check_partitions(self.name, len(found.partitions), partitions)
                check_config(self.name, found.overrides, config)
                return
            check_new_topic(topics, self.name)
            count = -1 if partitions is None else partitions
            planned = plan_topic(topics, NewTopic(self.name, count, -1, [], dict(config)))
            topics.create(self.name, planned.partitions, planned.overrides)

        try:
            self._kafka.change(make)
        except ApiError as error:
            raise refusal(self.name, error) from error

    def add_partitions(self, total: int) -> None:
        """Let it have so many; clients see it when they next ask for metadata. Raises ValueError
        where it has as many already, or more."""

        def grow() -> None:
            topics, found = self._kafka.broker.node.topics, self._found()
            if total <= len(found.partitions):
                raise ValueError(
                    f"topic {self.name} has {len(found.partitions)} partitions already: it cannot "
                    f"grow to {total}"
                )
            topics.add_partitions(found, total)

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

    def _append(self, wanted: list["Wanted"], partition: int | None) -> list[tuple[int, int]]:
        count = len(self._found().partitions)
        turn = cycle(range(count)) if partition is None else cycle((partition,))
        return [
            (index, self._append_one(index, each))
            for each, index in zip(wanted, turn, strict=False)
        ]

    def _append_one(self, index: int, wanted: "Wanted") -> int:
        node, partition = self._kafka.broker.node, self._partition(index)
        now_ms = node.clock.now_ms()
        at_ms = now_ms if wanted.timestamp_ms is None else wanted.timestamp_ms
        batch = BatchBuilder()
        batch.add(wanted.key, wanted.value, at_ms, wanted.headers)
        terms = ProduceContext(
            now_ms=now_ms,
            zstd_allowed=True,
            transactional_id=None,
            producer_expiration_ms=partial(node.configs.broker_number, "producer.id.expiration.ms"),
        )
        done = append(partition, batch.finish(0), terms)
        partition.delayed_fetches.on_append(done.size)
        return done.base_offset

    def _read(self, partition: int | None) -> Iterable[StoredRecord]:
        indexes = range(len(self._found().partitions)) if partition is None else (partition,)
        for index in indexes:
            for header, batch in self._partition(index).log.batches():
                if not header.is_control:
                    yield from (StoredRecord(*each, index) for each in records(batch))


class Wanted(NamedTuple):
    """A record to be produced."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


def new_records(values: Values, headers: Headers, timestamp_ms: int | None) -> list[Wanted]:
    """Raises TypeError for what is none: Kafka's records are bytes."""
    # The items of a text would each become a record, and of a mapping its keys.
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"produce takes a list of values, not one: produce([{_shown(values)}])")
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int | None):
        raise TypeError(f"timestamp_ms is a whole number of milliseconds, not {timestamp_ms!r}")
    of_each = _headers_of(headers)
    pairs = [each if isinstance(each, tuple) else (None, each) for each in values]
    return [Wanted(*_pair_of(each), of_each, timestamp_ms) for each in pairs]


def _shown(values: object) -> str:
    if isinstance(values, Mapping):
        return ", ".join(f"({key!r}, {value!r})" for key, value in values.items())
    return repr(values)


def _pair_of(pair: tuple[Value, ...]) -> tuple[bytes | None, bytes | None]:
    if len(pair) != 2:
        raise TypeError(
            f"a record is a value or (key, value), not {pair!r}: produce has headers= and "
            "timestamp_ms= for the rest"
        )
    return bytes_of(pair[0]), bytes_of(pair[1])


def _headers_of(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for each in pairs:
        if not (isinstance(each, tuple | list) and len(each) == 2 and isinstance(each[0], str)):
            raise TypeError(f"headers are {{name: value}} or a list of (name, value), not {each!r}")
    return tuple((name, bytes_of(value)) for name, value in pairs)


def bytes_of(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"a key or a value is bytes, str or None, not {value!r}: serialize it")
    return value.encode()


def check_partitions(topic: str, there: int, wanted: int | None) -> None:
    """Raises ValueError where a test wants another number of partitions than a topic has."""
    if wanted not in (None, there):
        raise ValueError(f"topic {topic} has {there} partitions, not {wanted}")


def check_config(topic: str, there: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raises ValueError where a test wants another config than a topic was made with."""
    for key, value in wanted.items():
        if there.get(key) != value:
            has = f"{key}={there[key]}" if key in there else f"no {key}"
            raise ValueError(f"topic {topic} was made with {has}, not {key}={value}")


def refusal(topic: str, error: ApiError) -> ValueError:
    """What the broker's answer would say."""
    record_errors = error.record_errors if isinstance(error, AppendError) else ()
    # What is wrong with the record says more than that one of them is wrong.
    said = next((each.batch_index_error_message for each in record_errors), error.message)
    why = "" if said is None else f": {said}"
    return ValueError(f"topic {topic}: {error.error.name.upper()}{why}")
