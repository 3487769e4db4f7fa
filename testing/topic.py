"""A topic that a test can fill and read without clients and their threads."""

import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import cycle
from typing import NamedTuple

from ..log.batch import BatchBuilder
from ..log.producer_state import TransactionTracker, marker_type
from ..log.records import records
from ..protocol.errors import ApiError, ErrorCode
from ..suggestions import SuggestsAttributes, did_you_mean
from ..topics.admin import NewTopic, check_new_topic, check_not_reserved, plan_topic
from ..topics.configs.topic_keys import TOPIC_KEYS
from ..topics.names import OFFSETS_TOPIC
from ..topics.produce import AppendError, ProduceContext, append
from ..topics.topic import Partition
from ..topics.topic import Topic as BrokerTopic
from .lifecycle import BrokerHost
from .loop_thread import CALL_TIMEOUT_SECONDS, completed, timed_out

# Deleting a partition takes about a millisecond. The limit allows for a busy machine.
DELETE_SECONDS_PER_PARTITION = 0.01

Value = bytes | str | None
Values = Iterable[Value | tuple[Value, Value]]
Headers = Mapping[str, Value] | Iterable[tuple[str, Value]]


class StoredRecord(NamedTuple):
    """A record in the log. `timestamp` is in milliseconds; a null key or value is None. Several
    headers may have the same name."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    partition: int


class Topic(SuggestsAttributes):
    """`kafka.topic("orders", partitions=3)`: a topic. Methods raise LookupError if the topic, or a
    partition, does not exist."""

    def __init__(self, host: BrokerHost, name: str) -> None:
        self._host = host
        self.name = name

    def __repr__(self) -> str:
        return f"<Topic {self.name}>"

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self._host.call(lambda: len(self._found().partitions))

    def produce(
        self,
        values: Values,
        *,
        partition: int | None = None,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> list[tuple[int, int]]:
        """Append records, given as values or as (key, value) pairs. Without a `partition`, the hash
        of a record's key determines its partition, as with Kafka's producer, and records without a
        key are distributed round-robin, beginning with partition 0 in each call. `headers`
        ({"trace": "1"}) and `timestamp_ms` (default: the broker's time) apply to each record.
        Return the (partition, offset) of each record. Waiting fetches receive the records. Raises
        ValueError if the broker rejects a record, and ApiError if its disk fails."""
        to_append = new_records(values, headers, timestamp_ms)
        try:
            offsets = self._host.call(lambda: self._append(to_append, partition))
            if self._host.durability != "none" and not self._host.loop.is_current:
                self._host.run(self._sync({index for index, _ in offsets}))
            return offsets
        except ApiError as error:
            if error.error is ErrorCode.kafka_storage_error:
                raise
            raise rejection(self.name, error) from None

    def records(
        self, partition: int | None = None, *, read_committed: bool = False
    ) -> list[StoredRecord]:
        """Return all records of one partition, or of all partitions in order. With
        `read_committed`, omit what a consumer with this isolation level does not read: the records
        of aborted transactions, and all records from the beginning of the first open transaction
        on."""
        found = self._host.call(lambda: list(self._read(partition, read_committed=read_committed)))
        if not found and self.name in self._host.implicit_topics:
            self._host.implicit_topics[self.name] = True
        return found

    def start_offset(self, partition: int) -> int:
        """Return the log start offset: the offset of the first record."""
        return self._host.call(lambda: self._partition(partition).start_offset)

    def end_offset(self, partition: int) -> int:
        """Return the high watermark: the end offset for consumers."""
        return self._host.call(lambda: self._partition(partition).high_watermark)

    def add_partitions(self, total: int) -> None:
        """Increase the number of partitions to `total`. Clients see the new partitions with their
        next Metadata request. Raises ValueError unless the topic has fewer partitions, and for the
        coordinators' topics."""

        def grow() -> None:
            topics, found = self._host.broker.node.topics, self._changeable()
            if total <= len(found.partitions):
                raise ValueError(
                    f"Topic {self.name} already has {len(found.partitions)} partitions: it cannot "
                    f"grow to {total}"
                )
            topics.add_partitions(found, total)

        self._host.change_topics(grow)

    def delete(self) -> None:
        """Delete the topic and its committed offsets, and wait until its name can be reused, which
        includes waiting for coordinators that are loading. Raises ValueError for the coordinators'
        topics, and if all nodes are down and the topic may have committed offsets; raises OSError
        if the disk fails."""

        async def deleted() -> OSError | None:
            node, found = self._host.broker.node, self._changeable()
            topics = node.topics
            if not node.cluster.up and topics.get(OFFSETS_TOPIC) is not None:
                raise ValueError(
                    f"Topic {self.name} cannot be deleted while all nodes are down, because its "
                    "committed offsets must be deleted, too: start a node first"
                )
            error: OSError | None = await completed(partial(topics.delete, found))
            self._host.report_topics()
            return error

        timeout = CALL_TIMEOUT_SECONDS + self.partitions * DELETE_SECONDS_PER_PARTITION
        try:
            error = self._host.run(deleted(), timeout)
        except TimeoutError:
            what = f"topic {self.name} to be deleted (is a group still loading, or a node down?)"
            raise timed_out(timeout, what) from None
        if error is not None:
            raise error

    # --- on the broker's loop

    def _found(self) -> BrokerTopic:
        found = self._host.broker.node.topics.get(self.name)
        if found is None:
            names = (each.name for each in self._host.broker.node.topics)
            hint = did_you_mean(self.name, names)
            raise LookupError(f"Topic {self.name} does not exist{hint}")
        return found

    def _changeable(self) -> BrokerTopic:
        found = self._found()
        try:
            check_not_reserved(self.name)
        except ApiError as error:
            raise rejection(self.name, error) from None
        return found

    def _partition(self, index: int) -> Partition:
        found = self._found().partition(index)
        if found is None:
            raise LookupError(f"Partition {self.name}-{index} does not exist")
        return found

    def _append(
        self, to_append: list["RecordToAppend"], partition: int | None
    ) -> list[tuple[int, int]]:
        indexes = choose_partitions(to_append, len(self._found().partitions), partition)
        return [
            (index, self._append_one(index, each))
            for each, index in zip(to_append, indexes, strict=True)
        ]

    async def _sync(self, indexes: Iterable[int]) -> None:
        """Sync the partitions that need it because of flush.messages, as after a Produce."""
        for found in map(self._partition, indexes):
            if found.unflushed_records >= found.settings.flush_messages:
                found.unflushed_records = 0
                group_commit = self._host.broker.node.group_commit
                if await completed(partial(group_commit.sync, found.log)) is not None:
                    raise ApiError(ErrorCode.kafka_storage_error)

    def _append_one(self, index: int, to_append: "RecordToAppend") -> int:
        node, partition = self._host.broker.node, self._partition(index)
        now_ms = node.clock.now_ms()
        timestamp = now_ms if to_append.timestamp_ms is None else to_append.timestamp_ms
        batch = BatchBuilder()
        batch.add(to_append.key, to_append.value, timestamp, to_append.headers)
        context = ProduceContext(
            now_ms=now_ms,
            wall_ms=now_ms,
            producer_expiration_ms=partial(node.configs.broker_number, "producer.id.expiration.ms"),
            decompressions=node.cluster.decompressions,
        )
        appended = append(partition, batch.finish(0), context)
        partition.delayed_fetches.on_append(appended.size)
        return appended.base_offset

    def _read(self, partition: int | None, *, read_committed: bool) -> Iterable[StoredRecord]:
        indexes = range(len(self._found().partitions)) if partition is None else (partition,)
        for index in indexes:
            found = self._partition(index)
            end = found.last_stable_offset if read_committed else found.log.end_offset
            transactions = TransactionTracker(found.log.producers.aborted)
            for header, batch in found.log.batches():
                if header.base_offset >= end:
                    break
                if header.is_control:
                    transactions.on_control_batch(header, marker_type(batch))
                elif not transactions.on_batch(header) or not read_committed:
                    for each in records(batch):
                        if each.offset >= found.start_offset:
                            yield StoredRecord(*each, index)


def create_topic(
    host: BrokerHost, name: str, partitions: int | None, config: Mapping[str, str]
) -> None:
    """Create the topic if it does not exist. Raises ValueError if Kafka would reject the topic, or
    if it exists with a different number of partitions or config."""

    def create() -> None:
        node = host.broker.node
        found = node.topics.get(name)
        if found is not None:
            check_partitions(name, len(found.partitions), partitions)
            check_config(name, found.overrides, config)
            return
        node.view.check_new_topic(name)
        check_new_topic(node.topics, name)
        check_keys(name, config)
        count = -1 if partitions is None else partitions
        planned = plan_topic(node.topics, NewTopic(name, count, -1, [], dict(config)))
        node.topics.create(name, planned.partitions, planned.overrides, planned.assignment)
        if partitions is None and not config:
            host.implicit_topics.setdefault(name, False)

    try:
        host.change_topics(create)
    except ApiError as error:
        raise rejection(name, error) from None


class RecordToAppend(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


def new_records(values: Values, headers: Headers, timestamp_ms: int | None) -> list[RecordToAppend]:
    """Convert the arguments of `produce` to records. Raises TypeError for invalid arguments."""
    # Otherwise each character of a string, or each key of a mapping, would become a record.
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise TypeError(f"produce() takes a list of values: produce([{_as_list(values)}])")
    if isinstance(timestamp_ms, bool) or not isinstance(timestamp_ms, int | None):
        raise TypeError(f"timestamp_ms must be an integer, not {timestamp_ms!r}")
    header_pairs = _header_pairs(headers)
    pairs = [each if isinstance(each, tuple) else (None, each) for each in values]
    return [RecordToAppend(*_encode_pair(each), header_pairs, timestamp_ms) for each in pairs]


def choose_partitions(
    records: Iterable[RecordToAppend], count: int, partition: int | None
) -> Iterator[int]:
    """Yield the partition of each record, for a topic with `count` partitions."""
    unkeyed = cycle(range(count))
    for each in records:
        if partition is not None:
            yield partition
        elif each.key is None:
            yield next(unkeyed)
        else:
            yield (murmur2(each.key) & 0x7FFF_FFFF) % count


def murmur2(data: bytes) -> int:
    """Return the hash with which Kafka's producers choose the partition of a key, as an unsigned
    32-bit integer (org.apache.kafka.common.utils.Utils.murmur2)."""
    factor, mask = 0x5BD1E995, 0xFFFF_FFFF
    result = 0x9747B28C ^ len(data)
    whole = len(data) - len(data) % 4
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        mixed = word * factor & mask
        mixed = (mixed ^ mixed >> 24) * factor & mask
        result = result * factor & mask ^ mixed
    if rest := data[whole:]:
        result = (result ^ int.from_bytes(rest, "little")) * factor & mask
    result = (result ^ result >> 13) * factor & mask
    return result ^ result >> 15


def _as_list(values: object) -> str:
    if isinstance(values, Mapping):
        return ", ".join(f"({key!r}, {value!r})" for key, value in values.items())
    return repr(values)


def _encode_pair(pair: tuple[Value, ...]) -> tuple[bytes | None, bytes | None]:
    if len(pair) != 2:
        raise TypeError(
            f"A record is a value or (key, value), not {pair!r}; pass headers and timestamps as "
            "headers= and timestamp_ms="
        )
    return _encode(pair[0]), _encode(pair[1])


def _header_pairs(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for each in pairs:
        if not (isinstance(each, tuple | list) and len(each) == 2 and isinstance(each[0], str)):
            raise TypeError(
                f"Headers must be {{name: value}} or a list of (name, value), not {each!r}"
            )
    return tuple((name, _encode(value)) for name, value in pairs)


def _encode(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"Keys and values must be bytes, str or None, not {value!r}: serialize it")
    return value.encode()


def check_partitions(topic: str, current: int, wanted: int | None) -> None:
    """Raise ValueError if the topic does not have the requested number of partitions."""
    if wanted not in (None, current):
        raise ValueError(
            f"Topic {topic} has {current} partition{'s' * (current != 1)}, not {wanted}"
        )


def check_keys(topic: str, config: Mapping[str, str]) -> None:
    """Raise ValueError for a key that is not one of Kafka's topic configs."""
    if unknown := config.keys() - TOPIC_KEYS.keys():
        hint = did_you_mean(min(unknown), TOPIC_KEYS)
        raise ValueError(f"Topic {topic}: unknown topic config {min(unknown)!r}{hint}")


def check_config(topic: str, current: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    """Raise ValueError if the topic does not have the requested config."""
    for key, value in wanted.items():
        if current.get(key) != value:
            has = f"{key}={current[key]}" if key in current else f"no {key}"
            raise ValueError(f"Topic {topic} has {has}, not {key}={value}")


def rejection(topic: str, error: ApiError) -> ValueError:
    # The message for a record is more specific than the general message.
    record_errors = error.record_errors if isinstance(error, AppendError) else ()
    messages = (each.batch_index_error_message for each in record_errors)
    message = next(messages, error.message)
    reason = "" if message is None else f": {message}"
    return ValueError(f"Topic {topic}: {error.error.name.upper()}{reason}")
