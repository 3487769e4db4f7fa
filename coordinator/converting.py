"""Requests to groups of other kinds (foreign.py says what each gets)."""

from ..offsets.records import GroupType
from ..protocol.errors import ErrorCode
from .commands import (
    Command,
    DescribeGroup,
    JoinGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from .foreign import ForeignGroup
from .joining import decide_join
from .results import describe_refused, join_refused, refusal
from .turn import Outcome, Shard, outcome_of

_NONE = ErrorCode.none


def decide_foreign(shard: Shard, command: Command, ticket: int, now: int) -> Outcome | None:
    """None: as to a classic group without members."""
    group = None if isinstance(command, ListGroups) else shard.foreign.groups.get(command.group_id)
    if group is None:
        return None
    error = _error(group, command)
    if error is not _NONE:
        return outcome_of(ticket, refusal(command, error))
    if isinstance(command, JoinGroup):
        return _convert(shard, group, command, ticket, now)
    if isinstance(command, DescribeGroup):
        return outcome_of(ticket, describe_refused(ErrorCode.group_id_not_found))
    return None


def _error(group: ForeignGroup, command: Command) -> ErrorCode:
    is_share = group.kind is GroupType.SHARE
    match command:
        case OffsetCommit():
            if is_share:
                return ErrorCode.group_id_not_found
            if command.generation_id >= 0 or command.member_id:
                return ErrorCode.unknown_member_id
        case OffsetFetch():
            if not is_share and (command.member_epoch >= 0 or command.member_id is not None):
                return ErrorCode.unknown_member_id
        case OffsetDelete():
            if is_share:
                return ErrorCode.group_id_not_found
    return _NONE


def _convert(
    shard: Shard, group: ForeignGroup, command: JoinGroup, ticket: int, now: int
) -> Outcome:
    """A classic group takes its place, and has its offsets (upstream:
    maybeDeleteEmptyConsumerGroup)."""
    if group.kind is GroupType.SHARE:
        error = ErrorCode.inconsistent_group_protocol
        return outcome_of(ticket, join_refused(error, command.member_id))
    records, replies = decide_join(shard, command, ticket, now)
    if command.group_id in shard.groups:  # not refused
        records = (*group.tombstones(), *records)
    return records, replies
