"""OffsetForLeaderEpoch (key 23, KIP-320): returns the end offset of a leader epoch, which consumers
use to detect truncation.

v2 current_leader_epoch, throttle_time · v3 replica_id · v4 flexible.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...log.errors import LogError
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.fetch import leader_error
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster, allows_topic

UNKNOWN = -1


class PartitionResponse(NamedTuple):
    error_code: ErrorCode
    partition: int
    leader_epoch: int = UNKNOWN
    end_offset: int = UNKNOWN


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    # Followers also use this API.
    allows_all = allows_cluster(context, node, AclOperation.CLUSTER_ACTION, reports=False)
    topics = []
    for topic in context.request.topics:
        name, partitions = topic.topic, []
        is_allowed = allows_all or allows_topic(context, node, AclOperation.DESCRIBE, name)
        for each in topic.partitions:
            if is_allowed:
                partitions.append(_response(node, name, each))
            else:
                error = ErrorCode.topic_authorization_failed
                partitions.append(PartitionResponse(error, each.partition))
            yield
        topics.append(Message(topic=name, partitions=partitions))
    context.respond(Message(topics=topics))


def _response(node: Node, topic: str, requested: Any) -> PartitionResponse:
    index = requested.partition
    partition = node.view.partition(topic, index)
    if partition is None:
        return PartitionResponse(ErrorCode.unknown_topic_or_partition, index)
    error = leader_error(partition, node.node_id, requested.current_leader_epoch)
    if error is not ErrorCode.none:
        return PartitionResponse(error, index)
    try:
        epoch, end_offset = partition.end_of_epoch(requested.leader_epoch)
    except (OSError, LogError):
        return PartitionResponse(ErrorCode.kafka_storage_error, index)
    return PartitionResponse(ErrorCode.none, index, epoch, end_offset)
