"""JoinGroup: may this one be a member, and does that need a round?

Upstream: GroupMetadataManager.classicGroupJoin and what it calls.
"""

from typing import Final

from ..offsets.causes import Cause
from ..protocol.apis import STRING_BYTES_MAX
from ..protocol.errors import ErrorCode
from .commands import JoinGroup
from .deadline_keys import DeadlineKey
from .fencing import standing
from .group import Group
from .members import Member
from .reasons import cause_of_rejoin, reason_of
from .rebalance import complete_if_joined, prepare, this_generation
from .replacing import replace
from .results import join_refused
from .states import COMPLETING, EMPTY, PREPARING, STABLE
from .telling import tell_created
from .turn import Outcome, Shard, Turn
from .voice import EventType, Why
from .voting import supports

_NONE: Final = ErrorCode.none
_JOIN_RECEIVED: Final = EventType.JOIN_RECEIVED


def decide_join(shard: Shard, command: JoinGroup, ticket: int, now: int) -> Outcome:
    turn = Turn(shard, now)
    if not command.group_id:
        turn.answer(ticket, join_refused(ErrorCode.invalid_group_id, command.member_id))
        return turn.outcome()
    group = shard.find(command.group_id, now)
    is_newborn = group is None
    if group is None:
        if command.member_id:
            turn.answer(ticket, join_refused(ErrorCode.unknown_member_id, command.member_id))
            return turn.outcome()
        group = shard.new_group(command.group_id, now)
        tell_created(shard, group)
    shard.voice.tell(_JOIN_RECEIVED, group, command, reason=command.reason)
    if not _has_room(turn, group, command.member_id):
        # Whoever is refused is out, a member that came back too late to an overfull group too.
        turn.voice.tell(
            EventType.JOIN_REJECTED,
            group,
            command,
            error=ErrorCode.group_max_size_reached,
            cause=Cause.GROUP_FULL,
        )
        group.remove(command.member_id)
        turn.deadlines.cancel(DeadlineKey("session", group.group_id, command.member_id))
        turn.answer(ticket, join_refused(ErrorCode.group_max_size_reached))
    elif command.member_id:
        _join_known(turn, group, command, ticket)
    else:
        _join_new(turn, group, command, ticket)
    if is_newborn:
        # The group is in the log from its first request on, even if that was refused.
        turn.propose_newborn(group)
    return turn.outcome()


def _has_room(turn: Turn, group: Group, member_id: str) -> bool:
    """While a round is open only those count who have joined it: so an overfull group (its limit
    was lowered) loses the last ones to come back. Pending ids never count."""
    limit = turn.config.group_max_size
    member = group.members.get(member_id)
    if group.state is EMPTY:
        return True
    if group.state is PREPARING:
        has_joined = member is not None and member.join_ticket is not None
        return has_joined or group.awaiting_joins < limit
    return member is not None or len(group.members) < limit


# --- who has no id yet


def _join_new(turn: Turn, group: Group, command: JoinGroup, ticket: int) -> None:
    if not supports(group, command.protocol_type, command.protocols):
        _refuse(turn, group, command, ticket, ErrorCode.inconsistent_group_protocol)
        return
    instance_id = command.group_instance_id
    # A client that does not say who it is counts as one with the empty name.
    name = command.client_id or "" if instance_id is None else instance_id
    member_id = f"{name}-{turn.shard.new_member_id()}"
    if len(member_id.encode()) > STRING_BYTES_MAX:
        # Neither an answer nor a record could hold it. Upstream fails as well, but keeps a member
        # that nobody can speak for.
        _refuse(turn, group, command, ticket, ErrorCode.unknown_server_error)
        return
    if instance_id is not None:
        _join_new_static(turn, group, command, ticket, member_id, instance_id)
    elif command.requires_known_member_id:
        turn.voice.info(
            "Dynamic member with unknown member id joins group %s in %s state. Created a new "
            "member id %s and requesting the member to rejoin with this id.",
            group.group_id,
            group.state,
            member_id,
        )
        group.pending_joins[member_id] = None
        turn.arm(DeadlineKey("session", group.group_id, member_id), command.session_timeout_ms)
        turn.answer(ticket, join_refused(ErrorCode.member_id_required, member_id))
    else:
        turn.voice.info(
            "Dynamic member with unknown member id joins group %s in state %s. Created a new "
            "member id %s and added the member to the group.",
            group.group_id,
            group.state,
            member_id,
        )
        _add(turn, group, command, ticket, member_id)


