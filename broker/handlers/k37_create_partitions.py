"""CreatePartitions (key 37). v2 flexible · v3 THROTTLING_QUOTA_EXCEEDED may be answered."""

from collections import Counter
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.admin import check_growth
from ...topics.errors import Refused
from ..node import Node
from ..request import NO_THROTTLE, RequestContext, milliseconds


class TopicResponse(NamedTuple):
    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class CreatePartitionsResponse(NamedTuple):
    results: list[TopicResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    times = Counter(asked.name for asked in request.topics)
    if milliseconds(request.timeout) <= 0 and 1 in times.values():
        # As with CreateTopics.
        late = [TopicResponse(each.name, ErrorCode.request_timed_out) for each in request.topics]
        context.respond(CreatePartitionsResponse(late))
        return
    replies = []
    for asked in {each.name: each for each in request.topics}.values():
        try:
            if times[asked.name] > 1:
                raise Refused(ErrorCode.invalid_request, "Duplicate topic name.")
            _grow(node, asked, request.validate_only)
        except Refused as refused:
            replies.append(TopicResponse(asked.name, refused.error, refused.message))
        else:
            replies.append(TopicResponse(asked.name))
    node.topics.on_durable(partial(_settled, context, replies))


def _grow(node: Node, asked: Any, validate_only: bool) -> None:
    topic = node.topics.get(asked.name)
    if topic is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    assignments = asked.assignments
    broker_ids = None if assignments is None else [each.broker_ids for each in assignments]
    check_growth(topic, asked.count, broker_ids, node.topics.nodes)
    if not validate_only:
        try:
            node.topics.grow(topic, asked.count)
        except OSError as error:
            raise Refused(ErrorCode.kafka_storage_error, str(error)) from error


def _settled(context: RequestContext, replies: list[TopicResponse], error: OSError | None) -> None:
    if error is not None:
        replies = [
            TopicResponse(each.name, ErrorCode.kafka_storage_error, str(error))
            if each.error_code is ErrorCode.none
            else each
            for each in replies
        ]
    context.respond(CreatePartitionsResponse(replies))
