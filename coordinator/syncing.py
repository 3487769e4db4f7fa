"""SyncGroup: the leader brings the assignment of its generation, everybody gets its own part.

Upstream: GroupMetadataManager.classicGroupSync.
"""

from typing import Final

from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .commands import SyncGroup
from .fencing import standing
from .group import Group
from .rebalance import prepare
from .results import Synced, sync_refused
from .states import COMPLETING, EMPTY, PREPARING, STABLE
from .turn import NOTHING, Outcome, Shard, Turn, make, outcome_of
from .voice import EventType, Why, listed

_NONE: Final = ErrorCode.none


def decide_sync(shard: Shard, command: SyncGroup, ticket: int, now: int) -> Outcome:
    group = shard.groups.get(command.group_id)
    error = _check(group, command)
    if error is not _NONE:
        return outcome_of(ticket, sync_refused(error))
    assert group is not None
    group.pending_syncs.pop(command.member_id, None)
    if not group.pending_syncs:
        shard.deadlines.cancel(group.sync_timer)
    member = group.members[command.member_id]
    if group.state is STABLE:
        return outcome_of(ticket, _synced(group, member.assignment))
    # A sync that was parked before is forgotten: upstream never answers it either.
    member.sync_ticket = ticket
    if member.member_id != group.leader:
        return NOTHING
    turn = Turn(shard, now)
    _assign(turn, group, command)
    return turn.outcome()


def _check(group: Group | None, command: SyncGroup) -> ErrorCode:
    if not command.group_id:
        return ErrorCode.invalid_group_id
    if group is None or group.state is EMPTY:
        return ErrorCode.unknown_member_id
    error = standing(group, command.member_id, command.group_instance_id, "sync-group")
    if error is not _NONE:
        return error
    if command.generation_id != group.generation:
        return ErrorCode.illegal_generation
    if _differ(command.protocol_type, group.protocol_type) or _differ(
        command.protocol_name, group.protocol_name
    ):
        return ErrorCode.inconsistent_group_protocol
    if group.state is PREPARING:
        return ErrorCode.rebalance_in_progress
    return _NONE


def _differ(asked: str | None, known: str | None) -> bool:
    """What one side does not name (both since v5) cannot differ."""
    return asked is not None and known is not None and asked != known


def _assign(turn: Turn, group: Group, command: SyncGroup) -> None:
    """Write the generation down, and answer whoever waits for it. Applying the record makes the
    group stable; members that the leader forgot get nothing, strangers that it names neither."""
    turn.voice.info(
        "Assignment received from leader %s for group %s for generation %d. "
        "The group has %d members, %d of which are static.",
        command.member_id,
        group.group_id,
        group.generation,
        len(group.members),
        len(group.static_members),
    )
    turn.voice.tell(
        EventType.SYNC_COMPLETED,
        group,
        duration_ms=turn.now - group.state_timestamp_ms,
        detail={"members": str(len(group.members)), "leader": command.member_id},
    )
    assignments = dict(command.assignments)
    missing = [member_id for member_id in group.members if member_id not in assignments]
    if missing:
        turn.voice.warning(
            "Setting empty assignments for members %s of %s for generation %d.",
            listed(missing),
            group.group_id,
            group.generation,
        )
    turn.propose(group, assignments)
    turn.voice.tell(EventType.STATE_CHANGE, group, state_from=COMPLETING, state_to=STABLE)
    # The record says since when the sync was awaited, as upstream; from now on it is stable.
    group.state_timestamp_ms = turn.now
    for member in group.members.values():
        if member.sync_ticket is not None:
            assignment = assignments.get(member.member_id, b"")
            turn.answer(member.sync_ticket, _synced(group, assignment))
            member.sync_ticket = None
            # It could not end while the sync was parked.
            turn.arm(member.session, member.session_timeout_ms)


def _synced(group: Group, assignment: bytes) -> Synced:
    return make(Synced, (_NONE, group.protocol_type, group.protocol_name, assignment))


def sync_timer_due(turn: Turn, group: Group) -> None:
    """Who has not synced is out, also if the leader has long made the group stable."""
    assert group.state in (COMPLETING, STABLE)
    assert group.pending_syncs, "the timer is cancelled when nobody owes a sync any more"
    late = list(group.pending_syncs)
    began_ms = group.state_timestamp_ms  # when the join phase ended, also of a stable group
    for member_id in late:
        member = group.members.get(member_id)
        turn.voice.tell(
            EventType.MEMBER_SYNC_TIMED_OUT,
            group,
            member,
            member_id=member_id,
            cause=Cause.SYNC_TIMEOUT,
            duration_ms=turn.now - began_ms,
        )
        group.remove(member_id)
        if member is not None:
            turn.deadlines.cancel(member.session)
    turn.voice.debug(
        "Group %s removed members who haven't sent their sync requests: %s",
        group.group_id,
        listed(late),
    )
    reason = f"Removing {listed(late)} on pending sync request expiration"
    prepare(turn, group, Why(Cause.SYNC_TIMEOUT, reason, tuple(late)))
