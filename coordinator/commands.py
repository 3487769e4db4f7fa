"""What can be asked of the coordinator. No command knows the version of its request."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from ..protocol.errors import ErrorCode


class JoinGroup(NamedTuple):
    """Wants to be a member of the next generation. `member_id` is "" for who has none yet."""

    group_id: str
    member_id: str
    group_instance_id: str | None
    client_id: str | None
    client_host: str  # as Java prints an address: "/10.0.0.5"
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]  # (name, metadata), the preferred one first
    requires_known_member_id: bool  # since v4 a dynamic member joins in two steps (KIP-394)
    supports_skip_assignment: bool  # since v9 a static leader may be told to skip it (KIP-814)
    reason: str | None  # KIP-800
    client_software: str | None = None  # name and version, as ApiVersions told (KIP-511)


class SyncGroup(NamedTuple):
    """Wants its assignment; the leader brings everybody's."""

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
    """A member by its id, or a static one by its instance id alone (`member_id` "")."""

    member_id: str
    group_instance_id: str | None
    reason: str | None


class LeaveGroup(NamedTuple):
    group_id: str
    members: tuple[LeavingMember, ...]


class CommitEntry(NamedTuple):
    """All that is said of a partition but its offset, and so the same in commit after commit."""

    topic: str
    partition: int
    leader_epoch: int  # -1 none
    metadata: str | None


class OffsetCommit(NamedTuple):
    """`generation_id` is -1 for who commits without being a member."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    entries: Sequence[CommitEntry]
    # For each entry: one offset, or those of several requests that came together, in their order.
    offsets: Sequence[Sequence[int]]
    retention_time_ms: int | None  # v2 to v4; None or -1: the broker's own
    # For who commits for a generation of a group that is not known: it depends on the version.
    unknown_group: ErrorCode


class OffsetFetch(NamedTuple):
    """`topics` None asks for all that the group has committed."""

    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None
    require_stable: bool
    # Who asks: checked in groups of the KIP-848 protocol only.
    member_id: str | None
    member_epoch: int


class DescribeGroup(NamedTuple):
    """One of a request's groups."""

    group_id: str


class DeleteGroup(NamedTuple):
    """One of a request's groups."""

    group_id: str


class OffsetDelete(NamedTuple):
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...]


class ListGroups(NamedTuple):
    """Asks every partition. Without states, or types, these do not matter; unknown ones match
    nothing."""

    states: tuple[str, ...]
    types: tuple[str, ...]


GroupCommand: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | OffsetCommit
    | OffsetFetch
    | DescribeGroup
    | DeleteGroup
    | OffsetDelete
)
"""What is asked of one group, and so of one partition's coordinator."""

Command: TypeAlias = GroupCommand | ListGroups
