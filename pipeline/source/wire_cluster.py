"""A client of one Kafka cluster: partition leaders, offsets, fetches.

Transient errors (a moved leader, a lost connection) are retried with fresh metadata for up to
`retry_seconds`. Errors that the user has to fix are raised immediately as SourceError.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Self, TypeVar
from uuid import UUID

from ...client_security import read_security
from ...protocol.bootstrap import Address, addresses
from ...protocol.errors import ErrorCode
from ...protocol.primitives import uuid_text
from .source import ClusterUnreachable, SourceError
from .wire_connection import RESPONSE_SECONDS, Connection, ConnectionLost

TopicPartition = tuple[str, int]
T = TypeVar("T")

# Timestamps with a special meaning in ListOffsets.
EARLIEST: Final = -2
LATEST: Final = -1
_NO_NODE: Final = -1
_READ_UNCOMMITTED: Final = 0

# Electing a leader takes as long as the controller needs to notice a failed broker
# (broker.session.timeout.ms, 9 s) and to publish the new leader.
RETRY_SECONDS: Final = 60.0
# The defaults of the clients' retry.backoff.ms and retry.backoff.max.ms.
BACKOFF_SECONDS: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 1.0
# Fetches wait only if a new leader does not have the previous high watermark yet.
FETCH_WAIT: Final = timedelta(milliseconds=500)

_RETRIABLE: Final = {
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
    """The offset is before the log start or after the log end."""


class Fetched(NamedTuple):
    """`records`: batches; the last one may be incomplete."""

    records: bytes
    high_watermark: int


class _Retry(Exception):
    """A transient error. The message is the reason."""


class Cluster:
    """Opens connections on demand. `command_config`: a file with client properties. Not
    thread-safe. All methods raise SourceError. The first call raises ClusterUnreachable if no
    broker responds. `response_seconds` is divided among the bootstrap brokers; None: up to
    RESPONSE_SECONDS for each."""

    def __init__(
        self,
        bootstrap: str,
        command_config: str | None = None,
        *,
        retry_seconds: float = RETRY_SECONDS,
        response_seconds: float | None = None,
    ) -> None:
        try:
            self._bootstrap = addresses(bootstrap)
            self._security = read_security(command_config)
        except ValueError as error:
            raise SourceError(str(error)) from None
        self._retry_seconds = retry_seconds
        self._response_seconds = min(RESPONSE_SECONDS, retry_seconds / 2)
        if response_seconds is not None:
            self._response_seconds = response_seconds / len(self._bootstrap)
        self._cluster_id: str | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._nodes: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._prefetched: tuple[tuple[str, int, int, int], Connection] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._prefetched = None
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def topic_id(self, name: str) -> str | None:
        """Return the topic id, or None for an unknown topic or with brokers before Kafka 2.8."""
        self.topics([name])
        topic_id = self._topic_ids.get(name)
        return None if topic_id is None else str(topic_id)

    def topic_names(self) -> dict[str, str]:
        """Return the names of all topics by id, as Kafka prints it; empty with brokers before Kafka
        2.8."""
        self.topics(None)
        return {uuid_text(id_.bytes): name for name, id_ in self._topic_ids.items()}

    @property
    def cluster_id(self) -> str:
        if not self._nodes:
            self.topics([])
        return self._cluster_id or ""

    def topics(self, names: Iterable[str] | None) -> dict[str, list[int]]:
        """Return the partitions of the named topics that exist, or of all topics (None)."""
        wanted = None if names is None else list(names)
        return self._retried(lambda: self._refresh(wanted))

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return the offset of each partition at a timestamp: EARLIEST, LATEST, or a time in ms for
        the first record at or after it (None if there is none). Partitions that do not exist are
        omitted."""
        found: dict[TopicPartition, int | None] = {}

        def attempt() -> None:
            missing = [tp for tp in wanted if tp not in found]
            if any(tp not in self._leaders for tp in missing):
                self._refresh({topic for topic, _ in missing})
                missing = [tp for tp in missing if tp in self._leaders]
            by_node: dict[int, list[TopicPartition]] = {}
            for tp in missing:
                by_node.setdefault(self._leader_of(tp), []).append(tp)
            for node_id, partitions in by_node.items():
                self._list_offsets(node_id, {tp: wanted[tp] for tp in partitions}, found)

        self._retried(attempt)
        return found

    def fetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> Fetched:
        """Return batches starting with the one that contains `offset`, at most `max_bytes` but at
        least one batch; none at the end of the log. Also raises OutOfRange."""
        request = (topic, partition, offset, max_bytes)

        def attempt() -> Fetched:
            if self._prefetched is not None and self._prefetched[0] == request:
                connection, self._prefetched = self._prefetched[1], None
            else:
                connection = self._leader_connection((topic, partition))
                self._send_fetch(connection, request)
            return self._fetched((topic, partition), connection, connection.receive())

        return self._retried(attempt)

    def prefetch(self, topic: str, partition: int, offset: int, max_bytes: int) -> None:
        """Send the request for the next `fetch` ahead of time; that `fetch` handles errors and
        retries."""
        request = (topic, partition, offset, max_bytes)
        try:
            connection = self._leader_connection((topic, partition))
            self._send_fetch(connection, request)
            self._prefetched = request, connection
        except (ConnectionLost, _Retry):
            self._prefetched = None

    # --- requests

    def _refresh(self, names: Iterable[str] | None) -> dict[str, list[int]]:
        response = self._request_any(
            "Metadata",
            topics=None
            if names is None
            else [SimpleNamespace(name=name, topic_id=None) for name in names],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=False,
            include_topic_authorized_operations=False,
        )
        self._cluster_id = response.cluster_id
        self._nodes = {node.node_id: Address(node.host, node.port) for node in response.brokers}
        found: dict[str, list[int]] = {}
        returned = {topic.name for topic in response.topics}
        for tp in [tp for tp in self._leaders if tp[0] in returned]:
            del self._leaders[tp]
        for topic in response.topics:
            if topic.error_code is ErrorCode.topic_authorization_failed:
                raise SourceError(
                    f"no permission to describe topic {topic.name}: allow Describe and Read on it"
                )
            if topic.error_code is ErrorCode.unknown_topic_or_partition:
                continue
            if topic.error_code is not ErrorCode.none and topic.error_code not in _RETRIABLE:
                error = topic.error_code.name.upper()
                raise SourceError(f"the metadata of topic {topic.name} is unavailable: {error}")
            if (topic_id := getattr(topic, "topic_id", None)) is not None:
                self._topic_ids[topic.name] = topic_id
            found[topic.name] = sorted(each.partition_index for each in topic.partitions)
            for each in topic.partitions:
                self._leaders[topic.name, each.partition_index] = each.leader_id
        return found

    def _list_offsets(
        self,
        node_id: int,
        wanted: Mapping[TopicPartition, int],
        found: dict[TopicPartition, int | None],
    ) -> None:
        topics: dict[str, list[Any]] = {}
        for (topic, index), timestamp in wanted.items():
            partition = SimpleNamespace(partition_index=index, timestamp=timestamp)
            topics.setdefault(topic, []).append(partition)
        response = self._connection(node_id).request(
            "ListOffsets",
            replica_id=_NO_NODE,
            isolation_level=_READ_UNCOMMITTED,
            topics=[SimpleNamespace(name=name, partitions=its) for name, its in topics.items()],
        )
        retry: _Retry | None = None
        for topic in response.topics:
            for each in topic.partitions:
                tp = topic.name, each.partition_index
                try:
                    self._check(tp, each.error_code)
                except _Retry as error:
                    retry = error
                else:
                    found[tp] = each.offset if each.offset >= 0 else None
        if retry is not None:
            raise retry

    def _send_fetch(self, connection: Connection, request: tuple[str, int, int, int]) -> None:
        topic, partition, offset, max_bytes = request
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

    def _fetched(self, tp: TopicPartition, connection: Connection, response: Any) -> Fetched:
        self._check(tp, getattr(response, "error_code", ErrorCode.none))  # since version 7
        for topic in response.responses:
            for each in topic.partitions:
                self._check(tp, each.error_code)
                if not each.records and response.throttle_time:
                    raise _Retry(f"{connection.address} throttles this client (quotas)")
                return Fetched(each.records or b"", each.high_watermark)
        raise _Retry(f"{connection.address} returned a Fetch response without the partition")

    def _check(self, tp: TopicPartition, error: ErrorCode) -> None:
        if error is ErrorCode.none:
            return
        topic, partition = tp
        if error is ErrorCode.offset_out_of_range:
            raise OutOfRange
        if error in _RETRIABLE:
            self._leaders.pop(tp, None)
            raise _Retry(f"partition {partition} of {topic} is unavailable: {error.name.upper()}")
        if error is ErrorCode.topic_authorization_failed:
            raise SourceError(f"no permission to read topic {topic}: allow Read on it")
        raise SourceError(f"partition {partition} of {topic} cannot be read: {error.name.upper()}")

    # --- connections

    def _request_any(self, name: str, **fields: Any) -> Any:
        """Return the response of the first broker that responds."""
        errors = []
        for address in dict.fromkeys([*self._connections, *self._nodes.values(), *self._bootstrap]):
            try:
                return self._connect(address).request(name, **fields)
            except ConnectionLost as error:
                self._connections.pop(address, None)
                errors.append(str(error))
        if self._nodes:
            raise ConnectionLost(errors[0])
        raise ClusterUnreachable("; ".join(dict.fromkeys(errors)))

    def _leader_connection(self, tp: TopicPartition) -> Connection:
        if tp not in self._leaders:
            self._refresh([tp[0]])
        return self._connection(self._leader_of(tp))

    def _leader_of(self, tp: TopicPartition) -> int:
        leader = self._leaders.get(tp, _NO_NODE)
        if leader == _NO_NODE:
            self._leaders.pop(tp, None)
            raise _Retry(f"partition {tp[1]} of {tp[0]} has no leader")
        return leader

    def _connection(self, node_id: int) -> Connection:
        address = self._nodes.get(node_id)
        if address is None:
            self._leaders.clear()
            raise _Retry(f"node {node_id} has left the cluster")
        try:
            return self._connect(address)
        except ConnectionLost as error:
            raise ConnectionLost(f"{error} (the advertised address of node {node_id})") from None

    def _connect(self, address: Address) -> Connection:
        connection = self._connections.get(address)
        if connection is None:
            connection = Connection(address, self._response_seconds, self._security)
            self._connections[address] = connection
        return connection

    def _retried(self, attempt: Callable[[], T]) -> T:
        deadline = time.monotonic() + self._retry_seconds
        backoff = BACKOFF_SECONDS
        while True:
            try:
                return attempt()
            except ConnectionLost as error:
                self.close()
                self._leaders.clear()
                reason = str(error)
            except _Retry as error:
                reason = str(error)
            if time.monotonic() >= deadline:
                raise SourceError(f"{reason} (retried for {self._retry_seconds:g} s)")
            time.sleep(backoff)
            backoff = min(2 * backoff, BACKOFF_SECONDS_MAX)
