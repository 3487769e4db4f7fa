"""Members of the classic protocol in a consumer group, for example during a rolling upgrade. Their
JoinGroup, SyncGroup, Heartbeat and LeaveGroup follow the group's target assignment.

The generation of a member is its epoch. Upstream: classicGroupJoinToConsumerGroup,
classicGroupSyncToConsumerGroup, classicGroupHeartbeatToConsumerGroup,
classicGroupLeaveToConsumerGroup.
"""

from ...assignors.server.model import TopicId
from ...offsets.causes import Cause
from ...offsets.records import ClassicMemberMetadata, ClassicProtocol
from ...protocol.errors import ApiError, DecodeError, ErrorCode
from ..classic.group import CONSUMER
from ..commands import (
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveMemberResult,
    LeaveResult,
    LeavingMember,
    SyncGroup,
    SyncResult,
    join_error,
    sync_error,
)
from ..deadlines import DeadlineKey
from ..decision import Decision, PartitionState, SubscriptionInfo
from ..outcome import EventType, Outcome
from .group import (
    FREE,
    UNCHANGED,
    ConsumerGroup,
    Member,
    MemberState,
    Partitions,
)
from .leaving import remove_members
from .members import (
    cancel_deadlines_of_replaced,
    check_size,
    find_member,
    get_member,
    start_session,
    update_assignment,
)
from .migration import can_downgrade_with, downgrade
from .subscriptions import (
    Epoch,
    RegexChange,
    cause_of_bump,
    update_epoch,
    update_member_metadata,
    update_regex,
)
from .target import MemberTarget, update_target

# --- JoinGroup


def decide_classic_join(
    partition: PartitionState, group: ConsumerGroup, command: JoinGroup, ticket: int, now: int
) -> Outcome:
    decision = Decision(partition, now, ticket)
    member_id = command.member_id or partition.new_consumer_member_id()
    try:
        decision.report(EventType.JOIN_RECEIVED, group, command, reason=command.reason)
        result = _join(decision, group, command, member_id)
    except ApiError as rejection:
        decision.discard()
        decision.report_rejected_join(group, command, rejection.error)
        result = join_error(rejection.error)
    decision.reply(ticket, result)
    return decision.outcome()


def _join(
    decision: Decision, group: ConsumerGroup, command: JoinGroup, member_id: str
) -> JoinResult:
    check_size(decision, group, member_id)
    names = [name for name, _ in command.protocols]
    if not group.supports_classic_protocols(command.protocol_type, names):
        message = f"Member {member_id}'s protocols are not supported."
        raise ApiError(ErrorCode.inconsistent_group_protocol, message)
    is_new, instance_id = not command.member_id, command.group_instance_id
    if is_new and instance_id is None and command.requires_known_member_id:
        decision.log(
            "[GroupId %s] Dynamic member with unknown member id joins the consumer group. Created "
            "a new member id %s and requesting the member to rejoin with this id.",
            *(group.group_id, member_id),
        )
        return join_error(ErrorCode.member_id_required, member_id)
    create = is_new or instance_id is None
    before = find_member(decision, group, member_id, instance_id, create=create, is_classic=True)
    replaced = group.static_member(instance_id)
    becomes_classic = can_downgrade_with(decision, group, replaced)
    subscription = decision.partition.codec.subscription(command.protocols[0][1])
    if subscription is None:
        message = "Malformed embedded consumer protocol in subscription deserialization."
        raise ApiError(ErrorCode.unknown_server_error, message)
    after = _updated(before, command, subscription)
    names_changed = update_member_metadata(decision, group, before, after)
    regex_change = update_regex(decision, group, before, after, command.describes_topic)
    changed = regex_change is not RegexChange.NONE or names_changed
    cause = cause_of_bump(group, after) if changed else None
    epoch = update_epoch(decision, group, before, after, cause)
    owned = _topic_ids(decision.partition, subscription)
    if becomes_classic:
        after = _become_classic(decision, group, after, epoch, owned, changed=changed)
    else:
        target = update_target(decision, group, before, after, epoch, subscription.topics)
        after = update_assignment(
            decision, group, after, target, owned, subscription_changed=changed
        )
        cancel_deadlines_of_replaced(decision, group, instance_id)
        decision.deadlines.cancel(DeadlineKey("member join", group.group_id, member_id))
        start_session(decision, group.group_id, member_id, command.session_timeout_ms)
        sync = DeadlineKey("member sync", group.group_id, member_id)
        decision.schedule(sync, command.rebalance_timeout_ms)
    protocol_name = command.protocols[0][0]
    return JoinResult(
        ErrorCode.none, after.epoch, CONSUMER, protocol_name, "", member_id, (), False
    )


