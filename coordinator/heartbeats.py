"""Heartbeat, and what happens to a member that sends none.

Upstream: classicGroupHeartbeat, expireClassicGroupMemberHeartbeat.
"""

from typing import Final

from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .commands import Heartbeat
from .fencing import standing
from .group import Group
from .rebalance import complete_after_expiry, let_go, prepare
from .results import HeartbeatDone
from .states import COMPLETING, HEARTBEAT, STABLE
from .turn import Outcome, Shard, Turn, outcome_of
from .voice import EventType, Why

_NONE: Final = ErrorCode.none
_ALIVE: Final = {state: HeartbeatDone(error) for state, error in HEARTBEAT.items()}
_INVALID_GROUP: Final = HeartbeatDone(ErrorCode.invalid_group_id)
_UNKNOWN: Final = HeartbeatDone(ErrorCode.unknown_member_id)
_ILLEGAL_GENERATION: Final = HeartbeatDone(ErrorCode.illegal_generation)


def decide_heartbeat(shard: Shard, command: Heartbeat, ticket: int, now: int) -> Outcome:
    group_id, generation_id, member_id, instance_id = command
    group = shard.groups.get(group_id)
    if group is None:
        return outcome_of(ticket, _UNKNOWN if group_id else _INVALID_GROUP)
    member = group.members.get(member_id)
    if member is None or instance_id is not None:
        error = standing(group, member_id, instance_id, "heartbeat")
        if error is not _NONE:
            return outcome_of(ticket, HeartbeatDone(error))
    assert member is not None
    if generation_id != group.generation:
        return outcome_of(ticket, _ILLEGAL_GENERATION)
    shard.deadlines.set(member.session, now + member.session_timeout_ms)
    return outcome_of(ticket, _ALIVE[group.state])


def session_timer_due(turn: Turn, group: Group, member_id: str, due: int) -> None:
    if member_id in group.pending_joins:
        turn.voice.info(
            "Pending member %s in group %s has been removed after session timeout expiration.",
            member_id,
            group.group_id,
        )
        turn.voice.tell(
            EventType.MEMBER_EXPIRED, group, member_id=member_id, cause=Cause.MEMBER_ID_NEVER_USED
        )
        group.remove(member_id)
        complete_after_expiry(turn, group)
        return
    member = group.members.get(member_id)
    if member is None or member.is_excused:
        # An excused member gets a new deadline when its request is answered.
        return
    turn.voice.info(
        "Member %s in group %s has failed, removing it from the group.", member_id, group.group_id
    )
    timeout_ms = member.session_timeout_ms
    armed_for_ms = turn.config.new_member_join_timeout_ms if member.is_new else timeout_ms
    turn.voice.tell(
        EventType.MEMBER_EXPIRED,
        group,
        member,
        cause=Cause.SESSION_TIMEOUT,
        duration_ms=turn.now - due + armed_for_ms,
        detail={"session_timeout_ms": str(timeout_ms)},
    )
    let_go(turn, group, member)
    if group.state in (COMPLETING, STABLE):
        reason = f"removing member {member_id} on heartbeat expiration."
        prepare(turn, group, Why(Cause.SESSION_TIMEOUT, reason, (member_id,)))
    else:
        complete_after_expiry(turn, group)
