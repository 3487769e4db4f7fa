"""Produce (key 0).

v3 transactional_id, batches with magic 2 only · v5 log_start_offset · v7 zstd · v8 record_errors,
error_message (KIP-467) · v9 flexible · v10 current_leader, node_endpoints (KIP-951) ·
v13 topic ids (KIP-516).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...coordinator.transactions.states import TopicPartition
from ...log.batch import HEADER_BYTES, MAGIC, TRANSACTIONAL, BatchHeader, read_header
from ...log.errors import WRITING, InvalidProducerEpoch, LogError
from ...log.producer_state import Verification
from ...log.tasks import CooperativeTask
from ...protocol.errors import ApiError, ErrorCode
from ...topics.acls import AclOperation
from ...topics.configs.config_def import LONG_MAX
from ...topics.produce import (
    ATTRIBUTES_AT,
    ZSTD,
    AppendError,
    AppendResult,
    MalformedBatch,
    ProduceContext,
    RecordError,
    append_in_steps,
    read_batch,
)
from ...topics.topic import Partition, Topic
from ..cluster import Node
from ..network.request import RequestContext, in_slices, run_in_slices
from .authorization import allows_topic, allows_transactional_id
from .common import (
    BrokerResponse,
    CurrentLeader,
    current_leader,
    node_endpoints,
)
from .transactions import VerificationSupport, verify

NO_ACKS, ALL_ACKS = 0, -1
# 1 and -1 (all) differ only in min.insync.replicas, because there is only one copy of the data.
VALID_ACKS = (NO_ACKS, 1, ALL_ACKS)
# Errors of the transaction coordinator that older clients do not retry. All clients get
# NOT_ENOUGH_REPLICAS instead, which they retry (upstream: ReplicaManager.handleProduceAppend).
RETRIED_ERRORS = (
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
)
VERIFICATION_MESSAGES = {
    ErrorCode.invalid_txn_state: "Partition was not added to the transaction",
}


@dataclass(slots=True)  # not a NamedTuple, which has a method `index`
class PartitionResponse:
    index: int
    error_code: ErrorCode = ErrorCode.none
    base_offset: int = -1
    log_append_time: int | None = None
    log_start_offset: int = -1
    record_errors: tuple[RecordError, ...] = ()
    error_message: str | None = None

    def fail(self) -> None:
        self.error_code = ErrorCode.kafka_storage_error
        self.base_offset = self.log_start_offset = -1
        self.log_append_time = None


@dataclass(slots=True)
class MovedResponse(PartitionResponse):
    """Another node leads the partition. A separate type, so that the encoder skips the tagged-field
    comparison for all other responses."""

    current_leader: CurrentLeader = field(kw_only=True)


class TopicResponse(NamedTuple):
    name: str
    topic_id: UUID | None
    partition_responses: list[PartitionResponse]


class ProduceResponse(NamedTuple):
    responses: list[TopicResponse]
    node_endpoints: list[BrokerResponse]


class _Produce:
    """The state of one request: the appended batches, how many batches must be synced before the
    response, and the leaders of partitions that this node does not lead."""

    def __init__(self, context: RequestContext, node: Node) -> None:
        request = context.request
        self._node = node
        self._acks = request.acks
        self._syncs_all = (
            request.transactional_id is not None and node.group_commit.durability == "fsync"
        )
        self._context = context
        self._disk_errors = node.group_commit.errors
        self._terms = ProduceContext(
            now_ms=node.clock.now_ms(),
            wall_ms=node.clock.wall_ms(),
            producer_expiration_ms=partial(node.configs.broker_number, "producer.id.expiration.ms"),
            decompressions=node.cluster.decompressions,
            requires_min_isr=request.acks == ALL_ACKS,
        )
        self._appended: list[tuple[Partition, int]] = []
        self._leaders: list[CurrentLeader] = []
        self._unsynced = 0
        self._response: ProduceResponse | None = None

    def append(
        self,
        topic: Topic | None,
        unknown: ErrorCode,
        requested: Any,
        verified: ErrorCode | Verification | None,
    ) -> CooperativeTask[PartitionResponse]:
        """Append to one partition. `unknown` is the error if `topic` is None."""
        index = requested.index
        try:
            partition, batch, header = self._validate(topic, unknown, requested, verified)
            assert not isinstance(verified, ErrorCode), "_validate raises it"
            if partition.leader_id != self._node.node_id:
                leader = current_leader(partition)
                self._leaders.append(leader)
                error = ErrorCode.not_leader_or_follower
                return MovedResponse(index, error, current_leader=leader)
            done = yield from append_in_steps(partition, batch, header, self._terms, verified)
        except AppendError as rejection:
            if rejection.error is ErrorCode.kafka_storage_error:
                cause = rejection.__cause__ or rejection
                self._disk_errors.failed(WRITING, partition.folder, cause)
            # As in Kafka, other errors have no message.
            has_message = rejection.record_errors or isinstance(rejection, MalformedBatch)
            return PartitionResponse(
                index,
                rejection.error,
                log_start_offset=rejection.log_start_offset,
                record_errors=rejection.record_errors,
                error_message=rejection.message if has_message else None,
            )
        except ApiError as rejection:
            return PartitionResponse(index, rejection.error, error_message=rejection.message)
        if self._disk_errors.current:
            self._disk_errors.succeeded(WRITING, partition.folder)
        response = PartitionResponse(
            index, ErrorCode.none, done.base_offset, done.append_time_ms, partition.start_offset
        )
        if self._must_sync(partition, done):
            self._sync(partition, done, response)
        elif done.size:
            self._appended.append((partition, done.size))
        return response

    def _validate(
        self,
        topic: Topic | None,
        unknown: ErrorCode,
        requested: Any,
        verified: ErrorCode | Verification | None,
    ) -> tuple[Partition, bytes, BatchHeader]:
        """Return the partition to write to, and the batch. The order of the checks is Kafka's.
        Raises ApiError and AppendError."""
        if topic is None:
            raise ApiError(unknown)
        partition = topic.partition(requested.index)
        if partition is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        batch, header = read_batch(
            requested.records or b"", zstd_allowed=self._context.version >= 7
        )
        if isinstance(verified, ErrorCode):
            raise ApiError(verified, VERIFICATION_MESSAGES.get(verified))
        if self._acks not in VALID_ACKS:
            raise ApiError(ErrorCode.invalid_required_acks)
        if topic.is_internal or topic is self._node.view.mirror:
            raise ApiError(ErrorCode.invalid_topic_exception)
        return partition, batch, header

    def _must_sync(self, partition: Partition, done: AppendResult) -> bool:
        """Whether the response waits for a sync. As in Kafka, which relies on replication, records
        of ordinary topics are synced only if flush.messages or flush.ms require a sync. With
        durability `fsync`, records of a transaction are always synced; otherwise, after a power
        loss, the transaction could be committed without acknowledged records."""
        settings = partition.settings
        if self._node.group_commit.durability == "none":
            return False
        if partition.awaiting_sync:
            # If the sync of an earlier batch fails, the log is truncated from that batch on. This
            # batch may be a duplicate of that batch, or follow it.
            return done.base_offset >= partition.awaiting_sync[0]
        if self._syncs_all or partition.unflushed_records >= settings.flush_messages:
            return True
        if settings.flush_ms < LONG_MAX and not partition.flush_is_scheduled:
            partition.flush_is_scheduled = True
            deadline_ms = self._terms.now_ms + settings.flush_ms
            self._node.timers.call_at(
                deadline_ms, partial(_sync_at_deadline, self._node, partition)
            )
        return False

    def _sync(self, partition: Partition, done: AppendResult, response: PartitionResponse) -> None:
        """Sync the log. Then make the batch visible to consumers or, if the sync failed, close the
        log, whose next opening truncates the batch. `done.size` is 0 for a duplicate, whose
        original may be unsynced."""
        # When the log is closed after a failure, the partition gets a new list.
        awaiting_sync = partition.awaiting_sync

        def on_synced(error: OSError | None) -> None:
            self._unsynced -= 1
            if error is not None:
                response.fail()
                if awaiting_sync is partition.awaiting_sync:
                    partition.close_failed()
            elif done.size:
                awaiting_sync.remove(done.base_offset)
                partition.delayed_fetches.on_append(done.size)
            self._respond_if_synced()

        self._unsynced += 1
        partition.unflushed_records = 0
        if done.size:
            awaiting_sync.append(done.base_offset)
        self._node.group_commit.sync(partition.log, on_synced)

    def finish(self, topics: list[TopicResponse]) -> None:
        """Respond once all batches are synced."""
        # Called after all appends, so that a delayed fetch on several partitions sees all of them.
        for partition, size in self._appended:
            partition.delayed_fetches.on_append(size)
        endpoints = node_endpoints(self._context, self._node, self._leaders)
        self._response = ProduceResponse(topics, endpoints)
        self._respond_if_synced()

    def _respond_if_synced(self) -> None:
        response = self._response
        if response is None or self._unsynced:
            return
        if self._acks != NO_ACKS:
            self._context.respond(response)
        elif errors := _errors(response):
            self._context.close_connection(f"Produce with acks=0 failed ({errors})")
        else:
            self._context.complete_without_response()


@in_slices
def handle(context: RequestContext, node: Node) -> CooperativeTask[None]:
    transactional = _transactional_batches(context, node)
    rejected: Mapping[TopicPartition, ErrorCode] = {}
    transactional_id = context.request.transactional_id
    if transactional:
        if transactional_id is None or not allows_transactional_id(
            context, node, AclOperation.WRITE, transactional_id
        ):
            _reject(context, ErrorCode.transactional_id_authorization_failed)
            return
        batches = [
            (key, partition, header)
            for key, header in transactional.items()
            if header is not None
            and header.producer_id >= 0
            and (partition := _writable(context, node, *key)) is not None
        ]
        if len({(header.producer_id, header.producer_epoch) for *_, header in batches}) > 1:
            message = "Transactional records contained more than one producer ID"
            _reject(context, ErrorCode.invalid_producer_id_mapping, message)
            return
        verifications, rejected = _begin_verification(context, batches)
        if verifications:
            _verify(context, node, batches[0][2], verifications, rejected)
            return
    yield from _append_all(context, node, rejected)


def _append_all(
    context: RequestContext,
    node: Node,
    verified: Mapping[TopicPartition, ErrorCode | Verification],
) -> CooperativeTask[None]:
    """Append all batches, then respond. `verified` contains an error for each rejected partition,
    and a verification for each other partition that had to be verified. Partitions that already
    contain records of the transaction are not verified."""
    produce = _Produce(context, node)
    topics = []
    authorizes = node.security.authorizer is not None
    for key, requested in _distinct(context).items():
        if context.version >= 13:
            topic = node.view.by_id(key)
            unknown = ErrorCode.unknown_topic_id
            name, topic_id = "", key
            written = None if topic is None else topic.name
        else:
            topic = node.view.get(key)
            unknown = ErrorCode.unknown_topic_or_partition
            name, topic_id = key, None
            written = name
        if authorizes and not (
            written is None or allows_topic(context, node, AclOperation.WRITE, written)
        ):
            topic, unknown = None, ErrorCode.topic_authorization_failed
        partitions: list[PartitionResponse] = []
        for each in requested:
            found = verified.get((written or "", each.index))
            done = yield from produce.append(topic, unknown, each, found)
            partitions.append(done)
            yield None
        if partitions:
            topics.append(TopicResponse(name, topic_id, partitions))
    produce.finish(topics)


def _transactional_batches(
    context: RequestContext, node: Node
) -> dict[TopicPartition, BatchHeader | None]:
    """Return the headers of the transactional batches by partition, or None for batches that are
    rejected when they are appended."""
    found: dict[TopicPartition, BatchHeader | None] = {}
    for topic in context.request.topic_data:
        for each in topic.partition_data:
            records = each.records or b""
            if len(records) >= HEADER_BYTES and records[ATTRIBUTES_AT] & TRANSACTIONAL:
                name = topic.name if context.version < 13 else _name_of(node, topic.topic_id)
                found[name, each.index] = _header(records, zstd_allowed=context.version >= 7)
    return found


def _header(records: bytes, *, zstd_allowed: bool) -> BatchHeader | None:
    header = read_header(records)
    if header.size != len(records) or header.magic != MAGIC or header.codec == ZSTD:
        try:
            read_batch(records, zstd_allowed=zstd_allowed)
        except ApiError:
            return None
    return header


def _name_of(node: Node, topic_id: UUID) -> str:
    topic = node.view.by_id(topic_id)
    return "" if topic is None else topic.name


def _writable(context: RequestContext, node: Node, name: str, index: int) -> Partition | None:
    """Return the partition if this node leads it and the client may write to it. Batches of other
    partitions are rejected when they are appended."""
    found = node.topics.partition(name, index)
    if found is None or found.leader_id != node.node_id:
        return None
    if not allows_topic(context, node, AclOperation.WRITE, name, reports=False):
        return None
    return found


def _support(context: RequestContext) -> VerificationSupport:
    if context.version >= 12:
        return VerificationSupport.ADD_PARTITION
    if context.version >= 11:
        return VerificationSupport.GENERIC_ERROR
    return VerificationSupport.DEFAULT_ERROR


def _begin_verification(
    context: RequestContext, batches: Iterable[tuple[TopicPartition, Partition, BatchHeader]]
) -> tuple[dict[TopicPartition, Verification], dict[TopicPartition, ErrorCode]]:
    """Begin to verify the partitions without records of the producer's transaction. Return their
    verifications, and errors for the partitions in which the producer is fenced."""
    verifications: dict[TopicPartition, Verification] = {}
    rejected: dict[TopicPartition, ErrorCode] = {}
    adds = _support(context) is VerificationSupport.ADD_PARTITION
    for key, partition, header in batches:
        try:
            producers = partition.log.producers
            if not producers.has_open_transaction(header.producer_id, header.producer_epoch):
                verification = producers.begin_verification(header, partition.name, adds=adds)
                verifications[key] = verification
        except InvalidProducerEpoch:
            rejected[key] = ErrorCode.invalid_producer_epoch
        except (OSError, LogError):
            continue  # rejected when it is appended
    return verifications, rejected


def _verify(
    context: RequestContext,
    node: Node,
    header: BatchHeader,
    verifications: Mapping[TopicPartition, Verification],
    rejected: Mapping[TopicPartition, ErrorCode],
) -> None:
    """Verify that the partitions are in the producer's transaction, or add them, then append.
    `header` is the header of one of the producer's batches."""
    support = _support(context)

    def verified(errors: Mapping[TopicPartition, ErrorCode]) -> None:
        retried: tuple[ErrorCode, ...] = RETRIED_ERRORS
        if support is not VerificationSupport.ADD_PARTITION:
            retried = (*RETRIED_ERRORS, ErrorCode.concurrent_transactions)
        mapped = {
            partition: ErrorCode.not_enough_replicas if error in retried else error
            for partition, error in errors.items()
        }
        run_in_slices(
            context, node, _append_all(context, node, {**verifications, **mapped, **rejected})
        )

    # Later batches of the producer must not overtake this one.
    context.mute_channel()
    producer = header.producer_id, header.producer_epoch
    verify(node, context.request.transactional_id, *producer, verifications, support, verified)


