"""ConsumerGroupDescribe (key 69, KIP-848).

v1 member_type.
"""

from collections.abc import Iterator, Sequence

from ...coordinator.commands import (
    DescribeConsumerGroup,
    DescribeConsumerResult,
    DescribedConsumer,
    describe_consumer_error,
)
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices, run_in_slices
from .authorization import NOT_REQUESTED, allows_group, allows_topic, group_operations

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
UNAUTHORIZED_TOPIC = (
    "The group has described topic(s) that the client is not authorized to describe."
)


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Describe groups. Duplicate group ids are described once, and their responses are copies."""
    group_ids = list(dict.fromkeys(context.request.group_ids))
    results = Gather(
        len(group_ids), lambda done: run_in_slices(context, node, _respond(context, node, done))
    )
    for index, group_id in enumerate(group_ids):
        if not node.group_config.serves_consumer_groups:
            results.put(index, describe_consumer_error(ErrorCode.unsupported_version))
        elif not allows_group(context, node, AclOperation.DESCRIBE, group_id):
            results.put(index, describe_consumer_error(ErrorCode.group_authorization_failed))
        elif group_id:
            node.coordinators.submit(DescribeConsumerGroup(group_id), results.put, index)
        else:
            results.put(index, describe_consumer_error(ErrorCode.invalid_group_id))
        yield


def _respond(
    context: RequestContext, node: Node, results: list[DescribeConsumerResult]
) -> Iterator[None]:
    group_ids = context.request.group_ids
    groups = {}
    authorizes = node.security.authorizer is not None
    described: dict[str, bool] = {}
    for group_id, result in zip(dict.fromkeys(group_ids), results, strict=True):
        members: list[Message] = []
        for member in result.members:
            yield  # with many topics, creating the member takes as long as creating its message
            topics = _topics(member) if authorizes else {}
            for topic in topics:
                if topic not in described:
                    described[topic] = allows_topic(context, node, AclOperation.DESCRIBE, topic)
                    yield
            if not all(described[topic] for topic in topics):
                error = ErrorCode.topic_authorization_failed
                result, members = describe_consumer_error(error, UNAUTHORIZED_TOPIC), []
                break
            members.append(_member(member))
            yield
        groups[group_id] = _group(context, node, group_id, result, members)
        yield
    context.respond(Message(groups=[groups[group_id] for group_id in group_ids]))


def _topics(member: DescribedConsumer) -> dict[str, None]:
    assigned = (*member.assignment, *member.target_assignment)
    return dict.fromkeys(each.topic_name or "" for each in assigned)


def _group(
    context: RequestContext,
    node: Node,
    group_id: str,
    result: DescribeConsumerResult,
    members: Sequence[Message],
) -> Message:
    requested = context.request.include_authorized_operations and not result.error_code
    return Message(
        error_code=result.error_code,
        error_message=result.error_message,
        group_id=group_id,
        group_state=result.group_state,
        group_epoch=result.group_epoch,
        assignment_epoch=result.assignment_epoch,
        assignor_name=result.assignor_name,
        members=members,
        authorized_operations=(
            group_operations(context, node, group_id) if requested else NOT_REQUESTED
        ),
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
