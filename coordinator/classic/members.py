"""Heartbeat, session expiration and LeaveGroup: how members stay in a group, and how they leave.

Upstream: classicGroupHeartbeat, expireClassicGroupMemberHeartbeat, classicGroupLeave.
"""

from typing import Final

from ...offsets.causes import Cause
from ...protocol.errors import ErrorCode
from ..commands import (
    Heartbeat,
    HeartbeatResult,
    LeaveGroup,
    LeaveMemberResult,
    LeaveResult,
    LeavingMember,
)
from ..deadlines import DeadlineKey
from ..decision import Decision, PartitionState, fencing_events
from ..outcome import EventType, Outcome, reply
from .group import Group
from .rebalance import complete_if_joined, complete_on_expiration, prepare_rebalance, remove_member
from .states import COMPLETING, HEARTBEAT_ERROR, STABLE

_NONE: Final = ErrorCode.none
_VALID: Final = {state: HeartbeatResult(error) for state, error in HEARTBEAT_ERROR.items()}
_INVALID_GROUP_ID: Final = HeartbeatResult(ErrorCode.invalid_group_id)
_UNKNOWN_MEMBER_ID: Final = HeartbeatResult(ErrorCode.unknown_member_id)
_ILLEGAL_GENERATION: Final = HeartbeatResult(ErrorCode.illegal_generation)

# --- Heartbeat


def decide_heartbeat(
    partition: PartitionState, command: Heartbeat, ticket: int, now: int
) -> Outcome:
    group_id, generation_id, member_id, instance_id = command
    if not group_id:  # OffsetCommit accepts the empty id, so such a group may exist
        return reply(ticket, _INVALID_GROUP_ID)
    group = partition.groups.get(group_id)
    if group is None:
        return reply(ticket, _UNKNOWN_MEMBER_ID)
    member = group.members.get(member_id)
    if member is None or instance_id is not None:
        error = group.validate_member(member_id, instance_id)
        if error is not _NONE:
            events = fencing_events(error, group, member_id, instance_id, "heartbeat")
            return reply(ticket, HeartbeatResult(error), events)
    assert member is not None
    if generation_id != group.generation:
        return reply(ticket, _ILLEGAL_GENERATION)
    partition.deadlines.set(member.session, now + member.session_timeout_ms)
    return reply(ticket, _VALID[group.state])


def session_expired(decision: Decision, group: Group, member_id: str, due_ms: int) -> None:
    """Remove a member, or a pending member id, whose deadline passed at `due_ms`."""
    if member_id in group.pending_joins:
        decision.log(
            "Pending member %s in group %s has been removed after session timeout expiration.",
            member_id,
            group.group_id,
        )
        decision.report(
            EventType.MEMBER_EXPIRED, group, member_id=member_id, cause=Cause.MEMBER_ID_NEVER_USED
        )
        group.remove(member_id)
        complete_on_expiration(decision, group)
        return
    member = group.members.get(member_id)
    if member is None or member.has_waiting_request:
        # The session is suspended while a request is waiting, and restarts with the response.
        return
    decision.log(
        "Member %s in group %s has failed, removing it from the group.", member_id, group.group_id
    )
    timeout_ms = member.session_timeout_ms
    deadline_ms = decision.config.new_member_join_timeout_ms if member.is_new else timeout_ms
    decision.report(
        EventType.MEMBER_EXPIRED,
        group,
        member,
        cause=Cause.SESSION_TIMEOUT,
        duration_ms=decision.now - due_ms + deadline_ms,
        detail={"session_timeout_ms": str(timeout_ms)},
    )
    remove_member(decision, group, member)
    if group.state in (COMPLETING, STABLE):
        reason = f"removing member {member_id} on heartbeat expiration."
        prepare_rebalance(decision, group, Cause.SESSION_TIMEOUT, reason, (member_id,))
    else:
        complete_on_expiration(decision, group)


# --- LeaveGroup


def decide_leave(partition: PartitionState, command: LeaveGroup, ticket: int, now: int) -> Outcome:
    if not command.group_id:
        return reply(ticket, LeaveResult(ErrorCode.invalid_group_id, ()))
    decision = Decision(partition, now)
    group = partition.groups.get(command.group_id)
    results = []
    causes: dict[str, Cause] = {}  # why each member left, by member id
    for leaving in command.members:
        if command.is_confirmed and (group is None or leaving.validated_id not in group.members):
            continue  # the member has left since, or an earlier step of the request removed it
        if group is None:
            error = ErrorCode.unknown_member_id
        else:
            error = _leave(decision, group, leaving, causes)
        if error is not _NONE:
            decision.report(
                EventType.LEAVE_RECEIVED,
                group or command.group_id,
                member_id=leaving.member_id,
                instance_id=leaving.group_instance_id,
                reason=leaving.reason,
                error=error,
            )
        results.append(LeaveMemberResult(leaving.member_id, leaving.group_instance_id, error))
    if group is not None and causes:
        if group.state in (COMPLETING, STABLE):
            left = (each.member_id for each in results if each.error_code is _NONE)
            reason = f"explicit `LeaveGroup` request for ({', '.join(left)}) members."
            first_cause = next(iter(causes.values()))
            prepare_rebalance(decision, group, first_cause, reason, tuple(causes))
        else:
            complete_if_joined(decision, group)
    decision.reply(ticket, LeaveResult(_NONE, tuple(results)))
    return decision.outcome()


def _leave(
    decision: Decision, group: Group, leaving: LeavingMember, causes: dict[str, Cause]
) -> ErrorCode:
    """Remove one member, and store the cause in `causes` under its id."""
    member_id, instance_id, reason, _ = leaving
    cause = leaving.cause
    if not member_id:
        known_id = None if instance_id is None else group.static_members.get(instance_id)
        if known_id is None:
            return ErrorCode.unknown_member_id
        member_id = known_id
    elif member_id not in group.pending_joins:
        error = group.validate_member(member_id, instance_id)
        if error is not _NONE:
            decision.add(fencing_events(error, group, member_id, instance_id, "leave-group"))
            return error
    causes[member_id] = cause
    member = group.members.get(member_id)  # None: a pending member id
    decision.report(
        EventType.LEAVE_RECEIVED, group, member, member_id=member_id, reason=reason, cause=cause
    )
    if member is None:
        group.remove(member_id)
        decision.deadlines.cancel(DeadlineKey("session", group.group_id, member_id))
    else:
        remove_member(decision, group, member)
    decision.log(
        "[Group %s] %s %s has left group through explicit `LeaveGroup` request; client reason: %s",
        group.group_id,
        "Pending member" if member is None else "Member",
        member_id,
        "not provided" if reason is None else reason,
    )
    return _NONE
