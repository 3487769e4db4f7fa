"""One interface for all client libraries, so that each test runs with each of them.

An adapter only translates. It never retries or waits on behalf of its library, because the tests
are about the library's own behavior. A comment mentions each workaround for a bug of a library.
"""

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class Partition(NamedTuple):
    topic: str
    partition: int


class Message(NamedTuple):
    """A message to send. Without `partition`, the library's partitioner chooses a partition."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()

    def python_options(self) -> dict[str, Any]:
        """Return the arguments of `send` of kafka-python and aiokafka."""
        return {**self._asdict(), "headers": list(self.headers)}


class Record(NamedTuple):
    """A record that a consumer received."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def topic_partition(self) -> Partition:
        return Partition(self.topic, self.partition)


class Committed(NamedTuple):
    """A group's committed offset with its metadata."""

    offset: int
    metadata: str


class GroupDescription(NamedTuple):
    """A group: the fields that all libraries return."""

    state: str
    protocol: str
    members: int


class BrokerError(Exception):
    """The broker returned an error; `code` is Kafka's number."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


@dataclass(frozen=True)
class ConsumerSettings:
    """Other settings have the library's defaults. Intervals are shorter than the libraries'
    defaults, only to make the tests faster."""

    group_id: str | None = None
    group_instance_id: str | None = None
    client_id: str | None = None
    auto_commit: bool = False
    auto_commit_interval_ms: int = 100
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 200
    max_poll_interval_ms: int = 300_000
    metadata_max_age_ms: int = 300
    fetch_max_wait_ms: int = 100
    assignors: tuple[str, ...] = ()
    """The assignors by Kafka's names, the preferred one first; (): the library's default."""
    strategies: tuple[Any, ...] = ()
    """Replacements for classes of a Python library, by name."""
    auto_offset_reset: str = "earliest"
    isolation_level: str | None = None
    """None: the library's default."""
    poll_ms: int | None = None
    """How long kafka-python polls without records; None: a time that suits kafka-python."""

    def python_options(self, bootstrap: str, assignors: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that kafka-python and aiokafka have in common."""
        options = {
            "bootstrap_servers": bootstrap,
            "group_id": self.group_id,
            "group_instance_id": self.group_instance_id,
            "enable_auto_commit": self.auto_commit,
            "auto_commit_interval_ms": self.auto_commit_interval_ms,
            "auto_offset_reset": self.auto_offset_reset,
            "session_timeout_ms": self.session_timeout_ms,
            "heartbeat_interval_ms": self.heartbeat_interval_ms,
            "max_poll_interval_ms": self.max_poll_interval_ms,
            "fetch_max_wait_ms": self.fetch_max_wait_ms,
            "metadata_max_age_ms": self.metadata_max_age_ms,
        }
        if self.client_id is not None:
            options["client_id"] = self.client_id
        if self.isolation_level is not None:
            options["isolation_level"] = self.isolation_level
        strategies = self.strategies or tuple(assignors[name] for name in self.assignors)
        return {**options, "partition_assignment_strategy": strategies} if strategies else options


class Consumer(Protocol):
    """A consumer that belongs to the thread that polls."""

    rebalances: int
    """The number of assignments since the consumer subscribed."""
    rebalance_calls: list[tuple[str, list[Partition]]]
    """Calls of its rebalance listener (assigned, revoked or lost) with their partitions, if any."""

    def subscribe(self, *topics: str) -> None: ...

    def subscribe_pattern(self, pattern: str) -> None:
        """`pattern` begins with ^, by which librdkafka recognizes a pattern."""

    def assign(self, *partitions: Partition) -> None: ...

    def poll(self, max_records: int = 500) -> list[Record]:
        """Wait for records for a time that suits the library."""

    def assignment(self) -> frozenset[Partition]: ...

    def commit(self, offsets: Mapping[Partition, Committed] | None = None) -> None:
        """Commit and wait for the response. Without offsets, commit all polled records."""

    def committed(self, partition: Partition) -> int | None: ...

    def seek(self, partition: Partition, offset: int) -> None: ...

    def beginning_offset(self, partition: Partition) -> int: ...

    def end_offset(self, partition: Partition) -> int: ...

    def offset_for_time(self, partition: Partition, timestamp_ms: int) -> int | None:
        """Return the first offset whose timestamp is not before this one, or None."""

    def close(self) -> None:
        """Close the library's consumer. A dynamic member leaves its group."""


def note_rebalance(consumer: Consumer, call: str, partitions: Iterable[Any]) -> None:
    """`call`: assigned, revoked or lost; `partitions`: of the library's type."""
    consumer.rebalances += call == "assigned"
    if found := sorted(Partition(each.topic, each.partition) for each in partitions):
        consumer.rebalance_calls.append((call, found))


class Admin(Protocol):
    """Each method raises BrokerError."""

    delete_group: Callable[[str], None] | None
    """None: the library cannot delete groups."""

    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def topics(self) -> frozenset[str]: ...

    def partition_count(self, topic: str) -> int: ...

    def add_partitions(self, topic: str, total: int) -> None: ...

    def delete_records(self, partition: Partition, before_offset: int) -> int:
        """Return the new log start offset."""

    def topic_configs(self, topic: str) -> dict[str, str | None]: ...

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None: ...

    def broker_configs(self) -> dict[str, str | None]: ...

    def groups(self) -> set[str]: ...

    def describe_group(self, group_id: str) -> GroupDescription: ...

    def group_offsets(self, group_id: str) -> dict[Partition, Committed]: ...

    def brokers(self) -> list[tuple[str, int]]:
        """Return host and port of each broker of the cluster."""

    def close(self) -> None: ...


class TransactionalProducer(Protocol):
    """A producer that sends to partition 0, and raises the errors of its library."""

    def start(self) -> None:
        """Initialize the producer, which fences others with its transactional id."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, key: bytes | None = None) -> None:
        """Sends a record, and returns after the response."""

    def send_offset(self, topic: str, offset: int, group_id: str) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Client:
    """A client library, for one cluster."""

    name: str
    codecs: tuple[str, ...]
    # Whether the library's consumers request the creation of topics that they look up.
    # (kafka-python 3.0 does so even without allow_auto_create_topics.)
    creates_topics = True
    consumer_type: Callable[..., Consumer]
    admin_type: Callable[..., Admin]
    producer_type: Callable[..., TransactionalProducer]

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.connection: tuple[Any, ...] = (bootstrap,)
        """The first arguments of the types above."""

    def produce(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[tuple[int, int]]:
        """Send with acks=all, with a new producer. Return (partition, offset) of each message."""
        raise NotImplementedError

    def transactional_producer(
        self, transactional_id: str, timeout_ms: int
    ) -> TransactionalProducer:
        return type(self).producer_type(*self.connection, transactional_id, timeout_ms)

    def consumer(self, settings: ConsumerSettings) -> Consumer:
        return type(self).consumer_type(*self.connection, settings)

    def admin(self) -> Admin:
        return type(self).admin_type(*self.connection)

    def close(self) -> None:
        """Release the resources of the adapter."""


LIBRARIES = {
    "kafka-python": ("kafka_python", "KafkaPython"),
    "librdkafka": ("librdkafka", "Librdkafka"),
    "aiokafka": ("aio", "AioKafka"),
}
CLIENTS = {
    **LIBRARIES,
    "librdkafka-consumer-protocol": ("librdkafka", "LibrdkafkaConsumerProtocol"),
}
"""The libraries. librdkafka also occurs with the group protocol of KIP-848."""


def load(library: str) -> type[Client]:
    """Return the adapter. It is imported at its first use, because the libraries are large."""
    module, name = CLIENTS[library]
    client: type[Client] = getattr(importlib.import_module(f".{module}", __package__), name)
    return client


# --- kafka-python and aiokafka, whose classes have the same methods


class RebalanceListener:
    """For either library. aiokafka does not call on_partitions_lost."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        note_rebalance(self._consumer, "assigned", assigned)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        note_rebalance(self._consumer, "revoked", revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        note_rebalance(self._consumer, "lost", lost)


class PythonConsumer(Consumer):
    """`call("seek", …)` calls a method of the library's consumer. `partition_type` and
    `listener_type` are the library's TopicPartition, and a RebalanceListener that it accepts."""

    partition_type: Callable[[str, int], Any]
    listener_type: Callable[[Consumer], object]

    def __init__(self) -> None:
        self.rebalances = 0
        self.rebalance_calls = []

    def call(self, method: str, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    def key(self, partition: Partition) -> Any:
        return type(self).partition_type(*partition)

    def subscribe(self, *topics: str) -> None:
        self.call("subscribe", list(topics), listener=type(self).listener_type(self))

    def assign(self, *partitions: Partition) -> None:
        self.call("assign", list(map(self.key, partitions)))

    def assignment(self) -> frozenset[Partition]:
        return frozenset(Partition(*each) for each in self.call("assignment"))

    def committed(self, partition: Partition) -> int | None:
        offset: int | None = self.call("committed", self.key(partition))
        return offset

    def seek(self, partition: Partition, offset: int) -> None:
        self.call("seek", self.key(partition), offset)

    def beginning_offset(self, partition: Partition) -> int:
        return int(self.call("beginning_offsets", [self.key(partition)])[self.key(partition)])

    def end_offset(self, partition: Partition) -> int:
        return int(self.call("end_offsets", [self.key(partition)])[self.key(partition)])

    def offset_for_time(self, partition: Partition, timestamp_ms: int) -> int | None:
        key = self.key(partition)
        found = self.call("offsets_for_times", {key: timestamp_ms})[key]
        return None if found is None else int(found.offset)


def records_of(fetched: Mapping[Any, Iterable[Any]]) -> list[Record]:
    """Convert the records that a consumer returns."""
    return [
        Record(r.topic, r.partition, r.offset, r.timestamp, r.key, r.value, tuple(r.headers))
        for records in fetched.values()
        for r in records
    ]


def committed_of(offsets: Mapping[Any, Any]) -> dict[Partition, Committed]:
    """Convert the offsets of a group that an admin client returns."""
    return {Partition(*each): Committed(o.offset, o.metadata) for each, o in offsets.items()}
