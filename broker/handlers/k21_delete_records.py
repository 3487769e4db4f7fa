"""DeleteRecords (key 21, KIP-107): deletes the records before an offset.

v1 nothing new · v2 flexible.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ...log.errors import LogError
from ...protocol.errors import ApiError, ErrorCode
from ...topics.admin import check_not_internal
from ...topics.fetch import NO_EPOCH, leader_error
from ...topics.topic import Partition
from ..cluster import Node
from ..request import Message, RequestContext, in_slices

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


class PartitionResponse(NamedTuple):
    partition_index: int
    low_watermark: int = NO_LOW_WATERMARK
    error_code: ErrorCode = ErrorCode.none


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    """Delete records; the last entry of a duplicate partition wins, as in Kafka."""
    responses: dict[tuple[str, int], PartitionResponse] = {}
    deletions: dict[tuple[str, int], tuple[Partition, int]] = {}
    for topic in context.request.topics:
        for each in topic.partitions:
            index = each.partition_index
            place = topic.name, index
            deletions.pop(place, None)
            try:
                deletions[place] = _validate(node, topic.name, index, each.offset)
                responses[place] = PartitionResponse(index)
            except ApiError as rejection:
                responses[place] = PartitionResponse(index, error_code=rejection.error)
            yield
    for place, response in zip(deletions, _delete(node, list(deletions.values())), strict=True):
        responses[place] = response
    topics: dict[str, Message] = {}
    for (name, _), response in responses.items():
        topics.setdefault(name, Message(name=name, partitions=[])).partitions.append(response)
    context.respond(Message(topics=list(topics.values())))


def _validate(node: Node, topic: str, index: int, offset: int) -> tuple[Partition, int]:
    """The partition and its new start offset. Upstream: ReplicaManager.deleteRecordsOnLocalLog,
    Partition.deleteRecordsOnLeader."""
    partition = node.topics.partition(topic, index)
    if partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    check_not_internal(topic)
    if (error := leader_error(partition, node.node_id, NO_EPOCH)) is not ErrorCode.none:
        raise ApiError(error)
    if partition.settings.compacted and not partition.settings.deletes:
        raise ApiError(ErrorCode.policy_violation)
    try:
        high_watermark = partition.high_watermark
    except (OSError, LogError) as storage_error:
        raise ApiError(ErrorCode.kafka_storage_error) from storage_error
    if offset == HIGH_WATERMARK:
        offset = high_watermark
    if not 0 <= offset <= high_watermark:
        raise ApiError(ErrorCode.offset_out_of_range)
    return partition, offset


def _delete(node: Node, deletions: list[tuple[Partition, int]]) -> list[PartitionResponse]:
    """Store the new start offsets in one write, then delete the records."""
    try:
        node.topics.checkpoints.start_offsets.advance(
            {partition.name: at for partition, at in deletions}
        )
    except OSError:
        error = ErrorCode.kafka_storage_error
        return [PartitionResponse(partition.index, error_code=error) for partition, _ in deletions]
    return [_delete_before(partition, offset) for partition, offset in deletions]


def _delete_before(partition: Partition, offset: int) -> PartitionResponse:
    try:
        partition.log.delete_before(offset)
    except OSError:
        # The records are already hidden; a segment that could not be removed is retried later.
        return PartitionResponse(partition.index, error_code=ErrorCode.kafka_storage_error)
    return PartitionResponse(partition.index, partition.start_offset)
