"""The keys and values of all records in __consumer_offsets, by record type.

Declared only here, in the notation and with the names of Kafka's message JSON (upstream:
group-coordinator/src/main/resources/common/message), as of Kafka 4.3. The decoders and encoders of
the broker and of the tools that read a log are generated from these schemas. Only for keys and for
common commits, the broker has its own code (record_codec.py).
"""

from collections.abc import Mapping
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from ..protocol.decoder import Decoder, compile_decoder
from ..protocol.encoder import BodyEncoder, compile_body_encoder
from ..protocol.primitives import INT16
from ..protocol.schema import FieldSpec, MessageSpec
from .records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMetadata,
    ConsumerMemberMetadata,
    ConsumerPartitionMetadata,
    CurrentAssignment,
    GroupMetadata,
    MemberMetadata,
    OffsetAndMetadata,
    OwnedPartitions,
    PartitionRacks,
    ResolvedRegularExpression,
    SubscribedTopic,
    TargetAssignment,
    TargetAssignmentMetadata,
    TopicPartitions,
    UndecodableRecord,
    UnencodableRecord,
)

# Most fields exist in all versions.
F = partial(FieldSpec, versions="0+")
_tagged = partial(F, tagged="0+", tag=0)


class RecordSpec(NamedTuple):
    name: str
    key: MessageSpec
    value: MessageSpec


def _record(
    name: str, key: tuple[FieldSpec, ...], *value: FieldSpec, message_class: type | None = None
) -> RecordSpec:
    """Return a record type whose value has one version. Only types that the broker uses have a
    `message_class`."""
    value_spec = MessageSpec(f"{name}Value", "0", value, "0+", message_class)
    return RecordSpec(name, MessageSpec(f"{name}Key", "0", key), value_spec)


def _versioned(
    name: str, key: tuple[FieldSpec, ...], value: tuple[FieldSpec, ...], message_class: type
) -> RecordSpec:
    """Return a record type of offsets or classic groups, whose value has five versions."""
    value_spec = MessageSpec(f"{name}Value", "0-4", value, "4+", message_class)
    return RecordSpec(name, MessageSpec(f"{name}Key", "0", key), value_spec)


# --- keys

_OF_PARTITION = F("group", "string"), F("topic", "string"), F("partition", "int32")
_OF_CLASSIC_GROUP = (F("group", "string"),)
_OF_GROUP = (F("groupId", "string"),)
_OF_MEMBER = F("groupId", "string"), F("memberId", "string")
_OF_REGEX = F("groupId", "string"), F("regularExpression", "string")

# --- offsets and classic groups

_OFFSET_COMMIT = (
    F("offset", "int64"),
    F("leaderEpoch", "int32", versions="3+", default=-1),
    F("metadata", "string"),
    F("commitTimestamp", "int64", attribute="commit_timestamp_ms"),
    F("expireTimestamp", "int64", versions="1", default=-1, attribute="expire_timestamp_ms"),
    F("topicId", "uuid", versions="4+", tagged="4+", tag=0, default=None),
)
_CLASSIC_MEMBER = (
    F("memberId", "string"),
    F("groupInstanceId", "string", versions="3+", nullable="3+", default=None),
    F("clientId", "string"),
    F("clientHost", "string"),
    F("rebalanceTimeout", "int32", versions="1+", default=-1, attribute="rebalance_timeout_ms"),
    F("sessionTimeout", "int32", attribute="session_timeout_ms"),
    F("subscription", "bytes"),
    F("assignment", "bytes"),
)
_CLASSIC_GROUP = (
    F("protocolType", "string"),
    F("generation", "int32"),
    F("protocol", "string", nullable="0+", attribute="protocol_name"),
    F("leader", "string", nullable="0+"),
    F("currentStateTimestamp", "int64", versions="2+", default=-1, attribute="state_timestamp_ms"),
    F("members", "[]Member", fields=_CLASSIC_MEMBER, message_class=MemberMetadata),
)

# --- consumer groups (KIP-848), share groups (KIP-932) and streams groups (KIP-1071)

