"""DescribeQuorum (key 55, KIP-595). v1 times (KIP-836) · v2 error messages, directory ids, nodes
(KIP-853).

The metadata log is the log of the topic registry. The process is its only voter, with the first
node's id. The other nodes read the same log. There are no controller listeners.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import KAFKA_METADATA_TOPIC
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster
from .common import ERROR_MESSAGES

# The epoch of all batches in the log, because there are no elections.
LEADER_EPOCH: Final = 0


class ReplicaState(NamedTuple):
    replica_id: int
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int
    replica_directory_id: None = None
    """The directory id is not set, as with `controller.quorum.voters`."""


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str = ""
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: Sequence[ReplicaState] = ()
    observers: Sequence[ReplicaState] = ()


class TopicResponse(NamedTuple):
    topic_name: str
    partitions: list[PartitionResponse]


class DescribeQuorumResponse(NamedTuple):
    error_code: ErrorCode = ErrorCode.none
    error_message: str = ""
    topics: Sequence[TopicResponse] = ()
    nodes: Sequence[Message] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    if not allows_cluster(context, node, AclOperation.DESCRIBE):
        error = ErrorCode.cluster_authorization_failed
        context.respond(DescribeQuorumResponse(error, ERROR_MESSAGES[error]))
        return
    requested = context.request.topics
    if _is_metadata_log(requested):
        topics = [TopicResponse(KAFKA_METADATA_TOPIC, [_quorum(node)])]
        voter = Message(node_id=node.topics.nodes.quorum_leader_id, listeners=())
        context.respond(DescribeQuorumResponse(topics=topics, nodes=[voter]))
        return
    error = ErrorCode.unknown_topic_or_partition
    topics = []
    for topic in requested:
        responses = []
        for partition in topic.partitions:
            index = partition.partition_index
            responses.append(PartitionResponse(index, error, ERROR_MESSAGES[error]))
            yield
        topics.append(TopicResponse(topic.topic_name, responses))
        yield
    context.respond(DescribeQuorumResponse(topics=topics))


def _is_metadata_log(topics: Sequence[Any]) -> bool:
    """Upstream: KafkaRaftClient.hasValidTopicPartition."""
    return (
        len(topics) == 1
        and topics[0].topic_name == KAFKA_METADATA_TOPIC
        and len(topics[0].partitions) == 1
        and topics[0].partitions[0].partition_index == 0
    )


def _quorum(node: Node) -> PartitionResponse:
    leader_id, now_ms = node.topics.nodes.quorum_leader_id, node.clock.now_ms()
    end_offset, high_watermark = node.topics.metadata_offsets

    def state(node_id: int) -> ReplicaState:
        return ReplicaState(node_id, end_offset, now_ms, now_ms)

    return PartitionResponse(
        0,
        leader_id=leader_id,
        leader_epoch=LEADER_EPOCH,
        high_watermark=high_watermark,
        current_voters=[state(leader_id)],
        observers=[state(each.node_id) for each in node.cluster.up if each.node_id != leader_id],
    )
