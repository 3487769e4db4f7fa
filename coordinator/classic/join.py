"""JoinGroup: admits new, rejoining and static members, and decides whether a rebalance starts.

Upstream: GroupMetadataManager.classicGroupJoin and the methods it calls; for static members
(KIP-345), updateStaticMemberThenRebalanceOrCompleteJoin and ClassicGroup.replaceStaticMember.
"""

from dataclasses import replace

from ...offsets.causes import Cause
from ...protocol.apis import STRING_BYTES_MAX
from ...protocol.errors import ErrorCode
from ..commands import JoinGroup, JoinResult, join_error, sync_error
from ..deadlines import DeadlineKey
from ..decision import Codec, Decision, PartitionState, fencing_events
from ..outcome import EventType, Outcome, reply
from .group import CONSUMER, Group, Member
from .rebalance import complete_if_joined, current_generation, prepare_rebalance
from .states import COMPLETING, EMPTY, PREPARING, STABLE


def decide_join(partition: PartitionState, command: JoinGroup, ticket: int, now: int) -> Outcome:
    if not command.group_id:
        return reply(ticket, join_error(ErrorCode.invalid_group_id, command.member_id))
    decision = Decision(partition, now, ticket)
    group = partition.find(command.group_id, now)
    is_new_group = group is None or command.group_id in partition.consumer_groups
    if group is None:
        if command.member_id:
            return reply(ticket, join_error(ErrorCode.unknown_member_id, command.member_id))
        is_converted = partition.has_metadata(command.group_id)  # the caller reports it
        group = partition.new_group(command.group_id, now)
        if not is_converted:
            cause = Cause.GROUP_CREATED
            decision.report(EventType.GROUP_CREATED, group, state_to=EMPTY, cause=cause)
    decision.report(EventType.JOIN_RECEIVED, group, command, reason=command.reason)
    if not _has_capacity(decision, group, command.member_id):
        _reject_over_capacity(decision, group, command)
    elif not group.supports_protocols(command.protocol_type, command.protocols):
        _reject(decision, group, command, ErrorCode.inconsistent_group_protocol)
    elif command.member_id:
        _join_with_member_id(decision, group, command)
    else:
        _join_without_member_id(decision, group, command)
    if is_new_group:
        # Kafka writes a record for a new group even if its first JoinGroup is rejected.
        decision.write_empty(group)
    return decision.outcome()


def _has_capacity(decision: Decision, group: Group, member_id: str) -> bool:
    """Check the group's size against group.max.size. During the join phase, only members that have
    rejoined are counted, so the last members to rejoin an oversized group are rejected. Pending
    member ids are never counted."""
    limit = decision.config.group_max_size
    member = group.members.get(member_id)
    if group.state is EMPTY:
        return True
    if group.state is PREPARING:
        has_joined = member is not None and member.join_ticket is not None
        return has_joined or group.awaiting_joins < limit
    return member is not None or len(group.members) < limit


def _reject_over_capacity(decision: Decision, group: Group, command: JoinGroup) -> None:
    """Reject the join, and remove an existing member that rejoined too late."""
    error = ErrorCode.group_max_size_reached
    decision.report_rejected_join(group, command, error)
    group.remove(command.member_id)
    decision.deadlines.cancel(DeadlineKey("session", group.group_id, command.member_id))
    decision.reply(decision.ticket, join_error(error))


def _reject(decision: Decision, group: Group, command: JoinGroup, error: ErrorCode) -> None:
    decision.report_rejected_join(group, command, error)
    decision.reply(decision.ticket, join_error(error, command.member_id))


# --- without a member id


def _join_without_member_id(decision: Decision, group: Group, command: JoinGroup) -> None:
    instance_id = command.group_instance_id
    prefix = command.client_id or "" if instance_id is None else instance_id
    member_id = f"{prefix}-{decision.partition.new_member_id()}"
    if len(member_id.encode()) > STRING_BYTES_MAX:
        # Upstream also fails, but first adds a member whose id is too long for any client to send.
        _reject(decision, group, command, ErrorCode.unknown_server_error)
        return
    joining = group.group_id, group.state, member_id
    if instance_id is not None:
        _join_static(decision, group, command, member_id, instance_id)
    elif command.requires_known_member_id:
        decision.log(
            "Dynamic member with unknown member id joins group %s in %s state. Created a new "
            "member id %s and requesting the member to rejoin with this id.",
            *joining,
        )
        group.pending_joins[member_id] = None
        session = DeadlineKey("session", group.group_id, member_id)
        decision.schedule(session, command.session_timeout_ms)
        decision.reply(decision.ticket, join_error(ErrorCode.member_id_required, member_id))
    else:
        decision.log(
            "Dynamic member with unknown member id joins group %s in state %s. Created a new "
            "member id %s and added the member to the group.",
            *joining,
        )
        _add_member(decision, group, command, member_id)


