"""Test controls for a consumer group; they produce ordinary records and events."""

from ...offsets.causes import Cause
from ..decision import Decision
from ..outcome import EventType
from .group import ConsumerGroup, MemberState, current_assignment_record
from .subscriptions import bump_epoch


def rebalance(decision: Decision, group: ConsumerGroup, cause: Cause, reason: str) -> None:
    """Bump the group epoch: members receive it and the new assignment in heartbeat responses."""
    bump_epoch(decision, group, group.metadata_hash, cause, reason)


def fence(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Fence a member that uses the consumer protocol: its next heartbeat gets FENCED_MEMBER_EPOCH,
    as if a newer version had written its state. The member recovers by rejoining."""
    member = group.members.get(member_id)
    if member is not None and not member.uses_classic_protocol:
        fenced = member._replace(state=MemberState.UNKNOWN)
        decision.append(current_assignment_record(group.group_id, fenced))
        decision.report(
            EventType.MEMBER_FENCED, group, member_id=member_id, cause=Cause.REQUESTED_BY_TEST
        )
