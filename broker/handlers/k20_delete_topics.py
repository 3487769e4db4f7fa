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
from ..gather import Gather
from ..node import Node
from ..request import NO_THROTTLE, RequestContext, milliseconds


class TopicResponse(NamedTuple):
    name: str | None
    topic_id: UUID | None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class DeleteTopicsResponse(NamedTuple):
    responses: list[TopicResponse]
    throttle_time: timedelta = NO_THROTTLE


class _Asked(NamedTuple):
    name: str | None
    id: UUID | None

    @property
    def is_well_formed(self) -> bool:
        """By name or by id, not by both and not by neither."""
        return (self.name is None) != (self.id is None)


def handle(context: RequestContext, node: Node) -> None:
    asked = list(_asked(context))
    times = Counter(asked)
    if milliseconds(context.request.timeout) <= 0 and any(
        count == 1 and each.is_well_formed for each, count in times.items()
    ):
        # As with CreateTopics.
        late = [TopicResponse(each.name, each.id, ErrorCode.request_timed_out) for each in asked]
        context.respond(DeleteTopicsResponse(late))
        return
    replies: list[TopicResponse] = []
    doomed: dict[int, Topic] = {}  # by their places among the replies
    for each in dict.fromkeys(asked):
        answers = 1 if each.is_well_formed else times[each]
        try:
            topic = _topic(node, each, times[each])
            # What was named twice is refused, and stands in nobody's way.
            if each.id is not None and times[_Asked(topic.name, None)] == 1:
                continue  # told beside the name
            if each.id is None and times[_Asked(None, topic.id)] == 1:
                each = _Asked(topic.name, topic.id)
                raise Refused(
                    ErrorCode.invalid_request,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            if not node.config.bool("delete.topic.enable"):
                raise Refused(ErrorCode.topic_deletion_disabled, "delete.topic.enable is false.")
            check_not_internal(topic.name)
        except Refused as refused:
            reply = TopicResponse(each.name, each.id, refused.error, refused.message)
            replies.extend([reply] * answers)
        else:
            doomed[len(replies)] = topic
            replies.append(TopicResponse(topic.name, topic.id))
    if not doomed:
        # What was refused may rest on what is not durable yet.
        node.topics.on_durable(lambda _error: context.respond(DeleteTopicsResponse(replies)))
        return
    gone = Gather(len(doomed), partial(_gone, context, replies, list(doomed)))
    for place, topic in enumerate(doomed.values()):
        node.topics.delete(topic, partial(gone.put, place))


def _asked(context: RequestContext) -> Iterator[_Asked]:
    if context.version >= 6:
        return (_Asked(each.name, each.topic_id) for each in context.request.topics)
    return (_Asked(name, None) for name in context.request.topic_names)


def _topic(node: Node, asked: _Asked, times: int) -> Topic:
    if asked.name is not None and asked.id is not None:
        complaint = "You may not specify both topic name and topic id."
        raise Refused(ErrorCode.invalid_request, complaint)
    if asked.is_well_formed and times > 1:
        kind = "name" if asked.id is None else "id"
        raise Refused(ErrorCode.invalid_request, f"Duplicate topic {kind}.")
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


def _gone(
    context: RequestContext,
    replies: list[TopicResponse],
    places: list[int],
    errors: list[OSError | None],
) -> None:
    """The names are free: whoever deletes a topic may make it again at once."""
    for place, error in zip(places, errors, strict=True):
        if error is not None:
            replies[place] = replies[place]._replace(
                error_code=ErrorCode.kafka_storage_error, error_message=str(error)
            )
    context.respond(DeleteTopicsResponse(replies))
