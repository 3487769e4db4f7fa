"""Metadata (key 3).

v1 null requests all topics, rack, controller_id, is_internal · v2 cluster_id · v3 throttle_time ·
v4 allow_auto_topic_creation · v5 offline_replicas · v7 leader_epoch · v8 authorized operations ·
v9 flexible · v10 topic ids · v11 no cluster operations · v12 requests by topic id · v13 error_code.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from ...protocol.budgets import AUTO_CREATED_MAX
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.admin import (
    check_new_topic,
    default_partitions,
    place_new_topic,
    place_replicas,
)
from ...topics.configs.effective import internal_topic
from ...topics.names import (
    OFFSETS_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    is_internal,
    topic_name_error,
)
from ...topics.registry_log import Assignment
from ...topics.topic import NO_LEADER, Partition, Topic
from ..cluster import Node
from ..network.request import RequestContext, in_slices
from .authorization import (
    NOT_REQUESTED,
    allows_cluster,
    allows_topic,
    cluster_operations,
    topic_operations,
)
from .common import BrokerResponse, brokers

UNAUTHORIZED = ErrorCode.topic_authorization_failed
UNKNOWN = ErrorCode.unknown_topic_or_partition

_log: Final = logging.getLogger("kohort.requests")


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
    topic_id: UUID | None = None
    is_internal: bool = False
    partitions: Sequence[PartitionResponse] = ()
    topic_authorized_operations: int = NOT_REQUESTED


class MetadataResponse(NamedTuple):
    brokers: Sequence[BrokerResponse]
    cluster_id: str | None
    controller_id: int
    topics: list[TopicResponse]
    cluster_authorized_operations: int = NOT_REQUESTED
    error_code: ErrorCode = ErrorCode.none


@in_slices
def handle(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    requested = request.topics
    # v0 cannot send null, so an empty list means all topics.
    if requested is None or (context.version == 0 and not requested):
        topics = []
        for topic in list(node.view):
            if allows_topic(context, node, AclOperation.DESCRIBE, topic.name, reports=False):
                topics.append(_response(context, node, topic))
            yield
    elif (error := _check_ids(context)) is not None:
        rejected = [TopicResponse(error, each.name or "", each.topic_id) for each in requested]
        context.respond(MetadataResponse((), None, -1, rejected, error_code=error))
        return
    else:
        topics = []
        created = set[str]()
        for each in _distinct(requested):
            topics.append(_find(context, node, each, created))
            yield
    operations = NOT_REQUESTED
    if getattr(request, "include_cluster_authorized_operations", False):
        operations = cluster_operations(context, node)
    response = MetadataResponse(
        brokers=brokers(context, node.cluster.up),
        cluster_id=node.cluster.id,
        controller_id=node.cluster.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )
    # An auto-created topic must be durable before it is reported to any client.
    node.topics.on_durable(partial(_respond, context, node, response))


def _respond(
    context: RequestContext, node: Node, response: MetadataResponse, error: OSError | None
) -> None:
    if error is not None:
        topics = [
            TopicResponse(UNKNOWN, each.name, is_internal=each.is_internal)
            if each.error_code is ErrorCode.none and node.view.by_id(each.topic_id) is None
            else each
            for each in response.topics
        ]
        response = response._replace(topics=topics)
    context.respond(response)


def _check_ids(context: RequestContext) -> ErrorCode | None:
    """Return the error for topic ids before v12, or for a topic with neither name nor id."""
    topics = context.request.topics
    # v10 and v11 have the field, but topic ids are not supported before v12 (KAFKA-14391).
    if context.version in (10, 11) and any(
        each.name is None or each.topic_id is not None for each in topics
    ):
        return ErrorCode.invalid_request
    # If any topic has an id, topics without an id are ignored. Otherwise, a topic without a name
    # fails the request.
    if all(getattr(each, "topic_id", None) is None for each in topics) and any(
        each.name is None for each in topics
    ):
        return ErrorCode.unknown_server_error
    return None


def _distinct(topics: Iterable[Any]) -> Iterable[Any]:
    """Return each requested topic once. If ids are present, names are ignored."""
    by_id = {each.topic_id: each for each in topics if getattr(each, "topic_id", None) is not None}
    return (by_id or {each.name: each for each in topics}).values()


def _find(context: RequestContext, node: Node, requested: Any, created: set[str]) -> TopicResponse:
    # The id takes precedence over the name.
    topic_id = getattr(requested, "topic_id", None)
    if topic_id is not None:
        topic = node.view.by_id(topic_id)
        if topic is None:
            return TopicResponse(ErrorCode.unknown_topic_id, None, topic_id)
        if not allows_topic(context, node, AclOperation.DESCRIBE, topic.name):
            return TopicResponse(UNAUTHORIZED, None, topic_id)
        return _response(context, node, topic)
    name = requested.name
    # The response does not disclose whether the topic exists.
    if not allows_topic(context, node, AclOperation.DESCRIBE, name):
        return TopicResponse(UNAUTHORIZED, name)
    topic = node.view.get(name)
    if topic is None:
        may_create = _may_create(context, node)
        if may_create and not _is_creator(context, node, name):
            return TopicResponse(UNAUTHORIZED, name, is_internal=is_internal(name))
        error = UNKNOWN
        if topic_name_error(name):
            error = ErrorCode.invalid_topic_exception
        elif may_create:
            new = _create(context, node, name, created)
            if node.config.bool("kohort.auto.create.immediate"):
                topic = new
        if topic is None:
            return TopicResponse(
                error,
                name,
                is_internal=is_internal(name),
                topic_authorized_operations=_operations(context, node, name),
            )
    return _response(context, node, topic)


def _may_create(context: RequestContext, node: Node) -> bool:
    """Whether both the client and the broker allow topics to be created."""
    # Clients before v4 cannot disable auto-creation.
    allowed = getattr(context.request, "allow_auto_topic_creation", True)
    return allowed and node.config.bool("auto.create.topics.enable")


def _is_creator(context: RequestContext, node: Node, name: str) -> bool:
    create = AclOperation.CREATE
    return allows_cluster(context, node, create, reports=False) or allows_topic(
        context, node, create, name
    )


def _create(context: RequestContext, node: Node, name: str, created: set[str]) -> Topic | None:
    """Create the topic with the broker's defaults. Return None if it cannot be created now or at
    all. As in Kafka, which responds before it creates topics, the client gets no reason. `created`
    contains the topics that this request has created."""
    try:
        if name in (OFFSETS_TOPIC, TRANSACTION_TOPIC):
            return node.topics.ensure_coordinator_topic(name)
        node.view.check_new_topic(name)
        check_new_topic(node.topics, name, created)
        partitions, overrides = default_partitions(node.topics), dict[str, str]()
        assignment: Assignment = ()
        if name == SHARE_TOPIC:  # has a separate replication factor
            place_replicas(node.topics, range(1), 1)
            partitions, overrides = internal_topic(node.config, name)
        else:
            assignment, _ = place_new_topic(node.topics, partitions)
        if len(created) >= AUTO_CREATED_MAX:
            return None  # created when the client retries
        if context.meter is not None and not context.meter.allows_auto_creation(partitions):
            return None
        topic = node.topics.create(name, partitions, overrides, assignment)
    except ApiError:
        return None
    except OSError as error:
        _log.warning("Topic %s was not created: %s", name, error)
        return None
    created.add(name)
    return topic


def _response(context: RequestContext, node: Node, topic: Topic) -> TopicResponse:
    return TopicResponse(
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[
            _of_version(context.version, partition_response(node, partition))
            for partition in topic.partitions
        ],
        topic_authorized_operations=_operations(context, node, topic.name),
    )


def partition_response(node: Node, partition: Partition) -> PartitionResponse:
    """Return the metadata of a partition, without an error if it has no leader."""
    up = node.topics.nodes.up
    # As in Kafka, the leader must be one of the brokers in the response. A stopping node is not
    # listed there, although it leads its partitions until other leaders are elected.
    has_leader = partition.leader_id in up
    return PartitionResponse(
        partition.index,
        partition.leader_id if has_leader else NO_LEADER,
        partition.replicas,
        partition.isr,
        ErrorCode.none,
        partition.leader_epoch,
        tuple(each for each in partition.replicas if each not in up),
    )


def _of_version(version: int, response: PartitionResponse) -> PartitionResponse:
    """Add the error, and in v0 remove replicas that are down (upstream: KRaftMetadataCache)."""
    offline = response.offline_replicas
    if version == 0 and offline:
        up = tuple(each for each in response.replica_nodes if each not in offline)
        response = response._replace(replica_nodes=up, error_code=ErrorCode.replica_not_available)
    if response.leader_id == NO_LEADER:
        response = response._replace(error_code=ErrorCode.leader_not_available)
    return response


def _operations(context: RequestContext, node: Node, name: str) -> int:
    requested = getattr(context.request, "include_topic_authorized_operations", False)
    return topic_operations(context, node, name) if requested else NOT_REQUESTED
