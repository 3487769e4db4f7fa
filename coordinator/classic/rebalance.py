"""A rebalance, from its start to the stored assignment: join phase, then sync phase.

Upstream: GroupMetadataManager.prepareRebalance, completeClassicGroupJoin, classicGroupSync and
their timers.
"""

from typing import Any, Final

from ...offsets.causes import Cause
from ...protocol.errors import ErrorCode
from ..commands import JoinMember, JoinResult, SyncGroup, SyncResult, join_error, sync_error
from ..decision import Decision, PartitionState, fencing_events
from ..outcome import (
    DEBUG,
    ERROR,
    NOTHING,
    WARNING,
    EventType,
    Outcome,
    format_java_list,
    make,
    reply,
)
from .group import Group, Member, RebalanceReason
from .states import COMPLETING, EMPTY, PREPARING, STABLE

_NONE: Final = ErrorCode.none
# The minimum retry delay while a group waits only for static members. Members may have a rebalance
# timeout of 0, and a timer that is always due would block all other timers.
_STATIC_RETRY_MS_MIN: Final = 100

# --- the join phase begins


def prepare_rebalance(
    decision: Decision, group: Group, cause: Cause, text: str, member_ids: tuple[str, ...] = ()
) -> None:
    """Start the join phase. Unless the group was Empty, the phase ends at once if no member is
    missing."""
    if group.state is COMPLETING:
        for member in group.members.values():
            member.assignment = b""
        reject_waiting_syncs(decision, group, ErrorCode.rebalance_in_progress)
    group.pending_syncs.clear()
    decision.deadlines.cancel(group.sync_timer)
    is_initial = group.state is EMPTY
    if is_initial:
        # The delay is extended to at most the longest rebalance timeout of the current members. A
        # member that joins later with a longer timeout does not raise this limit.
        delay_ms = decision.config.group_initial_rebalance_delay_ms
        group.initial_delay_ms = delay_ms
        group.initial_delay_left_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        decision.schedule(group.join_timer, delay_ms)
    decision.transition(group, PREPARING)
    group.rebalance_reason = RebalanceReason(cause, text, member_ids)
    decision.log(
        "Preparing to rebalance group %s in state %s with old generation %d (reason: %s).",
        group.group_id,
        group.state,
        group.generation,
        text,
    )
    decision.report(
        EventType.REBALANCE_STARTED,
        group,
        group.members.get(member_ids[0]) if member_ids else None,
        **_reason_fields(group),
    )
    if not is_initial:
        if group.all_joined:
            _complete_join_phase(decision, group)
        else:
            decision.schedule(group.join_timer, group.rebalance_timeout_ms)


def _reason_fields(group: Group) -> dict[str, Any]:
    """Return the event fields that describe why the rebalance started."""
    reason = group.rebalance_reason
    assert reason is not None, "every rebalance has a reason"
    return {
        "reason": reason.text,
        "cause": reason.cause,
        "detail": {"triggered_by": ",".join(reason.member_ids)} if reason.member_ids else {},
    }


# --- the join phase ends


def complete_if_joined(decision: Decision, group: Group) -> None:
    """After a member joined or left, end the join phase if no member is missing. In an initial
    rebalance, neither ends the join phase, because other members may be about to join."""
    if group.all_joined and group.state is PREPARING and not group.in_initial_rebalance:
        _complete_join_phase(decision, group)


def complete_on_expiration(decision: Decision, group: Group) -> None:
    """After a session has expired, end the join phase if no member is missing. Unlike
    complete_if_joined, this also ends the join phase of an initial rebalance, as upstream does
    (removeMemberAndUpdateClassicGroup, removePendingMemberAndUpdateClassicGroup)."""
    if group.state is PREPARING and group.all_joined:
        _complete_join_phase(decision, group)


