"""DeleteRecords (key 21): everything before an offset (KIP-107). v1 nothing new · v2 flexible."""

from datetime import timedelta
from typing import NamedTuple

from ...log.errors import LogError
from ...protocol.errors import ErrorCode
from ...topics.admin import check_not_internal
from ...topics.errors import Refused
from ...topics.fetch import NO_EPOCH, check_leader
from ...topics.partition import Partition
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


class PartitionResponse(NamedTuple):
    partition_index: int
    low_watermark: int = NO_LOW_WATERMARK
    error_code: ErrorCode = ErrorCode.none


class TopicResponse(NamedTuple):
    name: str
    partitions: list[PartitionResponse]


class DeleteRecordsResponse(NamedTuple):
    topics: list[TopicResponse]
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    """A partition that is named twice counts as it was named last, as in Kafka."""
    replies: dict[tuple[str, int], PartitionResponse] = {}
    deletable: dict[tuple[str, int], tuple[Partition, int]] = {}
    for topic in context.request.topics:
        for asked in topic.partitions:
            place = topic.name, asked.partition_index
            deletable.pop(place, None)
            try:
                deletable[place] = _checked(node, *place, asked.offset)
                replies[place] = PartitionResponse(asked.partition_index)
            except Refused as refused:
                replies[place] = PartitionResponse(asked.partition_index, error_code=refused.error)
    for place, done in zip(deletable, _delete(node, list(deletable.values())), strict=True):
        replies[place] = done
    topics: dict[str, TopicResponse] = {}
    for (name, _), reply in replies.items():
        topics.setdefault(name, TopicResponse(name, [])).partitions.append(reply)
    context.respond(DeleteRecordsResponse(list(topics.values())))


def _checked(node: Node, topic: str, index: int, offset: int) -> tuple[Partition, int]:
    """The partition, and the offset that is to be its first. Upstream:
    ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader."""
    partition = node.topics.partition(topic, index)
    if partition is None:
        raise Refused(ErrorCode.unknown_topic_or_partition)
    check_not_internal(topic)
    if (refusal := check_leader(partition, node.node_id, NO_EPOCH)) is not ErrorCode.none:
        raise Refused(refusal)
    if partition.settings.compacted and not partition.settings.deletes:
        raise Refused(ErrorCode.policy_violation)
    try:
        high_watermark = partition.high_watermark
    except (OSError, LogError) as error:
        raise Refused(ErrorCode.kafka_storage_error) from error
    if offset == HIGH_WATERMARK:
        offset = high_watermark
    if not 0 <= offset <= high_watermark:
        raise Refused(ErrorCode.offset_out_of_range)
    return partition, offset


def _delete(node: Node, work: list[tuple[Partition, int]]) -> list[PartitionResponse]:
    """All are written down at once; only then anything is gone."""
    try:
        node.topics.start_offsets.raise_to({partition.name: at for partition, at in work})
    except OSError:
        storage = ErrorCode.kafka_storage_error
        return [PartitionResponse(partition.index, error_code=storage) for partition, _ in work]
    return [_delete_one(partition, offset) for partition, offset in work]


def _delete_one(partition: Partition, offset: int) -> PartitionResponse:
    try:
        partition.log.delete_before(offset)
    except OSError:
        # The records are gone; a segment of them could not be removed and is tried again.
        return PartitionResponse(partition.index, error_code=ErrorCode.kafka_storage_error)
    return PartitionResponse(partition.index, partition.start_offset)
