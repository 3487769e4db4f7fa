"""Reconciliation: the next step from the partitions that a member owns towards its target
assignment.

A member first revokes the partitions that it must give up, and confirms the revocation. It then
gets its new epoch and the free partitions. Partitions that other members still own follow in later
heartbeats. Upstream: CurrentAssignmentBuilder.
"""

from collections.abc import Callable, Set
from typing import NamedTuple

from ...assignors.server.model import TopicId
from ...protocol.errors import ApiError, ErrorCode
from .group import FREE, NOTHING_OWNED, Member, MemberState, Owned, Partitions, merge


class Goal(NamedTuple):
    """The target of a member's reconciliation."""

    epoch: int
    target: Partitions
    subscribed: Set[TopicId]  # partitions of other topics are revoked early
    is_subscribed: bool  # True even if none of the topics exists
    owner_epoch: Callable[[TopicId, int], int]  # FREE: the partition has no owner


def next_assignment(
    member: Member, goal: Goal, reported: Partitions | None, *, subscription_changed: bool
) -> Member:
    """Return the member after its heartbeat. `reported` contains the partitions that the member
    reports as owned (None if omitted). Raises ApiError if the member must rejoin."""
    state = member.state
    if state is MemberState.UNKNOWN and (reported is None or reported):
        message = (
            "The consumer group member is in a unknown state. The member must abandon all its "
            "partitions and rejoin."
        )
        raise ApiError(ErrorCode.fenced_member_epoch, message)
    has_arrived = state is MemberState.STABLE and member.epoch == goal.epoch
    is_revoking = state is MemberState.UNREVOKED_PARTITIONS and _may_own_any(
        reported, member.pending_revocation
    )
    if has_arrived or is_revoking:
        return _without_unsubscribed(member, goal, reported) if subscription_changed else member
    epoch = goal.epoch if state is MemberState.UNKNOWN else member.epoch
    return _towards_target(member, goal, reported, epoch)


def _may_own_any(reported: Partitions | None, owned: Owned) -> bool:
    """Whether the member reports that it owns one of these partitions, or reports nothing."""
    if reported is None:
        return True
    return any(
        not owned.get(topic_id, {}).keys().isdisjoint(partitions)
        for topic_id, partitions in reported.items()
    )


def _without_unsubscribed(member: Member, goal: Goal, reported: Partitions | None) -> Member:
    """Revoke the partitions of topics to which the member is no longer subscribed, without waiting
    for the next target assignment."""
    kept = {topic: owned for topic, owned in member.assigned.items() if topic in goal.subscribed}
    if len(kept) == len(member.assigned) and (goal.is_subscribed or member.pending_revocation):
        return member
    revoked = {topic: owned for topic, owned in member.assigned.items() if topic not in kept}
    pending = merge(member.pending_revocation, revoked)
    changed = member._replace(previous_epoch=member.epoch, assigned=kept)
    if not pending or not _may_own_any(reported, pending):
        return changed
    return changed._replace(state=MemberState.UNREVOKED_PARTITIONS, pending_revocation=pending)


def _towards_target(member: Member, goal: Goal, reported: Partitions | None, epoch: int) -> Member:
    kept: dict[TopicId, dict[int, int]] = {}
    revoked: dict[TopicId, dict[int, int]] = {}
    free: dict[TopicId, set[int]] = {}
    has_unreleased = False
    for topic_id in {**goal.target, **member.assigned}:
        is_subscribed = topic_id in goal.subscribed
        wanted = frozenset(goal.target.get(topic_id, ()) if is_subscribed else ())
        owned = member.assigned.get(topic_id, {})
        for partition, assignment_epoch in owned.items():
            part = kept if partition in wanted else revoked
            part.setdefault(topic_id, {})[partition] = assignment_epoch
        own_pending = member.pending_revocation.get(topic_id, {})
        for partition in wanted.difference(owned):
            owner_epoch = goal.owner_epoch(topic_id, partition)
            if owner_epoch == FREE or partition in own_pending:
                free.setdefault(topic_id, set()).add(partition)
            else:
                has_unreleased = True
    if revoked and _may_own_any(reported, revoked):
        return member._replace(
            epoch=epoch,
            previous_epoch=member.epoch,
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    for topic_id, partitions in free.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, goal.epoch))
    return member._replace(
        epoch=goal.epoch,
        previous_epoch=member.epoch,
        state=MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE,
        assigned=kept,
        pending_revocation=NOTHING_OWNED,
    )


def is_subset(reported: Partitions | None, owned: Owned) -> bool:
    """Whether the member reports owning only these partitions."""
    return reported is not None and all(
        owned.get(topic_id, {}).keys() >= set(partitions)
        for topic_id, partitions in reported.items()
    )
