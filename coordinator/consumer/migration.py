"""Migration between the protocols while the group is in use. A classic group becomes a consumer
group when the first member of the consumer protocol joins, and becomes a classic group again when
the last member of the consumer protocol leaves.

Upstream: getOrMaybeCreateConsumerGroup, validateOnlineUpgrade, convertToConsumerGroup,
validateOnlineDowngrade…, convertToClassicGroup; ConsumerGroup.fromClassicGroup,
ClassicGroup.fromConsumerGroup.
"""

from collections.abc import Sequence
from typing import Final

from ...assignors.server.model import Target, TopicId
from ...offsets.causes import Cause
from ...offsets.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerMemberMetadata,
    GroupTombstone,
)
from ...protocol.errors import ApiError, DecodeError, ErrorCode
from ..classic.group import CONSUMER, Group
from ..classic.group import Member as ClassicMember
from ..classic.rebalance import prepare_rebalance, reject_waiting_requests
from ..classic.states import EMPTY, STABLE
from ..deadlines import DeadlineKey
from ..decision import Decision, PartitionState
from ..outcome import INFO, WARNING, EventType
from .group import ConsumerGroup, GroupState, Member, MemberState
from .members import cancel_deadlines

# The size of the version and the topic count at the start of subscriptions and assignments.
HEADER_BYTES: Final = 6

# --- finding or creating a consumer group


def get_consumer_group(partition: PartitionState, group_id: str) -> ConsumerGroup:
    """Return the consumer group. Raises ApiError if it does not exist."""
    group = partition.consumer_groups.get(group_id)
    if group is None:
        is_other = partition.exists(group_id)
        problem = "is not a consumer group." if is_other else "not found."
        raise ApiError(ErrorCode.group_id_not_found, f"Group {group_id} {problem}")
    return group


def find_or_create_group(decision: Decision, group_id: str, *, create: bool) -> ConsumerGroup:
    """Return the consumer group. If `create`, a missing group is created and a classic group
    converted; such a group exists only after its records are applied. Raises ApiError."""
    partition = decision.partition
    group = partition.consumer_groups.get(group_id)
    if group is not None:
        return group
    if not partition.exists(group_id):
        if not create:
            message = f"Consumer group {group_id} not found."
            raise ApiError(ErrorCode.group_id_not_found, message)
        decision.report(
            EventType.GROUP_CREATED,
            group_id,
            state_to=GroupState.EMPTY,
            cause=Cause.GROUP_CREATED,
            detail={"type": CONSUMER},
        )
        return ConsumerGroup(group_id)
    classic = None
    if create and group_id not in partition.other_groups.groups:
        classic = partition.find(group_id, decision.now)
    if classic is None:
        message = f"Group {group_id} is not a consumer group."
        raise ApiError(ErrorCode.group_id_not_found, message)
    if classic.state is EMPTY:
        decision.append(GroupTombstone(group_id))
        decision.log(
            "[GroupId %s] Converted the empty classic group to a consumer group.", group_id
        )
        _report_conversion(decision, classic, CONSUMER)
        return ConsumerGroup(group_id)
    _check_upgrade(decision, classic)
    return _upgrade(decision, classic)


def _report_conversion(decision: Decision, group: Group | ConsumerGroup, type_: str) -> None:
    decision.report(EventType.GROUP_CONVERTED, group, detail={"type": type_})


# --- classic to consumer


def _check_upgrade(decision: Decision, group: Group) -> None:
    config = decision.config
    if config.consumer_migration_policy not in ("upgrade", "bidirectional"):
        problem = "online upgrade is disabled."
    elif group.protocol_type != CONSUMER:
        problem = "the group does not use the consumer embedded protocol."
    elif len(group.members) > config.group_consumer_max_size:
        problem = "the group size exceeds the consumer group maximum size."
    else:
        return
    raise _cannot_upgrade(decision, group, problem)


def _cannot_upgrade(decision: Decision, group: Group, problem: str, level: int = INFO) -> ApiError:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {problem}"
    decision.log("%s", message, level=level)
    return ApiError(ErrorCode.group_id_not_found, message)