def _updated(member: Member, command: JoinGroup, subscription: SubscriptionInfo) -> Member:
    known, instance_id = member.metadata, command.group_instance_id
    timeout_ms = command.rebalance_timeout_ms
    metadata = known._replace(
        instance_id=known.instance_id if instance_id is None else instance_id,
        rack_id=subscription.rack_id or known.rack_id,
        client_id=command.client_id or "",
        client_host=command.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=known.rebalance_timeout_ms if timeout_ms == UNCHANGED else timeout_ms,
        classic_member_metadata=ClassicMemberMetadata(
            command.session_timeout_ms,
            tuple(ClassicProtocol(name, data) for name, data in command.protocols),
        ),
    )
    return member._replace(metadata=metadata)


def _topic_ids(partition: PartitionState, subscription: SubscriptionInfo) -> Partitions:
    """Return the partitions that the member reports as owned and whose topics exist."""
    owned: dict[TopicId, set[int]] = {}
    for topic, index in subscription.owned_partitions:
        topic_id = partition.topics.id_of(topic)
        if topic_id is not None:
            owned.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in owned.items()}


def _become_classic(
    decision: Decision,
    group: ConsumerGroup,
    member: Member,
    epoch: Epoch,
    owned: Partitions,
    *,
    changed: bool,
) -> Member:
    """Convert the group to a classic group, because the member replaces the last member of the
    consumer protocol. The group rebalances if its target assignment is older than its epoch."""
    reason = None
    if group.assignment_epoch < epoch.epoch:
        reason = f"Downgrade group {group.group_id} from consumer to classic with stale assignment."
    else:
        target = group.target(member.member_id, member.group_instance_id)
        current = MemberTarget(group.assignment_epoch, target)
        member = update_assignment(
            decision, group, member, current, owned, subscription_changed=changed
        )
    downgrade(decision, group, (), member, reason, Cause.STATIC_REPLACED)
    return member


# --- SyncGroup


def decide_classic_sync(
    partition: PartitionState, group: ConsumerGroup, command: SyncGroup, ticket: int, now: int
) -> Outcome:
    decision = Decision(partition, now, ticket)
    try:
        member, classic = _validate(decision, group, command)
        protocol = classic.supported_protocols[0]
        if command.protocol_type not in (None, CONSUMER) or command.protocol_name not in (
            None,
            protocol.name,
        ):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if group.assignment_epoch > member.epoch and not _is_revoking(member):
            _expect_join(decision, group, member)
            raise ApiError(ErrorCode.rebalance_in_progress)
        existing = partition.by_topic_name(member.assigned)
        try:
            assignment = partition.codec.encode_assignment(existing, protocol.metadata)
        except DecodeError as malformed:
            raise ApiError(ErrorCode.unknown_server_error) from malformed
    except ApiError as rejection:
        decision.reply(ticket, sync_error(rejection.error))
        return decision.outcome()
    decision.deadlines.cancel(DeadlineKey("member sync", group.group_id, member.member_id))
    start_session(decision, group.group_id, member.member_id, classic.session_timeout_ms)
    types = command.protocol_type, command.protocol_name
    decision.reply(ticket, SyncResult(ErrorCode.none, *types, assignment))
    return decision.outcome()


def _validate(
    decision: Decision, group: ConsumerGroup, command: SyncGroup | Heartbeat
) -> tuple[Member, ClassicMemberMetadata]:
    """Return the member of the classic protocol that sent the request. Raises ApiError."""
    member = get_member(decision, group, command.member_id, command.group_instance_id)
    classic = member.metadata.classic_member_metadata
    if classic is None:
        raise ApiError(ErrorCode.unknown_member_id)
    if member.epoch != command.generation_id:
        raise ApiError(ErrorCode.illegal_generation)
    return member, classic


