"""DescribeGroups, ConsumerGroupDescribe, ListGroups and DeleteGroups.

A group that has only offsets is Empty, without a protocol type. Upstream:
GroupMetadataManager.describeGroups and listGroups, GroupCoordinatorShard.deleteGroups,
ClassicGroup.describe and validateDeleteGroup, ConsumerGroup.asDescribedGroup.
"""

from collections.abc import Iterable
from typing import Final

from ..offsets.records import OffsetTombstone
from ..protocol.errors import ApiError, ErrorCode
from .classic.group import CONSUMER, Group
from .classic.states import EMPTY, STABLE
from .commands import (
    DeleteGroup,
    DeleteGroupResult,
    DescribeConsumerGroup,
    DescribeConsumerResult,
    DescribedConsumer,
    DescribedMember,
    DescribeGroup,
    DescribeResult,
    ListedGroup,
    ListGroups,
    ListResult,
    NamedPartitions,
    describe_consumer_error,
    describe_error,
)
from .consumer.group import Member, Partitions, merge, topic_partitions
from .consumer.migration import get_consumer_group
from .consumer.target import preferred_assignor
from .decision import PartitionState, group_deleted, group_tombstones
from .outcome import INFO, LogLine, Outcome, reply

_NONE: Final = ErrorCode.none
CLASSIC: Final = "classic"  # the type of most groups


def decide_describe(
    partition: PartitionState, command: DescribeGroup, ticket: int, _now: int
) -> Outcome:
    group_id = command.group_id
    group = partition.groups.get(group_id)
    if group is not None:
        result = _describe(group)
    elif partition.offsets.has_group(group_id) and group_id not in partition.consumer_groups:
        result = DescribeResult(_NONE, EMPTY, "", "", ())
    else:
        problem = "is not a classic group." if partition.exists(group_id) else "not found."
        message = f"Group {group_id} {problem}"
        result = describe_error(ErrorCode.group_id_not_found, message)
    return reply(ticket, result)


def _describe(group: Group) -> DescribeResult:
    """Return the description of a group. The protocol and the member metadata are set only in
    Stable. During a rebalance, the assignment is the previous generation's."""
    protocol_name = group.protocol_name if group.state is STABLE else None
    return DescribeResult(
        _NONE,
        group.state,
        group.protocol_type or "",
        protocol_name or "",
        tuple(
            DescribedMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                b"" if protocol_name is None else member.metadata(protocol_name),
                member.assignment,
            )
            for member in group.members.values()
        ),
    )


def decide_describe_consumer(
    partition: PartitionState, command: DescribeConsumerGroup, ticket: int, _now: int
) -> Outcome:
    try:
        group = get_consumer_group(partition, command.group_id)
    except ApiError as rejection:
        return reply(ticket, describe_consumer_error(rejection.error, rejection.message))
    assignor = preferred_assignor(group) or partition.config.consumer_group_assignors[0]
    targets = [(each, group.targets.get(each.member_id, {})) for each in group.members.values()]
    members = (_consumer(partition, member, target) for member, target in targets)
    result = DescribeConsumerResult(
        ErrorCode.none, None, group.state, group.epoch, group.assignment_epoch, assignor, members
    )
    return reply(ticket, result)


def _consumer(partition: PartitionState, member: Member, target: Partitions) -> DescribedConsumer:
    metadata = member.metadata
    return DescribedConsumer(
        member.member_id,
        metadata.instance_id,
        metadata.rack_id,
        member.epoch,
        metadata.client_id,
        metadata.client_host,
        metadata.subscribed_topic_names,
        metadata.subscribed_topic_regex,
        _named(partition, merge(member.assigned, member.pending_revocation)),
        _named(partition, target),
        member.uses_classic_protocol,
    )


def _named(partition: PartitionState, assigned: Partitions) -> tuple[NamedPartitions, ...]:
    """Return the partitions whose topics exist."""
    listed = (
        (topic_id, partition.topics.name_of(topic_id), partitions)
        for topic_id, partitions in topic_partitions(assigned)
    )
    return tuple(NamedPartitions(*each) for each in listed if each[1] is not None)


def decide_list(partition: PartitionState, command: ListGroups, ticket: int, _now: int) -> Outcome:
    states, types = command
    lists_empty = _matches(EMPTY, states)
    listed: list[ListedGroup] = []
    if not types or CLASSIC in types:
        listed += [
            ListedGroup(group.group_id, group.protocol_type or "", group.state, CLASSIC)
            for group in partition.groups.values()
            if _matches(group.state, states)
        ]
        listed += [
            ListedGroup(group_id, "", EMPTY, CLASSIC)
            for group_id in (partition.offsets.groups() if lists_empty else ())
            if not partition.has_metadata(group_id)
        ]
    if not types or CONSUMER in types:
        listed += [
            ListedGroup(group.group_id, group.protocol_type, group.state, CONSUMER)
            for group in partition.consumer_groups.values()
            if _matches(group.state, states)
        ]
    listed += [
        ListedGroup(group_id, other.type, EMPTY, other.type)
        for group_id, other in partition.other_groups.groups.items()
        if lists_empty and (not types or other.type in types)
    ]
    return reply(ticket, ListResult(_NONE, tuple(listed)))


def _matches(state: str, states: frozenset[str]) -> bool:
    return not states or state.lower() in states


def merge_lists(results: Iterable[ListResult]) -> ListResult:
    """Merge the results of all partitions. Ignore NOT_COORDINATOR; return any other error as the
    overall result (upstream: GroupCoordinatorService.listGroups)."""
    groups: list[ListedGroup] = []
    for result in results:
        if result.error_code not in (_NONE, ErrorCode.not_coordinator):
            return ListResult(result.error_code, ())
        groups += result.groups
    return ListResult(_NONE, tuple(groups))


def decide_delete_group(
    partition: PartitionState, command: DeleteGroup, ticket: int, _now: int
) -> Outcome:
    """Write tombstones for all offsets and then for the group, so that no reader of the log sees
    offsets of a deleted group. Pending member ids do not prevent the deletion."""
    group_id = command.group_id
    group = partition.groups.get(group_id) or partition.consumer_groups.get(group_id)
    if not partition.exists(group_id):
        return reply(ticket, DeleteGroupResult(ErrorCode.group_id_not_found))
    if group is not None and group.state != EMPTY:
        return reply(ticket, DeleteGroupResult(ErrorCode.non_empty_group))
    committed = (record[:3] for record in partition.offsets.records(group_id))
    pending = partition.pending_offsets.of_group(group_id)
    offsets = [OffsetTombstone(*key) for key in dict.fromkeys((*committed, *pending))]
    records = (*offsets, *group_tombstones(partition, group_id))
    events = (
        LogLine(
            INFO,
            "The following groups were deleted: %s. A total of %d offsets were removed.",
            (group_id, len(offsets)),
        ),
        group_deleted(group or group_id, len(offsets)),
    )
    return Outcome(records, ((ticket, DeleteGroupResult(_NONE)),), events)