def _upgrade(decision: Decision, classic: Group) -> ConsumerGroup:
    """Convert a group with members. Its waiting requests get REBALANCE_IN_PROGRESS, and the
    responses to the next heartbeats make members rejoin, as in a classic group."""
    group_id = classic.group_id
    reject_waiting_requests(decision, classic, ErrorCode.rebalance_in_progress)
    decision.append(GroupTombstone(group_id))
    group = ConsumerGroup(group_id)
    group.epoch = group.assignment_epoch = classic.generation
    owned: set[tuple[TopicId, int]] = set()
    for member in classic.members.values():
        converted, target = _to_consumer_member(decision, classic, member)
        partitions = {(topic, index) for topic, indexes in target.items() for index in indexes}
        if owned & partitions:
            # Upstream also fails, because a partition has one owner (addPartitionEpochs).
            raise ApiError(ErrorCode.unknown_server_error)
        owned |= partitions
        group.add(converted, target)
    topics = group.subscriptions().topics
    group.metadata_hash = decision.partition.topics.metadata_hash(topics)
    for record in group.records():
        decision.append(record)
    for member in classic.members.values():
        key = DeadlineKey("member session", group_id, member.member_id)
        decision.schedule(key, member.session_timeout_ms)
    decision.log("[GroupId %s] Converted the classic group to a consumer group.", group_id)
    _report_conversion(decision, classic, CONSUMER)
    return group


def _to_consumer_member(
    decision: Decision, group: Group, member: ClassicMember
) -> tuple[Member, Target]:
    """Return the member and its target, which is its current assignment. Raises ApiError."""
    codec, epoch = decision.partition.codec, group.generation
    encoded = dict(member.protocols).get(group.protocol_name or "")
    if encoded is None:
        # Upstream also fails. The group has no protocol before its first generation, and a member
        # that waits for the next one may no longer list the protocol.
        raise ApiError(ErrorCode.unknown_server_error)
    assignment = codec.assignment(member.assignment)
    if assignment is None:
        raise _malformed(decision, group, member.assignment)
    if assignment.has_user_data:
        problem = (
            "an unsupported custom assignor is in use. Please refer to the documentation or switch "
            "to a default assignor before re-attempting the upgrade."
        )
        raise _cannot_upgrade(decision, group, problem, WARNING)
    subscription = codec.subscription(encoded)
    if subscription is None:
        raise _malformed(decision, group, encoded)
    id_of = decision.partition.topics.id_of
    target: dict[TopicId, list[int]] = {}
    for topic, partitions in assignment.partitions.items():
        topic_id = id_of(topic)
        if topic_id is not None:
            target[topic_id] = list(dict.fromkeys(partitions))
    metadata = ConsumerMemberMetadata(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic_member_metadata=ClassicMemberMetadata(
            member.session_timeout_ms,
            tuple(ClassicProtocol(name, data) for name, data in member.protocols),
        ),
    )
    owned = {topic: dict.fromkeys(partitions, epoch) for topic, partitions in target.items()}
    converted = Member(member.member_id, metadata, epoch, epoch, MemberState.STABLE, assigned=owned)
    return converted, target


def _malformed(decision: Decision, group: Group, encoded: bytes) -> ApiError:
    """Return the error for a malformed assignment or subscription. Upstream handles data that ends
    early, but not an impossible number of topics."""
    version, topics = (int.from_bytes(each, signed=True) for each in (encoded[:2], encoded[2:6]))
    left = len(encoded) - HEADER_BYTES
    if version >= 0 and left >= 0 and not 0 <= topics <= left:
        return ApiError(ErrorCode.unknown_server_error)
    problem = "the embedded consumer protocol is malformed."
    return _cannot_upgrade(decision, group, problem, WARNING)


# --- consumer to classic


def can_downgrade(decision: Decision, group: ConsumerGroup, removed: Sequence[Member]) -> bool:
    """Whether the group becomes a classic group without the members `removed`."""
    left = len(group.members) - len(removed)
    classic_left = group.classic_members - sum(m.uses_classic_protocol for m in removed)
    return left > 0 and classic_left == left and _allows_downgrade(decision, group, left)


