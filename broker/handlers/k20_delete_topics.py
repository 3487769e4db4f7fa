"""DeleteTopics (key 20).

v1 throttle_time · v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 error_message ·
v6 topics by name or by id (KIP-516).
"""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...topics.admin import check_not_internal
from ...topics.errors import Refused
from ...topics.topic import Topic
from ..call import Call
from ..node import Node
from .reply import NO_THROTTLE


class TopicReply(NamedTuple):
    name: str | None
    topic_id: UUID | None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class DeleteTopicsReply(NamedTuple):
    responses: list[TopicReply]
    throttle_time: timedelta = NO_THROTTLE


class _Asked(NamedTuple):
    name: str | None
    id: UUID | None


def handle(call: Call, node: Node) -> None:
    asked = list(_asked(call))
    times = Counter(asked)
    replies = []
    for each in dict.fromkeys(asked):
        try:
            topic = _topic(node, each)
            if times[each] > 1:
                kind = "name" if each.id is None else "id"
                raise Refused(ErrorCode.invalid_request, f"Duplicate topic {kind}.")
            if each.id is not None and times[_Asked(topic.name, None)]:
                continue  # told beside the name
            if each.id is None and times[_Asked(None, topic.id)]:
                each = _Asked(topic.name, topic.id)
                raise Refused(
                    ErrorCode.invalid_request,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            if not node.config.bool("delete.topic.enable"):
                raise Refused(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false.")
            check_not_internal(topic.name)
        except Refused as refused:
            replies.append(TopicReply(each.name, each.id, refused.error, refused.message))
        else:
            node.topics.delete(topic)
            replies.append(TopicReply(topic.name, topic.id))
    node.topics.settled(partial(_settled, call, replies))


def _asked(call: Call) -> Iterator[_Asked]:
    if call.version >= 6:
        return (_Asked(each.name, each.topic_id) for each in call.request.topics)
    return (_Asked(name, None) for name in call.request.topic_names)


def _topic(node: Node, asked: _Asked) -> Topic:
    if asked.name is not None and asked.id is not None:
        complaint = "You may not specify both topic name and topic id."
        raise Refused(ErrorCode.invalid_request, complaint)
    if asked.id is not None:
        topic = node.topics.by_id(asked.id)
        if topic is None:
            complaint = "This server does not host this topic ID."
            raise Refused(ErrorCode.unknown_topic_id, complaint)
        return topic
    if asked.name is None:
        raise Refused(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    topic = node.topics.get(asked.name)
    if topic is None:
        complaint = "This server does not host this topic-partition."
        raise Refused(ErrorCode.unknown_topic_or_partition, complaint)
    return topic


def _settled(call: Call, replies: list[TopicReply], error: OSError | None) -> None:
    if error is not None:
        replies = [
            each._replace(error_code=ErrorCode.kafka_storage_error, error_message=str(error))
            if each.error_code is ErrorCode.none
            else each
            for each in replies
        ]
    call.reply(DeleteTopicsReply(replies))