def _is_revoking(member: Member) -> bool:
    return member.state is MemberState.UNREVOKED_PARTITIONS


def _expect_join(decision: Decision, group: ConsumerGroup, member: Member) -> None:
    """Require the member to rejoin within its rebalance timeout, which starts with the first
    response that requests it."""
    key = DeadlineKey("member join", group.group_id, member.member_id)
    if key not in decision.deadlines.pending:
        decision.schedule(key, member.metadata.rebalance_timeout_ms)


# --- Heartbeat


def decide_classic_heartbeat(
    partition: PartitionState, group: ConsumerGroup, command: Heartbeat, ticket: int, now: int
) -> Outcome:
    decision = Decision(partition, now, ticket)
    error = ErrorCode.none
    try:
        member, classic = _validate(decision, group, command)
        start_session(decision, group.group_id, member.member_id, classic.session_timeout_ms)
        if (
            member.epoch < group.assignment_epoch
            or _is_revoking(member)
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not _waits_for_others(group, member)
            )
        ):
            _expect_join(decision, group, member)
            error = ErrorCode.rebalance_in_progress
    except ApiError as rejection:
        error = rejection.error
    decision.reply(ticket, HeartbeatResult(error))
    return decision.outcome()


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Whether another member still owns a partition of the member's target assignment."""
    for topic_id, partitions in group.targets.get(member.member_id, {}).items():
        owned = member.assigned.get(topic_id, {})
        for partition in partitions:
            if partition not in owned and group.owner_epoch(topic_id, partition) != FREE:
                return True
    return False


# --- LeaveGroup


def decide_classic_leave(
    partition: PartitionState, group: ConsumerGroup, command: LeaveGroup, ticket: int, now: int
) -> Outcome:
    """Remove members of either protocol, with one new group epoch."""
    decision = Decision(partition, now, ticket)
    try:
        result = _leave(decision, group, command)
    except ApiError as rejection:
        decision.discard()
        result = LeaveResult(rejection.error, ())
    decision.reply(ticket, result)
    return decision.outcome()


def _leave(decision: Decision, group: ConsumerGroup, command: LeaveGroup) -> LeaveResult:
    causes: dict[str, Cause] = {}  # why each member left, by member id
    if command.is_confirmed:
        # A member may have left since an earlier step validated it.
        members = (each for each in command.members if each.validated_id in group.members)
        causes = {each.validated_id: each.cause for each in members}
        remove_members(decision, group, causes)
        return LeaveResult(ErrorCode.none, ())
    results: list[LeaveMemberResult] = []
    for leaving in command.members:
        member, cause, error, validated_id = None, None, ErrorCode.none, ""
        try:
            member, cause = _leaving_member(decision, group, leaving), leaving.cause
            validated_id = member.member_id
            causes[validated_id] = cause
        except ApiError as rejection:
            error = rejection.error
        decision.report(
            EventType.LEAVE_RECEIVED,
            group,
            member,
            member_id=leaving.member_id,
            instance_id=leaving.group_instance_id,
            reason=leaving.reason,
            cause=cause,
            error=error or None,
        )
        ids = leaving.member_id, leaving.group_instance_id
        results.append(LeaveMemberResult(*ids, error, validated_id))
    if not command.is_part:
        remove_members(decision, group, causes)
    return LeaveResult(ErrorCode.none, tuple(results))


def _leaving_member(decision: Decision, group: ConsumerGroup, leaving: LeavingMember) -> Member:
    member_id, instance_id, reason, _ = leaving
    known = None if member_id else group.static_member(instance_id)
    known_id = member_id if known is None else known.member_id
    member = get_member(decision, group, known_id, instance_id)
    who = f"Dynamic member {member_id}"
    if instance_id is not None:
        who = f"Static member {member_id} with instance id {instance_id}"
    decision.log(
        "[GroupId %s] %s has left group through explicit `LeaveGroup` request; client reason: %s",
        *(group.group_id, who, "not provided" if reason is None else reason),
    )
    return member
