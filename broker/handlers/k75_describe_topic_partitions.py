"""DescribeTopicPartitions (key 75): topics in pages of partitions (KIP-966). Always flexible.

Upstream: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse. Where
nothing is known of eligible leaders the lists are empty and not null: Java's admin client takes
null for a broken answer.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...topics.errors import Refused
from ...topics.names import invalid_name, is_internal
from ..node import Node
from ..request import NO_THROTTLE, RequestContext
from .k03_metadata import NOT_ASKED, TOPIC_OPERATIONS, PartitionResponse, partition_reply


class DescribedPartition(PartitionResponse):
    """What Metadata tells of a partition, and that nothing is known of eligible leaders."""

    eligible_leader_replicas: tuple[()] = ()
    last_known_elr: tuple[()] = ()


class TopicResponse(NamedTuple):
    error_code: ErrorCode
    name: str
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[DescribedPartition] = ()
    topic_authorized_operations: int = TOPIC_OPERATIONS


class CursorResponse(NamedTuple):
    """Where the next page begins."""

    topic_name: str
    partition_index: int


class DescribeTopicPartitionsResponse(NamedTuple):
    topics: list[TopicResponse]
    next_cursor: CursorResponse | None = None
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    try:
        context.respond(_page(context, node, _names(context, node)))
    except Refused as refused:
        topics = [
            TopicResponse(refused.error, topic.name, topic_authorized_operations=NOT_ASKED)
            for topic in context.request.topics
        ]
        context.respond(DescribeTopicPartitionsResponse(topics))


def _names(context: RequestContext, node: Node) -> list[str]:
    """The topics that the page is about: those asked for, or all, from the cursor's on."""
    request = context.request
    cursor = request.cursor
    asked = [topic.name for topic in request.topics] or _all_names(node)
    first = "" if cursor is None else cursor.topic_name
    names = sorted({name for name in asked if name >= first})
    if cursor is not None and request.topics and first not in names:
        raise Refused(ErrorCode.invalid_request)
    if cursor is not None and cursor.partition_index < 0:
        raise Refused(ErrorCode.invalid_request)
    if "" in names:
        # Kafka's authorizer stumbles over a resource without a name.
        raise Refused(ErrorCode.unknown_server_error)
    return names


def _all_names(node: Node) -> list[str]:
    return [topic.name for topic in node.readable]


def _page(
    context: RequestContext, node: Node, names: Sequence[str]
) -> DescribeTopicPartitionsResponse:
    request = context.request
    limit = node.config.int("max.request.partition.size.limit")
    room = max(min(limit, request.response_partition_limit), 1)
    topics: list[TopicResponse] = []
    for name in names:
        if room == 0:
            return DescribeTopicPartitionsResponse(topics, CursorResponse(name, 0))
        topic = node.readable.get(name)
        if topic is None:
            invalid = invalid_name(name) is not None
            error = (
                ErrorCode.invalid_topic_exception
                if invalid
                else ErrorCode.unknown_topic_or_partition
            )
            topics.append(TopicResponse(error, name, is_internal=is_internal(name)))
            continue
        cursor = request.cursor
        first = cursor.partition_index if cursor and cursor.topic_name == name else 0
        partitions = [
            DescribedPartition(*partition_reply(node, partition))
            for partition in topic.partitions[first : first + room]
        ]
        topics.append(TopicResponse(ErrorCode.none, name, topic.id, topic.is_internal, partitions))
        room -= len(partitions)
        if first + len(partitions) < len(topic.partitions):
            return DescribeTopicPartitionsResponse(
                topics, CursorResponse(name, first + len(partitions))
            )
    return DescribeTopicPartitionsResponse(topics)