def _join_static(
    decision: Decision, group: Group, command: JoinGroup, member_id: str, instance_id: str
) -> None:
    old_id = group.static_members.get(instance_id)
    decision.log(
        "Static member with groupInstanceId=%s and unknown member id joins group %s in %s state. "
        + (
            "Created a new member id %s for this member and added to the group."
            if old_id is None
            else "Replacing previously mapped member %s with this groupInstanceId."
        ),
        instance_id,
        group.group_id,
        group.state,
        old_id or member_id,
    )
    if old_id is None:
        _add_member(decision, group, command, member_id)
    else:
        _replace_static_member(decision, group, group.members[old_id], member_id, command)


def _add_member(decision: Decision, group: Group, command: JoinGroup, member_id: str) -> None:
    member = Member(
        session=DeadlineKey("session", group.group_id, member_id),
        member_id=member_id,
        group_instance_id=command.group_instance_id,
        client_id=command.client_id or "",
        client_host=command.client_host,
        client_software=command.client_software,
        rebalance_timeout_ms=command.rebalance_timeout_ms,
        session_timeout_ms=command.session_timeout_ms,
        protocols=command.protocols,
        is_new=True,
        join_ticket=decision.ticket,
    )
    if group.state is PREPARING and group.in_initial_rebalance:
        group.member_added = True
    if not group.members:
        group.protocol_type = command.protocol_type
    group.add(member)
    decision.schedule(member.session, decision.config.new_member_join_timeout_ms)
    decision.report(EventType.MEMBER_JOINED, group, member)
    if group.state is PREPARING:
        complete_if_joined(decision, group)
    else:
        instance = "null" if command.group_instance_id is None else command.group_instance_id
        text = f"Adding new member {member_id} with group instance id {instance}"
        _prepare_rebalance(decision, group, Cause.MEMBER_JOINED, text, member_id, command)


def _prepare_rebalance(
    decision: Decision, group: Group, cause: Cause, text: str, member_id: str, command: JoinGroup
) -> None:
    """Start a rebalance. The reason is `text`, followed by the client's reason (KIP-800)."""
    text = f"{text}; client reason: {command.reason or 'not provided'}"
    prepare_rebalance(decision, group, cause, text, (member_id,))


# --- with a member id


def _join_with_member_id(decision: Decision, group: Group, command: JoinGroup) -> None:
    member_id = command.member_id
    if member_id in group.pending_joins:
        if command.group_instance_id is not None:
            # Only dynamic members have pending ids; upstream throws an exception here.
            decision.reply(decision.ticket, join_error(ErrorCode.unknown_server_error))
            return
        decision.log(
            "Pending dynamic member with id %s joins group %s in %s state. "
            "Adding to the group now.",
            member_id,
            group.group_id,
            group.state,
        )
        _add_member(decision, group, command, member_id)
    else:
        instance_id = command.group_instance_id
        error = group.validate_member(member_id, instance_id)
        if error is ErrorCode.none:
            _rejoin(decision, group, group.members[member_id], command)
        else:
            decision.add(fencing_events(error, group, member_id, instance_id, "join-group"))
            _reject(decision, group, command, error)


def _rejoin(decision: Decision, group: Group, member: Member, command: JoinGroup) -> None:
    """Reply with the current generation if nothing has changed. Otherwise, join the current
    rebalance, or start a rebalance. The leader of a Stable group always starts a rebalance, because
    it may have a reason that the broker cannot see, such as new partitions."""
    changed = member.protocols != command.protocols
    is_leader = member.member_id == group.leader
    if not changed and (group.state is COMPLETING or (group.state is STABLE and not is_leader)):
        decision.reply(decision.ticket, current_generation(group, member))
        return
    if group.state is PREPARING:
        group.update(member, command, decision.ticket)
        complete_if_joined(decision, group)
        return
    cause = Cause.LEADER_REJOINED
    if changed:
        cause = _cause_of_rejoin(group, member, command, decision.partition.codec)
    if group.state is STABLE and is_leader:
        action = f"Leader {member.member_id} re-joining group"
    else:
        action = f"Updating metadata for member {member.member_id}"
    group.update(member, command, decision.ticket)
    text = f"{action} during {group.state}"
    _prepare_rebalance(decision, group, cause, text, member.member_id, command)


