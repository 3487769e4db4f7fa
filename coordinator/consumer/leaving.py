"""How members leave a consumer group: by a heartbeat, after a deadline, or by LeaveGroup.

Upstream: consumerGroupLeave, consumerGroupFenceMembers and the timers that call it.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ...offsets.causes import Cause
from ...protocol.errors import ApiError, ErrorCode
from ..commands import ConsumerGroupHeartbeat, ConsumerHeartbeatResult
from ..deadlines import DeadlineKey
from ..decision import Decision
from ..outcome import EventType
from .group import (
    LEAVE_STATIC_EPOCH,
    NOTHING_OWNED,
    ConsumerGroup,
    Member,
    MemberState,
    current_assignment_record,
    member_tombstones,
)
from .members import cancel_deadlines, get_member
from .migration import can_downgrade, downgrade, get_consumer_group
from .subscriptions import bump_epoch, delete_regexes

# --- ConsumerGroupHeartbeat with an epoch of -1 or -2


def leave(decision: Decision, command: ConsumerGroupHeartbeat) -> ConsumerHeartbeatResult:
    """Remove the member, or record that a static member has left temporarily. Raises ApiError."""
    group = get_consumer_group(decision.partition, command.group_id)
    member_id, instance_id, epoch = command.member_id, command.instance_id, command.member_epoch
    member = get_member(decision, group, member_id, instance_id)
    ids = group.group_id, member_id
    if instance_id is None:
        decision.log("[GroupId %s] Member %s left the consumer group.", *ids)
    else:
        how = "temporarily left" if epoch == LEAVE_STATIC_EPOCH else "left"
        text = f"[GroupId %s] Static member %s with instance id %s {how} the consumer group."
        decision.log(text, *ids, instance_id)
    if epoch == LEAVE_STATIC_EPOCH:
        _leave_temporarily(decision, group, member)
    else:
        decision.report(EventType.LEAVE_RECEIVED, group, member, cause=Cause.LEFT_CLEANLY)
        remove_members(decision, group, {member.member_id: Cause.LEFT_CLEANLY})
    return ConsumerHeartbeatResult(ErrorCode.none, None, member_id, epoch, 0, None)


def _leave_temporarily(decision: Decision, group: ConsumerGroup, member: Member) -> None:
    """Keep the member's partitions until the member returns or its session expires. Assignment
    epochs of 0 allow its successor to commit with any epoch."""
    assigned = {topic: dict.fromkeys(owned, 0) for topic, owned in member.assigned.items()}
    left = member._replace(
        epoch=LEAVE_STATIC_EPOCH, assigned=assigned, pending_revocation=NOTHING_OWNED
    )
    decision.append(current_assignment_record(group.group_id, left))
    decision.report(EventType.LEAVE_RECEIVED, group, member, cause=Cause.LEFT_TEMPORARILY)


def remove_members(decision: Decision, group: ConsumerGroup, causes: Mapping[str, Cause]) -> None:
    """Remove members by id. If only classic members remain, the group may become classic. Raises
    ApiError."""
    if not causes:
        return
    removed = [group.members[member_id] for member_id in causes]
    cause = next(iter(causes.values()))
    if can_downgrade(decision, group, removed):
        reason = f"Downgrade group {group.group_id} from consumer to classic for member leaving."
        downgrade(decision, group, removed, None, reason, cause)
        return
    for member in removed:
        for record in member_tombstones(group.group_id, member.member_id):
            decision.append(record)
    subscriptions = group.subscriptions(removed)
    delete_regexes(decision, group, removed, subscriptions)
    metadata_hash = decision.partition.topics.metadata_hash(subscriptions.topics)
    left = ", ".join(member.member_id for member in removed)
    bump_epoch(decision, group, metadata_hash, cause, f"members left: {left}", removed[0])
    if len(removed) == len(group.members):
        decision.report(EventType.GROUP_EMPTIED, group, generation=group.epoch + 1, cause=cause)
    cancel_deadlines(decision, group.group_id, causes)


# --- deadlines


class _Expiration(NamedTuple):
    type: EventType
    cause: Cause
    reason: Callable[[Member], str]  # why the member was fenced, in Kafka's wording


_EXPIRATIONS: Final[Mapping[str, _Expiration]] = {
    "member session": _Expiration(
        EventType.MEMBER_EXPIRED, Cause.SESSION_TIMEOUT, lambda _: "the member session expired"
    ),
    "revocation": _Expiration(
        EventType.MEMBER_REVOCATION_TIMED_OUT,
        Cause.REBALANCE_TIMEOUT,
        lambda member: (
            f"it failed to transition from epoch {member.epoch} within "
            f"{member.metadata.rebalance_timeout_ms}ms"
        ),
    ),
    "member join": _Expiration(
        EventType.MEMBER_JOIN_TIMED_OUT,
        Cause.REBALANCE_TIMEOUT,
        lambda _: "the classic member failed to join within the rebalance timeout",
    ),
    "member sync": _Expiration(
        EventType.MEMBER_SYNC_TIMED_OUT,
        Cause.SYNC_TIMEOUT,
        lambda _: "the member failed to sync within timeout",
    ),
}


def deadline_expired(decision: Decision, timer: DeadlineKey, due_ms: int) -> None:
    """Remove the member whose deadline has passed, unless the member has left or no longer has to
    revoke partitions."""
    group = decision.partition.consumer_groups.get(timer.group_id)
    member = None if group is None else group.members.get(timer.member_id)
    if group is None or member is None:
        return
    if timer.kind == "revocation" and (
        member.state is not MemberState.UNREVOKED_PARTITIONS or member.has_left_temporarily
    ):
        return
    type_, cause, reason = _EXPIRATIONS[timer.kind]
    decision.log(
        "[GroupId %s] Member %s fenced from the group because %s.",
        *(timer.group_id, timer.member_id, reason(member)),
    )
    waited_ms = member.metadata.rebalance_timeout_ms
    if timer.kind == "member session":
        waited_ms = _session_timeout_ms(decision, group, member)
    decision.report(
        type_, group, member, cause=cause, duration_ms=decision.now - due_ms + waited_ms
    )
    try:
        remove_members(decision, group, {timer.member_id: cause})
    except ApiError:
        # As in Kafka, the member stays, and has no session until its next heartbeat.
        decision.discard()


def _session_timeout_ms(decision: Decision, group: ConsumerGroup, member: Member) -> int:
    classic = member.metadata.classic_member_metadata
    if classic is not None:
        return classic.session_timeout_ms
    return decision.partition.consumer_config(group.group_id).session_timeout_ms


def fence_member(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Fence a member of the consumer protocol, for tests. Its state becomes UNKNOWN, so the next
    heartbeat gets FENCED_MEMBER_EPOCH. The member recovers by rejoining."""
    member = group.members.get(member_id)
    if member is not None and not member.uses_classic_protocol:
        fenced = member._replace(state=MemberState.UNKNOWN)
        decision.append(current_assignment_record(group.group_id, fenced))
        decision.report(
            EventType.MEMBER_FENCED, group, member_id=member_id, cause=Cause.REQUESTED_BY_TEST
        )
