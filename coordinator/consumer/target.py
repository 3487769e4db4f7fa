"""The target assignment of a group, which a server-side assignor computes when the group epoch has
changed, but at most once per assignment interval (KIP-1263).

Upstream: maybeUpdateTargetAssignment, TargetAssignmentBuilder.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...assignors.server.builtin import SERVER_ASSIGNORS
from ...assignors.server.hashing import group_spec_order, subscription_order
from ...assignors.server.model import Member as AssignorMember
from ...assignors.server.model import Target, Topic, UnknownPartition
from ...assignors.server.targets import have_same_partitions
from ...offsets.records import ConsumerGroupRecord, ConsumerRecordType, TargetAssignmentMetadata
from ...protocol.errors import ApiError, ErrorCode
from ..decision import Decision, TopicMetadata
from .group import NO_TARGET, ConsumerGroup, Member, SubscriptionOrder, target_record
from .subscriptions import Epoch


class MemberTarget(NamedTuple):
    """The assignment epoch, and the target assignment of the member that sent the request."""

    epoch: int
    partitions: Target


def update_target(
    decision: Decision,
    group: ConsumerGroup,
    before: Member,
    after: Member,
    epoch: Epoch,
    sent_names: Sequence[str] | None,
) -> MemberTarget:
    """Compute the target assignment if it is due, and write the changes. `sent_names` are the topic
    names in the request, whose order breaks ties, or None if they have not changed."""
    if group.assignment_epoch >= epoch.epoch or not _is_due(decision, group):
        target = group.target(after.member_id, after.group_instance_id)
        return MemberTarget(group.assignment_epoch, target)
    name = preferred_assignor(group, before, after) or decision.config.consumer_group_assignors[0]
    if name not in SERVER_ASSIGNORS:  # from the log of a Kafka broker that has assignors of its own
        raise ApiError(ErrorCode.unknown_server_error, f"the assignor {name} does not exist")
    members = _assignor_members(group, after, sent_names, decision.partition.topics)
    topics = _assignor_topics(decision, members)
    try:
        targets = SERVER_ASSIGNORS[name](members, topics, epoch.is_homogeneous)
    except UnknownPartition as error:
        raise ApiError(ErrorCode.unknown_server_error) from error
    decision.log(
        "[GroupId %s] Computed a new target assignment for epoch %d with '%s' assignor.",
        *(group.group_id, epoch.epoch, name),
    )
    for member_id, target in targets.items():
        old = group.targets.get(member_id)
        if old is None or not have_same_partitions(old, target):
            decision.append(target_record(group.group_id, member_id, target))
    type_ = ConsumerRecordType.TARGET_ASSIGNMENT_METADATA
    value = TargetAssignmentMetadata(epoch.epoch, decision.now)
    decision.append(ConsumerGroupRecord(type_, group.group_id, "", value))
    return MemberTarget(epoch.epoch, targets[after.member_id])


def _is_due(decision: Decision, group: ConsumerGroup) -> bool:
    if group.group_id in decision.partition.held_assignments:
        return False
    interval_ms = decision.partition.consumer_config(group.group_id).assignment_interval_ms
    last_ms = group.assignment_timestamp_ms
    return not last_ms or not interval_ms or decision.now >= last_ms + interval_ms


def _assignor_members(
    group: ConsumerGroup,
    after: Member,
    sent_names: Sequence[str] | None,
    topics: TopicMetadata,
) -> dict[str, AssignorMember]:
    """Return the members in Kafka's order, with `after` in place of its predecessor."""
    predecessor = group.static_member(after.group_instance_id)
    replaced = None if predecessor is None else predecessor.member_id
    if replaced == after.member_id:
        replaced = None
    order = group_spec_order(list(group.members), group.members_max, after.member_id, replaced)
    known = group.orders if group.orders_version == topics.version else {}
    orders: dict[tuple[int, int], SubscriptionOrder] = {}
    members: dict[str, AssignorMember] = {}
    for member_id in order:
        member = after if member_id == after.member_id else group.members[member_id]
        instance_id = member.group_instance_id
        names: Sequence[str] = member.metadata.subscribed_topic_names
        if member is after and sent_names is not None:
            names = tuple(sent_names)
        matched = group.topics_of(member.regex)
        key = id(names), id(matched)
        found = orders.get(key) or known.get(key)
        if found is None:
            ordered = subscription_order(names, matched, topics.id_of)
            unknown = len({*names, *matched}) - len(ordered)
            found = SubscriptionOrder(names, matched, ordered, unknown)
        orders[key] = found
        target = group.targets.get(member_id, NO_TARGET)
        if member is after:
            target = group.target(member_id, instance_id if replaced else None)
        members[member_id] = AssignorMember(found.topics, target, instance_id, found.unknown)
    group.orders, group.orders_version = orders, topics.version
    return members


def _assignor_topics(decision: Decision, members: Mapping[str, AssignorMember]) -> dict[str, Topic]:
    topics = decision.partition.topics
    distinct = {id(member.topics): member.topics for member in members.values()}
    names = set[str]().union(*distinct.values())
    found: dict[str, Topic] = {}
    for name in names:
        topic_id = topics.id_of(name)
        if topic_id is not None:
            found[name] = Topic(topic_id, topics.partition_count(topic_id))
    return found


def preferred_assignor(
    group: ConsumerGroup, before: Member | None = None, after: Member | None = None
) -> str | None:
    """Return the assignor that most members request, or None if no member requests one. On a tie,
    the first assignor in Kafka's hash table wins."""
    counts = {name: group.assignor_counts[name] for name in sorted(group.assignor_counts)[::-1]}
    for member, by in ((before, -1), (after, 1)):
        name = None if member is None else member.metadata.server_assignor
        if name is None:
            continue
        count = counts.get(name, 0) + by
        if count <= 0:
            counts.pop(name, None)
        elif name in counts:
            counts[name] = count
        else:  # HashMap.compute adds at the front of a bucket, and both names are in one bucket.
            counts = {name: count, **counts}
    return max(counts, key=counts.__getitem__, default=None)