_GROUP_EPOCH = F("epoch", "int32")
_CLIENT = (F("rackId", "string", nullable="0+"), F("clientId", "string"), F("clientHost", "string"))
_INSTANCE_ID = F("instanceId", "string", nullable="0+")
_TOPIC_NAMES = F("subscribedTopicNames", "[]string")
_TOPIC_ID = F("topicId", "uuid")
_TOPIC = (_TOPIC_ID, F("topicName", "string"))
_PARTITIONS = F("partitions", "[]int32")
_ASSIGNMENT_EPOCHS = _tagged("assignmentEpochs", "[]int32", nullable="0+", default=None)
_TARGET_ASSIGNMENT = (
    F("assignmentEpoch", "int32"),
    _tagged("assignmentTimestamp", "int64", default=0),
)
_TOPIC_PARTITIONS = F(
    "topicPartitions",
    "[]TopicPartition",
    fields=(_TOPIC_ID, _PARTITIONS),
    message_class=TopicPartitions,
)
_MEMBER_EPOCHS = (F("memberEpoch", "int32"), F("previousMemberEpoch", "int32"), F("state", "int8"))
_RACKS = F("partition", "int32"), F("racks", "[]string")
_TOPIC_METADATA = (
    *_TOPIC,
    F("numPartitions", "int32"),
    F("partitionMetadata", "[]PartitionMetadata", fields=_RACKS, message_class=PartitionRacks),
)
_PARTITION_METADATA = F(
    "topics", "[]TopicMetadata", fields=_TOPIC_METADATA, message_class=SubscribedTopic
)
_CLASSIC_PROTOCOL = F("name", "string"), F("metadata", "bytes")
_CLASSIC_MEMBER_METADATA = (
    F("sessionTimeoutMs", "int32"),
    F(
        "supportedProtocols",
        "[]ClassicProtocol",
        fields=_CLASSIC_PROTOCOL,
        message_class=ClassicProtocol,
    ),
)
_KEY_AND_VALUE = F("key", "string"), F("value", "string")
_ENDPOINT = F("host", "string"), F("port", "uint16")
_TOPIC_INFO = (
    F("name", "string"),
    F("partitions", "int32"),
    F("replicationFactor", "int16"),
    F("topicConfigs", "[]TopicConfig", fields=_KEY_AND_VALUE),
)
_COPARTITION_GROUP = (
    F("sourceTopics", "[]int16"),
    F("sourceTopicRegex", "[]int16"),
    F("repartitionSourceTopics", "[]int16"),
)
_SUBTOPOLOGY = (
    F("subtopologyId", "string"),
    F("sourceTopics", "[]string"),
    F("sourceTopicRegex", "[]string"),
    F("stateChangelogTopics", "[]TopicInfo", fields=_TOPIC_INFO),
    F("repartitionSinkTopics", "[]string"),
    F("repartitionSourceTopics", "[]TopicInfo", fields=_TOPIC_INFO),
    F("copartitionGroups", "[]CopartitionGroup", fields=_COPARTITION_GROUP),
)


def _topics(name: str, *fields: FieldSpec) -> FieldSpec:
    return F(name, "[]TopicPartitions", fields=fields)


def _owned(name: str) -> FieldSpec:
    fields = (_TOPIC_ID, _PARTITIONS, _ASSIGNMENT_EPOCHS)
    return F(name, "[]TopicPartitions", fields=fields, message_class=OwnedPartitions)


def _tasks(suffix: str, *fields: FieldSpec) -> tuple[FieldSpec, ...]:
    """Return the fields of active, standby and warm-up tasks."""
    task = (F("subtopologyId", "string"), _PARTITIONS, *fields)
    roles = "activeTasks", "standbyTasks", "warmupTasks"
    return tuple(F(f"{role}{suffix}", "[]TaskIds", fields=task) for role in roles)


