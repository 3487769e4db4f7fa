"""Commands to the coordinator and their results, independent of request versions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from ..assignors.server.model import TopicId
from ..offsets.causes import Cause, cause_of_leaving
from ..offsets.records import TopicPartitions
from ..protocol.errors import ErrorCode

# The characters that Java's String.trim removes.
JAVA_WHITESPACE: Final = "".join(map(chr, range(0x21)))

TopicFilter: TypeAlias = Callable[[str], bool]
"""A function that returns whether the client that sent the request may describe a topic."""

# --- commands


class JoinGroup(NamedTuple):
    """Join the next generation. `member_id` is "" for a client without a member id."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str | None
    client_host: str  # as Java prints an address: "/10.0.0.5"
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), in order of preference
    requires_known_member_id: bool  # v4 and above: dynamic members join in two steps (KIP-394)
    # v9 and above: a static leader may skip the assignment (KIP-814).
    supports_skip_assignment: bool
    reason: str | None  # KIP-800
    client_software: str | None = None  # "name/version" from ApiVersions (KIP-511)
    describes_topic: TopicFilter | None = None  # None: every topic


class SyncGroup(NamedTuple):
    """Request the member's assignment. The leader sends the assignments of all members."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]  # (member id, assignment)


class Heartbeat(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class LeavingMember(NamedTuple):
    """A member by its id, or a static member by its instance id alone (`member_id` is "")."""

    member_id: str
    group_instance_id: str | None
    reason: str | None
    validated_id: str = ""  # in the last step: from the result of an earlier step

    @property
    def cause(self) -> Cause:
        """Why the member leaves. Only administrators send an instance id alone."""
        return cause_of_leaving(self.reason) if self.member_id else Cause.REMOVED_BY_ADMIN


class LeaveGroup(NamedTuple):
    """A LeaveGroup request, or one step of a large request. Each step except the last contains some
    of the request's members. A classic group removes members in each step; a consumer group removes
    all of them in the last step, with one epoch. The last step contains the members that were
    validated but not removed."""

    group_id: str
    members: tuple[LeavingMember, ...]
    is_part: bool = False
    is_confirmed: bool = False  # the last step


class CommitEntry(NamedTuple):
    """The fields of a committed partition, except the offset, which changes between commits."""

    topic: str
    partition: int
    leader_epoch: int  # -1: none
    metadata: str | None
    topic_id: bytes | None = None  # 16 bytes, or None if unknown


class OffsetCommit(NamedTuple):
    """Commit offsets. `generation_id` is -1 for clients that are not members of the group."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    entries: Sequence[CommitEntry]
    # For each entry, one offset, or the offsets of several pipelined requests in order.
    offsets: Sequence[Sequence[int]]
    retention_time_ms: int | None  # v2 to v4; None or -1: the broker's offsets.retention.minutes
    supports_member_epochs: bool  # v9 and above: `generation_id` may be a member epoch (KIP-848)


class TxnOffsetCommit(NamedTuple):
    """A commit in a producer's transaction (TxnOffsetCommit)."""

    commit: OffsetCommit
    producer_id: int
    producer_epoch: int

    @property
    def group_id(self) -> str:
        return self.commit.group_id


