"""DescribeProducers (key 61): who wrote to a partition of late (KIP-664). Always flexible."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from ...log.errors import LogError
from ...protocol.errors import ErrorCode
from ...topics.errors import Refused
from ...topics.names import invalid_name
from ..node import Node
from ..request import RequestContext
from .reply import NO_THROTTLE

# There are no transactions, so no coordinator of one has an epoch and none is under way.
NO_COORDINATOR_EPOCH = NO_TRANSACTION = -1


class ProducerReply(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_start_offset: int = NO_TRANSACTION


class PartitionReply(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    active_producers: Sequence[ProducerReply] = ()


class TopicReply(NamedTuple):
    name: str
    partitions: list[PartitionReply]


class DescribeProducersReply(NamedTuple):
    topics: list[TopicReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> None:
    topics = []
    for topic in call.request.topics:
        partitions = []
        for index in topic.partition_indexes:
            try:
                producers = _producers(node, topic.name, index)
            except Refused as refused:
                partitions.append(PartitionReply(index, refused.error, refused.message))
            except (OSError, LogError) as error:
                storage = ErrorCode.kafka_storage_error
                partitions.append(PartitionReply(index, storage, str(error)))
            else:
                partitions.append(PartitionReply(index, active_producers=producers))
        topics.append(TopicReply(topic.name, partitions))
    call.reply(DescribeProducersReply(topics))


def _producers(node: Node, name: str, index: int) -> list[ProducerReply]:
    if complaint := invalid_name(name):
        raise Refused(ErrorCode.invalid_topic_exception, complaint)
    topic = node.topics.get(name)
    if topic is None:
        unknown = "This server does not host this topic-partition."
        raise Refused(ErrorCode.unknown_topic_or_partition, unknown)
    partition = topic.partition(index)
    if partition is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    now_ms = node.clock.now_ms()
    expiration_ms = partial(node.configs.broker_number, "producer.id.expiration.ms")
    return [
        ProducerReply(producer_id, epoch, last.last_sequence, last.max_timestamp)
        for producer_id, epoch, last in partition.producers(expiration_ms, now_ms).active(now_ms)
    ]