# Kafka appends Key and Value to these names: OffsetCommitKey and OffsetCommitValue,
# GroupMetadataValue, ConsumerGroupMetadataValue.
RECORD_SPECS: Final[Mapping[int, RecordSpec]] = {
    # Kafka 4.3 declares only v0 of LegacyOffsetCommitValue. Brokers before 0.9 wrote the versions
    # of OffsetCommitValue.
    0: _versioned("LegacyOffsetCommit", _OF_PARTITION, _OFFSET_COMMIT, OffsetAndMetadata),
    1: _versioned("OffsetCommit", _OF_PARTITION, _OFFSET_COMMIT, OffsetAndMetadata),
    2: _versioned("GroupMetadata", _OF_CLASSIC_GROUP, _CLASSIC_GROUP, GroupMetadata),
    3: _record(
        "ConsumerGroupMetadata",
        _OF_GROUP,
        _GROUP_EPOCH,
        _tagged("metadataHash", "int64", default=0),
        message_class=ConsumerGroupMetadata,
    ),
    4: _record(
        "ConsumerGroupPartitionMetadata",
        _OF_GROUP,
        _PARTITION_METADATA,
        message_class=ConsumerPartitionMetadata,
    ),
    5: _record(
        "ConsumerGroupMemberMetadata",
        _OF_MEMBER,
        _INSTANCE_ID,
        *_CLIENT,
        _TOPIC_NAMES,
        F("subscribedTopicRegex", "string", nullable="0+"),
        F("rebalanceTimeoutMs", "int32", default=-1),
        F("serverAssignor", "string", nullable="0+"),
        _tagged(
            "classicMemberMetadata",
            "ClassicMemberMetadata",
            nullable="0+",
            default=ClassicMemberMetadata(0, ()),
            fields=_CLASSIC_MEMBER_METADATA,
            message_class=ClassicMemberMetadata,
        ),
        message_class=ConsumerMemberMetadata,
    ),
    6: _record(
        "ConsumerGroupTargetAssignmentMetadata",
        _OF_GROUP,
        *_TARGET_ASSIGNMENT,
        message_class=TargetAssignmentMetadata,
    ),
    7: _record(
        "ConsumerGroupTargetAssignmentMember",
        _OF_MEMBER,
        _TOPIC_PARTITIONS,
        message_class=TargetAssignment,
    ),
    8: _record(
        "ConsumerGroupCurrentMemberAssignment",
        _OF_MEMBER,
        *_MEMBER_EPOCHS,
        _owned("assignedPartitions"),
        _owned("partitionsPendingRevocation"),
        message_class=CurrentAssignment,
    ),
    # Written by early-access share groups before Kafka 4.1.
    9: _record("ShareGroupPartitionMetadata", _OF_GROUP, _PARTITION_METADATA),
    10: _record("ShareGroupMemberMetadata", _OF_MEMBER, *_CLIENT, _TOPIC_NAMES),
    11: _record("ShareGroupMetadata", _OF_GROUP, _GROUP_EPOCH, F("metadataHash", "int64")),
    12: _record("ShareGroupTargetAssignmentMetadata", _OF_GROUP, *_TARGET_ASSIGNMENT),
    13: _record("ShareGroupTargetAssignmentMember", _OF_MEMBER, _TOPIC_PARTITIONS),
    14: _record(
        "ShareGroupCurrentMemberAssignment",
        _OF_MEMBER,
        *_MEMBER_EPOCHS,
        _topics("assignedPartitions", _TOPIC_ID, _PARTITIONS),
    ),
    15: _record(
        "ShareGroupStatePartitionMetadata",
        _OF_GROUP,
        _topics("initializingTopics", *_TOPIC, _PARTITIONS),
        _topics("initializedTopics", *_TOPIC, _PARTITIONS),
        _topics("deletingTopics", *_TOPIC),
    ),
    16: _record(
        "ConsumerGroupRegularExpression",
        _OF_REGEX,
        F("topics", "[]string"),
        F("version", "int64"),
        F("timestamp", "int64"),
        message_class=ResolvedRegularExpression,
    ),
    17: _record(
        "StreamsGroupMetadata",
        _OF_GROUP,
        _GROUP_EPOCH,
        F("metadataHash", "int64"),
        _tagged("validatedTopologyEpoch", "int32", default=-1),
        _tagged(
            "lastAssignmentConfigs",
            "[]LastAssignmentConfig",
            tag=1,
            nullable="0+",
            default=None,
            fields=_KEY_AND_VALUE,
        ),
    ),
    19: _record(
        "StreamsGroupMemberMetadata",
        _OF_MEMBER,
        _INSTANCE_ID,
        *_CLIENT,
        F("rebalanceTimeoutMs", "int32", default=-1),
        F("topologyEpoch", "int32"),
        F("processId", "string"),
        F("userEndpoint", "Endpoint", nullable="0+", default=None, fields=_ENDPOINT),
        F("clientTags", "[]KeyValue", fields=_KEY_AND_VALUE),
    ),
    20: _record("StreamsGroupTargetAssignmentMetadata", _OF_GROUP, *_TARGET_ASSIGNMENT),
    21: _record("StreamsGroupTargetAssignmentMember", _OF_MEMBER, *_tasks("")),
    22: _record(
        "StreamsGroupCurrentMemberAssignment",
        _OF_MEMBER,
        *_MEMBER_EPOCHS,
        *_tasks("", _ASSIGNMENT_EPOCHS),
        *_tasks("PendingRevocation", _ASSIGNMENT_EPOCHS),
    ),
    23: _record(
        "StreamsGroupTopology",
        _OF_GROUP,
        _GROUP_EPOCH,
        F("subtopologies", "[]Subtopology", fields=_SUBTOPOLOGY),
    ),
}


