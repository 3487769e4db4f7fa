"""A static member has come back without its member id: it takes its own place (KIP-345).

Upstream: updateStaticMemberThenRebalanceOrCompleteJoin, ClassicGroup.replaceStaticMember.
"""

from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .commands import JoinGroup
from .group import Group
from .members import Member
from .reasons import reason_of
from .rebalance import complete_if_joined, everybody, prepare
from .results import Joined, join_refused, sync_refused
from .states import COMPLETING, STABLE
from .turn import Turn
from .voice import EventType, Why
from .voting import elect


def replace(
    turn: Turn, group: Group, old: Member, member_id: str, command: JoinGroup, ticket: int
) -> None:
    """Without a round if the group is stable and would still elect the same protocol, even if the
    metadata have changed: the assignment that is stored goes on being served."""
    leader_before = group.leader
    new = _succeed(turn, group, old, member_id)
    new.client_software = command.client_software
    group.update(new, command, ticket)
    instance_id = command.group_instance_id
    if group.state is STABLE:
        if elect(group) == group.protocol_name:
            turn.voice.info(
                "Static member which joins during Stable stage and doesn't affect the selected "
                "protocol will not trigger a rebalance."
            )
            turn.propose(group)
            group.replaced = old
            group.take_join(new)
            turn.answer(ticket, _without_round(group, new, command, leader_before or ""))
        else:
            reason = (
                "Group's selectedProtocol will change because static member "
                f"{member_id} with instance id {instance_id} joined with change of protocol; "
                f"client reason: {reason_of(command)}"
            )
            prepare(turn, group, Why(Cause.PROTOCOL_CHANGED, reason, (member_id,)))
    elif group.state is COMPLETING:
        # The leader may be assigning partitions to the old id right now.
        reason = (
            f"Updating metadata for static member {member_id} with instance id {instance_id}; "
            f"client reason: {reason_of(command)}"
        )
        prepare(turn, group, Why(Cause.STATIC_REPLACED, reason, (member_id,)))
    else:
        complete_if_joined(turn, group)


def _succeed(turn: Turn, group: Group, old: Member, member_id: str) -> Member:
    """Put a member with the new id where the old one was; parked requests of the old are fenced.

    `pending_syncs` keeps the old id, if it owed a sync: as upstream, where nobody can ever pay that
    debt and the sync timer leads to one more round.
    """
    instance_id = old.group_instance_id
    assert instance_id is not None
    fenced = ErrorCode.fenced_instance_id
    join_ticket = group.take_join(old)
    if join_ticket is not None:
        turn.answer(join_ticket, join_refused(fenced, old.member_id))
    if old.sync_ticket is not None:
        turn.answer(old.sync_ticket, sync_refused(fenced))
    new = Member(
        group.group_id,
        member_id,
        group_instance_id=instance_id,
        client_id=old.client_id,
        client_host=old.client_host,
        rebalance_timeout_ms=old.rebalance_timeout_ms,
        session_timeout_ms=old.session_timeout_ms,
        protocols=old.protocols,
        assignment=old.assignment,
    )
    group.put_in_place(old, new)
    turn.voice.tell(
        EventType.MEMBER_REPLACED,
        group,
        old,
        cause=Cause.STATIC_REPLACED,
        detail={"successor": member_id},
    )
    turn.deadlines.cancel(old.session)
    turn.arm(new.session, new.session_timeout_ms)
    return new


def take_back(turn: Turn, group: Group, old: Member) -> None:
    """`old` is there again: the member that replaced it without a round cannot be written down."""
    group.replaced = None
    assert old.group_instance_id is not None
    new = group.members[group.static_members[old.group_instance_id]]
    turn.voice.warning(
        "Failed to persist metadata for group %s static member %s with group instance id %s. "
        "Reverting to old member id %s.",
        group.group_id,
        new.member_id,
        old.group_instance_id,
        old.member_id,
    )
    group.put_in_place(new, old)
    turn.deadlines.cancel(new.session)
    turn.arm(old.session, old.session_timeout_ms)


def _without_round(group: Group, member: Member, command: JoinGroup, leader_before: str) -> Joined:
    """The generation that goes on. A leader must not assign again what is assigned: since v9 it is
    told so (KIP-814); before that it is given its old id as the leader's, so that it takes itself
    for a follower and merely syncs."""
    leads = member.member_id == group.leader
    told = command.supports_skip_assignment
    return Joined(
        ErrorCode.none,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        (group.leader or "") if told else leader_before,
        member.member_id,
        everybody(group) if told and leads else (),
        told and leads,
    )
