"""DeleteTopics (key 20).

v1 throttle_time · v3 TOPIC_DELETION_DISABLED · v4 flexible · v5 error_message ·
v6 topics by name or by id (KIP-516).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple
from uuid import UUID

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.admin import check_not_reserved
from ...topics.topic import Topic
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices, milliseconds
from .authorization import allows_cluster, allows_topic
from .common import ERROR_MESSAGES, default_rejection


class TopicResponse(NamedTuple):
    name: str | None
    topic_id: UUID | None
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class _Requested(NamedTuple):
    name: str | None
    id: UUID | None

    @property
    def is_valid(self) -> bool:
        """Whether the entry has a name or an id, but not both."""
        return (self.name is None) != (self.id is None)


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    requested = list(_requested(context))
    counts = Counter(requested)
    error = _error_of_all(context, node, counts)
    if error is not None:
        context.respond(Message(responses=[TopicResponse(*each, error) for each in requested]))
        return
    delete, describe = AclOperation.DELETE, AclOperation.DESCRIBE
    allows_all = allows_cluster(context, node, delete, reports=False)
    responses: list[TopicResponse] = []
    # By response index.
    deleted: dict[int, tuple[_Requested, Topic]] = {}
    for each in dict.fromkeys(requested):
        copies = 1 if each.is_valid else counts[each]
        try:
            topic = _topic(context, node, each, counts[each], allows_all=allows_all)
            if not allows_all and not allows_topic(context, node, delete, topic.name):
                if each.id is not None and allows_topic(context, node, describe, topic.name):
                    each = _Requested(topic.name, each.id)
                raise default_rejection(ErrorCode.topic_authorization_failed)
            # If the request has the topic's name exactly once, that entry handles this id. A
            # repeated name is rejected.
            if each.id is not None and counts[_Requested(topic.name, None)] == 1:
                continue
            if each.id is None and counts[_Requested(None, topic.id)]:
                each = _Requested(topic.name, topic.id)
                raise ApiError(
                    ErrorCode.invalid_request,
                    "The provided topic name maps to an ID that was already supplied.",
                )
            _check_deletion(context, topic)
        except ApiError as rejection:
            response = TopicResponse(each.name, each.id, rejection.error, rejection.message)
            responses += [response] * copies
        else:
            deleted[len(responses)] = each, topic
            responses.append(TopicResponse(topic.name, topic.id))
        yield
    if not deleted:
        # Wait for durability, because rejections may be based on changes that are not durable yet.
        node.topics.on_durable(lambda _error: context.respond(Message(responses=responses)))
        return
    yield from _delete(context, node, responses, deleted)


def _error_of_all(
    context: RequestContext, node: Node, counts: Mapping[_Requested, int]
) -> ErrorCode | None:
    if not node.config.bool("delete.topic.enable"):
        is_known = context.version >= 3
        return ErrorCode.topic_deletion_disabled if is_known else ErrorCode.invalid_request
    deletes = any(count == 1 and each.is_valid for each, count in counts.items())
    if deletes and milliseconds(context.request.timeout) <= 0:
        # Kafka deletes nothing if the timeout is not positive.
        return ErrorCode.request_timed_out
    return None


def _delete(
    context: RequestContext,
    node: Node,
    responses: list[TopicResponse],
    deleted: dict[int, tuple[_Requested, Topic]],
) -> Iterator[None]:
    results = Gather(len(deleted), partial(_respond, context, responses, list(deleted)))
    for place, (index, (requested, validated)) in enumerate(deleted.items()):
        done = partial(results.put, place)
        topic = node.topics.by_id(validated.id)
        if topic is not None:
            node.topics.delete(topic, done)
        else:
            # Another request has since deleted the topic. A topic of the same name is a new topic.
            error = _unknown(requested)
            responses[index] = TopicResponse(*requested, error, ERROR_MESSAGES[error])
            node.topics.on_durable(done)
        yield


def _requested(context: RequestContext) -> Iterator[_Requested]:
    if context.version >= 6:
        return (_Requested(each.name, each.topic_id) for each in context.request.topics)
    return (_Requested(name, None) for name in context.request.topic_names)


def _check_deletion(context: RequestContext, topic: Topic) -> None:
    """Raise ApiError if the topic cannot be deleted at all or at this time."""
    check_not_reserved(topic.name)
    if context.meter is not None:
        count = len(topic.partitions)
        context.meter.record_mutations(count, is_strict=context.version >= 5)


def _topic(
    context: RequestContext, node: Node, requested: _Requested, count: int, *, allows_all: bool
) -> Topic:
    name, topic_id = requested
    if name is not None and topic_id is not None:
        message = "You may not specify both topic name and topic id."
        raise ApiError(ErrorCode.invalid_request, message)
    if requested.is_valid and count > 1:
        raise ApiError(
            ErrorCode.invalid_request, f"Duplicate topic {'name' if topic_id is None else 'id'}."
        )
    if topic_id is not None:
        topic = node.topics.by_id(topic_id)
        if topic is None:
            raise default_rejection(_unknown(requested))
        return topic
    if name is None:
        raise ApiError(ErrorCode.invalid_request, "Neither topic name nor id were specified.")
    # The response does not disclose whether the topic exists.
    if not allows_all and not allows_topic(context, node, AclOperation.DESCRIBE, name):
        raise default_rejection(ErrorCode.topic_authorization_failed)
    topic = node.topics.get(name)
    if topic is None:
        raise default_rejection(_unknown(requested))
    return topic


def _unknown(requested: _Requested) -> ErrorCode:
    if requested.id is not None:
        return ErrorCode.unknown_topic_id
    return ErrorCode.unknown_topic_or_partition


def _respond(
    context: RequestContext,
    responses: list[TopicResponse],
    indexes: list[int],
    errors: list[OSError | None],
) -> None:
    """Respond once the deletions are durable and the names can be reused."""
    for index, error in zip(indexes, errors, strict=True):
        if error is not None:
            responses[index] = responses[index]._replace(
                error_code=ErrorCode.kafka_storage_error, error_message=str(error)
            )
    context.respond(Message(responses=responses))
