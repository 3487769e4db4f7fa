"""One shape for all client libraries, so that a story is told once and acted out by each of them.

An adapter translates; it never retries or waits on behalf of its library, because what the library
itself does against the broker is what the stories are about. Where it has to mend a library's own
fault, it says so.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Message(NamedTuple):
    """What a producer sends; `partition` None leaves the choice to the library's partitioner."""

    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[tuple[str, bytes], ...] = ()


class Record(NamedTuple):
    """What a consumer got."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    @property
    def place(self) -> Place:
        return Place(self.topic, self.partition)


class Committed(NamedTuple):
    """A group's committed offset with the text that the committer left beside it."""

    offset: int
    metadata: str


class RefusedError(Exception):
    """The broker answered with an error code; `code` is Kafka's number."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(f"error {code}: {text}")
        self.code = code


@dataclass(frozen=True)
class ConsumerSettings:
    """What stories choose; all else is each library's default, with short intervals.

    Intervals are far below the libraries' defaults only so that a story is told in a second.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    auto_commit: bool = False
    auto_commit_interval_ms: int = 100
    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 200
    max_poll_interval_ms: int = 300_000
    metadata_max_age_ms: int = 300
    fetch_max_wait_ms: int = 100
    creates_topics: bool = False
    cooperative: bool = False
    # Kafka's names of them, the preferred first; each library's own choice when there are none.
    assignors: tuple[str, ...] = ()
    # What a Python library takes as it is, instead of its own of those names.
    strategies: tuple[Any, ...] = ()
    auto_offset_reset: str = field(default="earliest")


class Consumer(ABC):
    """A consumer that is driven by one thread: whoever calls `poll`.

    `rebalances`: how often its library told it, since it subscribed, what it now owns.
    """

    rebalances: int = 0

    @abstractmethod
    def subscribe(self, *topics: str) -> None: ...

    @abstractmethod
    def subscribe_pattern(self, pattern: str) -> None:
        """`pattern` begins with ^ (librdkafka tells patterns from names by it)."""

    @abstractmethod
    def assign(self, *places: Place) -> None: ...

    @abstractmethod
    def poll(self, max_records: int = 500) -> list[Record]:
        """What is there, or comes within a time that suits the library."""

    @abstractmethod
    def assignment(self) -> frozenset[Place]: ...

    @abstractmethod
    def commit(self, offsets: Mapping[Place, Committed] | None = None) -> None:
        """Returns when the broker has answered; without offsets, commits what `poll` gave out."""

    @abstractmethod
    def committed(self, place: Place) -> int | None: ...

    @abstractmethod
    def seek(self, place: Place, offset: int) -> None: ...

    @abstractmethod
    def beginning_offset(self, place: Place) -> int: ...

    @abstractmethod
    def end_offset(self, place: Place) -> int: ...

    @abstractmethod
    def offset_for_time(self, place: Place, timestamp_ms: int) -> int | None:
        """The first offset whose timestamp is not before this one; None when there is none."""

    @abstractmethod
    def close(self) -> None:
        """Ends as the library's own close does: a dynamic member leaves its group."""


class Counting:
    """A rebalance listener, of whatever library: notes on the consumer each time that partitions
    are given out."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: object) -> None:
        self._consumer.rebalances += 1

    def on_partitions_revoked(self, revoked: object) -> None:
        """What is left is told at once."""


class Admin(ABC):
    """Topics, configs, offsets; each method raises RefusedError with the broker's code."""

    @abstractmethod
    def create_topic(
        self, topic: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None: ...

    @abstractmethod
    def delete_topic(self, topic: str) -> None: ...

    @abstractmethod
    def topics(self) -> frozenset[str]: ...

    @abstractmethod
    def partition_count(self, topic: str) -> int: ...

    @abstractmethod
    def add_partitions(self, topic: str, total: int) -> None: ...

    @abstractmethod
    def delete_records(self, place: Place, before_offset: int) -> int:
        """The offset where the partition begins now."""

    @abstractmethod
    def topic_configs(self, topic: str) -> dict[str, str | None]: ...

    @abstractmethod
    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None: ...

    @abstractmethod
    def broker_configs(self) -> dict[str, str | None]: ...

    @abstractmethod
    def group_offsets(self, group_id: str) -> dict[Place, Committed]: ...

    @abstractmethod
    def brokers(self) -> list[tuple[str, int]]:
        """Host and port of each broker of the cluster."""

    @abstractmethod
    def close(self) -> None: ...


class Client(ABC):
    """A client library pointed at one cluster."""

    name: str
    codecs: tuple[str, ...]
    # Some libraries ask for the creation of every topic that a consumer looks up, some do when told
    # so, some never do.
    creates_topics: Literal["always", "when told", "never"] = "when told"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def produce(
        self,
        topic: str,
        messages: Iterable[Message],
        *,
        codec: str | None = None,
        idempotent: bool = False,
    ) -> list[tuple[int, int]]:
        """Sends with acks=all by a producer of its own; (partition, offset) in sending order."""

    @abstractmethod
    def consumer(self, settings: ConsumerSettings) -> Consumer: ...

    @abstractmethod
    def admin(self) -> Admin: ...

    def close(self) -> None:  # noqa: B027  (only some libraries hold something)
        """Ends what the adapter itself holds."""
