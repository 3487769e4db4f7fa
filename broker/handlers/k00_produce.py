"""Produce (key 0).

v3 transactional_id, batches with magic 2 only · v5 log_start_offset · v7 zstd · v8 record_errors,
error_message (KIP-467) · v9 flexible · v10 current_leader, node_endpoints (KIP-951) ·
v13 topic ids (KIP-516).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ...topics.config_def import LONG_MAX
from ...topics.errors import RecordError, Refused
from ...topics.partition import Partition
from ...topics.produce import Appended, Terms, append
from ...topics.topic import Topic
from ..node import Node
from ..request import NO_THROTTLE, RequestContext
from .k03_metadata import BrokerResponse
from .leaders import CurrentLeader, endpoints, leader_of

NO_ACKS = 0
# From the leader alone, or from all replicas: here both are this broker.
ACKS = (NO_ACKS, 1, -1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)  # a NamedTuple has an `index` already
class PartitionResponse:
    index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time: datetime | None = None
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None


@dataclass(slots=True)
class MovedResponse(PartitionResponse):
    """Another node leads the partition. Of a type of its own, so that no other answer has the
    field to be compared with its default."""

    current_leader: CurrentLeader = field(kw_only=True)


class TopicResponse(NamedTuple):
    name: str
    topic_id: UUID | None
    partition_responses: list[PartitionResponse]


class ProduceResponse(NamedTuple):
    responses: list[TopicResponse]
    node_endpoints: list[BrokerResponse]
    throttle_time: timedelta = NO_THROTTLE


class _Work:
    """One request: what was appended where, which logs are to be synced before its answer, and
    who leads what was asked of the wrong node."""

    __slots__ = ("appended", "leaders", "node", "terms", "to_sync")

    def __init__(self, context: RequestContext, node: Node) -> None:
        self.node = node
        self.terms = Terms(
            now_ms=node.clock.now_ms(),
            zstd_allowed=context.version >= 7,
            transactional_id=context.request.transactional_id,
            producer_expiration_ms=partial(node.configs.broker_number, "producer.id.expiration.ms"),
        )
        self.appended: list[tuple[Partition, int]] = []
        self.to_sync: list[Partition] = []
        self.leaders: list[CurrentLeader] = []


def handle(context: RequestContext, node: Node) -> None:
    request = context.request
    work = _Work(context, node)
    replies = []
    for key, asked in _once(context).items():
        if context.version >= 13:
            topic = node.readable.by_id(key)
            unknown = ErrorCode.unknown_topic_id
            name, topic_id = "", key
        else:
            topic = node.readable.get(key)
            unknown = ErrorCode.unknown_topic_or_partition
            name, topic_id = key, None
        partitions = [_produce(work, request.acks, topic, unknown, each) for each in asked]
        replies.append(TopicResponse(name, topic_id, partitions))
    # Only now, so that a fetch that waits for several partitions finds them all.
    for partition, size in work.appended:
        partition.waiters.arrived(size)
    _answer(context, node, work, ProduceResponse(replies, endpoints(node, work.leaders)))


def _once(context: RequestContext) -> dict[Any, Iterable[Any]]:
    """Each partition of the request once, by its topic's name or id. Of one that comes twice the
    last counts, as in Kafka: what came before it is neither appended nor answered. (Only where
    one of the two is malformed Kafka takes the other and answers with the error all the same.)
    """
    asked: dict[Any, dict[int, Any]] = {}
    for topic in context.request.topic_data:
        key = topic.topic_id if context.version >= 13 else topic.name
        partitions = asked.setdefault(key, {})
        for each in topic.partition_data:
            partitions[each.index] = each
    return {key: partitions.values() for key, partitions in asked.items()}


def _produce(
    work: _Work, acks: int, topic: Topic | None, unknown: ErrorCode, asked: Any
) -> PartitionResponse:
    try:
        if topic is None:
            raise Refused(unknown)
        partition = topic.partition(asked.index)
        if partition is None:
            raise Refused(ErrorCode.unknown_topic_or_partition)
        if acks not in ACKS:
            raise Refused(ErrorCode.invalid_required_acks)
        if topic.is_internal or topic is work.node.readable.mirror:
            raise Refused(
                ErrorCode.invalid_topic_exception,
                f"{topic.name} is written by the broker itself.",
            )
        if partition.leader_id != work.node.node_id:
            return _moved(work, partition)
        done = append(partition, asked.records, work.terms)
    except Refused as refused:
        return PartitionResponse(
            asked.index,
            refused.error,
            log_start_offset=refused.log_start_offset,
            record_errors=refused.record_errors,
            error_message=refused.message,
        )
    if done.size:
        work.appended.append((partition, done.size))
        _plan_sync(work, partition)
    return PartitionResponse(
        asked.index, ErrorCode.none, done.base_offset, _append_time(done), partition.start_offset
    )


def _moved(work: _Work, partition: Partition) -> PartitionResponse:
    leader = leader_of(partition)
    work.leaders.append(leader)
    error = ErrorCode.not_leader_or_follower
    return MovedResponse(partition.index, error, current_leader=leader)


def _append_time(done: Appended) -> datetime | None:
    if done.append_time_ms < 0:
        return None
    return EPOCH + timedelta(milliseconds=done.append_time_ms)


def _plan_sync(work: _Work, partition: Partition) -> None:
    """Records of ordinary topics are left to the system unless flush.messages or flush.ms say
    otherwise, as in Kafka: replication, not the disk, is what it counts on."""
    settings = partition.settings
    if partition.unflushed_records >= settings.flush_messages:
        partition.unflushed_records = 0
        work.to_sync.append(partition)
    elif settings.flush_ms < LONG_MAX and not partition.sync_is_due:
        partition.sync_is_due = True
        deadline_ms = work.terms.now_ms + settings.flush_ms
        work.node.timers.call_at(deadline_ms, partial(_sync_in_time, work.node, partition))


def _sync_in_time(node: Node, partition: Partition) -> None:
    partition.sync_is_due = False
    if partition.opened_log is not None and partition.unflushed_records:
        partition.unflushed_records = 0
        node.group_commit.sync(
            partition.opened_log, lambda _error: None
        )  # GroupCommit logs the error


def _answer(context: RequestContext, node: Node, work: _Work, reply: ProduceResponse) -> None:
    if context.request.acks == NO_ACKS:
        if refused := _refusals(reply):
            context.close_connection(f"Produce with acks 0 was refused ({refused})")
        else:
            context.no_response()
        return
    if not work.to_sync:
        context.respond(reply)
        return
    outstanding = len(work.to_sync)
    failed: dict[str, OSError] = {}

    def synced(partition: Partition, error: OSError | None) -> None:
        nonlocal outstanding
        outstanding -= 1
        if error is not None:
            failed[partition.name] = error
        if not outstanding:
            context.respond(_with_failures(reply, node, failed) if failed else reply)

    for partition in work.to_sync:
        told: Callable[[OSError | None], None] = partial(synced, partition)
        node.group_commit.sync(partition.log, told)


def _with_failures(
    reply: ProduceResponse, node: Node, failed: dict[str, OSError]
) -> ProduceResponse:
    """The same answer, but what could not be synced is not acknowledged."""
    topics = []
    for topic in reply.responses:
        known = node.topics.by_id(topic.topic_id)
        name = topic.name if known is None else known.name
        partitions = [
            PartitionResponse(each.index, ErrorCode.kafka_storage_error, error_message=str(error))
            if (error := failed.get(f"{name}-{each.index}")) is not None
            else each
            for each in topic.partition_responses
        ]
        topics.append(topic._replace(partition_responses=partitions))
    return reply._replace(responses=topics)


def _refusals(reply: ProduceResponse) -> str:
    """What was refused of a request with acks 0, for the log: nobody else can be told."""
    return ", ".join(
        f"{topic.name or topic.topic_id}-{each.index}: {each.error_code.name}"
        for topic in reply.responses
        for each in topic.partition_responses
        if each.error_code is not ErrorCode.none
    )
