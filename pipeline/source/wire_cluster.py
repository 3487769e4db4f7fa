"""The brokers of one Kafka: who leads which partition, and questions that follow the leaders.

A leader that moved, a broker that went: the metadata are asked for anew and the question is asked
again, until patience is over. What the user has to mend is a SourceError at once.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Self, TypeVar

from ...protocol.errors import ErrorCode
from .source import SourceError
from .wire_connection import ANSWER_SECONDS, Address, Connection, Lost, addresses

__all__ = ["EARLIEST", "LATEST", "Cluster", "Fetched", "OutOfRange", "TopicPartition"]

TopicPartition = tuple[str, int]
T = TypeVar("T")

# Kafka's words in ListOffsets.
EARLIEST: Final = -2
LATEST: Final = -1
_NOBODY: Final = -1
_READ_UNCOMMITTED: Final = 0

# A leader's move takes as long as its controller needs to see that a broker is gone
# (broker.session.timeout.ms, 9 s) and to say so to all.
PATIENCE_SECONDS: Final = 60.0
# Kafka's clients' retry.backoff.ms and retry.backoff.max.ms.
BACKOFF_SECONDS: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 1.0
# How long a broker may wait for what is not there. Nobody waits here but where a new leader has not
# got the high watermark of the old one yet.
FETCH_WAIT: Final = timedelta(milliseconds=500)

# They pass once the metadata have caught up.
_PASSING: Final = {
    ErrorCode.fenced_leader_epoch,
    ErrorCode.kafka_storage_error,
    ErrorCode.leader_not_available,
    ErrorCode.listener_not_found,
    ErrorCode.not_leader_or_follower,
    ErrorCode.offset_not_available,
    ErrorCode.replica_not_available,
    ErrorCode.unknown_leader_epoch,
    ErrorCode.unknown_topic_or_partition,
}


class OutOfRange(Exception):
    """The wanted offset is not in the log: before its start, or behind its end."""


class Fetched(NamedTuple):
    """`records`: batches as they lie in the log, the last one may be cut off."""

    records: bytes
    high_watermark: int


class _Again(Exception):
    """The question is to be asked again; the message says why."""


class Cluster:
    """`bootstrap`: HOST:PORT of some of its brokers, parted by commas. Connections are opened when
    they are needed first, `close` closes them. For one thread. All raise SourceError."""

    def __init__(self, bootstrap: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        try:
            self._bootstrap = addresses(bootstrap)
        except ValueError as error:
            raise SourceError(str(error)) from None
        self._patience_seconds = patience_seconds
        self._cluster_id: str | None = None
        self._topic_ids: dict[str, str] = {}
        self._nodes: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._ahead: tuple[tuple[str, int, int, int], Connection] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._ahead = None
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def topic_id(self, name: str) -> str | None:
        """None: there is no such topic, or the brokers are older than Kafka 2.8."""
        self.topics([name])
        return self._topic_ids.get(name)

    @property
    def cluster_id(self) -> str:
        """As the brokers say it."""
        if not self._nodes:
            self.topics([])
        return self._cluster_id or ""

    def topics(self, names: Iterable[str] | None) -> dict[str, list[int]]:
        """The partitions of those topics that there are; None: of all."""
        wanted = None if names is None else list(names)
        return self._persist(lambda: self._refresh(wanted))

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of each partition at a time in ms (of the first record since then; None:
        there is none), or EARLIEST or LATEST. A partition that is gone is left out."""
        found: dict[TopicPartition, int | None] = {}

        def ask() -> None:
            missing = [place for place in wanted if place not in found]
            if any(place not in self._leaders for place in missing):
                self._refresh({topic for topic, _ in missing})
                missing = [place for place in missing if place in self._leaders]
            by_node: dict[int, list[TopicPartition]] = {}
            for place in missing:
                by_node.setdefault(self._leader_of(place), []).append(place)
            for node_id, places in by_node.items():
                self._offsets_of(node_id, {place: wanted[place] for place in places}, found)

        self._persist(ask)
        return found

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
        """Batches from the one that contains `offset` on, at most `max_bytes` but at least one of
        them; none at the end of the log. Raises OutOfRange too."""
        question = (topic, partition, offset, max_bytes)

        def ask() -> Fetched:
            if self._ahead is not None and self._ahead[0] == question:
                connection, self._ahead = self._ahead[1], None
                return self._fetched((topic, partition), connection, connection.receive())
            connection = self._of_leader((topic, partition))
            self._send_fetch(connection, question)
            return self._fetched((topic, partition), connection, connection.receive())

        return self._persist(ask)

    def fetch_ahead(self, topic: str, partition: int, offset: int, max_bytes: int) -> None:
        """Asks what `fetch` will be asked next, which then finds the answer on its way."""
        question = (topic, partition, offset, max_bytes)
        try:
            connection = self._of_leader((topic, partition))
            self._send_fetch(connection, question)
            self._ahead = question, connection
        except (Lost, _Again):
            self._ahead = None  # `fetch` asks again, and with patience

    # --- one question

    def _refresh(self, names: Iterable[str] | None) -> dict[str, list[int]]:
        answer = self._of_anybody(
            "Metadata",
            topics=None
            if names is None
            else [SimpleNamespace(name=name, topic_id=None) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        self._cluster_id = answer.cluster_id
        self._nodes = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
        found: dict[str, list[int]] = {}
        told = {topic.name for topic in answer.topics}
        for place in [each for each in self._leaders if each[0] in told]:
            del self._leaders[place]
        for topic in answer.topics:
            if topic.error_code is ErrorCode.topic_authorization_failed:
                raise SourceError(
                    f"the broker does not let us see the topic {topic.name}: it must allow Describe"
                    " and Read on it to whoever connects without a name"
                )
            if topic.error_code is ErrorCode.unknown_topic_or_partition:
                continue
            if topic.error_code is not ErrorCode.none and topic.error_code not in _PASSING:
                raise SourceError(
                    f"the broker refuses to tell of the topic {topic.name}:"
                    f" {topic.error_code.name.upper()}"
                )
            if (topic_id := getattr(topic, "topic_id", None)) is not None:
                self._topic_ids[topic.name] = str(topic_id)
            found[topic.name] = sorted(each.partition_index for each in topic.partitions)
            for each in topic.partitions:
                self._leaders[topic.name, each.partition_index] = each.leader_id
        return found

    def _offsets_of(
        self,
        node_id: int,
        wanted: Mapping[TopicPartition, int],
        found: dict[TopicPartition, int | None],
    ) -> None:
        topics: dict[str, list[Any]] = {}
        for (topic, index), when in wanted.items():
            one = SimpleNamespace(partition_index=index, timestamp=when)
            topics.setdefault(topic, []).append(one)
        answer = self._connection(node_id).ask(
            "ListOffsets",
            replica_id=_NOBODY,
            isolation_level=_READ_UNCOMMITTED,
            topics=[SimpleNamespace(name=name, partitions=its) for name, its in topics.items()],
        )
        moved: Exception | None = None
        for topic in answer.topics:
            for each in topic.partitions:
                place = topic.name, each.partition_index
                try:
                    self._judge(place, each.error_code)
                except _Again as error:
                    moved = error
                else:
                    found[place] = each.offset if each.offset >= 0 else None
        if moved is not None:
            raise moved

    def _send_fetch(self, connection: Connection, question: tuple[str, int, int, int]) -> None:
        topic, partition, offset, max_bytes = question
        wanted = SimpleNamespace(
            partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
        )
        connection.send(
            "Fetch",
            max_wait=FETCH_WAIT,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=_READ_UNCOMMITTED,
            topics=[SimpleNamespace(topic=topic, partitions=[wanted])],
            forgotten_topics_data=[],
            rack_id="",
        )

    def _fetched(self, place: TopicPartition, connection: Connection, answer: Any) -> Fetched:
        self._judge(place, getattr(answer, "error_code", ErrorCode.none))  # since v7
        for topic in answer.responses:
            for each in topic.partitions:
                self._judge(place, each.error_code)
                if not each.records and answer.throttle_time:
                    raise _Again(f"{connection.address} holds us back (its quotas)")
                return Fetched(each.records or b"", each.high_watermark)
        raise _Again(f"{connection.address} did not answer for the partition that it was asked for")

    def _judge(self, place: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.none:
            return
        topic, partition = place
        if error is ErrorCode.offset_out_of_range:
            raise OutOfRange
        if error in _PASSING:
            self._leaders.pop(place, None)
            raise _Again(f"partition {partition} of {topic} finds no leader: {error.name.upper()}")
        if error is ErrorCode.topic_authorization_failed:
            raise SourceError(
                f"the broker does not let us read the topic {topic}: it must allow Read on it to"
                " whoever connects without a name"
            )
        raise SourceError(
            f"the broker refuses to read partition {partition} of {topic}: {error.name.upper()}"
        )

    # --- whom to ask

    def _of_anybody(self, name: str, **fields: Any) -> Any:
        whys = []
        for address in dict.fromkeys([*self._connections, *self._nodes.values(), *self._bootstrap]):
            try:
                return self._connected(address).ask(name, **fields)
            except Lost as error:
                self._connections.pop(address, None)
                whys.append(str(error))
        if self._nodes:
            raise Lost(whys[0])
        raise SourceError("; ".join(dict.fromkeys(whys)))

    def _of_leader(self, place: TopicPartition) -> Connection:
        if place not in self._leaders:
            self._refresh([place[0]])
        return self._connection(self._leader_of(place))

    def _leader_of(self, place: TopicPartition) -> int:
        leader = self._leaders.get(place, _NOBODY)
        if leader == _NOBODY:
            self._leaders.pop(place, None)
            raise _Again(f"partition {place[1]} of {place[0]} has no leader")
        return leader

    def _connection(self, node_id: int) -> Connection:
        address = self._nodes.get(node_id)
        if address is None:
            self._leaders.clear()
            raise _Again(f"node {node_id} is gone")
        try:
            return self._connected(address)
        except Lost as error:
            raise Lost(f"{error}, where node {node_id} is said to be") from None

    def _connected(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = self._connections[address] = Connection(
                address, min(ANSWER_SECONDS, self._patience_seconds / 2)
            )
        return connection

    def _persist(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._patience_seconds
        backoff = BACKOFF_SECONDS
        while True:
            try:
                return attempt()
            except Lost as error:
                self.close()
                self._leaders.clear()
                why = str(error)
            except _Again as error:
                why = str(error)
            if time.monotonic() >= deadline:
                raise SourceError(f"{why} (asked again for {self._patience_seconds:g} s)")
            time.sleep(backoff)
            backoff = min(2 * backoff, BACKOFF_SECONDS_MAX)