def join_timer_expired(decision: Decision, group: Group) -> None:
    """Extend the initial delay while new members join; otherwise end the join phase."""
    delay_ms, left_ms = group.initial_delay_ms, group.initial_delay_left_ms
    if delay_ms is not None and group.member_added and left_ms:
        group.member_added = False
        group.initial_delay_ms = min(decision.config.group_initial_rebalance_delay_ms, left_ms)
        # Like upstream, subtract the elapsed delay, not the new delay.
        group.initial_delay_left_ms = max(left_ms - delay_ms, 0)
        decision.schedule(group.join_timer, group.initial_delay_ms)
    else:
        _complete_join_phase(decision, group)


def _complete_join_phase(decision: Decision, group: Group) -> None:
    """Start a generation with the members that have joined, or make the group Empty."""
    decision.deadlines.cancel(group.join_timer)
    group.initial_delay_ms = None
    _remove_absent_members(decision, group)
    if group.members and not _elect_leader(decision, group):
        # Only static members that have not rejoined remain. Keep the generation until they rejoin
        # or their sessions expire.
        decision.log(
            "Group %s could not complete rebalance because no members rejoined.",
            group.group_id,
            level=ERROR,
        )
        retry_ms = max(group.rebalance_timeout_ms, _STATIC_RETRY_MS_MIN)
        decision.schedule(group.join_timer, retry_ms)
        return
    duration_ms = decision.now - group.state_timestamp_ms
    # The generation overflows like a Java int.
    group.generation = (group.generation + 1 + 2**31) % 2**32 - 2**31
    group.pending_syncs.clear()
    if group.members:
        group.protocol_name = group.select_protocol()
        group.cache_subscriptions()
        decision.transition(group, COMPLETING)
        _start_generation(decision, group, duration_ms)
    else:
        group.protocol_name = None
        group.cache_subscriptions()
        decision.transition(group, EMPTY)
        decision.write(group)
        decision.log("Group %s with generation %d is now empty.", group.group_id, group.generation)
        fields = _reason_fields(group)
        decision.report(EventType.GROUP_EMPTIED, group, duration_ms=duration_ms, **fields)


def _remove_absent_members(decision: Decision, group: Group) -> None:
    """Remove dynamic members that have not rejoined. Static members stay in the group."""
    if group.awaiting_joins == len(group.members):
        return
    absent = [m for m in group.members.values() if m.join_ticket is None and not m.is_static]
    if absent:
        for member in absent:
            decision.report(
                EventType.MEMBER_JOIN_TIMED_OUT,
                group,
                member,
                cause=Cause.REBALANCE_TIMEOUT,
                duration_ms=decision.now - group.state_timestamp_ms,
            )
            remove_member(decision, group, member)
        decision.log(
            "Group %s removed dynamic members who haven't joined: %s",
            group.group_id,
            format_java_list(member.member_id for member in absent),
        )


def _elect_leader(decision: Decision, group: Group) -> bool:
    """Keep or elect a leader that has rejoined. Return False if no member has rejoined."""
    assert group.leader is not None
    leader = group.members[group.leader]
    if leader.join_ticket is not None:
        return True
    for member in group.members.values():
        if member.join_ticket is not None:
            group.leader = member.member_id
            decision.log(
                "Group leader [memberId: %s, groupInstanceId: %s] failed to join before the "
                "rebalance timeout. Member %s was elected as the new leader.",
                leader.member_id,
                leader.group_instance_id,  # upstream also prints "None"
                member.member_id,
            )
            return True
    decision.log(
        "Group leader [memberId: %s, groupInstanceId: %s] failed to join before the rebalance "
        "timeout and the group couldn't proceed to the next generation because no member joined.",
        leader.member_id,
        leader.group_instance_id,
    )
    return False


