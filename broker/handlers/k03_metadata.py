"""Metadata (key 3).

v1 null asks for all topics, rack, controller_id, is_internal · v2 cluster_id · v3 throttle_time ·
v4 allow_auto_topic_creation · v5 offline_replicas · v7 leader_epoch · v8 authorized operations ·
v9 flexible · v10 topic ids (v12 asks by them) · v11 no cluster operations · v13 error_code.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...topics.admin import check_new_topic, default_partitions
from ...topics.errors import Refused
from ...topics.names import OFFSETS_TOPIC, invalid_name
from ...topics.nodes import NO_LEADER
from ...topics.partition import Partition
from ...topics.topic import Topic
from ..node import Node
from ..request import NO_THROTTLE, RequestContext

# Without an authorizer everyone may do everything: the bits of READ … ALTER_CONFIGS that make
# sense for a topic, and for a cluster (upstream: AuthHelper.authorizedOperations, KIP-430).
TOPIC_OPERATIONS = 0b1101_1111_1000
CLUSTER_OPERATIONS = 0b1_1111_1010_0000
NOT_ASKED = -(2**31)


class BrokerResponse(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionResponse(NamedTuple):
    partition_index: int
    leader_id: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    error_code: ErrorCode
    leader_epoch: int
    offline_replicas: tuple[int, ...]


class TopicResponse(NamedTuple):
    error_code: ErrorCode
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: list[PartitionResponse]
    topic_authorized_operations: int


class MetadataResponse(NamedTuple):
    brokers: tuple[BrokerResponse, ...]
    cluster_id: str | None
    controller_id: int
    topics: list[TopicResponse]
    cluster_authorized_operations: int
    error_code: ErrorCode = ErrorCode.none
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    wanted = request.topics
    # v0 cannot say null: there an empty list asks for every topic.
    everything = wanted is None or (context.version == 0 and not wanted)
    if not everything and (misplaced := _misplaced(context)) is not None:
        context.respond(_refusal(wanted, misplaced))
        return
    answer = (
        _all_topics(context, node)
        if everything
        else [_find(context, node, w) for w in _once(context)]
    )
    operations = getattr(request, "include_cluster_authorized_operations", False)
    rack = node.config.str("broker.rack") or None
    reply = MetadataResponse(
        brokers=tuple(
            BrokerResponse(each.node_id, *each.address, rack) for each in node.cluster.up
        ),
        cluster_id=node.cluster.id,
        controller_id=node.cluster.controller_id,
        topics=answer,
        cluster_authorized_operations=CLUSTER_OPERATIONS if operations else NOT_ASKED,
    )
    # What was just made must be durable before anyone is told that it is there.
    node.topics.on_durable(partial(_settled, context, node, reply))


def _settled(
    context: RequestContext, node: Node, reply: MetadataResponse, error: OSError | None
) -> None:
    if error is not None:
        topics = [
            TopicResponse(ErrorCode.leader_not_available, each.name, None, False, [], NOT_ASKED)
            if each.error_code is ErrorCode.none and _is_gone(node, each.topic_id)
            else each
            for each in reply.topics
        ]
        reply = reply._replace(topics=topics)
    context.respond(reply)


def _is_gone(node: Node, topic_id: UUID | None) -> bool:
    return node.readable.by_id(topic_id) is None


def _misplaced(context: RequestContext) -> ErrorCode | None:
    """What is wrong with a request whose topics are named by ids too early, or not at all."""
    for wanted in context.request.topics:
        # v10 and v11 have the field but not yet the meaning (KAFKA-14391).
        if context.version in (10, 11) and (wanted.name is None or wanted.topic_id is not None):
            return ErrorCode.invalid_request
    # Beside ids a topic that is named by nothing is passed over; without any, Kafka stumbles.
    if all(getattr(each, "topic_id", None) is None for each in context.request.topics) and any(
        each.name is None for each in context.request.topics
    ):
        return ErrorCode.unknown_server_error
    return None


def _refusal(wanted: Iterable[Any], error: ErrorCode) -> MetadataResponse:
    topics = [
        TopicResponse(error, each.name or "", each.topic_id, False, [], NOT_ASKED)
        for each in wanted
    ]
    return MetadataResponse((), None, -1, topics, NOT_ASKED, error)


def _all_topics(context: RequestContext, node: Node) -> list[TopicResponse]:
    return [_found(context, node, topic) for topic in node.readable]


def _once(context: RequestContext) -> Iterable[Any]:
    """Each topic of the request once, as in Kafka; beside ids names do not count."""
    topics = context.request.topics
    by_id = {each.topic_id: each for each in topics if getattr(each, "topic_id", None) is not None}
    return (by_id or {each.name: each for each in topics}).values()


def _find(context: RequestContext, node: Node, wanted: Any) -> TopicResponse:
    # Where there is an id, it counts and a name beside it does not.
    topic_id = getattr(wanted, "topic_id", None)
    if topic_id is not None:
        topic = node.readable.by_id(topic_id)
        if topic is None:
            return TopicResponse(ErrorCode.unknown_topic_id, None, topic_id, False, [], NOT_ASKED)
        return _found(context, node, topic)
    topic = node.readable.get(wanted.name)
    if topic is None:
        try:
            topic = _create(context, node, wanted.name)
        except Refused as refused:
            operations = _operations(context)
            return TopicResponse(refused.error, wanted.name, None, False, [], operations)
    return _found(context, node, topic)


def _create(context: RequestContext, node: Node, name: str) -> Topic:
    """The topic, made with the broker's defaults if client and broker both allow it.

    Kafka answers UNKNOWN_TOPIC_OR_PARTITION first and makes the topic afterwards; answering with
    the topic at once spares every client one round of waiting and surprises none.
    """
    if complaint := invalid_name(name):
        raise Refused(ErrorCode.invalid_topic_exception, complaint)
    # Before v4 a client could not say no.
    allowed = getattr(context.request, "allow_auto_topic_creation", True)
    if not (allowed and node.config.bool("auto.create.topics.enable")):
        raise Refused(ErrorCode.unknown_topic_or_partition)
    if name == OFFSETS_TOPIC:
        return node.topics.ensure_offsets_topic()
    if node.topics.is_leaving(name):
        raise Refused(ErrorCode.leader_not_available, "its deletion is not over")
    node.readable.check_new_topic(name)
    check_new_topic(node.topics, name)
    try:
        return node.topics.create(name, default_partitions(node.topics), {})
    except OSError as error:
        raise Refused(ErrorCode.leader_not_available, str(error)) from error


def _found(context: RequestContext, node: Node, topic: Topic) -> TopicResponse:
    return TopicResponse(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[partition_reply(node, partition) for partition in topic.partitions],
        topic_authorized_operations=_operations(context),
    )


def partition_reply(node: Node, partition: Partition) -> PartitionResponse:
    index, nodes = partition.index, node.topics.nodes
    return PartitionResponse(
        index,
        partition.leader_id,
        nodes.replicas(index),
        nodes.in_sync(index),
        ErrorCode.none if partition.leader_id != NO_LEADER else ErrorCode.leader_not_available,
        partition.leader_epoch,
        nodes.offline(index),
    )


def _operations(context: RequestContext) -> int:
    asked = getattr(context.request, "include_topic_authorized_operations", False)
    return TOPIC_OPERATIONS if asked else NOT_ASKED
