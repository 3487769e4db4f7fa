"""ElectLeaders (key 43). v1 election_type, error_code (KIP-460) · v2 flexible.

Moves partitions back to their preferred leaders, or (unclean) to replicas that are not in sync.
Administrators run `kafka-leader-election`, which sends this request, after a node has returned."""

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.topic import NO_LEADER
from ..cluster import Node
from ..network.request import RequestContext, in_slices, milliseconds
from .authorization import cluster_denial
from .common import fail_unless_durable

PREFERRED, UNCLEAN = 0, 1


class PartitionResponse(NamedTuple):
    partition_id: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


class TopicResponse(NamedTuple):
    topic: str
    partition_result: list[PartitionResponse]


class ElectLeadersResponse(NamedTuple):
    error_code: ErrorCode
    replica_election_results: list[TopicResponse]


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    if (denial := cluster_denial(context, node, AclOperation.ALTER)) is not None:
        topics = _failed(request.topic_partitions, *denial)
        context.respond(ElectLeadersResponse(denial[0], topics))
        return
    if request.topic_partitions != () and milliseconds(request.timeout) <= 0:
        # As in CreateTopics, nothing is done after the timeout.
        error = ErrorCode.request_timed_out
        context.respond(ElectLeadersResponse(error, _failed(request.topic_partitions, error)))
        return
    election = request.election_type if context.version >= 1 else PREFERRED
    if election not in (PREFERRED, UNCLEAN):
        context.respond(_unknown_election_type(election, request.topic_partitions))
        return
    if request.topic_partitions is None:
        topics = []
        for topic in list(node.topics):
            indexes = range(len(topic.partitions))
            elected = yield from _elect_each(node, election, topic.name, indexes)
            # Partitions that need no election are omitted.
            not_needed = ErrorCode.election_not_needed
            responses = [each for each in elected if each.error_code is not not_needed]
            topics.append(TopicResponse(topic.name, responses))
    else:
        topics = []
        for each in request.topic_partitions:
            elected = yield from _elect_each(node, election, each.topic, each.partitions)
            topics.append(TopicResponse(each.topic, elected))
    node.topics.on_durable(partial(_respond, context, topics))


def _unknown_election_type(election: int, topics: Iterable[Any] | None) -> ElectLeadersResponse:
    error, message = ErrorCode.invalid_request, f"Unknown election type {election}"
    # Kafka copies the top-level error from a partition, so a request without topics has no error.
    top_level = ErrorCode.none if topics == () else error
    return ElectLeadersResponse(top_level, _failed(topics, error, message))


def _failed(
    topics: Iterable[Any] | None, error: ErrorCode, message: str | None = None
) -> list[TopicResponse]:
    return [
        TopicResponse(each.topic, [PartitionResponse(i, error, message) for i in each.partitions])
        for each in topics or ()
    ]


def _elect_each(
    node: Node, election: int, topic: str, indexes: Iterable[int]
) -> Generator[None, None, list[PartitionResponse]]:
    responses = []
    for index in indexes:
        responses.append(PartitionResponse(index, *_elect(node, election, topic, index)))
        yield
    return responses


def _elect(node: Node, election: int, topic: str, index: int) -> tuple[ErrorCode, str | None]:
    """Elect a leader if possible. Return the error and its message (upstream:
    ReplicationControlManager.electLeader)."""
    if node.topics.get(topic) is None:
        return ErrorCode.unknown_topic_or_partition, f"No such topic as {topic}"
    partition = node.topics.partition(topic, index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition, f"No such partition as {topic}-{index}"
    preferred = partition.replicas[0]
    if partition.leader_id == preferred or (
        election == UNCLEAN and partition.leader_id != NO_LEADER
    ):
        message = "Leader election not needed for topic partition."
        return ErrorCode.election_not_needed, message
    if election == UNCLEAN:
        leader_id = node.cluster.electable(partition, is_unclean=True)
        if leader_id == NO_LEADER:
            message = "Eligible topic partition leaders are not available."
            return ErrorCode.eligible_leaders_not_available, message
    else:
        leader_id = preferred
        if preferred not in node.topics.nodes.up or preferred not in partition.isr:
            message = "The preferred leader was not available."
            return ErrorCode.preferred_leader_not_available, message
    node.cluster.move(topic, index, leader_id)
    return ErrorCode.none, None


def _respond(context: RequestContext, topics: list[TopicResponse], error: OSError | None) -> None:
    if error is None:
        context.respond(ElectLeadersResponse(ErrorCode.none, topics))
        return
    topics = [
        TopicResponse(topic.topic, fail_unless_durable(topic.partition_result, error))
        for topic in topics
    ]
    context.respond(ElectLeadersResponse(ErrorCode.none, topics))
