"""DescribeProducers (key 61, KIP-664): the active producers of a partition. Always flexible."""

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from ...log.errors import LogError
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import topic_name_error
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_topic
from .common import default_rejection

NO_TRANSACTION = -1
# Number of producers in one step, which takes about 1 ms.
PRODUCERS_PER_STEP = 1_000


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: Sequence[Message] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Describe producers. Duplicate partitions are described once; their responses are copies."""
    topics = []
    described: dict[tuple[str, int], PartitionResponse] = {}
    for topic in context.request.topics:
        partitions = []
        for index in topic.partition_indexes:
            key = topic.name, index
            if key not in described:
                described[key] = yield from _partition(context, node, *key)
            partitions.append(described[key])
            yield
        topics.append(Message(name=topic.name, partitions=partitions))
    context.respond(Message(topics=topics))


def _partition(
    context: RequestContext, node: Node, name: str, index: int
) -> Generator[None, None, PartitionResponse]:
    try:
        producers = yield from _producers(context, node, name, index)
    except ApiError as rejection:
        return PartitionResponse(index, rejection.error, rejection.message)
    except (OSError, LogError) as error:
        return PartitionResponse(index, ErrorCode.kafka_storage_error, str(error))
    return PartitionResponse(index, active_producers=producers)


def _producers(
    context: RequestContext, node: Node, name: str, index: int
) -> Generator[None, None, list[Message]]:
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)
    if not allows_topic(context, node, AclOperation.READ, name):
        raise default_rejection(ErrorCode.topic_authorization_failed)
    topic = node.topics.get(name)
    if topic is None:
        raise default_rejection(ErrorCode.unknown_topic_or_partition)
    partition = topic.partition(index)
    if partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    if node.node_id not in partition.replicas:
        raise ApiError(ErrorCode.not_leader_or_follower)
    now_ms = node.clock.now_ms()
    expiration_ms = node.configs.broker_number("producer.id.expiration.ms")
    producers = []
    for producer_id, state in partition.log.producers.active(now_ms, expiration_ms):
        start_offset = NO_TRANSACTION if state.first_offset is None else state.first_offset
        producer = Message(
            producer_id=producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=start_offset,
        )
        producers.append(producer)
        if len(producers) % PRODUCERS_PER_STEP == 0:
            yield
    return producers
