"""OffsetDelete (key 47, KIP-496). Only v0, which is not flexible."""

from collections.abc import Iterator
from functools import partial

from ...coordinator.commands import DeleteOffsetsResult, OffsetDelete
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import merge_topics
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_group, allows_topic
from .common import PartitionResponse, TopicResponse

UNKNOWN = ErrorCode.unknown_topic_or_partition


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Submit the command even without valid partitions, because a group error takes precedence."""
    request = context.request
    if not allows_group(context, node, AclOperation.DELETE, request.group_id):
        context.respond(Message(error_code=ErrorCode.group_authorization_failed, topics=()))
        return
    rejected: list[TopicResponse] = []
    known = []
    for topic in request.topics:
        found, missing = node.topics.get(topic.name), UNKNOWN
        if not allows_topic(context, node, AclOperation.READ, topic.name):
            found, missing = None, ErrorCode.topic_authorization_failed
        count = 0 if found is None else len(found.partitions)
        indexes = [partition.partition_index for partition in topic.partitions]
        unknown = [PartitionResponse(index, missing) for index in indexes if not 0 <= index < count]
        if unknown or found is None:
            rejected.append(TopicResponse(topic.name, unknown))
        if valid := tuple(index for index in indexes if 0 <= index < count):
            known.append((topic.name, valid))
        yield
    command = OffsetDelete(request.group_id, tuple(known))
    node.coordinators.submit(command, partial(_respond, rejected, command), context)


def _respond(
    rejected: list[TopicResponse],
    command: OffsetDelete,
    context: RequestContext,
    result: DeleteOffsetsResult,
) -> None:
    if result.error_code:
        context.respond(Message(error_code=result.error_code, topics=[]))
        return
    decided = [
        TopicResponse(name, [PartitionResponse(index, error) for index in partitions])
        for (name, partitions), error in zip(command.topics, result.errors, strict=True)
    ]
    context.respond(Message(error_code=result.error_code, topics=merge_topics(rejected, decided)))
