"""ConsumerGroupDescribe (key 69, KIP-848).

v1 member_type.
"""

from collections.abc import Iterator
from functools import partial

from ...coordinator.commands import (
    DescribeConsumerGroup,
    DescribeConsumerResult,
    DescribedConsumer,
    describe_consumer_error,
)
from ...protocol.errors import ErrorCode
from ..cluster import Node
from ..gather import Gather
from ..request import Message, RequestContext, in_slices, run_in_slices
from .common import GROUP_OPERATIONS, NOT_REQUESTED

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Duplicate group ids are described once, and their responses are copies."""
    group_ids = list(dict.fromkeys(context.request.group_ids))
    results = Gather(len(group_ids), partial(_respond, context, node))
    for index, group_id in enumerate(group_ids):
        if not node.group_config.serves_consumer_groups:
            results.put(index, describe_consumer_error(ErrorCode.unsupported_version))
        elif group_id:
            node.coordinators.submit(DescribeConsumerGroup(group_id), results.put, index)
        else:
            results.put(index, describe_consumer_error(ErrorCode.invalid_group_id))
        yield


def _respond(context: RequestContext, node: Node, results: list[DescribeConsumerResult]) -> None:
    run_in_slices(context, node, _respond_to_each(context, results))


def _respond_to_each(
    context: RequestContext, results: list[DescribeConsumerResult]
) -> Iterator[None]:
    group_ids = context.request.group_ids
    groups = {}
    for group_id, result in zip(dict.fromkeys(group_ids), results, strict=True):
        groups[group_id] = _group(context, group_id, result)
        yield
    context.respond(Message(groups=[groups[group_id] for group_id in group_ids]))


def _group(context: RequestContext, group_id: str, result: DescribeConsumerResult) -> Message:
    requested = context.request.include_authorized_operations and not result.error_code
    return Message(
        error_code=result.error_code,
        error_message=result.error_message,
        group_id=group_id,
        group_state=result.group_state,
        group_epoch=result.group_epoch,
        assignment_epoch=result.assignment_epoch,
        assignor_name=result.assignor_name,
        members=[_member(member) for member in result.members],
        authorized_operations=GROUP_OPERATIONS if requested else NOT_REQUESTED,
    )


def _member(member: DescribedConsumer) -> Message:
    return Message(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=Message(topic_partitions=member.assignment),
        target_assignment=Message(topic_partitions=member.target_assignment),
        member_type=CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    )