def _cause_of_rejoin(group: Group, member: Member, command: JoinGroup, codec: Codec) -> Cause:
    """Return the cause of the rebalance for a member that rejoined with different protocols."""
    before, after = dict(member.protocols), dict(command.protocols)
    name = group.protocol_name
    if name is None or name not in before or name not in after:
        return Cause.PROTOCOL_CHANGED
    if group.protocol_type != CONSUMER:
        return Cause.METADATA_CHANGED
    was, now = codec.subscription(before[name]), codec.subscription(after[name])
    if was is None or now is None:
        return Cause.METADATA_CHANGED
    if set(was.topics) != set(now.topics):
        return Cause.SUBSCRIPTION_CHANGED
    if was.owned_partitions - now.owned_partitions:
        # The member has revoked partitions, and reports the remaining ones (KIP-429).
        return Cause.COOPERATIVE_FOLLOWUP
    # Only the generation changed, or owned partitions were added, as after every rebalance. The
    # rejoin of a leader always starts a rebalance; for a follower, Kafka reports changed metadata
    # as the reason.
    return Cause.LEADER_REJOINED if member.member_id == group.leader else Cause.METADATA_CHANGED


# --- static members


def _replace_static_member(
    decision: Decision, group: Group, old: Member, member_id: str, command: JoinGroup
) -> None:
    """Replace the member with the same instance id, because the static member was restarted. A
    Stable group that would select the same protocol does not rebalance, even if the metadata has
    changed, because the stored assignment stays valid."""
    old_leader = group.leader
    new = _replace_member(decision, group, old, member_id)
    new.client_software = command.client_software
    group.update(new, command, decision.ticket)
    instance_id = command.group_instance_id
    if group.state is STABLE:
        if group.select_protocol() == group.protocol_name:
            decision.log(
                "Static member which joins during Stable stage and doesn't affect the selected "
                "protocol will not trigger a rebalance."
            )
            decision.write(group)
            group.replaced = old
            group.pop_join_ticket(new)
            result = _unchanged_generation(group, new, command, old_leader or "")
            decision.reply(decision.ticket, result)
        else:
            text = (
                "Group's selectedProtocol will change because static member "
                f"{member_id} with instance id {instance_id} joined with change of protocol"
            )
            _prepare_rebalance(decision, group, Cause.PROTOCOL_CHANGED, text, member_id, command)
    elif group.state is COMPLETING:
        # The leader may already have computed an assignment with the old member id.
        text = f"Updating metadata for static member {member_id} with instance id {instance_id}"
        _prepare_rebalance(decision, group, Cause.STATIC_REPLACED, text, member_id, command)
    else:
        complete_if_joined(decision, group)


def _replace_member(decision: Decision, group: Group, old: Member, member_id: str) -> Member:
    """Replace `old` with a member that has a new id, and fence the waiting requests with the old
    id. (Group.validate_member fences later requests.)

    As in Kafka, a missing SyncGroup with the old id stays in `pending_syncs`. No client can send
    it, so the sync phase times out, which starts another rebalance.
    """
    join_ticket = group.pop_join_ticket(old)
    if join_ticket is not None:
        decision.reply(join_ticket, join_error(ErrorCode.fenced_instance_id, old.member_id))
    if old.sync_ticket is not None:
        decision.reply(old.sync_ticket, sync_error(ErrorCode.fenced_instance_id))
    new = replace(
        old,
        session=DeadlineKey("session", group.group_id, member_id),
        member_id=member_id,
        is_new=False,
        sync_ticket=None,
    )
    group.replace_static(old, new)
    detail = {"successor": member_id}
    decision.report(
        EventType.MEMBER_REPLACED, group, old, cause=Cause.STATIC_REPLACED, detail=detail
    )
    decision.deadlines.cancel(old.session)
    decision.schedule(new.session, new.session_timeout_ms)
    return new


def _unchanged_generation(
    group: Group, member: Member, command: JoinGroup, old_leader: str
) -> JoinResult:
    """Return the current generation, because no rebalance begins. The leader must not compute a new
    assignment. Since v9, the response sets skip_assignment (KIP-814); before v9, it names the old
    member id as the leader, so that the client acts as a follower."""
    result = current_generation(group, member)
    if command.supports_skip_assignment:
        return result._replace(skip_assignment=member.member_id == group.leader)
    return result._replace(leader=old_leader, members=())