class DictRecord(NamedTuple):
    """A record as dicts with Kafka's field names. UUIDs are in Kafka's text form. Absent tagged
    fields are omitted."""

    kind: str
    key: Mapping[str, Any]
    version: int | None  # None for a tombstone
    value: Mapping[str, Any] | None


def decode_as_dicts(
    key: bytes | None,
    value: bytes | None,
    specs: Mapping[int, RecordSpec] = MappingProxyType(RECORD_SPECS),
) -> DictRecord | None:
    """Decode a record. Return None for an undeclared type. Raises UndecodableRecord."""
    if key is None:
        raise UndecodableRecord("record without a key")
    if len(key) < INT16.size:
        raise UndecodableRecord("key without a record type")
    record_type = INT16.unpack_from(key)[0]
    spec = specs.get(record_type)
    if spec is None:
        return None
    key_fields = _decoder(spec.key, 0, True)(key, INT16.size, len(key))
    if value is None:
        return DictRecord(spec.name, key_fields, None, None)
    value_fields = decode_value(spec.value, value, as_dict=True)
    return DictRecord(spec.name, key_fields, _version(spec.value, value), value_fields)


def decode_value(spec: MessageSpec, value: bytes, *, as_dict: bool = False) -> Any:
    """Decode the version at the beginning of a value, and its fields. Raises UndecodableRecord."""
    return _decoder(spec, _version(spec, value), as_dict)(value, INT16.size, len(value))


def encode_value(spec: MessageSpec, version: int, message: Any) -> bytes:
    """Encode a version and the fields of a message. Raises UnencodableRecord."""
    return INT16.pack(version) + _encoder(spec, version)(message)


def _version(spec: MessageSpec, value: bytes) -> int:
    if len(value) < INT16.size:
        raise UndecodableRecord(
            f"{spec.name}: truncated version: {len(value)} of {INT16.size} bytes"
        )
    version: int = INT16.unpack_from(value)[0]
    if not 0 <= version <= spec.max_version:
        raise UndecodableRecord(
            f"{spec.name}: version {version} is not one of 0 to {spec.max_version}"
        )
    return version


@cache
def _decoder(spec: MessageSpec, version: int, as_dict: bool) -> Decoder:
    return compile_decoder(spec.schema(version), UndecodableRecord, strict=True, as_dict=as_dict)


@cache
def _encoder(spec: MessageSpec, version: int) -> BodyEncoder:
    return compile_body_encoder(spec.schema(version), UnencodableRecord)
