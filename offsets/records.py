"""The records of __consumer_offsets as plain data.

The coordinator uses these types and never handles bytes, with one exception: a commit's value stays
encoded, because the table stores exactly those bytes.
"""

from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias


class GroupType(StrEnum):
    """As returned by ListGroups (upstream: Group.GroupType)."""

    CLASSIC = "classic"
    CONSUMER = "consumer"  # KIP-848
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


class OffsetCommitRecord(NamedTuple):
    """A commit. `value`: an encoded OffsetCommitValue of any version. `earlier`: the values of
    pipelined commits of the same partition, which are written to the log before this one."""

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
"""Rebalance timeout of v0 values, which lack it; the session timeout is used."""


class MemberMetadata(NamedTuple):
    """A member of a stored generation. `subscription`: metadata for the selected protocol."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int  # NO_TIMEOUT_MS in values of version 0
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadata(NamedTuple):
    """A stored generation. `protocol_type` is "" for a group that never had one."""

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
    """The group was deleted or has expired; its offsets have separate tombstones."""

    group_id: str


# Records that are not decoded further


class OtherGroupRecord(NamedTuple):
    """A record of a consumer, share or streams group. Key and value are kept encoded; a value of
    None is a tombstone."""

    group_type: GroupType
    group_id: str
    record_type: int
    key: bytes
    value: bytes | None


class UnknownRecord(NamedTuple):
    """A record of a type that Kafka 4.3 does not have."""

    record_type: int
    key: bytes
    value: bytes | None


OffsetsRecord: TypeAlias = (
    OffsetCommitRecord
    | OffsetTombstone
    | GroupMetadataRecord
    | GroupTombstone
    | OtherGroupRecord
    | UnknownRecord
)

# Transactions, as they appear when a log is loaded (transactions.py)


class PendingTransactionalOffset(NamedTuple):
    """An open transaction has committed an offset of this partition."""

    group_id: str
    topic: str
    partition: int


class TransactionalOffsetEnd(NamedTuple):
    """The transactional offsets of this partition are committed or aborted."""

    group_id: str
    topic: str
    partition: int


ReplayedRecord: TypeAlias = OffsetsRecord | PendingTransactionalOffset | TransactionalOffsetEnd


# Errors of the codec


class UndecodableRecord(ValueError):
    """The bytes of a key or value do not follow the schema of their record type. Like Kafka
    (CoordinatorLoaderImpl), kohort then fails the load of the whole partition: skipping the record
    could bring back an offset that was overwritten."""


class UnencodableRecord(ValueError):
    """A field does not fit its type: a string above 32,767 bytes, a number out of range."""