def _reject(context: RequestContext, error: ErrorCode, message: str | None = None) -> None:
    if context.request.acks == NO_ACKS:
        context.close_connection(f"Produce with acks=0 failed ({error.name})")
        return
    topics = [
        TopicResponse(
            getattr(topic, "name", ""),
            getattr(topic, "topic_id", None),
            [
                PartitionResponse(each.index, error, error_message=message)
                for each in topic.partition_data
            ],
        )
        for topic in context.request.topic_data
        if topic.partition_data
    ]
    context.respond(ProduceResponse(topics, []))


def _distinct(context: RequestContext) -> dict[Any, Iterable[Any]]:
    """Return each partition of the request once, by its topic's name or id. If a partition is
    repeated, its last entry wins, as in Kafka; earlier entries are neither appended nor in the
    response. (If exactly one entry is malformed, Kafka appends the other one, but still responds
    with the error.)"""
    topics: dict[Any, dict[int, Any]] = {}
    for topic in context.request.topic_data:
        key = topic.topic_id if context.version >= 13 else topic.name
        partitions = topics.setdefault(key, {})
        for each in topic.partition_data:
            partitions[each.index] = each
    return {key: partitions.values() for key, partitions in topics.items()}


def _sync_at_deadline(node: Node, partition: Partition) -> None:
    partition.flush_is_scheduled = False
    if partition.opened_log is not None and partition.unflushed_records:
        partition.unflushed_records = 0
        node.group_commit.sync(
            partition.opened_log, lambda _error: None
        )  # GroupCommit logs the error


def _errors(response: ProduceResponse) -> str:
    """Describe errors for the log, because a client gets no response to a request with acks=0."""
    return ", ".join(
        f"{topic.name or topic.topic_id}-{each.index}: {each.error_code.name}"
        for topic in response.responses
        for each in topic.partition_responses
        if each.error_code is not ErrorCode.none
    )
