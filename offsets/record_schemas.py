"""Every kind of record that Kafka 4.3 knows in __consumer_offsets, field by field, under the names
of its schemas (upstream: group-coordinator/src/main/resources/common/message). For those who look
at a log: what the broker itself keeps is read by records.py.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ..protocol.primitives import INT16
from .commit_value import value_version
from .errors import UndecodableRecord
from .fields import FieldReader

__all__ = ["KINDS", "Entry", "read_assignment", "read_entry", "read_subscription"]

Read: TypeAlias = Callable[[FieldReader], Any]
Fields: TypeAlias = Callable[[FieldReader], dict[str, Any]]


class Entry(NamedTuple):
    """A record's content. Bytes in it stay bytes; a topic's id is written as Kafka prints it."""

    kind: str
    key: Mapping[str, Any]
    version: int | None  # None for a tombstone
    value: Mapping[str, Any] | None


class Kind(NamedTuple):
    """`values`: how its value is read, by version."""

    name: str
    key: Fields
    values: tuple[Fields, ...]
    flexible_since: int = 0


def read_entry(key: bytes | None, value: bytes | None) -> Entry | None:
    """What a record says; None for a kind that is not in KINDS. Raises UndecodableRecord."""
    if key is None or len(key) < 2:
        raise UndecodableRecord("a record without a key" if key is None else "key: no record type")
    kind = KINDS.get(INT16.unpack_from(key)[0])
    if kind is None:
        return None
    key_fields = kind.key(FieldReader(f"{kind.name}Key", key, 2, flexible=False))
    if value is None:
        return Entry(kind.name, key_fields, None, None)
    what = f"{kind.name}Value"
    version = value_version(what, value, len(kind.values) - 1)
    flexible = version >= kind.flexible_since
    fields = FieldReader(f"{what} v{version}", value, 2, flexible=flexible)
    return Entry(kind.name, key_fields, version, kind.values[version](fields))


def read_subscription(blob: bytes) -> dict[str, Any]:
    """What a member of the consumer protocol wants. Raises UndecodableRecord."""
    return _of_protocol("ConsumerProtocolSubscription", blob, _SUBSCRIPTIONS)


def read_assignment(blob: bytes) -> dict[str, Any]:
    """What a member of the consumer protocol was given. Raises UndecodableRecord."""
    return _of_protocol("ConsumerProtocolAssignment", blob, _ASSIGNMENTS)


def _of_protocol(what: str, blob: bytes, versions: tuple[Fields, ...]) -> dict[str, Any]:
    # A version above the last is read as the last: ConsumerProtocol.deserializeVersion.
    version = min(value_version(what, blob, 32_767), len(versions) - 1)
    return versions[version](FieldReader(f"{what} v{version}", blob, 2, flexible=False))


def _fields(*fields: tuple[str, Read], tags: tuple[tuple[str, Read], ...] = ()) -> Fields:
    """Fields in the order of the bytes; tagged ones have their place in `tags` as number."""

    def read(reader: FieldReader) -> dict[str, Any]:
        found = {name: of(reader) for name, of in fields}
        for number, tagged in reader.tags():
            if number < len(tags):
                name, of = tags[number]
                found[name] = of(tagged)
        return found

    return read


def _array(of: Read) -> Read:
    return lambda reader: [of(reader) for _ in range(reader.count())]


def _nullable_array(of: Read) -> Read:
    def read(reader: FieldReader) -> list[Any] | None:
        count = reader.nullable_count()
        return None if count is None else [of(reader) for _ in range(count)]

    return read


def _nullable(of: Fields) -> Read:
    # Null is -1, but 0 in a tagged field (upstream: MessageDataGenerator); else 1 comes first.
    return lambda reader: of(reader) if reader.int8() == 1 else None


def _uuid(reader: FieldReader) -> str:
    return urlsafe_b64encode(reader.uuid()).decode().rstrip("=")


_INT8, _INT16, _UINT16 = FieldReader.int8, FieldReader.int16, FieldReader.uint16
_INT32, _INT64 = FieldReader.int32, FieldReader.int64
_TEXT, _NULLABLE_TEXT = FieldReader.string, FieldReader.nullable_string
_BYTES, _NULLABLE_BYTES = FieldReader.data, FieldReader.nullable_data

# --- keys

_OF_PARTITION = _fields(("group", _TEXT), ("topic", _TEXT), ("partition", _INT32))
_OF_CLASSIC_GROUP = _fields(("group", _TEXT))
_OF_GROUP = _fields(("groupId", _TEXT))
_OF_MEMBER = _fields(("groupId", _TEXT), ("memberId", _TEXT))
_OF_REGEX = _fields(("groupId", _TEXT), ("regularExpression", _TEXT))

# --- classic groups and offsets


def _commits() -> tuple[Fields, ...]:
    offset, metadata, at = ("offset", _INT64), ("metadata", _TEXT), ("commitTimestamp", _INT64)
    epoch = ("leaderEpoch", _INT32)
    plain = _fields(offset, metadata, at)
    return (
        plain,
        _fields(offset, metadata, at, ("expireTimestamp", _INT64)),
        plain,
        _fields(offset, epoch, metadata, at),
        _fields(offset, epoch, metadata, at, tags=(("topicId", _uuid),)),
    )


def _generation(version: int) -> Fields:
    member: list[tuple[str, Read]] = [("memberId", _TEXT)]
    member += [("groupInstanceId", _NULLABLE_TEXT)] * (version >= 3)
    member += [("clientId", _TEXT), ("clientHost", _TEXT)]
    member += [("rebalanceTimeout", _INT32)] * (version >= 1)
    member += [("sessionTimeout", _INT32), ("subscription", _BYTES), ("assignment", _BYTES)]
    group: list[tuple[str, Read]] = [("protocolType", _TEXT), ("generation", _INT32)]
    group += [("protocol", _NULLABLE_TEXT), ("leader", _NULLABLE_TEXT)]
    group += [("currentStateTimestamp", _INT64)] * (version >= 2)
    return _fields(*group, ("members", _array(_fields(*member))))


_OWNED = _array(_fields(("topic", _TEXT), ("partitions", _array(_INT32))))
_WANTED: tuple[tuple[str, Read], ...] = (
    ("topics", _array(_TEXT)),
    ("userData", _NULLABLE_BYTES),
    ("ownedPartitions", _OWNED),
    ("generationId", _INT32),
    ("rackId", _NULLABLE_TEXT),
)
_SUBSCRIPTIONS = tuple(_fields(*_WANTED[:count]) for count in (2, 3, 4, 5))
_ASSIGNMENTS = (_fields(("assignedPartitions", _OWNED), ("userData", _NULLABLE_BYTES)),)

# --- consumer groups (KIP-848), share groups (KIP-932), streams groups (KIP-1071)

_WHO: tuple[tuple[str, Read], ...] = (
    ("rackId", _NULLABLE_TEXT),
    ("clientId", _TEXT),
    ("clientHost", _TEXT),
)
_EPOCHS = (("assignmentEpochs", _nullable_array(_INT32)),)
_TOPIC_PARTITIONS = _array(_fields(("topicId", _uuid), ("partitions", _array(_INT32))))
_SINCE_EPOCHS = _array(_fields(("topicId", _uuid), ("partitions", _array(_INT32)), tags=_EPOCHS))
_KEY_VALUE = _fields(("key", _TEXT), ("value", _TEXT))
_KEY_VALUES = _array(_KEY_VALUE)
_CLASSIC_MEMBER = _fields(
    ("sessionTimeoutMs", _INT32),
    ("supportedProtocols", _array(_fields(("name", _TEXT), ("metadata", _BYTES)))),
)
_CONSUMER_MEMBER = _fields(
    ("instanceId", _NULLABLE_TEXT),
    *_WHO,
    ("subscribedTopicNames", _array(_TEXT)),
    ("subscribedTopicRegex", _NULLABLE_TEXT),
    ("rebalanceTimeoutMs", _INT32),
    ("serverAssignor", _NULLABLE_TEXT),
    tags=(("classicMemberMetadata", _nullable(_CLASSIC_MEMBER)),),
)
_PARTITION_RACKS = _array(_fields(("partition", _INT32), ("racks", _array(_TEXT))))
_PARTITION_METADATA = _fields(
    (
        "topics",
        _array(
            _fields(
                ("topicId", _uuid),
                ("topicName", _TEXT),
                ("numPartitions", _INT32),
                ("partitionMetadata", _PARTITION_RACKS),
            )
        ),
    )
)
_TARGET = _fields(("assignmentEpoch", _INT32), tags=(("assignmentTimestamp", _INT64),))
_TARGET_OF_MEMBER = _fields(("topicPartitions", _TOPIC_PARTITIONS))
_CURRENT: tuple[tuple[str, Read], ...] = (
    ("memberEpoch", _INT32),
    ("previousMemberEpoch", _INT32),
    ("state", _INT8),
)
_SHARED_TOPIC: tuple[tuple[str, Read], ...] = (("topicId", _uuid), ("topicName", _TEXT))
_SHARED_TOPICS = _array(_fields(*_SHARED_TOPIC, ("partitions", _array(_INT32))))
_STREAMS_MEMBER = _fields(
    ("instanceId", _NULLABLE_TEXT),
    *_WHO,
    ("rebalanceTimeoutMs", _INT32),
    ("topologyEpoch", _INT32),
    ("processId", _TEXT),
    ("userEndpoint", _nullable(_fields(("host", _TEXT), ("port", _UINT16)))),
    ("clientTags", _KEY_VALUES),
)
_TASK: tuple[tuple[str, Read], ...] = (
    ("subtopologyId", _TEXT),
    ("partitions", _array(_INT32)),
)
_TASKS = _array(_fields(*_TASK))
_TASKS_SINCE = _array(_fields(*_TASK, tags=_EPOCHS))
_TASK_ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
_TOPIC_INFOS = _array(
    _fields(
        ("name", _TEXT),
        ("partitions", _INT32),
        ("replicationFactor", _INT16),
        ("topicConfigs", _KEY_VALUES),
    )
)
_COPARTITIONS = ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics")
_SUBTOPOLOGY = _fields(
    ("subtopologyId", _TEXT),
    ("sourceTopics", _array(_TEXT)),
    ("sourceTopicRegex", _array(_TEXT)),
    ("stateChangelogTopics", _TOPIC_INFOS),
    ("repartitionSinkTopics", _array(_TEXT)),
    ("repartitionSourceTopics", _TOPIC_INFOS),
    ("copartitionGroups", _array(_fields(*((name, _array(_INT16)) for name in _COPARTITIONS)))),
)


def _one(name: str, key: Fields, *fields: tuple[str, Read]) -> Kind:
    return Kind(name, key, (_fields(*fields),))


KINDS: Final[Mapping[int, Kind]] = {
    # Kafka 4.3 knows only v0 of it; what brokers before 0.9 wrote had the same versions as 1.
    0: Kind("LegacyOffsetCommit", _OF_PARTITION, _commits(), 4),
    1: Kind("OffsetCommit", _OF_PARTITION, _commits(), 4),
    2: Kind("GroupMetadata", _OF_CLASSIC_GROUP, tuple(map(_generation, range(5))), 4),
    3: Kind(
        "ConsumerGroupMetadata",
        _OF_GROUP,
        (_fields(("epoch", _INT32), tags=(("metadataHash", _INT64),)),),
    ),
    4: Kind("ConsumerGroupPartitionMetadata", _OF_GROUP, (_PARTITION_METADATA,)),
    5: Kind("ConsumerGroupMemberMetadata", _OF_MEMBER, (_CONSUMER_MEMBER,)),
    6: Kind("ConsumerGroupTargetAssignmentMetadata", _OF_GROUP, (_TARGET,)),
    7: Kind("ConsumerGroupTargetAssignmentMember", _OF_MEMBER, (_TARGET_OF_MEMBER,)),
    8: _one(
        "ConsumerGroupCurrentMemberAssignment",
        _OF_MEMBER,
        *_CURRENT,
        ("assignedPartitions", _SINCE_EPOCHS),
        ("partitionsPendingRevocation", _SINCE_EPOCHS),
    ),
    # Only of previews of share groups, before Kafka 4.1.
    9: Kind("ShareGroupPartitionMetadata", _OF_GROUP, (_PARTITION_METADATA,)),
    10: _one(
        "ShareGroupMemberMetadata", _OF_MEMBER, *_WHO, ("subscribedTopicNames", _array(_TEXT))
    ),
    11: _one("ShareGroupMetadata", _OF_GROUP, ("epoch", _INT32), ("metadataHash", _INT64)),
    12: Kind("ShareGroupTargetAssignmentMetadata", _OF_GROUP, (_TARGET,)),
    13: Kind("ShareGroupTargetAssignmentMember", _OF_MEMBER, (_TARGET_OF_MEMBER,)),
    14: _one(
        "ShareGroupCurrentMemberAssignment",
        _OF_MEMBER,
        *_CURRENT,
        ("assignedPartitions", _TOPIC_PARTITIONS),
    ),
    15: _one(
        "ShareGroupStatePartitionMetadata",
        _OF_GROUP,
        ("initializingTopics", _SHARED_TOPICS),
        ("initializedTopics", _SHARED_TOPICS),
        ("deletingTopics", _array(_fields(*_SHARED_TOPIC))),
    ),
    16: _one(
        "ConsumerGroupRegularExpression",
        _OF_REGEX,
        ("topics", _array(_TEXT)),
        ("version", _INT64),
        ("timestamp", _INT64),
    ),
    17: Kind(
        "StreamsGroupMetadata",
        _OF_GROUP,
        (
            _fields(
                ("epoch", _INT32),
                ("metadataHash", _INT64),
                tags=(
                    ("validatedTopologyEpoch", _INT32),
                    ("lastAssignmentConfigs", _nullable_array(_KEY_VALUE)),
                ),
            ),
        ),
    ),
    19: Kind("StreamsGroupMemberMetadata", _OF_MEMBER, (_STREAMS_MEMBER,)),
    20: Kind("StreamsGroupTargetAssignmentMetadata", _OF_GROUP, (_TARGET,)),
    21: _one(
        "StreamsGroupTargetAssignmentMember",
        _OF_MEMBER,
        *((role, _TASKS) for role in _TASK_ROLES),
    ),
    22: _one(
        "StreamsGroupCurrentMemberAssignment",
        _OF_MEMBER,
        *_CURRENT,
        *((role, _TASKS_SINCE) for role in _TASK_ROLES),
        *((f"{role}PendingRevocation", _TASKS_SINCE) for role in _TASK_ROLES),
    ),
    23: _one(
        "StreamsGroupTopology",
        _OF_GROUP,
        ("epoch", _INT32),
        ("subtopologies", _array(_SUBTOPOLOGY)),
    ),
}
