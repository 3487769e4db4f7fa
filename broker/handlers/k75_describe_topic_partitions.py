"""DescribeTopicPartitions (key 75, KIP-966): topics in pages of partitions. Always flexible.

Upstream: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse.
"""

from collections.abc import Generator, Iterator, Sequence

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import is_internal, topic_name_error
from ...topics.topic import Partition
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_topic, topic_operations
from .k03_metadata import PartitionResponse, TopicResponse, partition_response


class DescribedPartition(PartitionResponse):
    """A partition with the fields of Metadata and this API's additional fields."""

    eligible_leader_replicas: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    try:
        allowed: list[str] = []
        denied: list[TopicResponse] = []
        for name in _names(context, node):
            # If no topics are requested, all topics that the client may describe are returned.
            is_requested = bool(context.request.topics)
            if allows_topic(context, node, AclOperation.DESCRIBE, name, reports=is_requested):
                allowed.append(name)
            elif is_requested:
                error = ErrorCode.topic_authorization_failed
                denied.append(TopicResponse(error, name))
            yield
        if "" in allowed and context.request.cursor is None:
            # In Kafka, a missing cursor has the empty name, so this topic is mistaken for the
            # cursor's topic, and the request fails.
            raise ApiError(ErrorCode.unknown_server_error)
        page = yield from _page(context, node, allowed)
        page.topics += denied
        context.respond(page)
    except ApiError as rejection:
        topics = [TopicResponse(rejection.error, topic.name) for topic in context.request.topics]
        context.respond(Message(topics=topics, next_cursor=None))


def _names(context: RequestContext, node: Node) -> list[str]:
    """Return the requested topics, or all topics, in ascending order from the cursor on."""
    request = context.request
    cursor = request.cursor
    requested = [each.name for each in request.topics] or [each.name for each in node.view]
    first = "" if cursor is None else cursor.topic_name
    names = sorted({name for name in requested if name >= first})
    if cursor is not None and request.topics and first not in names:
        raise ApiError(ErrorCode.invalid_request)
    if cursor is not None and cursor.partition_index < 0:
        raise ApiError(ErrorCode.invalid_request)
    return names


def _page(
    context: RequestContext, node: Node, names: Sequence[str]
) -> Generator[None, None, Message]:
    request = context.request
    limit = node.config.int("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    topics: list[TopicResponse] = []
    for name in names:
        yield
        if room == 0:
            return Message(topics=topics, next_cursor=Message(topic_name=name, partition_index=0))
        operations = topic_operations(context, node, name)
        topic = node.view.get(name)
        if topic is None:
            response = TopicResponse(_error(name), name, is_internal=is_internal(name))
            topics.append(response._replace(topic_authorized_operations=operations))
            continue
        cursor = request.cursor
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        partitions = [
            _described(node, partition) for partition in topic.partitions[first : first + room]
        ]
        topics.append(
            TopicResponse(ErrorCode.none, name, topic.id, topic.is_internal, partitions, operations)
        )
        room -= len(partitions)
        end = first + len(partitions)
        if end < len(topic.partitions):
            return Message(topics=topics, next_cursor=Message(topic_name=name, partition_index=end))
    return Message(topics=topics, next_cursor=None)


def _described(node: Node, partition: Partition) -> DescribedPartition:
    described = DescribedPartition(*partition_response(node, partition))
    described.eligible_leader_replicas = partition.elr
    described.last_known_elr = partition.last_known_elr
    return described


def _error(name: str) -> ErrorCode:
    """Return the error for a missing topic."""
    if topic_name_error(name) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.invalid_topic_exception
