"""AlterPartitionReassignments (key 45, KIP-455). v1 allow_replication_factor_change (KIP-860).

Every node is a replica of every partition. A partition can only be reassigned to the replicas that
it has, which is complete immediately, so there is never a reassignment to cancel.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.admin import check_reassignment
from ..cluster import Node
from ..request import RequestContext, in_slices, milliseconds
from .authorization import allows_cluster, cluster_denial


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class TopicResponse(NamedTuple):
    name: str
    partitions: list[PartitionResponse]


class AlterPartitionReassignmentsResponse(NamedTuple):
    error_code: ErrorCode
    error_message: str | None
    responses: list[TopicResponse]
    allow_replication_factor_change: bool = True


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    error, message = ErrorCode.none, None
    if not allows_cluster(context, node, AclOperation.ALTER):
        error, message = cluster_denial(context, AclOperation.ALTER)
    elif not request.topics:
        context.respond(AlterPartitionReassignmentsResponse(ErrorCode.none, "", []))
        return
    elif milliseconds(request.timeout) <= 0:
        error = ErrorCode.request_timed_out
    allows_factor_change = context.version == 0 or request.allow_replication_factor_change
    topics = []
    for topic in request.topics:
        responses = []
        for partition in topic.partitions:
            index = partition.partition_index
            if error is ErrorCode.none:
                responses.append(
                    _reassign(node, topic.name, index, partition.replicas, allows_factor_change)
                )
            else:
                responses.append(PartitionResponse(index, error, message))
            yield
        topics.append(TopicResponse(topic.name, responses))
        yield
    response = AlterPartitionReassignmentsResponse(error, message, topics)
    if error is ErrorCode.none:
        response = response._replace(allow_replication_factor_change=allows_factor_change)
    context.respond(response)


def _reassign(
    node: Node,
    topic: str,
    index: int,
    replicas: tuple[int, ...] | None,
    allows_factor_change: bool,
) -> PartitionResponse:
    try:
        check_reassignment(
            node.topics, topic, index, replicas, allows_factor_change=allows_factor_change
        )
    except ApiError as rejection:
        return PartitionResponse(index, rejection.error, rejection.message)
    return PartitionResponse(index)
