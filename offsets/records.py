"""The records of __consumer_offsets as plain data.

The coordinator uses these types and does not handle bytes. Only a commit's value stays encoded,
because the table stores it in this form.
"""

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple, TypeAlias

from ..assignors.server.model import TopicId


class GroupType(StrEnum):
    """The type of a group that kohort does not serve, as in ListGroups (upstream:
    Group.GroupType)."""

    SHARE = "share"  # KIP-932
    STREAMS = "streams"  # KIP-1071


# Committed offsets


class OffsetAndMetadata(NamedTuple):
    """A decoded OffsetCommitValue."""

    offset: int
    leader_epoch: int  # -1: unknown
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None  # only for commits with their own retention time
    topic_id: bytes | None = None  # 16 bytes; None before version 4 or if unknown


class OffsetCommitRecord(NamedTuple):
    """A commit. `value` is an encoded OffsetCommitValue of any version. `earlier` contains the
    values of pipelined commits that precede this one in the log."""

    group_id: str
    topic: str
    partition: int
    value: bytes
    earlier: tuple[bytes, ...] = ()


class OffsetTombstone(NamedTuple):
    """The committed offset was deleted or has expired."""

    group_id: str
    topic: str
    partition: int


# Classic groups

NO_TIMEOUT_MS: Final = -1
"""The rebalance timeout in v0 values, which lack the field. The session timeout is used instead."""


class MemberMetadata(NamedTuple):
    """A member of a stored generation. `subscription` is the metadata for the selected protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int  # NO_TIMEOUT_MS in values of version 0
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A stored generation. `protocol_type` is "" for a group that never had a protocol type."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int  # when the group entered its state; -1: unknown
    members: tuple[MemberMetadata, ...]


class GroupMetadataRecord(NamedTuple):
    """A generation of a classic group."""

    group_id: str
    value: GroupMetadata


class GroupTombstone(NamedTuple):
    """The group was deleted or has expired. Its offsets have separate tombstones."""

    group_id: str


# Consumer groups (KIP-848)


class ConsumerRecordType(IntEnum):
    """Record types of consumer groups (upstream: CoordinatorRecordType.CONSUMER_GROUP_…)."""

    GROUP_METADATA = 3
    PARTITION_METADATA = 4  # written before Kafka 4.1, now only deleted
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class ConsumerGroupMetadata(NamedTuple):
    epoch: int
    metadata_hash: int  # hash of the group's subscribed topics, 0 if none exists


class ClassicProtocol(NamedTuple):
    name: str
    metadata: bytes


class ClassicMemberMetadata(NamedTuple):
    """The fields of JoinGroup that ConsumerGroupHeartbeat lacks, for classic members."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]


class ConsumerMemberMetadata(NamedTuple):
    """The metadata that a member sends. The defaults describe a new member."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()  # sorted, without duplicates
    subscribed_topic_regex: str | None = ""  # None or "" if there is no regular expression
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = None


class TargetAssignmentMetadata(NamedTuple):
    assignment_epoch: int
    assignment_timestamp: int  # ms since the epoch, 0 if unknown


class TopicPartitions(NamedTuple):
    topic_id: TopicId
    partitions: tuple[int, ...]


class TargetAssignment(NamedTuple):
    topic_partitions: tuple[TopicPartitions, ...]


class OwnedPartitions(NamedTuple):
    """`assignment_epochs` contains the member epochs at which the partitions were assigned
    (KIP-1251), and is None in records written by Kafka before 4.3."""

    topic_id: TopicId
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None


class CurrentAssignment(NamedTuple):
    member_epoch: int
    previous_member_epoch: int
    state: int  # upstream: MemberState
    assigned_partitions: tuple[OwnedPartitions, ...]
    partitions_pending_revocation: tuple[OwnedPartitions, ...]


class PartitionRacks(NamedTuple):
    partition: int
    racks: tuple[str, ...]


class SubscribedTopic(NamedTuple):
    topic_id: TopicId
    topic_name: str
    num_partitions: int
    partition_metadata: tuple[PartitionRacks, ...]


class ConsumerPartitionMetadata(NamedTuple):
    topics: tuple[SubscribedTopic, ...]


class ResolvedRegularExpression(NamedTuple):
    """The topics that match a regular expression. `version` is the version of the topic metadata,
    and `timestamp` is the time of the match in ms."""

    topics: tuple[str, ...]  # sorted
    version: int
    timestamp: int


ConsumerGroupValue: TypeAlias = (
    ConsumerGroupMetadata
    | ConsumerPartitionMetadata
    | ConsumerMemberMetadata
    | TargetAssignmentMetadata
    | TargetAssignment
    | CurrentAssignment
    | ResolvedRegularExpression
)


class ConsumerGroupRecord(NamedTuple):
    """A record of a consumer group. A value of None is a tombstone. `name` is the member id or the
    regular expression, or "" for records of the group itself."""

    type: ConsumerRecordType
    group_id: str
    name: str
    value: ConsumerGroupValue | None


# Records that are not decoded further


class OtherGroupRecord(NamedTuple):
    """An encoded record of a share or streams group. A value of None is a tombstone."""

    group_type: GroupType
    group_id: str
    record_type: int
    key: bytes
    value: bytes | None


class UnknownRecord(NamedTuple):
    """A record of a type that Kafka 4.3 does not define."""

    record_type: int
    key: bytes
    value: bytes | None


# Transactions


class TransactionalOffsetCommit(NamedTuple):
    """An offset commit that takes effect when the producer's transaction is committed."""

    producer_id: int
    producer_epoch: int
    commit: OffsetCommitRecord


class TransactionEnd(NamedTuple):
    """The marker that ends a producer's transaction."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


OffsetsRecord: TypeAlias = (
    OffsetCommitRecord
    | OffsetTombstone
    | GroupMetadataRecord
    | GroupTombstone
    | ConsumerGroupRecord
    | OtherGroupRecord
    | UnknownRecord
    | TransactionalOffsetCommit
    | TransactionEnd
)

# Records of __transaction_state

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1


class TransactionPartitions(NamedTuple):
    topic: str
    partition_ids: Sequence[int]


class TransactionMetadata(NamedTuple):
    """The durable state of a transactional id. `state` is the value of a TransactionState. Times
    are in ms; `start_ms` is -1 before the first transaction. If the epochs of `producer_id` are
    exhausted, `next_producer_id` replaces it when the transaction is complete. `client_version` is
    the client's transaction.version; 2 or more means that the client supports KIP-890."""

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: int
    partitions: Sequence[TransactionPartitions] | None
    last_update_ms: int
    start_ms: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    next_producer_epoch: int = NO_EPOCH


class TransactionRecord(NamedTuple):
    """A record of a transactional id. `metadata` is None for a tombstone."""

    transactional_id: str
    metadata: TransactionMetadata | None


# Errors of the codec


class UndecodableRecord(ValueError):
    """The bytes of a key or value do not follow the schema of their record type. Like Kafka
    (CoordinatorLoaderImpl), kohort then fails to load the whole partition, because skipping the
    record could restore an overwritten offset."""


class UnencodableRecord(ValueError):
    """A string is longer than 32,767 bytes or not valid Unicode, or a number does not fit its
    field."""