def _join_new_static(
    turn: Turn, group: Group, command: JoinGroup, ticket: int, member_id: str, instance_id: str
) -> None:
    known_as = group.static_members.get(instance_id)
    turn.voice.info(
        "Static member with groupInstanceId=%s and unknown member id joins group %s in %s state. "
        + (
            "Created a new member id %s for this member and added to the group."
            if known_as is None
            else "Replacing previously mapped member %s with this groupInstanceId."
        ),
        instance_id,
        group.group_id,
        group.state,
        known_as or member_id,
    )
    if known_as is None:
        _add(turn, group, command, ticket, member_id)
    else:
        replace(turn, group, group.members[known_as], member_id, command, ticket)


def _add(turn: Turn, group: Group, command: JoinGroup, ticket: int, member_id: str) -> None:
    member = Member(
        group.group_id,
        member_id,
        group_instance_id=command.group_instance_id,
        client_id=command.client_id or "",
        client_host=command.client_host,
        client_software=command.client_software,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        session_timeout_ms=command.session_timeout_ms,
        protocols=command.protocols,
        is_new=True,
    )
    member.join_ticket = ticket
    if group.state is PREPARING and group.is_initial:
        group.member_added = True
    if not group.members:
        group.protocol_type = command.protocol_type
    group.add(member)
    turn.arm(member.session, turn.config.new_member_join_timeout_ms)
    turn.voice.tell(EventType.MEMBER_JOINED, group, member)
    if group.state is PREPARING:
        complete_if_joined(turn, group)
    else:
        instance = "null" if command.group_instance_id is None else command.group_instance_id
        reason = (
            f"Adding new member {member_id} with group instance id {instance}; "
            f"client reason: {reason_of(command)}"
        )
        prepare(turn, group, Why(Cause.MEMBER_JOINED, reason, (member_id,)))


# --- who has one


def _join_known(turn: Turn, group: Group, command: JoinGroup, ticket: int) -> None:
    member_id = command.member_id
    if not supports(group, command.protocol_type, command.protocols):
        _refuse(turn, group, command, ticket, ErrorCode.inconsistent_group_protocol)
    elif member_id in group.pending_joins:
        if command.group_instance_id is not None:
            # Ids are only ever pending for dynamic members; upstream throws.
            turn.answer(ticket, join_refused(ErrorCode.unknown_server_error))
            return
        turn.voice.info(
            "Pending dynamic member with id %s joins group %s in %s state. "
            "Adding to the group now.",
            member_id,
            group.group_id,
            group.state,
        )
        _add(turn, group, command, ticket, member_id)
    else:
        error = standing(group, member_id, command.group_instance_id, "join-group")
        if error is not _NONE:
            _refuse(turn, group, command, ticket, error)
        else:
            _join_again(turn, group, group.members[member_id], command, ticket)


def _refuse(turn: Turn, group: Group, command: JoinGroup, ticket: int, error: ErrorCode) -> None:
    turn.voice.tell(EventType.JOIN_REJECTED, group, command, error=error)
    turn.answer(ticket, join_refused(error, command.member_id))


def _join_again(turn: Turn, group: Group, member: Member, command: JoinGroup, ticket: int) -> None:
    """Someone who finds nothing changed is told the generation that it has missed; the leader of a
    stable group, though, may want a new assignment without any member having changed."""
    changed = member.protocols != command.protocols
    leads = member.member_id == group.leader
    if not changed and (group.state is COMPLETING or (group.state is STABLE and not leads)):
        turn.answer(ticket, this_generation(group, member))
        return
    if group.state is PREPARING:
        group.update(member, command, ticket)
        complete_if_joined(turn, group)
        return
    cause = cause_of_rejoin(group, member, command) if changed else Cause.LEADER_REJOINED
    if group.state is STABLE and leads:
        what = f"Leader {member.member_id} re-joining group"
    else:
        what = f"Updating metadata for member {member.member_id}"
    group.update(member, command, ticket)
    reason = f"{what} during {group.state}; client reason: {reason_of(command)}"
    prepare(turn, group, Why(cause, reason, (member.member_id,)))