def can_downgrade_with(decision: Decision, group: ConsumerGroup, replaced: Member | None) -> bool:
    """Whether the group becomes a classic group when a classic member replaces `replaced`."""
    members = len(group.members)
    return (
        replaced is not None
        and not replaced.uses_classic_protocol
        and group.classic_members == members - 1
        and _allows_downgrade(decision, group, members)
    )


def _allows_downgrade(decision: Decision, group: ConsumerGroup, members: int) -> bool:
    if decision.config.consumer_migration_policy not in ("downgrade", "bidirectional"):
        problem = "the online downgrade is disabled"
    elif members > decision.config.group_max_size:
        problem = "its group size is greater than classic group max size"
    else:
        return True
    decision.log(
        "Cannot downgrade consumer group %s to classic group because %s.",
        *(group.group_id, problem),
    )
    return False


def downgrade(
    decision: Decision,
    group: ConsumerGroup,
    removed: Sequence[Member],
    joining: Member | None,
    rebalance_reason: str | None,
    cause: Cause,
) -> None:
    """Convert the group to a classic group, without the members `removed`. `joining` replaces the
    static member with the same instance id. Without a `rebalance_reason`, no rebalance starts.
    Raises ApiError."""
    replaced = None if joining is None else group.static_member(joining.group_instance_id)
    for record in group.tombstones():
        if joining is not None and replaced is not None and record.name == replaced.member_id:
            # The records of the predecessor were deleted when it was replaced.
            record = record._replace(name=joining.member_id)
        decision.append(record)
    gone = {member.member_id for member in removed}
    gone_or_replaced = gone if replaced is None else {*gone, replaced.member_id}
    staying = [m for m in group.members.values() if m.member_id not in gone_or_replaced]
    if joining is not None:
        staying.append(joining)
    classic = _to_classic_group(decision, group, staying)
    decision.partition.groups[group.group_id] = classic
    decision.write(classic)
    cancel_deadlines(decision, group.group_id, group.members)
    for member in classic.members.values():
        decision.schedule(member.session, member.session_timeout_ms)
    decision.log("[GroupId %s] Converted the consumer group to a classic group.", group.group_id)
    _report_conversion(decision, group, "classic")
    if group.state is not GroupState.STABLE:
        decision.report(
            EventType.STATE_CHANGE, classic, state_from=group.state, state_to=classic.state
        )
    if rebalance_reason is not None:
        members = tuple(gone) if joining is None else (joining.member_id,)
        prepare_rebalance(decision, classic, cause, rebalance_reason, members)


def _to_classic_group(decision: Decision, group: ConsumerGroup, staying: Sequence[Member]) -> Group:
    codec = decision.partition.codec
    classic = Group(group.group_id, decision.now)
    classic.state = STABLE
    classic.generation = group.epoch
    classic.protocol_type = CONSUMER
    for member in staying:
        protocols = member.metadata.classic_member_metadata
        assert protocols is not None, "only members of the classic protocol stay"
        classic.add(
            ClassicMember(
                session=DeadlineKey("session", group.group_id, member.member_id),
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.metadata.rebalance_timeout_ms,
                session_timeout_ms=protocols.session_timeout_ms,
                protocols=tuple(
                    (each.name, each.metadata) for each in protocols.supported_protocols
                ),
            )
        )
    classic.protocol_name = name = classic.select_protocol()
    classic.cache_subscriptions()
    for each in classic.members.values():
        target = group.target(each.member_id, each.group_instance_id)
        existing = decision.partition.by_topic_name(target)
        try:
            each.assignment = codec.encode_assignment(existing, each.metadata(name))
        except DecodeError as malformed:
            # JoinGroup validates only the metadata for the first protocol of a member.
            message = f"Cannot downgrade the classic group {group.group_id}: {malformed}."
            decision.log("%s", message, level=WARNING)
            raise ApiError(ErrorCode.group_id_not_found, message) from malformed
    return classic
