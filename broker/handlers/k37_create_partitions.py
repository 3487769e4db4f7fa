"""CreatePartitions (key 37). v2 flexible · v3 THROTTLING_QUOTA_EXCEEDED is possible."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.admin import plan_new_partitions
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices, milliseconds
from .authorization import allows_topic
from .common import respond_when_durable


class TopicResponse(NamedTuple):
    name: str
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    counts = Counter(topic.name for topic in request.topics)
    denied = {
        name
        for name, count in counts.items()
        if count == 1 and not allows_topic(context, node, AclOperation.ALTER, name)
    }
    if milliseconds(request.timeout) <= 0 and any(
        count == 1 and name not in denied for name, count in counts.items()
    ):
        # As in CreateTopics, nothing is done after the timeout.
        late = [TopicResponse(each.name, ErrorCode.request_timed_out) for each in request.topics]
        context.respond(Message(results=late))
        return
    responses = []
    for topic in {each.name: each for each in request.topics}.values():
        try:
            if counts[topic.name] > 1:
                raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
            if topic.name in denied:
                raise ApiError(ErrorCode.topic_authorization_failed)
            _create_partitions(context, node, topic)
        except ApiError as rejection:
            responses.append(TopicResponse(topic.name, rejection.error, rejection.message))
        else:
            responses.append(TopicResponse(topic.name))
        yield
    respond_when_durable(context, node, "results", responses)


def _create_partitions(context: RequestContext, node: Node, requested: Any) -> None:
    topic = node.topics.get(requested.name)
    if topic is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    assignments = requested.assignments
    broker_ids = None if assignments is None else [each.broker_ids for each in assignments]
    assignment = plan_new_partitions(node.topics, topic, requested.count, broker_ids)
    if context.meter is not None:
        added = requested.count - len(topic.partitions)
        context.meter.record_mutations(added, is_strict=context.version >= 3)
    if not context.request.validate_only:
        try:
            node.topics.add_partitions(topic, requested.count, assignment)
        except OSError as error:
            raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