def _start_generation(decision: Decision, group: Group, duration_ms: int) -> None:
    """Complete all waiting joins. Every member, even a static one that did not rejoin, must now
    send SyncGroup."""
    decision.log(
        "Stabilized group %s generation %d with %d members.",
        group.group_id,
        group.generation,
        len(group.members),
    )
    fields = _reason_fields(group)
    fields["detail"] = {
        **fields["detail"],
        "members": str(len(group.members)),
        "static_members": str(len(group.static_members)),
        "leader": group.leader or "",
        "protocol": group.protocol_name or "",
    }
    decision.report(EventType.JOIN_COMPLETED, group, duration_ms=duration_ms, **fields)
    for member in group.members.values():
        ticket = group.pop_join_ticket(member)
        if ticket is not None:
            decision.reply(ticket, current_generation(group, member))
        decision.schedule(member.session, member.session_timeout_ms)
        member.is_new = False
        group.pending_syncs[member.member_id] = decision.now
    decision.schedule(group.sync_timer, group.rebalance_timeout_ms)


def current_generation(group: Group, member: Member) -> JoinResult:
    """Return the generation as `member` receives it. Only the leader receives all metadata."""
    leader = group.leader or ""  # a record may have members but no leader
    generation = (_NONE, group.generation, group.protocol_type, group.protocol_name, leader)
    members = _all_members(group) if member.member_id == leader else ()
    result: JoinResult = make(JoinResult, (*generation, member.member_id, members, False))
    return result


def _all_members(group: Group) -> tuple[JoinMember, ...]:
    name = group.protocol_name or ""
    return tuple(
        make(JoinMember, (member.member_id, member.group_instance_id, member.metadata(name)))
        for member in group.members.values()
    )


# --- the sync phase


def decide_sync(partition: PartitionState, command: SyncGroup, ticket: int, now: int) -> Outcome:
    group = partition.groups.get(command.group_id)
    error = _validate_sync(group, command)
    if error is not _NONE:
        member_id, instance_id = command.member_id, command.group_instance_id
        events = fencing_events(error, group, member_id, instance_id, "sync-group")
        return reply(ticket, sync_error(error), events)
    assert group is not None
    group.pending_syncs.pop(command.member_id, None)
    if not group.pending_syncs:
        partition.deadlines.cancel(group.sync_timer)
    member = group.members[command.member_id]
    if group.state is STABLE:
        return reply(ticket, _assigned(group, member.assignment))
    # An earlier sync of the member that is still waiting never gets a response, as in Kafka.
    member.sync_ticket = ticket
    if member.member_id != group.leader:
        return NOTHING
    decision = Decision(partition, now)
    _store_assignment(decision, group, command)
    return decision.outcome()


def _validate_sync(group: Group | None, command: SyncGroup) -> ErrorCode:
    if not command.group_id:
        return ErrorCode.invalid_group_id
    if group is None or group.state is EMPTY:
        return ErrorCode.unknown_member_id
    error = group.validate_member(command.member_id, command.group_instance_id)
    if error is not _NONE:
        return error
    if command.generation_id != group.generation:
        return ErrorCode.illegal_generation
    if _is_inconsistent(command.protocol_type, group.protocol_type) or _is_inconsistent(
        command.protocol_name, group.protocol_name
    ):
        return ErrorCode.inconsistent_group_protocol
    if group.state is PREPARING:
        return ErrorCode.rebalance_in_progress
    return _NONE


def _is_inconsistent(requested: str | None, known: str | None) -> bool:
    """Whether both values are present and differ. Requests before v5 do not contain the value."""
    return requested is not None and known is not None and requested != known


def _store_assignment(decision: Decision, group: Group, command: SyncGroup) -> None:
    """Write the generation's record, which makes the group Stable, and respond to all waiting
    syncs. A member that is missing from the leader's request gets an empty assignment."""
    decision.log(
        "Assignment received from leader %s for group %s for generation %d. "
        "The group has %d members, %d of which are static.",
        command.member_id,
        group.group_id,
        group.generation,
        len(group.members),
        len(group.static_members),
    )
    decision.report(
        EventType.SYNC_COMPLETED,
        group,
        duration_ms=decision.now - group.state_timestamp_ms,
        detail={"members": str(len(group.members)), "leader": command.member_id},
    )
    assignments = dict(command.assignments)
    missing = [member_id for member_id in group.members if member_id not in assignments]
    if missing:
        decision.log(
            "Setting empty assignments for members %s of %s for generation %d.",
            format_java_list(missing),
            group.group_id,
            group.generation,
            level=WARNING,
        )
    decision.write(group, assignments)
    decision.report(EventType.STATE_CHANGE, group, state_from=COMPLETING, state_to=STABLE)
    # As in Kafka, the record contains the time at which the sync phase began.
    group.state_timestamp_ms = decision.now
    for member in group.members.values():
        if member.sync_ticket is not None:
            assignment = assignments.get(member.member_id, b"")
            decision.reply(member.sync_ticket, _assigned(group, assignment))
            member.sync_ticket = None
            # Session expiration was suspended while the sync was waiting.
            decision.schedule(member.session, member.session_timeout_ms)


