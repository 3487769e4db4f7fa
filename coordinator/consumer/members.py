"""Finds or creates the member that sent a request, updates its assignment, and sets its
deadlines."""

from collections.abc import Iterable
from typing import Final

from ...assignors.server.hashing import TopicHashes
from ...assignors.server.targets import loaded_target
from ...offsets.causes import Cause
from ...offsets.records import ConsumerGroupRecord, ConsumerRecordType
from ...protocol.errors import ApiError, ErrorCode
from ..deadlines import MEMBER_DEADLINES, DeadlineKey
from ..decision import Decision
from ..outcome import DEBUG, EventType
from .group import (
    JOIN_EPOCH,
    NO_TARGET,
    ConsumerGroup,
    Member,
    MemberState,
    Partitions,
    current_assignment_record,
    member_tombstones,
    target_record,
    unknown_member,
)
from .reconcile import Goal, next_assignment
from .target import MemberTarget

PROTOCOL_NAMES: Final = {True: "classic", False: "consumer"}


def check_size(decision: Decision, group: ConsumerGroup, member_id: str) -> None:
    """Raise ApiError if the group has no room for another member."""
    limit = decision.config.group_consumer_max_size
    if len(group.members) >= limit and member_id not in group.members:
        message = f"The consumer group has reached its maximum capacity of {limit} members."
        raise ApiError(ErrorCode.group_max_size_reached, message)


def find_member(
    decision: Decision,
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    *,
    create: bool,
    is_classic: bool,
) -> Member:
    """Return the member that sent the request. If there is none and `create` is True, return a new
    member. Raises ApiError."""
    if not create:
        return get_member(decision, group, member_id, instance_id)
    if instance_id is not None:
        return _join_static(decision, group, member_id, instance_id, is_classic=is_classic)
    decision.log(
        "[GroupId %s] Member %s joins the consumer group using the %s protocol.",
        *(group.group_id, member_id, PROTOCOL_NAMES[is_classic]),
    )
    return group.members.get(member_id) or _new_member(decision, group, member_id, None)


def get_member(
    decision: Decision, group: ConsumerGroup, member_id: str, instance_id: str | None
) -> Member:
    """Return the member with these ids. Raises ApiError if the member does not exist, or if
    another member holds the instance id (the request is then fenced)."""
    if instance_id is None:
        member = group.members.get(member_id)
        if member is None:
            raise unknown_member(group.group_id, member_id)
        return member
    member = group.static_member(instance_id)
    if member is None:
        message = f"Instance id {instance_id} is unknown."
        raise ApiError(ErrorCode.unknown_member_id, message)
    if member.member_id != member_id:
        decision.log(
            "[GroupId %s] Static member %s with instance id %s is fenced by existing member %s.",
            *(group.group_id, member_id, instance_id, member.member_id),
        )
        message = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}."
        )
        raise ApiError(ErrorCode.fenced_instance_id, message)
    return member


def _new_member(
    decision: Decision, group: ConsumerGroup, member_id: str, instance_id: str | None
) -> Member:
    decision.report(EventType.MEMBER_JOINED, group, member_id=member_id, instance_id=instance_id)
    return Member(member_id)


def _join_static(
    decision: Decision,
    group: ConsumerGroup,
    member_id: str,
    instance_id: str,
    *,
    is_classic: bool,
) -> Member:
    """Return a static member that joins. It replaces its predecessor if the predecessor has left
    temporarily, or if at least one of the two uses the classic protocol. Otherwise, raises
    ApiError if there is a predecessor."""
    existing = group.static_member(instance_id)
    protocol = PROTOCOL_NAMES[is_classic]
    if existing is None:
        decision.log(
            "[GroupId %s] Static member %s with instance id %s joins the consumer group using the "
            "%s protocol.",
            *(group.group_id, member_id, instance_id, protocol),
        )
        return group.members.get(member_id) or _new_member(decision, group, member_id, instance_id)
    if not is_classic and not existing.uses_classic_protocol and not existing.has_left_temporarily:
        decision.log(
            "[GroupId %s] Static member %s with instance id %s cannot join the group because the "
            "instance id is owned by member %s.",
            *(group.group_id, member_id, instance_id, existing.member_id),
        )
        message = (
            f"Static member {member_id} with instance id {instance_id} cannot join the group "
            f"because the instance id is owned by {existing.member_id} member."
        )
        raise ApiError(ErrorCode.unreleased_instance_id, message)
    decision.log(
        "[GroupId %s] Static member with instance id %s re-joins the consumer group using the %s "
        "protocol. Created a new member %s to replace the existing member %s.",
        *(group.group_id, instance_id, protocol, member_id, existing.member_id),
    )
    return _replace(decision, group, existing, member_id)


