"""DescribeProducers (key 61, KIP-664): the active producers of a partition. Always flexible."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ...log.errors import LogError
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.names import topic_name_error
from ..cluster import Node
from ..request import Message, RequestContext, in_slices
from .authorization import allows_topic
from .common import ERROR_MESSAGES

NO_TRANSACTION = -1


class ProducerResponse(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: Sequence[ProducerResponse] = ()


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    topics = []
    for topic in context.request.topics:
        partitions = []
        for index in topic.partition_indexes:
            try:
                producers = _producers(context, node, topic.name, index)
            except ApiError as rejection:
                partitions.append(PartitionResponse(index, rejection.error, rejection.message))
            except (OSError, LogError) as error:
                storage_error = ErrorCode.kafka_storage_error
                partitions.append(PartitionResponse(index, storage_error, str(error)))
            else:
                partitions.append(PartitionResponse(index, active_producers=producers))
            yield
        topics.append(Message(name=topic.name, partitions=partitions))
    context.respond(Message(topics=topics))


def _producers(
    context: RequestContext, node: Node, name: str, index: int
) -> list[ProducerResponse]:
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)
    if not allows_topic(context, node, AclOperation.READ, name):
        error = ErrorCode.topic_authorization_failed
        raise ApiError(error, ERROR_MESSAGES[error])
    topic = node.topics.get(name)
    if topic is None:
        message = "This server does not host this topic-partition."
        raise ApiError(ErrorCode.unknown_topic_or_partition, message)
    partition = topic.partition(index)
    if partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    now_ms = node.clock.now_ms()
    expiration_ms = node.configs.broker_number("producer.id.expiration.ms")
    return [
        ProducerResponse(
            producer_id,
            state.epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            NO_TRANSACTION if state.first_offset is None else state.first_offset,
        )
        for producer_id, state in partition.log.producers.active(now_ms, expiration_ms)
    ]
