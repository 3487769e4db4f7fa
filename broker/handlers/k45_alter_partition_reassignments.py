"""AlterPartitionReassignments (key 45, KIP-455). v1 allow_replication_factor_change (KIP-860).

A reassignment completes immediately, because all nodes share the data. So no reassignment is ever
in progress, and there is none to cancel.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.admin import check_reassignment
from ...topics.topic import Topic
from ..cluster import Node
from ..network.request import RequestContext, in_slices, milliseconds
from .authorization import cluster_denial
from .common import TopicResponse, fail_unless_durable, fits

Reassigned: TypeAlias = dict[Topic, dict[int, tuple[int, ...]]]
"""The new replicas of partitions, by topic and index. The partitions of a topic are changed
together, because they share one record."""


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class AlterPartitionReassignmentsResponse(NamedTuple):
    error_code: ErrorCode
    error_message: str | None
    responses: list[TopicResponse]
    allow_replication_factor_change: bool = True


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    message: str | None = None
    if (denial := cluster_denial(context, node, AclOperation.ALTER)) is not None:
        error, message = denial
    elif not request.topics:
        context.respond(AlterPartitionReassignmentsResponse(ErrorCode.none, "", []))
        return
    elif milliseconds(request.timeout) <= 0:
        error = ErrorCode.request_timed_out
    else:
        allows_factor_change = context.version == 0 or request.allow_replication_factor_change
        reassigned: Reassigned = {}
        result_of = partial(_check, node, allows_factor_change, reassigned)
        try:
            topics = yield from _respond_to_each(request.topics, result_of)
        except ApiError as failure:
            error = failure.error
        else:
            for topic, replicas in reassigned.items():
                if node.topics.by_id(topic.id) is topic:  # not deleted in the meantime
                    node.topics.reassign(topic, replicas)
            node.topics.on_durable(partial(_respond, context, topics, allows_factor_change))
            return
    failed = yield from _respond_to_each(request.topics, lambda _topic, _part: (error, message))
    context.respond(AlterPartitionReassignmentsResponse(error, message, failed))


def _respond(
    context: RequestContext,
    topics: list[TopicResponse],
    allows_factor_change: bool,
    error: OSError | None,
) -> None:
    if error is not None:
        topics = [
            each._replace(partitions=fail_unless_durable(list(each.partitions), error))
            for each in topics
        ]
    success = ErrorCode.none, None
    context.respond(AlterPartitionReassignmentsResponse(*success, topics, allows_factor_change))


def _respond_to_each(
    topics: Iterable[Any], result_of: Callable[[str, Any], tuple[ErrorCode, str | None]]
) -> Generator[None, None, list[TopicResponse]]:
    responses = []
    for topic in topics:
        partitions = []
        for partition in topic.partitions:
            result = result_of(topic.name, partition)
            partitions.append(PartitionResponse(partition.partition_index, *result))
            yield
        responses.append(TopicResponse(topic.name, partitions))
        yield
    return responses


def _check(
    node: Node, allows_factor_change: bool, reassigned: Reassigned, name: str, requested: Any
) -> tuple[ErrorCode, str | None]:
    """Return the result for one partition, and add valid replicas to `reassigned`. Raises ApiError
    if the whole request fails."""
    index, replicas = requested.partition_index, requested.replicas
    try:
        topic = check_reassignment(
            node.topics, name, index, replicas, allows_factor_change=allows_factor_change
        )
        reassigned.setdefault(topic, {})[index] = tuple(replicas)
    except ApiError as rejection:
        if not fits(rejection.message):
            raise ApiError(ErrorCode.unknown_server_error) from rejection
        return rejection.error, rejection.message
    return ErrorCode.none, None
