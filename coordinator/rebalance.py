"""The round: when does one begin, is it over, who is in the generation that follows?

Upstream: GroupMetadataManager.prepareRebalance, completeClassicGroupJoin and their timers.
"""

from typing import Any, Final

from ..offsets.causes import Cause
from ..protocol.errors import ErrorCode
from .group import Group
from .members import Member
from .results import Joined, JoinedMember, join_refused, sync_refused
from .states import COMPLETING, EMPTY, PREPARING
from .subscriptions import keep_subscriptions
from .turn import Turn, make
from .voice import EventType, Why, listed
from .voting import elect

_NONE: Final = ErrorCode.none
# How long silent static members hold their group before it is looked at again. They may ask for
# no time at all, and a timer that is due whenever it is set would leave nobody else a turn.
HELD_MS_MIN: Final = 100

# --- beginning one


def prepare(turn: Turn, group: Group, why: Why) -> None:
    """Open a round. It may be over at once, when nobody is missing."""
    if group.state is COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        refuse_syncs(turn, group, ErrorCode.rebalance_in_progress)
    group.pending_syncs.clear()
    turn.deadlines.cancel(group.sync_timer)
    initial = group.state is EMPTY
    if initial:
        # The delay may be extended up to the rebalance timeout of those who are here now; a later
        # member with a longer one does not change it.
        delay_ms = turn.config.group_initial_rebalance_delay_ms
        group.initial_wait_ms = delay_ms
        group.initial_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        turn.arm(group.join_timer, delay_ms)
    turn.move(group, PREPARING)
    group.why = why
    turn.voice.info(
        "Preparing to rebalance group %s in state %s with old generation %d (reason: %s).",
        group.group_id,
        group.state,
        group.generation,
        why.reason,
    )
    turn.voice.tell(
        EventType.REBALANCE_STARTED,
        group,
        group.members.get(why.member_ids[0]) if why.member_ids else None,
        **_told(group),
    )
    if not initial:
        if group.all_joined:
            complete(turn, group)
        else:
            turn.arm(group.join_timer, group.rebalance_timeout_ms)


# --- is it over?


def complete_if_joined(turn: Turn, group: Group) -> None:
    """After somebody came or left. Only its timer closes the initial round: others may be late."""
    if group.all_joined and group.state is PREPARING and not group.is_initial:
        complete(turn, group)


def complete_after_expiry(turn: Turn, group: Group) -> None:
    """After somebody's session ended. Unlike above it closes an initial round too: so does upstream
    (removeMemberAndUpdateClassicGroup, removePendingMemberAndUpdateClassicGroup)."""
    if group.state is PREPARING and group.all_joined:
        complete(turn, group)


def join_timer_due(turn: Turn, group: Group) -> None:
    """The initial round is extended as long as new members come; any other is over."""
    waited_ms, left_ms = group.initial_wait_ms, group.initial_left_ms
    if waited_ms is not None and group.member_added and left_ms:
        group.member_added = False
        group.initial_wait_ms = min(turn.config.group_initial_rebalance_delay_ms, left_ms)
        group.initial_left_ms = max(left_ms - waited_ms, 0)
        turn.arm(group.join_timer, group.initial_wait_ms)
    else:
        complete(turn, group)


def complete(turn: Turn, group: Group) -> None:
    """Close the round with whoever is here: a new generation, or an empty group."""
    turn.deadlines.cancel(group.join_timer)
    group.initial_wait_ms = None
    _remove_absent(turn, group)
    if group.members and not _elect_leader(turn, group):
        # Only silent static members are left. They keep the group waiting, at the same
        # generation, until they come or their sessions end.
        turn.voice.error(
            "Group %s could not complete rebalance because no members rejoined.", group.group_id
        )
        turn.arm(group.join_timer, max(group.rebalance_timeout_ms, HELD_MS_MIN))
        return
    began_ms = group.state_timestamp_ms
    # Behind the last number that an int32 has comes the first, as in Java.
    group.generation = (group.generation + 1 + 2**31) % 2**32 - 2**31
    group.pending_syncs.clear()
    if group.members:
        group.protocol_name = elect(group)
        keep_subscriptions(group)
        turn.move(group, COMPLETING)
        _open_generation(turn, group, turn.now - began_ms)
    else:
        group.protocol_name = None
        keep_subscriptions(group)
        turn.move(group, EMPTY)
        turn.propose(group)
        turn.voice.info(
            "Group %s with generation %d is now empty.", group.group_id, group.generation
        )
        turn.voice.tell(
            EventType.GROUP_EMPTIED, group, duration_ms=turn.now - began_ms, **_told(group)
        )


