"""What the coordinator answers. No result knows the version of its response."""

from typing import NamedTuple, TypeAlias

from ..protocol.errors import ErrorCode
from .commands import (
    Command,
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    SyncGroup,
)
from .states import DEAD


class JoinedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    metadata: bytes  # for the elected protocol


class Joined(NamedTuple):
    """A new generation, or an error: then all but the member id is empty."""

    error: ErrorCode
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    member_id: str
    members: tuple[JoinedMember, ...]  # everybody for the leader, nobody for the others
    skip_assignment: bool


class Synced(NamedTuple):
    error: ErrorCode
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes


class HeartbeatDone(NamedTuple):
    error: ErrorCode


class LeftMember(NamedTuple):
    """Ids as the request gave them."""

    member_id: str
    group_instance_id: str | None
    error: ErrorCode


class Left(NamedTuple):
    error: ErrorCode
    members: tuple[LeftMember, ...]  # in the order of the request; none when `error` is set


class CommitDone(NamedTuple):
    errors: tuple[ErrorCode, ...]  # one for each entry of the command, in its order


class FetchedPartition(NamedTuple):
    partition: int
    offset: int  # -1 none
    leader_epoch: int  # -1 none
    metadata: str
    error: ErrorCode


class Fetched(NamedTuple):
    error: ErrorCode
    topics: tuple[tuple[str, tuple[FetchedPartition, ...]], ...]  # none when `error` is set


class DescribedMember(NamedTuple):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes  # for the protocol of a stable group, else empty
    assignment: bytes


class Described(NamedTuple):
    """`state` is Dead for a group that does not exist, and empty when nobody could look."""

    error: ErrorCode
    state: str
    protocol_type: str  # "": none, it has nothing but offsets
    protocol_name: str  # of a stable group, else ""
    members: tuple[DescribedMember, ...]


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    type: str


class Listed(NamedTuple):
    error: ErrorCode
    groups: tuple[ListedGroup, ...]  # none when `error` is set


class GroupDeleted(NamedTuple):
    error: ErrorCode


class OffsetsDeleted(NamedTuple):
    error: ErrorCode
    # One for each topic of the command, in its order; it goes for all partitions of the topic that
    # were asked for. None when `error` is set.
    errors: tuple[ErrorCode, ...]


Result: TypeAlias = (
    Joined
    | Synced
    | HeartbeatDone
    | Left
    | CommitDone
    | Fetched
    | Described
    | Listed
    | GroupDeleted
    | OffsetsDeleted
)


def join_refused(error: ErrorCode, member_id: str = "") -> Joined:
    return Joined(error, -1, None, None, "", member_id, (), False)


def sync_refused(error: ErrorCode) -> Synced:
    return Synced(error, None, None, b"")


def describe_refused(error: ErrorCode) -> Described:
    return Described(error, DEAD if error is ErrorCode.group_id_not_found else "", "", "", ())


# Upstream looks at the name of the group before it looks who coordinates it.
NAMED_ONLY = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete)


def refusal(command: Command, error: ErrorCode) -> Result:
    """The result that answers `command` with `error` and nothing else.

    For whoever cannot ask the coordinator at all (not its broker, log still being read) or could
    not keep its records. The member id of a join is not echoed: upstream answers such errors with
    an empty response.
    """
    if isinstance(command, NAMED_ONLY) and not command.group_id:
        error = ErrorCode.invalid_group_id
        if isinstance(command, JoinGroup):
            return join_refused(error, command.member_id)
    return _refused(command, error)


def _refused(command: Command, error: ErrorCode) -> Result:
    match command:
        case JoinGroup():
            return join_refused(error)
        case SyncGroup():
            return sync_refused(error)
        case Heartbeat():
            # A session must outlive the reading of the log: its member has done nothing wrong.
            if error is ErrorCode.coordinator_load_in_progress:
                return HeartbeatDone(ErrorCode.none)
            return HeartbeatDone(error)
        case LeaveGroup():
            return Left(error, ())
        case OffsetCommit():
            return CommitDone((error,) * len(command.entries))
        case OffsetFetch():
            return Fetched(error, ())
        case DescribeGroup():
            return describe_refused(error)
        case ListGroups():
            return Listed(error, ())
        case DeleteGroup():
            return GroupDeleted(error)
        case OffsetDelete():
            return OffsetsDeleted(error, ())


# Upstream: appendGroupMetadataErrorToResponseError and handleOperationException. What is not
# listed reaches the client unchanged.
_APPEND_ERRORS = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
    ErrorCode.network_exception: ErrorCode.coordinator_load_in_progress,
}


def append_error(error: ErrorCode) -> ErrorCode:
    """What a client sees when an append failed with `error`."""
    return _APPEND_ERRORS.get(error, error)
