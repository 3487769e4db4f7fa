"""OffsetDelete (key 47, KIP-496). v0 is all there is, and it is not flexible."""

from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from ...coordinator.commands import OffsetDelete
from ...coordinator.results import OffsetsDeleted
from ...protocol.errors import ErrorCode
from ..node import Node
from ..request import RequestContext
from .reply import NO_THROTTLE, merged

UNKNOWN = ErrorCode.unknown_topic_or_partition


class PartitionReply(NamedTuple):
    partition_index: int
    error_code: ErrorCode


class TopicReply(NamedTuple):
    name: str
    partitions: list[PartitionReply]


class DeleteReply(NamedTuple):
    error_code: ErrorCode
    topics: Sequence[TopicReply]
    throttle_time: timedelta = NO_THROTTLE


class _Asked(NamedTuple):
    call: RequestContext
    refused: list[TopicReply]
    command: OffsetDelete


def handle(call: RequestContext, node: Node) -> None:
    """The group is asked even if no partition is left to ask about: its error comes first."""
    request = call.request
    refused: list[TopicReply] = []
    known = []
    for topic in request.topics:
        found = node.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        asked = [partition.partition_index for partition in topic.partitions]
        unknown = [PartitionReply(index, UNKNOWN) for index in asked if not 0 <= index < count]
        if unknown or found is None:
            refused.append(TopicReply(topic.name, unknown))
        if valid := tuple(index for index in asked if 0 <= index < count):
            known.append((topic.name, valid))
    command = OffsetDelete(request.group_id, tuple(known))
    node.groups.submit(command, _respond, _Asked(call, refused, command))


def _respond(asked: _Asked, result: OffsetsDeleted) -> None:
    call, refused, command = asked
    if result.error:
        call.reply(DeleteReply(result.error, []))
        return
    known = [
        TopicReply(name, [PartitionReply(index, error) for index in partitions])
        for (name, partitions), error in zip(command.topics, result.errors, strict=True)
    ]
    call.reply(DeleteReply(result.error, merged(refused, known)))
