"""A request as seen by tests, independent of its API version.

kio's messages use Kafka's field names, which hardly differ between versions. Fields are looked up
by name, so that a new version of an API does not break tests.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from importlib import import_module
from itertools import groupby
from typing import Any

from ..broker.cluster import Node
from ..broker.config.keys import BROKER_KEYS, listener_key
from ..broker.handlers.k01_fetch import forgotten_partitions, is_by_id, requested_partitions
from ..broker.network.request import RequestContext
from ..broker.security.principal import ANONYMOUS, Principal
from ..log.batch import read_header
from ..log.tasks import run_synchronously
from ..offsets.records import NO_PRODUCER_ID
from ..protocol.apis import APIS, BY_KEY
from ..protocol.consumer_protocol import decode_assignment
from ..protocol.errors import ErrorCode, ProtocolError
from ..protocol.messages import request_module, response_decoder
from ..suggestions import did_you_mean
from ..topics.alter_configs import ResourceType
from ..topics.configs.config_def import HIDDEN, ConfigType

TopicPartition = tuple[str, int]

_TRANSACTION_KEY = 1  # key_type of a FindCoordinator
# What a member does with these epochs in a ConsumerGroupHeartbeat.
_SPECIAL_EPOCHS = {0: " joins", -1: " leaves", -2: " leaves temporarily"}

# The fields for group ids, topics and partitions in Kafka's messages.
GROUP_FIELDS = ("group_id", "group_ids", "groups", "groups_names", "coordinator_keys", "key")
TOPIC_FIELDS = (
    *("topics", "topic_names", "topic_data", "responses", "topic_partitions", "topic_results"),
    *("v3_and_below_topics", "results_by_topic_v3_and_below", "replica_election_results"),
    "results",
)
PARTITION_FIELDS = (
    *("partitions", "partition_indexes", "partition_data", "partition_index"),
    *("partition_responses", "partition_result", "results_by_partition"),
)
# Arrays whose items contain topics.
TOPIC_PARENTS = (
    *("groups", "transactions", "markers", "results_by_transaction", "transaction_states"),
    *("dirs", "results"),
)
# Fields with one or more transactional ids, and fields of the producer.
TRANSACTION_FIELDS = (
    *("transactional_id", "v3_and_below_transactional_id", "transactional_ids", "transactions"),
    *("coordinator_keys", "key"),
)
_PRODUCER_ID_FIELDS = ("producer_id", "v3_and_below_producer_id")
_PRODUCER_EPOCH_FIELDS = ("producer_epoch", "v3_and_below_producer_epoch")
# AddPartitionsToTxn uses `partition_error_code`.
ERROR_FIELDS = ("error_code", "partition_error_code")
GENERATION_FIELDS = ("generation_id", "generation_id_or_member_epoch", "member_epoch")
_NAME_FIELDS = ("name", "topic", "topic_name")
_INDEX_FIELDS = ("partition_index", "partition", "partition_id", "index")
_API_NAMES = {api.name.lower(): api.name for api in APIS}


@dataclass(eq=False)
class RecordedRequest:
    """A request that arrived, and its response."""

    number: int
    """The number of the request in order of arrival at all nodes, starting at 1."""
    at_ms: int
    """When the request arrived, by the broker's clock."""
    node_id: int
    api_key: int
    version: int
    client_id: str | None
    client_host: str
    cached_message: Any = field(repr=False)
    """kio's message. For a request that the cache recognized, the message of the cached request."""
    varying: tuple[int, ...] = ()
    """If the cache recognized the request, the numbers that replace those of the cached message."""
    response_at_ms: int | None = None
    """When the request got a response, by the broker's clock; None before that."""
    response_frame: bytes | None = None
    """The frame of the response; empty if the request gets none (Produce with acks=0)."""
    faults: list[str] = field(default_factory=list)
    """The faults that were applied to the request."""
    is_held: bool = False
    """Whether the test holds the request (`group.hold_joins()`)."""
    topic_names: Any = field(default=None, repr=False)
    """The topic names by id on the broker that received the request."""
    missing_topics: tuple[str, ...] = ()
    """The topics in a Metadata request that did not exist when it was handled."""
    principal: Principal = ANONYMOUS
    """The identity of the client, such as `User:alice`."""
    connection: int = 0
    """The number of the client's connection, starting at 1 in the order of first requests."""
    wall_s: float = 0.0
    """When the request arrived, in wall-clock seconds since the broker was created."""
    response_wall_s: float | None = None
    retained_bytes: int = 0
    """The size of the request's records and response, which counts toward the history's size
    limit."""
    _decoded: tuple[bytes, Any] | None = field(default=None, init=False, repr=False)
    """The response frame that was decoded last, and its message."""

    @cached_property
    def message(self) -> Any:
        """kio's message, for fields without a property here. The message of an incremental Fetch
        (KIP-227) contains all partitions of its session."""
        if not self.varying:
            return self.cached_message
        handler = import_module(f"..broker.handlers.{BY_KEY[self.api_key].handler}", __package__)
        return _with_numbers(self.cached_message, handler.VARYING_FIELD, iter(self.varying))

    @property
    def api(self) -> str:
        """Kafka's name for the API, such as `OffsetCommit`."""
        return BY_KEY[self.api_key].name

    @property
    def group(self) -> str | None:
        """The first group in the request."""
        return next(iter(self.groups), None)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """All groups in the request. OffsetFetch (since v8) and DescribeGroups may name several."""
        message = self.message
        if self.api == "FindCoordinator" and getattr(message, "key_type", 0) != 0:
            return ()
        for name in GROUP_FIELDS:
            value = getattr(message, name, None)
            if isinstance(value, str):
                return (value,)
            if isinstance(value, tuple):
                return tuple(each if isinstance(each, str) else each.group_id for each in value)
        return ()

    @property
    def member_id(self) -> str | None:
        """The member id; None if the sender is not a member, or a member without an id yet."""
        return getattr(self.message, "member_id", None) or None

    @property
    def is_by_producer(self) -> bool:
        """Whether a producer sent the request for the member (TxnOffsetCommit). In this case, the
        client id and connection are the producer's."""
        return self.api == "TxnOffsetCommit"

    @property
    def instance_id(self) -> str | None:
        """The group.instance.id of a static member."""
        return getattr(self.message, "group_instance_id", None) or getattr(
            self.message, "instance_id", None
        )

    @property
    def is_join(self) -> bool:
        """Whether the request is a JoinGroup, or a ConsumerGroupHeartbeat that joins."""
        if self.api == "ConsumerGroupHeartbeat":
            return self.generation == 0
        return self.api == "JoinGroup"

    @property
    def members(self) -> tuple[tuple[str | None, str | None], ...]:
        """The (member id, instance id) of each member in the request. LeaveGroup may name
        several."""
        leaving = _items(self.message, ("members",)) if self.api == "LeaveGroup" else ()
        members = tuple((each.member_id or None, each.group_instance_id) for each in leaving)
        return members or ((self.member_id, self.instance_id),)

    @property
    def generation(self) -> int | None:
        """The generation or member epoch in the request (-1: none); None if the API has no such
        field. In a ConsumerGroupHeartbeat, 0 means join, -1 leave, and -2 leave temporarily."""
        for name in GENERATION_FIELDS:
            value = getattr(self.message, name, None)
            if value is not None:
                return int(value)
        return None

    @cached_property
    def topics(self) -> tuple[str, ...]:
        """All topics in the request."""
        return tuple(dict.fromkeys(name for name, _ in self._topics(self.message)))

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """All topic partitions in the request."""
        return tuple((topic, index) for topic, index, _ in self.by_partition(self.message))

    @cached_property
    def offsets(self) -> dict[TopicPartition, int]:
        """The offsets of an OffsetCommit or a TxnOffsetCommit."""
        return {
            (topic, index): int(each.committed_offset)
            for topic, index, each in self.by_partition(self.message)
            if hasattr(each, "committed_offset")
        }

    @property
    def transactional_id(self) -> str | None:
        """The first transactional id in the request."""
        return next(iter(self.transactional_ids), None)

    @cached_property
    def transactional_ids(self) -> tuple[str, ...]:
        """All transactional ids in the request. DescribeTransactions may name several."""
        message = self.message
        is_lookup = self.api == "FindCoordinator"
        if is_lookup and getattr(message, "key_type", 0) != _TRANSACTION_KEY:
            return ()
        for name in TRANSACTION_FIELDS if is_lookup else TRANSACTION_FIELDS[:4]:
            value = getattr(message, name, None)
            if isinstance(value, str):
                return (value,) if value else ()
            if isinstance(value, tuple):
                return tuple(e if isinstance(e, str) else e.transactional_id for e in value)
        return ()

    @cached_property
    def producer_id(self) -> int | None:
        """The id of an idempotent or transactional producer; None if the request has none."""
        return self._producer[0]

    @cached_property
    def producer_epoch(self) -> int | None:
        """The epoch of the producer; None if the request has no producer id."""
        return self._producer[1]

    @cached_property
    def _producer(self) -> tuple[int | None, int | None]:
        for parent in (self.message, *_items(self.message, ("transactions", "markers"))):
            for id_name, epoch_name in zip(
                _PRODUCER_ID_FIELDS, _PRODUCER_EPOCH_FIELDS, strict=True
            ):
                producer_id = getattr(parent, id_name, NO_PRODUCER_ID)
                if producer_id != NO_PRODUCER_ID:
                    return int(producer_id), int(getattr(parent, epoch_name))
        if self.api == "Produce":
            for _, _, each in self.by_partition(self.message):
                with suppress(struct.error):  # the client sent no batch
                    header = read_header(each.records or b"")
                    if header.producer_id != NO_PRODUCER_ID:
                        return header.producer_id, header.producer_epoch
        return None, None

    @property
    def records_bytes(self) -> int:
        """The size of the records in a Produce; 0 for other APIs."""
        if self.api != "Produce":
            return 0
        return sum(len(each.records or b"") for _, _, each in self.by_partition(self.message))

    @cached_property
    def assignments(self) -> dict[str, tuple[TopicPartition, ...]]:
        """The assigned partitions by member id, in the SyncGroup of a leader; otherwise empty."""
        if self.api != "SyncGroup":
            return {}
        return {
            each.member_id: assigned_partitions(each.assignment)
            for each in self.message.assignments
        }

    def by_partition(self, message: Any) -> Iterator[tuple[str, int, Any]]:
        """Yield the topic, number and entry of each partition in `message` (the request or its
        response), which may identify topics by id."""
        for name, topic in self._topics(message):
            for each in _items(topic, PARTITION_FIELDS):
                if isinstance(each, int):
                    yield name, int(each), each
                else:
                    index = next(getattr(each, key) for key in _INDEX_FIELDS if hasattr(each, key))
                    yield name, int(index), each

    def _topics(self, message: Any) -> Iterator[tuple[str, Any]]:
        for parent in (message, *_items(message, TOPIC_PARENTS)):
            for topic in _items(parent, TOPIC_FIELDS):
                yield topic if isinstance(topic, str) else self._name(topic), topic

    def _name(self, topic: Any) -> str:
        for key in _NAME_FIELDS:
            value = getattr(topic, key, None)
            if isinstance(value, str) and value:
                return value
        topic_id = getattr(topic, "topic_id", None)
        return (self.topic_names or {}).get(topic_id) or str(topic_id)

    @property
    def response(self) -> Any:
        """kio's message of the response; None if there is none, or none yet."""
        frame, decoded = self.response_frame, self._decoded
        if not frame:
            return None
        # A fault may have replaced the frame after it was decoded.
        if decoded is None or decoded[0] is not frame:
            decoded = self._decoded = frame, response_decoder(self.api_key, self.version)(frame)
        return decoded[1]

    @property
    def errors(self) -> tuple[str, ...]:
        """Kafka's names for all errors in the response, in order; empty if there are none."""
        codes = (ErrorCode(code) for code in _error_codes(self.response))
        return tuple(code.name.upper() for code in codes if code is not ErrorCode.none)

    @property
    def partition_errors(self) -> dict[TopicPartition, str]:
        """The partition errors in the response, with Kafka's names."""
        codes = {
            (topic, index): ErrorCode(getattr(each, name))
            for topic, index, each in self.by_partition(self.response)
            for name in ERROR_FIELDS
            if hasattr(each, name)
        }
        return {
            partition: code.name.upper()
            for partition, code in codes.items()
            if code is not ErrorCode.none
        }

    def __str__(self) -> str:
        group = f" {self.group}" if self.group else ""
        if self.transactional_id:
            group = f" {self.transactional_id}{f' group{group}' if group else ''}"
        member = f" by {self.member_id}" if self.member_id else ""
        pending = "held by the test" if self.is_held else "no response yet"
        result = pending if self.response_frame is None else ", ".join(self.errors) or "ok"
        if self.api == "ConsumerGroupHeartbeat":
            member += _SPECIAL_EPOCHS.get(self.generation or 0, "")
        return f"{self.api} v{self.version}{group}{member} from {self.client_id or '?'}: {result}"