def _replace(decision: Decision, group: ConsumerGroup, old: Member, member_id: str) -> Member:
    """Transfer the predecessor's subscription, target and partitions to a new member."""
    new = old._replace(member_id=member_id, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    group_id = group.group_id
    for record in member_tombstones(group_id, old.member_id):
        decision.append(record)
    type_ = ConsumerRecordType.MEMBER_METADATA
    decision.append(ConsumerGroupRecord(type_, group_id, member_id, new.metadata))
    target = loaded_target(group.targets.get(old.member_id, NO_TARGET), TopicHashes())
    decision.append(target_record(group_id, member_id, target))
    decision.append(current_assignment_record(group_id, new))
    decision.report(
        EventType.MEMBER_REPLACED,
        group,
        old,
        cause=Cause.STATIC_REPLACED,
        detail={"successor": member_id},
    )
    return new


# --- the assignment


def update_assignment(
    decision: Decision,
    group: ConsumerGroup,
    member: Member,
    target: MemberTarget,
    reported: Partitions | None,
    *,
    subscription_changed: bool,
) -> Member:
    """Move the member towards its target, and write the changes (upstream: maybeReconcile)."""
    if not subscription_changed and member.is_reconciled_to(target.epoch):
        return member
    names = member.metadata.subscribed_topic_names + group.topics_of(member.regex)
    ids = map(decision.partition.topics.id_of, names)
    subscribed = {topic_id for topic_id in ids if topic_id is not None}
    goal = Goal(target.epoch, target.partitions, subscribed, bool(names), group.owner_epoch)
    after = next_assignment(member, goal, reported, subscription_changed=subscription_changed)
    if after == member:
        return member
    group_id = group.group_id
    decision.append(current_assignment_record(group_id, after))
    decision.log(
        "[GroupId %s] Member %s new assignment state: epoch=%d, previousEpoch=%d, state=%s.",
        *(group_id, after.member_id, after.epoch, after.previous_epoch, after.state.name),
        level=DEBUG,
    )
    _report_assignment(decision, group, member, after)
    if not after.uses_classic_protocol:
        key = DeadlineKey("revocation", group_id, after.member_id)
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            decision.schedule(key, after.metadata.rebalance_timeout_ms)
        else:
            decision.deadlines.cancel(key)
    return after


def _report_assignment(
    decision: Decision, group: ConsumerGroup, before: Member, after: Member
) -> None:
    names = decision.partition.topics.name_of
    detail = {"member_epoch": str(after.epoch), "state": after.state.name.lower()}
    for field, owned in (("assigned", after.assigned), ("revoking", after.pending_revocation)):
        named = ((names(topic_id) or topic_id, each) for topic_id, each in owned.items())
        detail[field] = ",".join(
            f"{name}-{partition}" for name, partitions in named for partition in sorted(partitions)
        )
    if before.epoch != after.epoch:
        detail["previous_member_epoch"] = str(before.epoch)
    decision.report(
        EventType.ASSIGNMENT_CHANGED,
        group,
        after,
        generation=max(group.epoch, after.epoch),
        detail=detail,
    )


# --- deadlines


def start_session(
    decision: Decision, group_id: str, member_id: str, session_timeout_ms: int
) -> None:
    decision.schedule(DeadlineKey("member session", group_id, member_id), session_timeout_ms)


def cancel_deadlines_of_replaced(
    decision: Decision, group: ConsumerGroup, instance_id: str | None
) -> None:
    """Cancel the deadlines of the replaced static member, which may have the same member id."""
    replaced = group.static_member(instance_id)
    if replaced is not None:
        cancel_deadlines(decision, group.group_id, (replaced.member_id,))


def restore_deadlines(decision: Decision, group: ConsumerGroup) -> None:
    """Start missing session and revocation deadlines, after a load or if the records that remove a
    member could not be stored."""
    group_id, pending = group.group_id, decision.deadlines.pending
    # Upstream gives members of the classic protocol the group's session timeout here.
    session_ms = decision.partition.consumer_config(group_id).session_timeout_ms
    for member in group.members.values():
        if DeadlineKey("member session", group_id, member.member_id) not in pending:
            start_session(decision, group_id, member.member_id, session_ms)
        key = DeadlineKey("revocation", group_id, member.member_id)
        if member.state is MemberState.UNREVOKED_PARTITIONS and key not in pending:
            decision.schedule(key, member.metadata.rebalance_timeout_ms)


def cancel_deadlines(decision: Decision, group_id: str, member_ids: Iterable[str]) -> None:
    for member_id in member_ids:
        for kind in MEMBER_DEADLINES:
            decision.deadlines.cancel(DeadlineKey(kind, group_id, member_id))