class OffsetFetch(NamedTuple):
    """Fetch committed offsets, or all offsets of the group if `topics` is None."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    require_stable: bool
    # Validated for consumer groups only.
    member_id: str | None
    member_epoch: int
    # v10: the ids of `topics`, 16 bytes each, to omit offsets of earlier topics with the same name.
    topic_ids: tuple[bytes, ...] | None = None


class ConsumerGroupHeartbeat(NamedTuple):
    """A heartbeat of the consumer protocol (KIP-848). Fields that are None have not changed."""

    group_id: str
    member_id: str
    member_epoch: int  # 0: joins, -1: leaves, -2: a static member that leaves temporarily
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int  # -1: unchanged
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    owned: tuple[TopicPartitions, ...] | None  # the partitions that the member reports as owned
    client_id: str | None
    client_host: str
    client_software: str | None
    requires_member_id: bool  # v1 and above: clients choose their member ids (KIP-1082)
    describes_topic: TopicFilter | None = None  # None: every topic

    @property
    def group_instance_id(self) -> str | None:
        return self.instance_id

    @property
    def keeps_alive(self) -> bool:
        """Whether the request reports no change, like most heartbeats in a stable group."""
        return self.member_epoch > 0 and self[4:10] == _UNCHANGED


_UNCHANGED: Final = (None, -1, None, None, None, None)  # the fields from rack_id to owned


class DescribeConsumerGroup(NamedTuple):
    group_id: str


class DescribeGroup(NamedTuple):
    group_id: str


class DeleteGroup(NamedTuple):
    group_id: str


class OffsetDelete(NamedTuple):
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class ListGroups(NamedTuple):
    """List groups of all partitions. Filters are in lower case. An empty filter matches all groups,
    and an unknown value matches no group."""

    states: frozenset[str]
    types: frozenset[str]

    @classmethod
    def filtered(cls, states: Iterable[str], types: Iterable[str]) -> "ListGroups":
        """Convert filters to lower case. Upstream trims states, but not types."""
        return cls(
            frozenset(state.lower().strip(JAVA_WHITESPACE) for state in states),
            frozenset(name.lower() for name in types),
        )


GroupCommand: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | TxnOffsetCommit
    | OffsetFetch
    | ConsumerGroupHeartbeat
    | DescribeConsumerGroup
    | DescribeGroup
    | DeleteGroup
    | OffsetDelete
)
"""A command to one group, and therefore to the coordinator of one partition."""

Command: TypeAlias = GroupCommand | ListGroups

# --- results. Many can be encoded as responses, because their field names match.


class JoinMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes  # for the selected protocol


class JoinResult(NamedTuple):
    """The result of a join. Most errors set only `error_code` and `member_id`."""

    error_code: ErrorCode
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    member_id: str
    members: tuple[JoinMember, ...]  # all members for the leader, none for followers
    skip_assignment: bool


class SyncResult(NamedTuple):
    error_code: ErrorCode
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class HeartbeatResult(NamedTuple):
    error_code: ErrorCode


class LeaveMemberResult(NamedTuple):
    """The result for one member, with the ids from the request. `validated_id` is the id of a
    member that the last step of a large request has to remove."""

    member_id: str
    group_instance_id: str | None
    error_code: ErrorCode
    validated_id: str = ""


class LeaveResult(NamedTuple):
    error_code: ErrorCode
    members: tuple[LeaveMemberResult, ...]  # in request order, empty with an error


class CommitResult(NamedTuple):
    errors: tuple[ErrorCode, ...]  # one per entry of the command, in order


class FetchedOffset(NamedTuple):
    partition_index: int
    committed_offset: int  # -1: none
    committed_leader_epoch: int  # -1: none
    metadata: str
    error_code: ErrorCode


class FetchResult(NamedTuple):
    error_code: ErrorCode
    topics: tuple[tuple[str, tuple[FetchedOffset, ...]], ...]  # empty with an error


class ConsumerHeartbeatResult(NamedTuple):
    """The result of a heartbeat. `assignment` is None if it has not changed."""

    error_code: ErrorCode
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: tuple[TopicPartitions, ...] | None


class NamedPartitions(NamedTuple):
    topic_id: TopicId
    topic_name: str | None
    partitions: tuple[int, ...]


class DescribedConsumer(NamedTuple):
    """A member of a consumer group. `assignment` includes partitions that are being revoked."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    assignment: tuple[NamedPartitions, ...]
    target_assignment: tuple[NamedPartitions, ...]
    uses_classic_protocol: bool


class DescribeConsumerResult(NamedTuple):
    error_code: ErrorCode
    error_message: str | None
    group_state: str
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: Iterable[DescribedConsumer]
    """Created lazily, because a thousand members with all topics take a second."""


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes  # for the protocol of a Stable group, otherwise empty
    member_assignment: bytes


