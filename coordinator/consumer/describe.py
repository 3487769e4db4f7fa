"""ConsumerGroupDescribe. Upstream: ConsumerGroup.asDescribedGroup."""

from ...protocol.errors import ApiError, ErrorCode
from ..commands import (
    DescribeConsumerGroup,
    DescribeConsumerResult,
    DescribedConsumer,
    NamedPartitions,
    describe_consumer_error,
)
from ..decision import PartitionState
from ..outcome import Outcome, reply
from .group import ConsumerGroup, Member, Partitions, merge, topic_partitions
from .migration import get_consumer_group
from .target import preferred_assignor


def decide_describe_consumer(
    partition: PartitionState, command: DescribeConsumerGroup, ticket: int, _now: int
) -> Outcome:
    try:
        group = get_consumer_group(partition, command.group_id)
    except ApiError as rejection:
        return reply(ticket, describe_consumer_error(rejection.error, rejection.message))
    assignor = preferred_assignor(group) or partition.config.consumer_group_assignors[0]
    members = tuple(_describe(partition, group, member) for member in group.members.values())
    result = DescribeConsumerResult(
        ErrorCode.none, None, group.state, group.epoch, group.assignment_epoch, assignor, members
    )
    return reply(ticket, result)


def _describe(partition: PartitionState, group: ConsumerGroup, member: Member) -> DescribedConsumer:
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
        _named(partition, group.targets.get(member.member_id, {})),
        member.uses_classic_protocol,
    )


def _named(partition: PartitionState, assigned: Partitions) -> tuple[NamedPartitions, ...]:
    """Return the partitions whose topics exist."""
    listed = (
        (topic_id, partition.topics.name_of(topic_id), partitions)
        for topic_id, partitions in topic_partitions(assigned)
    )
    return tuple(NamedPartitions(*each) for each in listed if each[1] is not None)
