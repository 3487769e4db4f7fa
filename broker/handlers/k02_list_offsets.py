"""ListOffsets (key 2).

v1 one offset per partition · v2 isolation_level, throttle_time · v4 leader epochs · v6 flexible ·
v7 max timestamp (KIP-734) · v8 earliest local (KIP-405) · v9 latest tiered (KIP-1005) · v10
timeout · v11 earliest pending upload (KIP-1023).
"""

from collections import Counter
from typing import Any, NamedTuple

from ...log.errors import LogError
from ...log.tasks import CooperativeTask
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.fetch import ISOLATION_LEVELS, READ_COMMITTED, READ_UNCOMMITTED, leader_error
from ...topics.topic import Partition
from ..cluster import Node
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_topic

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# The version that introduced each special timestamp.
SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
UNKNOWN = -1
# Replica id that also allows reading from followers (ListOffsetsRequest.DEBUGGING_REPLICA_ID).
DEBUGGING_REPLICA_ID = -2


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode = ErrorCode.none
    timestamp: int = UNKNOWN
    offset: int = UNKNOWN
    leader_epoch: int = UNKNOWN


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    request = context.request
    must_lead = request.replica_id != DEBUGGING_REPLICA_ID
    level = request.isolation_level if context.version >= 2 else READ_UNCOMMITTED
    if level not in ISOLATION_LEVELS:
        failed = [_failed(each, ErrorCode.unknown_server_error) for each in request.topics]
        context.respond(Message(topics=failed))
        return
    committed_only = level == READ_COMMITTED
    counts = Counter((t.name, p.partition_index) for t in request.topics for p in t.partitions)
    topics: list[Message] = []
    # Requested partitions by index. A topic that is requested twice is returned once.
    allowed: dict[str, dict[int, Any]] = {}
    for topic in request.topics:
        if not allows_topic(context, node, AclOperation.DESCRIBE, topic.name):
            topics.append(_failed(topic, ErrorCode.topic_authorization_failed))
        elif topic.partitions:
            requested = {each.partition_index: each for each in topic.partitions}
            allowed.setdefault(topic.name, {}).update(requested)
    for name, requested in allowed.items():
        partitions = []
        for index, each in requested.items():
            try:
                if counts[name, index] > 1:
                    raise ApiError(ErrorCode.invalid_request)
                if not _is_supported(each.timestamp, context.version):
                    raise ApiError(ErrorCode.unsupported_version)
                partition = _partition(node, name, each, must_lead)
                timestamp, offset = yield from _offset(
                    node, partition, each.timestamp, committed_only
                )
                epoch = partition.epoch_at(offset)
            except ApiError as rejection:
                partitions.append(PartitionResponse(index, rejection.error))
            except (OSError, LogError):
                partitions.append(PartitionResponse(index, ErrorCode.kafka_storage_error))
            else:
                response = PartitionResponse(index, ErrorCode.none, timestamp, offset, epoch)
                partitions.append(response)
            yield None
        topics.append(Message(name=name, partitions=partitions))
    context.respond(Message(topics=topics))


def _failed(topic: Any, error: ErrorCode) -> Message:
    failed = [PartitionResponse(each.partition_index, error) for each in topic.partitions]
    return Message(name=topic.name, partitions=failed)


def _partition(node: Node, topic: str, requested: Any, must_lead: bool) -> Partition:
    partition = node.view.partition(topic, requested.partition_index)
    if partition is None:
        raise ApiError(ErrorCode.unknown_topic_or_partition)
    epoch = getattr(requested, "current_leader_epoch", -1)
    error = leader_error(partition, node.node_id, epoch, must_lead=must_lead)
    if error is not ErrorCode.none:
        raise ApiError(error)
    return partition


def _is_supported(timestamp: int, version: int) -> bool:
    return timestamp >= 0 or SINCE.get(timestamp, version + 1) <= version


def _offset(
    node: Node, partition: Partition, timestamp: int, committed_only: bool
) -> CooperativeTask[tuple[int, int]]:
    """Return (timestamp, offset) of the first record at or after `timestamp`, or the offset for a
    special timestamp, or UNKNOWN if there is none. If the record is not below the high watermark
    (with `committed_only`, the last stable offset), return UNKNOWN."""
    end_offset = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp == LATEST:
        return UNKNOWN, end_offset
    # Without tiered storage, all offsets are local.
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return UNKNOWN, partition.start_offset
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return UNKNOWN, UNKNOWN
    log, limit = partition.log, node.cluster.decompressions
    if timestamp == MAX_TIMESTAMP:
        found = yield from log.max_timestamp(limit)
    else:
        found = yield from log.offset_for_timestamp(timestamp, limit)
    if found is None or found[0] >= end_offset:
        return UNKNOWN, UNKNOWN
    offset, record_timestamp = found
    return record_timestamp, offset
