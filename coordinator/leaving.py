"""LeaveGroup: members that go by themselves, or are sent away by their instance id.

Upstream: GroupMetadataManager.classicGroupLeave.
"""

from ..offsets.causes import Cause, cause_of_leaving
from ..protocol.errors import ErrorCode
from .commands import LeaveGroup, LeavingMember
from .deadline_keys import DeadlineKey
from .fencing import standing
from .group import Group
from .rebalance import complete_if_joined, let_go, prepare
from .results import Left, LeftMember
from .states import COMPLETING, STABLE
from .turn import Outcome, Shard, Turn
from .voice import EventType, Why


def decide_leave(shard: Shard, command: LeaveGroup, ticket: int, now: int) -> Outcome:
    turn = Turn(shard, now)
    if not command.group_id:
        turn.answer(ticket, Left(ErrorCode.invalid_group_id, ()))
        return turn.outcome()
    group = shard.groups.get(command.group_id)
    left = []
    exits: dict[str, Cause] = {}
    for leaving in command.members:
        if group is None:
            error = ErrorCode.unknown_member_id
        else:
            error = _leave(turn, group, leaving, exits)
        if error is not ErrorCode.none:
            turn.voice.tell(
                EventType.LEAVE_RECEIVED,
                group or command.group_id,
                member_id=leaving.member_id,
                instance_id=leaving.group_instance_id,
                reason=leaving.reason,
                error=error,
            )
        left.append(LeftMember(leaving.member_id, leaving.group_instance_id, error))
    if group is not None and exits:
        if group.state in (COMPLETING, STABLE):
            gone = (member.member_id for member in left if member.error is ErrorCode.none)
            reason = f"explicit `LeaveGroup` request for ({', '.join(gone)}) members."
            prepare(turn, group, Why(next(iter(exits.values())), reason, tuple(exits)))
        else:
            complete_if_joined(turn, group)
    turn.answer(ticket, Left(ErrorCode.none, tuple(left)))
    return turn.outcome()


def _leave(turn: Turn, group: Group, leaving: LeavingMember, exits: dict[str, Cause]) -> ErrorCode:
    """Let one go, and add it to `exits`: its real id, and why it went."""
    member_id, instance_id, reason = leaving
    cause = cause_of_leaving(reason)
    if not member_id:
        # An administrator who knows instance ids only.
        known_as = None if instance_id is None else group.static_members.get(instance_id)
        if known_as is None:
            return ErrorCode.unknown_member_id
        member_id = known_as
        cause = Cause.REMOVED_BY_ADMIN
    elif member_id in group.pending_joins:
        exits[member_id] = cause
        turn.voice.tell(
            EventType.LEAVE_RECEIVED, group, member_id=member_id, reason=reason, cause=cause
        )
        group.remove(member_id)
        turn.deadlines.cancel(DeadlineKey("session", group.group_id, member_id))
        _log_leave("Pending member", group, member_id, reason)
        return ErrorCode.none
    else:
        error = standing(group, member_id, instance_id, "leave-group")
        if error is not ErrorCode.none:
            return error
    exits[member_id] = cause
    member = group.members[member_id]
    turn.voice.tell(EventType.LEAVE_RECEIVED, group, member, reason=reason, cause=cause)
    # A sync that it has parked is never answered: as upstream, who forgets it with the member.
    let_go(turn, group, member)
    _log_leave("Member", group, member_id, reason)
    return ErrorCode.none


def _log_leave(who: str, group: Group, member_id: str, reason: str | None) -> None:
    group.voice.info(
        "[Group %s] %s %s has left group through explicit `LeaveGroup` request; client reason: %s",
        group.group_id,
        who,
        member_id,
        "not provided" if reason is None else reason,
    )
