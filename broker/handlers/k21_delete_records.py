"""DeleteRecords (key 21, KIP-107): deletes records before an offset.

v1 nothing new · v2 flexible.
"""

from functools import partial
from typing import Final, NamedTuple

from ...log.errors import LogError
from ...log.tasks import CooperativeTask
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.fetch import NO_EPOCH, leader_error
from ...topics.names import is_internal
from ...topics.topic import Partition
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_topic

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1
# Maximum number of start offsets that are stored on the event loop. Storing this many takes 1 ms.
INLINE_OFFSETS_MAX: Final = 100


class PartitionResponse(NamedTuple):
    partition_index: int
    low_watermark: int = NO_LOW_WATERMARK
    error_code: ErrorCode = ErrorCode.none


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    """Delete records. If a partition is repeated, its last entry wins, as in Kafka."""
    responses: dict[tuple[str, int], PartitionResponse] = {}
    deletions: dict[tuple[str, int], tuple[Partition, int]] = {}
    for topic in context.request.topics:
        is_allowed = allows_topic(context, node, AclOperation.DELETE, topic.name)
        for each in topic.partitions:
            index = each.partition_index
            place = topic.name, index
            deletions.pop(place, None)
            try:
                if not is_allowed:
                    raise ApiError(ErrorCode.topic_authorization_failed)
                deletions[place] = _validate(node, topic.name, index, each.offset)
                responses[place] = PartitionResponse(index)
            except ApiError as rejection:
                responses[place] = PartitionResponse(index, error_code=rejection.error)
            yield None
    yield from _delete(node, deletions, responses)
    topics: dict[str, Message] = {}
    for (name, _), response in responses.items():
        topics.setdefault(name, Message(name=name, partitions=[])).partitions.append(response)
    context.respond(Message(topics=list(topics.values())))


def _validate(node: Node, topic: str, index: int, offset: int) -> tuple[Partition, int]:
    """Return the partition and its new start offset. Upstream:
    ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader."""
    partition = node.topics.partition(topic, index)
    if partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    if is_internal(topic):
        raise ApiError(ErrorCode.invalid_topic_exception)
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


def _delete(
    node: Node,
    deletions: dict[tuple[str, int], tuple[Partition, int]],
    responses: dict[tuple[str, int], PartitionResponse],
) -> CooperativeTask[None]:
    """Store the new start offsets in one write, then delete the records of each partition. A long
    write is done in a thread."""
    offsets = {partition.name: at for partition, at in deletions.values()}
    partitions = {partition.name: partition for partition, _ in deletions.values()}
    advance = partial(
        node.topics.checkpoints.start_offsets.advance,
        offsets,
        lambda name: _is_deleted(node, partitions[name]),
    )
    try:
        if len(offsets) > INLINE_OFFSETS_MAX:
            yield advance
        else:
            advance()
    except OSError:
        error = ErrorCode.kafka_storage_error
        for place, (partition, _) in deletions.items():
            responses[place] = PartitionResponse(partition.index, error_code=error)
        return
    for place, (partition, offset) in deletions.items():
        responses[place] = _delete_before(node, partition, offset)
        yield None


def _is_deleted(node: Node, partition: Partition) -> bool:
    """Whether the partition was deleted after it was validated."""
    topic = partition.name.rpartition("-")[0]
    return node.topics.partition(topic, partition.index) is not partition


def _delete_before(node: Node, partition: Partition, offset: int) -> PartitionResponse:
    if _is_deleted(node, partition):
        error = ErrorCode.unknown_topic_or_partition
        return PartitionResponse(partition.index, error_code=error)
    try:
        partition.log.delete_before(offset)
    except (OSError, LogError):
        # The start offset is stored; the removal of the remaining segments is retried later.
        return PartitionResponse(partition.index, error_code=ErrorCode.kafka_storage_error)
    return PartitionResponse(partition.index, partition.start_offset)
