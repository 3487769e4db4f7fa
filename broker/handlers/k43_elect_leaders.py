"""ElectLeaders (key 43). v1 election_type, error_code (KIP-460) · v2 flexible.

The way back to the preferred leaders after a node has come back, as `kafka-leader-election` asks.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.nodes import NO_LEADER
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

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
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    election = request.election_type if context.version >= 1 else PREFERRED
    if election not in (PREFERRED, UNCLEAN):
        complaint = f"Unknown election type {election}"
        asked = [(each.topic, each.partitions) for each in request.topic_partitions or ()]
        topics = [
            TopicResponse(
                name, [PartitionResponse(i, ErrorCode.invalid_request, complaint) for i in indexes]
            )
            for name, indexes in asked
        ]
        # Kafka takes the error from the partitions, of which an empty list has none.
        error = ErrorCode.none if request.topic_partitions == () else ErrorCode.invalid_request
        context.respond(ElectLeadersResponse(error, topics))
        return
    if request.topic_partitions is None:
        # Of all partitions only those are told about which got a leader, or could not.
        everything = [(topic.name, range(len(topic.partitions))) for topic in node.topics]
        topics = [
            TopicResponse(
                name,
                [
                    reply
                    for reply in _elected(node, election, name, indexes)
                    if reply.error_code is not ErrorCode.election_not_needed
                ],
            )
            for name, indexes in everything
        ]
    else:
        topics = [
            TopicResponse(each.topic, list(_elected(node, election, each.topic, each.partitions)))
            for each in request.topic_partitions
        ]
    node.topics.on_durable(partial(_settled, context, topics))


def _elected(
    node: Node, election: int, topic: str, indexes: Iterable[int]
) -> Iterable[PartitionResponse]:
    for index in indexes:
        error, message = _elect(node, election, topic, index)
        yield PartitionResponse(index, error, message)


def _elect(node: Node, election: int, topic: str, index: int) -> tuple[ErrorCode, str | None]:
    """Upstream: ReplicationControlManager.electLeader."""
    if node.topics.get(topic) is None:
        return ErrorCode.unknown_topic_or_partition, f"No such topic as {topic}"
    partition = node.topics.partition(topic, index)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition, f"No such partition as {topic}-{index}"
    preferred = node.topics.nodes.replicas(index)[0]
    if partition.leader_id == preferred or (
        election == UNCLEAN and partition.leader_id != NO_LEADER
    ):
        complaint = "Leader election not needed for topic partition."
        return ErrorCode.election_not_needed, complaint
    if preferred not in node.topics.nodes.up:
        return ErrorCode.preferred_leader_not_available, "The preferred leader was not available."
    node.cluster.move(topic, index, preferred)
    return ErrorCode.none, None


def _settled(context: RequestContext, topics: list[TopicResponse], error: OSError | None) -> None:
    if error is not None:
        topics = [
            TopicResponse(
                topic.topic,
                [
                    PartitionResponse(each.partition_id, ErrorCode.kafka_storage_error, str(error))
                    if each.error_code is ErrorCode.none
                    else each
                    for each in topic.partition_result
                ],
            )
            for topic in topics
        ]
    context.respond(ElectLeadersResponse(ErrorCode.none, topics))
