"""OffsetDelete (key 47, KIP-496). v0 is all there is, and it is not flexible."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from ...coordinator.commands import OffsetDelete
from ...coordinator.results import OffsetsDeleted
from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import NO_THROTTLE, RequestContext
from .k08_offset_commit import merge_topics

UNKNOWN = ErrorCode.unknown_topic_or_partition


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode


class TopicResponse(NamedTuple):
    name: str
    partitions: list[PartitionResponse]


class OffsetDeleteResponse(NamedTuple):
    error_code: ErrorCode
    topics: Sequence[TopicResponse]
    throttle_time: timedelta = NO_THROTTLE


class _Asked(NamedTuple):
    context: RequestContext
    refused: list[TopicResponse]
    command: OffsetDelete


def handle(context: RequestContext, node: Node) -> None:
    """The group is asked even if no partition is left to ask about: its error comes first."""
    request = context.request
    refused: list[TopicResponse] = []
    known = []
    for topic in request.topics:
        found = node.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        asked = [partition.partition_index for partition in topic.partitions]
        unknown = [PartitionResponse(index, UNKNOWN) for index in asked if not 0 <= index < count]
        if unknown or found is None:
            refused.append(TopicResponse(topic.name, unknown))
        if valid := tuple(index for index in asked if 0 <= index < count):
            known.append((topic.name, valid))
    command = OffsetDelete(request.group_id, tuple(known))
    node.groups.submit(command, _respond, _Asked(context, refused, command))


def _respond(asked: _Asked, result: OffsetsDeleted) -> None:
    context, refused, command = asked
    if result.error:
        context.respond(OffsetDeleteResponse(result.error, []))
        return
    known = [
        TopicResponse(name, [PartitionResponse(index, error) for index in partitions])
        for (name, partitions), error in zip(command.topics, result.errors, strict=True)
    ]
    context.respond(OffsetDeleteResponse(result.error, merge_topics(refused, known)))
