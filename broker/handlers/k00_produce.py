"""Produce (key 0).

v3 transactional_id, batches with magic 2 only · v5 log_start_offset · v7 zstd · v8 record_errors,
error_message (KIP-467) · v9 flexible · v10 current_leader, node_endpoints (KIP-951) ·
v13 topic ids (KIP-516).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...log.tasks import CooperativeTask
from ...protocol.errors import ApiError, ErrorCode
from ...topics.config_def import LONG_MAX
from ...topics.produce import (
    AppendError,
    AppendResult,
    ProduceContext,
    RecordError,
    append_in_steps,
)
from ...topics.topic import Partition, Topic
from ..cluster import Node
from ..gather import Gather
from ..request import RequestContext, in_slices
from .common import BrokerResponse, CurrentLeader, current_leader, node_endpoints

NO_ACKS = 0
# Acks=1 or all: equivalent here, since there is only one copy.
VALID_ACKS = (NO_ACKS, 1, -1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)  # a NamedTuple has a method `index`
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
    """Another node leads the partition. A separate type, so that the encoder can skip the
    tagged-field comparison for all other responses."""

    current_leader: CurrentLeader = field(kw_only=True)


class TopicResponse(NamedTuple):
    name: str
    topic_id: UUID | None
    partition_responses: list[PartitionResponse]


class ProduceResponse(NamedTuple):
    responses: list[TopicResponse]
    node_endpoints: list[BrokerResponse]


class _Produce:
    """The state of one request: what was appended, which logs must be synced before the response,
    and the leaders of partitions that this node does not lead."""

    def __init__(self, context: RequestContext, node: Node) -> None:
        request = context.request
        self.node = node
        self.acks = request.acks
        self.terms = ProduceContext(
            now_ms=node.clock.now_ms(),
            wall_ms=node.clock.wall_ms(),
            zstd_allowed=context.version >= 7,
            transactional_id=request.transactional_id,
            producer_expiration_ms=partial(node.configs.broker_number, "producer.id.expiration.ms"),
        )
        self.appended: list[tuple[Partition, int]] = []
        self.to_sync: list[Partition] = []
        self.leaders: list[CurrentLeader] = []

    def append(
        self, topic: Topic | None, unknown: ErrorCode, requested: Any
    ) -> CooperativeTask[PartitionResponse]:
        """Append to one partition; `unknown` is the error if there is no topic."""
        index = requested.index
        try:
            partition = self._partition(topic, unknown, index)
            if partition.leader_id != self.node.node_id:
                leader = current_leader(partition)
                self.leaders.append(leader)
                error = ErrorCode.not_leader_or_follower
                return MovedResponse(index, error, current_leader=leader)
            done = yield from append_in_steps(partition, requested.records, self.terms)
        except AppendError as rejection:
            return PartitionResponse(
                index,
                rejection.error,
                log_start_offset=rejection.log_start_offset,
                record_errors=rejection.record_errors,
                error_message=rejection.message,
            )
        except ApiError as rejection:
            return PartitionResponse(index, rejection.error, error_message=rejection.message)
        if done.size:
            self.appended.append((partition, done.size))
            self._plan_sync(partition)
        append_time = _append_time(done)
        return PartitionResponse(
            index, ErrorCode.none, done.base_offset, append_time, partition.start_offset
        )

    def _partition(self, topic: Topic | None, unknown: ErrorCode, index: int) -> Partition:
        """Return the partition to write to. Raises ApiError."""
        if topic is None:
            raise ApiError(unknown)
        partition = topic.partition(index)
        if partition is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        if self.acks not in VALID_ACKS:
            raise ApiError(ErrorCode.invalid_required_acks)
        if topic.is_internal or topic is self.node.view.mirror:
            message = f"{topic.name} can only be written by the broker itself."
            raise ApiError(ErrorCode.invalid_topic_exception, message)
        return partition

    def _plan_sync(self, partition: Partition) -> None:
        """As in Kafka, records of ordinary topics are synced only if flush.messages or flush.ms
        require it: Kafka relies on replication instead."""
        settings = partition.settings
        if partition.unflushed_records >= settings.flush_messages:
            partition.unflushed_records = 0
            self.to_sync.append(partition)
        elif settings.flush_ms < LONG_MAX and not partition.flush_is_scheduled:
            partition.flush_is_scheduled = True
            deadline_ms = self.terms.now_ms + settings.flush_ms
            self.node.timers.call_at(deadline_ms, partial(_sync_at_deadline, self.node, partition))


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    produce = _Produce(context, node)
    topics = []
    for key, requested in _distinct(context).items():
        if context.version >= 13:
            topic = node.view.by_id(key)
            unknown = ErrorCode.unknown_topic_id
            name, topic_id = "", key
        else:
            topic = node.view.get(key)
            unknown = ErrorCode.unknown_topic_or_partition
            name, topic_id = key, None
        partitions = []
        for each in requested:
            done = yield from produce.append(topic, unknown, each)
            partitions.append(done)
            yield None
        topics.append(TopicResponse(name, topic_id, partitions))
    # After all appends, so that a delayed fetch on several partitions sees all of them.
    for partition, size in produce.appended:
        partition.delayed_fetches.on_append(size)
    response = ProduceResponse(topics, node_endpoints(node, produce.leaders))
    if produce.acks == NO_ACKS:
        if errors := _errors(response):
            context.close_connection(f"Produce with acks=0 failed ({errors})")
        else:
            context.complete_without_response()
    elif not produce.to_sync:
        context.respond(response)
    else:
        partitions_to_sync = produce.to_sync
        respond = partial(_respond_when_synced, context, node, response, partitions_to_sync)
        results = Gather(len(partitions_to_sync), respond)
        for place, each in enumerate(partitions_to_sync):
            node.group_commit.sync(each.log, partial(results.put, place))


def _distinct(context: RequestContext) -> dict[Any, Iterable[Any]]:
    """Each partition of the request once, by its topic's name or id. The last entry of a duplicate
    partition wins, as in Kafka: the earlier ones are neither appended nor responded to. (If exactly
    one of them is malformed, Kafka appends the other but still responds with the error.)"""
    topics: dict[Any, dict[int, Any]] = {}
    for topic in context.request.topic_data:
        key = topic.topic_id if context.version >= 13 else topic.name
        partitions = topics.setdefault(key, {})
        for each in topic.partition_data:
            partitions[each.index] = each
    return {key: partitions.values() for key, partitions in topics.items()}


def _append_time(done: AppendResult) -> datetime | None:
    if done.append_time_ms < 0:
        return None
    return EPOCH + timedelta(milliseconds=done.append_time_ms)


def _sync_at_deadline(node: Node, partition: Partition) -> None:
    """Sync because flush.ms has elapsed."""
    partition.flush_is_scheduled = False
    if partition.opened_log is not None and partition.unflushed_records:
        partition.unflushed_records = 0
        node.group_commit.sync(
            partition.opened_log, lambda _error: None
        )  # GroupCommit logs the error


def _respond_when_synced(
    context: RequestContext,
    node: Node,
    response: ProduceResponse,
    synced: list[Partition],
    errors: list[OSError | None],
) -> None:
    """Respond once all syncs are done; a partition whose sync failed gets its error."""
    failed = {
        partition.name: error
        for partition, error in zip(synced, errors, strict=True)
        if error is not None
    }
    for topic in response.responses if failed else ():
        found = node.topics.by_id(topic.topic_id)
        name = topic.name if found is None else found.name
        for place, each in enumerate(topic.partition_responses):
            error = failed.get(f"{name}-{each.index}")
            if error is not None:
                topic.partition_responses[place] = PartitionResponse(
                    each.index, ErrorCode.kafka_storage_error, error_message=str(error)
                )
    context.respond(response)


def _errors(response: ProduceResponse) -> str:
    """Describe the errors of a request with acks=0 in the log; its client gets no response."""
    return ", ".join(
        f"{topic.name or topic.topic_id}-{each.index}: {each.error_code.name}"
        for topic in response.responses
        for each in topic.partition_responses
        if each.error_code is not ErrorCode.none
    )