def _assigned(group: Group, assignment: bytes) -> SyncResult:
    values = (_NONE, group.protocol_type, group.protocol_name, assignment)
    result: SyncResult = make(SyncResult, values)
    return result


def sync_timer_expired(decision: Decision, group: Group) -> None:
    """Remove the members that have not sent SyncGroup, even if the group is Stable."""
    assert group.state in (COMPLETING, STABLE)
    assert group.pending_syncs, "the timer is cancelled when the last member has synced"
    late = dict(group.pending_syncs)
    for member_id, joined_ms in late.items():
        member = group.members.get(member_id)
        decision.report(
            EventType.MEMBER_SYNC_TIMED_OUT,
            group,
            member,
            member_id=member_id,
            cause=Cause.SYNC_TIMEOUT,
            duration_ms=decision.now - joined_ms,
        )
        group.remove(member_id)
        if member is not None:
            decision.deadlines.cancel(member.session)
    decision.log(
        "Group %s removed members who haven't sent their sync requests: %s",
        group.group_id,
        format_java_list(late),
        level=DEBUG,
    )
    reason = f"Removing {format_java_list(late)} on pending sync request expiration"
    prepare_rebalance(decision, group, Cause.SYNC_TIMEOUT, reason, tuple(late))


# --- members and their waiting requests


def reject_waiting_requests(decision: Decision, group: Group, error: ErrorCode) -> None:
    """Fail all waiting joins and syncs, and restart the members' sessions, which were suspended."""
    for member in group.members.values():
        ticket = group.pop_join_ticket(member)
        if ticket is not None:
            decision.reply(ticket, join_error(error, member.member_id))
            decision.schedule(member.session, member.session_timeout_ms)
    reject_waiting_syncs(decision, group, error)


def reject_waiting_syncs(decision: Decision, group: Group, error: ErrorCode) -> None:
    """Like reject_waiting_requests, but for syncs only."""
    for member in group.members.values():
        if member.sync_ticket is not None:
            decision.reply(member.sync_ticket, sync_error(error))
            member.sync_ticket = None
            decision.schedule(member.session, member.session_timeout_ms)


def remove_member(decision: Decision, group: Group, member: Member) -> None:
    """Remove a member. As in Kafka, its waiting join fails with UNKNOWN_MEMBER_ID, and its waiting
    sync never gets a response."""
    ticket = group.pop_join_ticket(member)
    if ticket is not None:
        decision.reply(ticket, join_error(ErrorCode.unknown_member_id))
    group.remove(member.member_id)
    decision.deadlines.cancel(member.session)


def restore_static_member(decision: Decision, group: Group, old: Member) -> None:
    """Undo the replacement of a static member, because its record could not be stored."""
    group.replaced = None
    assert old.group_instance_id is not None
    new = group.members[group.static_members[old.group_instance_id]]
    decision.log(
        "Failed to persist metadata for group %s static member %s with group instance id %s. "
        "Reverting to old member id %s.",
        group.group_id,
        new.member_id,
        old.group_instance_id,
        old.member_id,
        level=WARNING,
    )
    group.replace_static(new, old)
    decision.deadlines.cancel(new.session)
    decision.schedule(old.session, old.session_timeout_ms)
