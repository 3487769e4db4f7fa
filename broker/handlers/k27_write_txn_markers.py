"""WriteTxnMarkers (key 27): ends transactions in partitions. Sent by brokers, and by admin clients
that abort a hanging transaction. Always flexible.

v2 transaction_version.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ...log.batch import BatchProducer
from ...log.producer_state import ABORT, COMMIT, EndMarker
from ...offsets.records import NO_EPOCH, NO_PRODUCER_ID
from ...protocol.errors import ErrorCode
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import Message, RequestContext, in_slices
from .authorization import allows_cluster
from .common import PartitionResponse, TopicResponse


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    markers = context.request.markers
    if not allows_cluster(context, node, AclOperation.ALTER, reports=False) and not allows_cluster(
        context, node, AclOperation.CLUSTER_ACTION
    ):
        error = ErrorCode.cluster_authorization_failed
        denied = [_response(each, dict.fromkeys(_partitions(each), error)) for each in markers]
        context.respond(Message(markers=denied))
        return
    # Markers without partitions are omitted from the response.
    markers = [each for each in markers if any(topic.partition_indexes for topic in each.topics)]
    results = Gather(len(markers), lambda done: context.respond(Message(markers=done)))
    for place, each in enumerate(markers):
        yield from _write(node, each, partial(results.put, place))


def _write(node: Node, requested: Any, done: Callable[[Message], None]) -> Iterator[None]:
    producer = BatchProducer(requested.producer_id, requested.producer_epoch, is_control=True)
    kind = COMMIT if requested.transaction_result else ABORT
    version = getattr(requested, "transaction_version", 0)
    marker = EndMarker(kind, requested.coordinator_epoch, version)
    partitions = _partitions(requested)
    if not _has_producer(requested) and any(node.topics.partition(*each) for each in partitions):
        done(_response(requested, dict.fromkeys(partitions, ErrorCode.unknown_server_error)))
        return
    errors = Gather(
        len(partitions),
        lambda written: done(_response(requested, dict(zip(partitions, written, strict=True)))),
    )
    for place, (topic, index) in enumerate(partitions):
        yield
        written = partial(errors.put, place)
        partition = node.topics.partition(topic, index)
        if partition is not None and partition.leader_id != node.node_id:
            if node.node_id in partition.replicas:
                written(ErrorCode.not_leader_or_follower)
            else:
                written(ErrorCode.unknown_topic_or_partition)
        else:
            node.markers.write_to(topic, index, producer, marker, written)


def _has_producer(requested: Any) -> bool:
    """Whether the marker can be written: a transactional batch needs a producer and an epoch.
    Upstream: MemoryRecordsBuilder, whose exceptions fail the request."""
    has_id: bool = requested.producer_id != NO_PRODUCER_ID
    return has_id and requested.producer_epoch != NO_EPOCH


def _partitions(requested: Any) -> list[tuple[str, int]]:
    """Return each partition once: a partition that is repeated gets one marker, as in Kafka."""
    named = ((topic.name, index) for topic in requested.topics for index in topic.partition_indexes)
    return list(dict.fromkeys(named))


def _response(requested: Any, errors: Mapping[tuple[str, int], ErrorCode]) -> Message:
    topics: dict[str, list[PartitionResponse]] = {}
    for (topic, index), error in errors.items():
        topics.setdefault(topic, []).append(PartitionResponse(index, error))
    return Message(
        producer_id=requested.producer_id,
        topics=[TopicResponse(topic, partitions) for topic, partitions in topics.items()],
    )