def _remove_absent(turn: Turn, group: Group) -> None:
    """Dynamic members that did not join are out; static ones have until their session ends."""
    if group.awaiting_joins == len(group.members):
        return
    absent = [m for m in group.members.values() if m.join_ticket is None and not m.is_static]
    if absent:
        for member in absent:
            turn.voice.tell(
                EventType.MEMBER_JOIN_TIMED_OUT,
                group,
                member,
                cause=Cause.REBALANCE_TIMEOUT,
                duration_ms=turn.now - group.state_timestamp_ms,
            )
            drop(turn, group, member)
        turn.voice.info(
            "Group %s removed dynamic members who haven't joined: %s",
            group.group_id,
            listed(member.member_id for member in absent),
        )


def _elect_leader(turn: Turn, group: Group) -> bool:
    """Keep the leader if it has joined, else take the first who has. False if nobody has."""
    assert group.leader is not None
    leader = group.members[group.leader]
    if leader.join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            turn.voice.info(
                "Group leader [memberId: %s, groupInstanceId: %s] failed to join before the "
                "rebalance timeout. Member %s was elected as the new leader.",
                leader.member_id,
                leader.group_instance_id,  # "None" upstream too
                member.member_id,
            )
            return True
    turn.voice.info(
        "Group leader [memberId: %s, groupInstanceId: %s] failed to join before the rebalance "
        "timeout and the group couldn't proceed to the next generation because no member joined.",
        leader.member_id,
        leader.group_instance_id,
    )
    return False


def _open_generation(turn: Turn, group: Group, duration_ms: int) -> None:
    """Tell everybody; from now on each of them owes a sync, silent static members too."""
    turn.voice.info(
        "Stabilized group %s generation %d with %d members.",
        group.group_id,
        group.generation,
        len(group.members),
    )
    told = _told(group)
    told["detail"] = {
        **told["detail"],
        "members": str(len(group.members)),
        "static_members": str(len(group.static_members)),
        "leader": group.leader or "",
        "protocol": group.protocol_name or "",
    }
    turn.voice.tell(EventType.JOIN_COMPLETED, group, duration_ms=duration_ms, **told)
    for member in group.members.values():
        ticket = group.take_join(member)
        if ticket is not None:
            turn.answer(ticket, this_generation(group, member))
        turn.arm(member.session, member.session_timeout_ms)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    turn.arm(group.sync_timer, group.rebalance_timeout_ms)


def _told(group: Group) -> dict[str, Any]:
    """What the events of a round say of its beginning."""
    why = group.why
    assert why is not None, "every round is opened for a reason"
    return {
        "reason": why.reason,
        "cause": why.cause,
        "detail": {"triggered_by": ",".join(why.member_ids)} if why.member_ids else {},
    }


# --- what others ask of it too


def this_generation(group: Group, member: Member) -> Joined:
    """The generation as `member` sees it: with everybody's metadata for the leader only."""
    assert group.leader is not None
    is_leader = member.member_id == group.leader
    return make(
        Joined,
        (
            _NONE,
            group.generation,
            group.protocol_type,
            group.protocol_name,
            group.leader,
            member.member_id,
            everybody(group) if is_leader else (),
            False,
        ),
    )


def everybody(group: Group) -> tuple[JoinedMember, ...]:
    name = group.protocol_name or ""
    return tuple(
        make(JoinedMember, (member.member_id, member.group_instance_id, member.metadata(name)))
        for member in group.members.values()
    )


def refuse_syncs(turn: Turn, group: Group, error: ErrorCode) -> None:
    """Answer all parked syncs. Their sessions begin anew: those could not end meanwhile."""
    for member in group.members.values():
        if member.sync_ticket is not None:
            turn.answer(member.sync_ticket, sync_refused(error))
            member.sync_ticket = None
            turn.arm(member.session, member.session_timeout_ms)


def drop(turn: Turn, group: Group, member: Member) -> None:
    """Take a member out without a word. A request that it has parked is never answered."""
    group.remove(member.member_id)
    turn.deadlines.cancel(member.session)


def let_go(turn: Turn, group: Group, member: Member) -> None:
    """Take a member out; if its join is parked, it hears that it is one no more."""
    ticket = group.take_join(member)
    if ticket is not None:
        turn.answer(ticket, join_refused(ErrorCode.unknown_member_id))
    drop(turn, group, member)