class DescribeResult(NamedTuple):
    """`state` is Dead for a group that does not exist, and empty if the lookup failed."""

    error_code: ErrorCode
    state: str
    protocol_type: str  # "" for a group that has only offsets
    protocol_name: str  # of a Stable group, otherwise ""
    members: tuple[DescribedMember, ...]
    error_message: str | None = None


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str


class ListResult(NamedTuple):
    error_code: ErrorCode
    groups: tuple[ListedGroup, ...]  # empty with an error


class DeleteGroupResult(NamedTuple):
    error_code: ErrorCode


class DeleteOffsetsResult(NamedTuple):
    error_code: ErrorCode
    # One error per requested topic, in request order. Empty if the command failed.
    errors: tuple[ErrorCode, ...]


Result: TypeAlias = (
    JoinResult
    | SyncResult
    | HeartbeatResult
    | LeaveResult
    | CommitResult
    | FetchResult
    | ConsumerHeartbeatResult
    | DescribeConsumerResult
    | DescribeResult
    | ListResult
    | DeleteGroupResult
    | DeleteOffsetsResult
)

# --- results with an error


def join_error(error: ErrorCode, member_id: str = "") -> JoinResult:
    return JoinResult(error, -1, None, None, "", member_id, (), False)


def sync_error(error: ErrorCode) -> SyncResult:
    return SyncResult(error, None, None, b"")


def describe_error(error: ErrorCode, message: str | None = None) -> DescribeResult:
    state = "Dead" if error is ErrorCode.group_id_not_found else ""
    return DescribeResult(error, state, "", "", (), message)


def consumer_heartbeat_error(
    error: ErrorCode, message: str | None = None
) -> ConsumerHeartbeatResult:
    return ConsumerHeartbeatResult(error, message, None, 0, 0, None)


def describe_consumer_error(error: ErrorCode, message: str | None = None) -> DescribeConsumerResult:
    return DescribeConsumerResult(error, message, "", 0, 0, "", ())


# Upstream validates the group id of these commands before looking up the coordinator.
_VALIDATED_FIRST = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete)


def error_result(command: Command, error: ErrorCode) -> Result:
    """Return the result of a command that failed because this broker is not the coordinator, the
    partition is loading, or the records could not be stored. Like upstream's responses to these
    errors, the result does not contain the member id of a join."""
    if isinstance(command, _VALIDATED_FIRST) and not command.group_id:
        error = ErrorCode.invalid_group_id
        if isinstance(command, JoinGroup):
            return join_error(error, command.member_id)
    if isinstance(command, TxnOffsetCommit):
        command = command.commit
    if isinstance(command, OffsetCommit):
        return CommitResult((error,) * len(command.entries))
    if isinstance(command, Heartbeat) and error is ErrorCode.coordinator_load_in_progress:
        # As in Kafka, heartbeats succeed while the partition is loading, so that sessions survive.
        return HeartbeatResult(ErrorCode.none)
    return _ERROR_RESULTS[type(command)](error)


_ERROR_RESULTS: Final[Mapping[type, Callable[[ErrorCode], Result]]] = {
    JoinGroup: join_error,
    SyncGroup: sync_error,
    Heartbeat: HeartbeatResult,
    LeaveGroup: lambda error: LeaveResult(error, ()),
    OffsetFetch: lambda error: FetchResult(error, ()),
    ConsumerGroupHeartbeat: consumer_heartbeat_error,
    DescribeConsumerGroup: describe_consumer_error,
    DescribeGroup: describe_error,
    ListGroups: lambda error: ListResult(error, ()),
    DeleteGroup: DeleteGroupResult,
    OffsetDelete: lambda error: DeleteOffsetsResult(error, ()),
}


# The error that clients get if an append or a sync fails (upstream:
# appendGroupMetadataErrorToResponseError, handleOperationException, and TransactionStateManager for
# transactions).
FAILED_WRITE_ERROR: Final = ErrorCode.not_coordinator
LARGE_RECORD_ERROR: Final = ErrorCode.unknown_server_error