def find_api_name(name: str) -> str:
    """Return Kafka's spelling of an API name, ignoring case. Raises ValueError for an unknown
    name."""
    found = _API_NAMES.get(name.lower())
    if found is None:
        raise ValueError(f"Unknown API {name!r}{did_you_mean(name, _API_NAMES.values())}")
    return found


def assigned_partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a ConsumerProtocol assignment; () if it has another format."""
    if not assignment:
        return ()
    try:
        decoded = decode_assignment(assignment)
    except ProtocolError:
        return ()
    return tuple(
        (topic, index) for topic, indexes in decoded.assigned_partitions for index in indexes
    )


def full_fetch(call: RequestContext, node: Node) -> Any:
    """Return kio's message of a Fetch. An incremental Fetch (KIP-227), which contains only changes,
    gets all partitions of its session, so that filters, faults and tests see all that it fetches.
    """
    request = call.request
    session = node.fetch_sessions.get(getattr(request, "session_id", 0))
    if session is None or session.epoch != request.session_epoch:
        return request
    partitions = {key: each.request for key, each in session.partitions.items()}
    requested = run_synchronously(requested_partitions(call))
    partitions |= {key: each.request for key, each in requested.items()}
    for key in forgotten_partitions(call):
        partitions.pop(key, None)
    topic_type = request_module(call.route.api.key, call.version).FetchTopic
    topic_field = "topic_id" if is_by_id(call) else "topic"
    topics = [
        topic_type(partitions=tuple(each for _, each in of_topic), **{topic_field: topic})
        for topic, of_topic in groupby(partitions.items(), key=lambda item: item[0][0])
    ]
    return replace(request, topics=tuple(topics))


def without_secrets(api: str, message: Any) -> Any:
    """Return kio's message without tokens (with PLAIN, the password), salted passwords and values
    of sensitive keys, because reports of failed tests may be published."""
    if api == "SaslAuthenticate":
        return replace(message, auth_bytes=b"")
    if api == "AlterUserScramCredentials":
        upsertions = tuple(replace(each, salted_password=b"") for each in message.upsertions)
        return replace(message, upsertions=upsertions)
    if api in ("AlterConfigs", "IncrementalAlterConfigs"):
        return replace(message, resources=tuple(map(_without_passwords, message.resources)))
    return message


def _without_passwords(resource: Any) -> Any:
    if resource.resource_type != ResourceType.BROKER:
        return resource
    return replace(
        resource,
        configs=tuple(
            replace(each, value=HIDDEN)
            if each.value is not None and _is_sensitive(each.name)
            else each
            for each in resource.configs
        ),
    )


def _is_sensitive(name: str) -> bool:
    """Whether a broker key is a password, or unknown (to Kafka, unknown keys are sensitive)."""
    key = BROKER_KEYS.get(listener_key(name) or name)
    return key is None or key.type is ConfigType.PASSWORD


def _with_numbers(message: Any, name: str, numbers: Iterator[int]) -> Any:
    """Return a copy of kio's message in which the fields with this name are set to the next
    numbers."""
    if isinstance(message, tuple):
        return tuple(_with_numbers(each, name, numbers) for each in message)
    if not is_dataclass(message) or isinstance(message, type):
        return message
    values: dict[str, Any] = {}
    for each in fields(message):
        value = getattr(message, each.name)
        if each.name == name:
            values[name] = next(numbers)
        elif isinstance(value, tuple):
            values[each.name] = _with_numbers(value, name, numbers)
    return replace(message, **values)


def _items(parent: Any, names: tuple[str, ...]) -> tuple[Any, ...]:
    for name in names:
        value = getattr(parent, name, None)
        if isinstance(value, tuple):
            return value
    return ()


def _error_codes(response: Any) -> Iterator[int]:
    if isinstance(response, tuple):
        for each in response:
            yield from _error_codes(each)
        return
    for name in getattr(response, "__dataclass_fields__", ()):
        value = getattr(response, name)
        if name in ERROR_FIELDS:
            yield int(value)
        elif isinstance(value, tuple):
            yield from _error_codes(value)
