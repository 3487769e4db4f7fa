"""Fetch (key 1).

v5 log_start_offset · v7 sessions (KIP-227) · v9 leader epochs · v11 rack · v12 flexible,
last_fetched_epoch · v13 topic ids (KIP-516) · v15 replica_state · v16 current_leader,
node_endpoints (KIP-951).
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from ...log.producer_state import AbortedTransaction
from ...log.segment import FileSlice
from ...protocol.budgets import PARKED_PARTITIONS_MAX
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages import response_buffers_encoder
from ...topics.acls import AclOperation
from ...topics.delayed_fetch import DelayedFetch
from ...topics.fetch import (
    ISOLATION_LEVELS,
    NO_EPOCH,
    READ_COMMITTED,
    DivergingEpoch,
    PartitionData,
    PartitionRequest,
    available_bytes,
    leader_error,
    read_partitions,
)
from ...topics.topic import Partition, Topic
from ..cluster import Node
from ..event_loop.timers import Timer
from ..fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    CachedPartitions,
    FetchSession,
    PartitionKey,
)
from ..network.request import (
    RequestContext,
    RequestMeter,
    milliseconds,
    run_in_slices,
)
from .authorization import allows_cluster, allows_topic
from .common import BrokerResponse, CurrentLeader, current_leader, node_endpoints

FETCH = 1
CONSUMER_REPLICA_ID = -1
# The records of a longer response are not copied, but sent in pieces. Copying fewer bytes is
# cheaper, and uvloop sends this many bytes at once, without another iteration of the event loop.
JOINED_BYTES_MAX = 64 * 1024
# Number of partitions that are looked up or read in one step, which takes about 0.25 ms.
PARTITIONS_PER_STEP = 100
# Errors for which the client needs the new leader (KIP-951).
MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
# Reading a module global is faster than looking up an enum member for every partition.
NONE = ErrorCode.none

_Result: TypeAlias = tuple[CachedPartition, PartitionRequest, PartitionData]


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    records: bytes | FileSlice = b""
    preferred_read_replica: int = -1


class DivergingResponse(PartitionResponse):
    """The consumer's last epoch ends before its offset, because the log was truncated (KIP-595). A
    separate type, so that the encoder skips the tagged-field comparison for all other responses."""

    diverging_epoch: DivergingEpoch


class MovedResponse(PartitionResponse):
    """Another node leads the partition, or the client's leader epoch is outdated. Separate for the
    same reason as DivergingResponse."""

    current_leader: CurrentLeader


class TopicResponse(NamedTuple):
    topic: str
    topic_id: UUID | None
    partitions: list[PartitionResponse]


class FetchResponse(NamedTuple):
    error_code: ErrorCode
    responses: list[TopicResponse]
    session_id: int = NO_SESSION
    node_endpoints: Sequence[BrokerResponse] = ()


def handle(context: RequestContext, node: Node) -> None:
    run_in_slices(context, node, _Fetch(context, node).begin())


class _Fetch:
    """The state of one request: its partitions, session and long poll."""

    def __init__(self, context: RequestContext, node: Node) -> None:
        self.context = context
        self.node = node
        request = context.request
        self.bytes_max = min(request.max_bytes, node.config.int("fetch.max.bytes"))
        self.deadline_ms = node.client_timers.now_ms() + milliseconds(request.max_wait)
        self.poll: DelayedFetch | None = None
        self.timer: Timer | None = None
        self.parked = 0
        # The number of existing partitions when the fetch began to wait. If one of them is deleted,
        # the wait ends; an unknown partition does not end it.
        self.existing_count = 0
        state = request if context.version < 15 else request.replica_state
        # CONSUMER_REPLICA_ID or lower for a consumer, otherwise the id of a follower.
        self.replica_id: int = state.replica_id
        self.meter = context.meter if self.replica_id <= CONSUMER_REPLICA_ID else None
        if self.meter is not None:
            self.bytes_max = min(self.bytes_max, self.meter.fetch_bytes_max)
        self.committed_only = request.isolation_level == READ_COMMITTED
        self.session: FetchSession | None = None
        self.epoch = NO_EPOCH
        self.partitions: list[CachedPartition] = []
        # Each topic is authorized once, not on each attempt of a delayed fetch.
        self._authorizes = node.security.authorizer is not None
        self._allowed: dict[str | None, bool] = {}

    def _resume_session(self, requested: CachedPartitions) -> FetchSession | None:
        """Update and return the session of an incremental request. A full request closes the
        session that it names; the result is then None. Raises ApiError."""
        context, node = self.context, self.node
        if context.version < 7:
            return None
        request = context.request
        session_id, epoch = request.session_id, request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            node.fetch_sessions.close(session_id)
            return None
        forgotten, now_ms = forgotten_partitions(context), node.clock.now_ms()
        return node.fetch_sessions.resume(
            session_id, epoch, requested, forgotten, by_id=is_by_id(context), now_ms=now_ms
        )

    def _new_session(self, data: list[PartitionData]) -> int:
        context, node = self.context, self.node
        if context.version < 7 or context.request.session_epoch != INITIAL_EPOCH:
            return NO_SESSION
        return node.fetch_sessions.create(
            self.partitions,
            data,
            by_id=is_by_id(context),
            is_privileged=self.replica_id > CONSUMER_REPLICA_ID,
            now_ms=node.clock.now_ms(),
        )

    def begin(self) -> Iterator[None]:
        requested = yield from requested_partitions(self.context)
        try:
            self.session = self._resume_session(requested)
        except ApiError as rejection:
            self.context.respond(FetchResponse(rejection.error, []))
            return
        if self.session is not None:
            self.epoch, requested = self.session.epoch, self.session.partitions
        self.partitions = list(requested.values())
        requests = yield from self._look_up()
        if None in [each.partition for each in requests]:
            requests = yield from self._missing_last(requests)
        # As in Kafka, the isolation level is validated only if there is a partition to read.
        unknown_level = self.context.request.isolation_level not in ISOLATION_LEVELS
        if unknown_level and requests and requests[0].partition is not None:
            self.context.respond(_unknown_server_error(self.context))
            return
        yield from self._attempt(requests)

    def attempt(self) -> None:
        self.poll = None
        run_in_slices(self.context, self.node, self._attempt_again())

    def _attempt_again(self) -> Iterator[None]:
        # Resolved on each attempt, because the topic may be deleted while the fetch waits.
        requests = yield from self._look_up()
        yield from self._attempt(requests)

    def _look_up(self) -> Generator[None, None, list[PartitionRequest]]:
        requests: list[PartitionRequest] = []
        for start in range(0, len(self.partitions), PARTITIONS_PER_STEP):
            requests += self._resolve(self.partitions[start : start + PARTITIONS_PER_STEP])
            yield
        return requests

    def _missing_last(
        self, requests: list[PartitionRequest]
    ) -> Generator[None, None, list[PartitionRequest]]:
        """Move unknown and unauthorized partitions to the end, unknown topic ids first (upstream:
        KafkaApis.handleFetchRequest)."""
        by_rank: tuple[list[int], ...] = ([], [], [])
        for index, request in enumerate(requests):
            by_rank[_missing_rank(request)].append(index)
            if index % PARTITIONS_PER_STEP == PARTITIONS_PER_STEP - 1:
                yield
        order = list(chain.from_iterable(by_rank))
        self.partitions = [self.partitions[index] for index in order]
        yield
        return [requests[index] for index in order]

    def _resolve(self, partitions: Sequence[CachedPartition]) -> list[PartitionRequest]:
        """Find the partitions, or the errors to return for them."""
        context, node = self.context, self.node
        look_up = node.view.by_id if is_by_id(context) else node.view.get
        is_follower = self.replica_id > CONSUMER_REPLICA_ID
        # Since v11, consumers may read from followers (KIP-392; upstream: FetchParams).
        is_old_consumer = self.replica_id == CONSUMER_REPLICA_ID and context.version < 11
        key: Any = ...  # differs from every topic; the zero topic id is None
        topic: Topic | None = None
        is_denied = False
        requests = []
        for each in partitions:
            # Partitions of the same topic are usually adjacent.
            if each.topic is not key:
                key = each.topic
                topic = look_up(key)
                if self._authorizes:
                    name = each.name if is_by_id(context) else key
                    is_denied = not self._allows(name if topic is None else topic.name)
            request = each.request
            if is_denied:
                partition, error = None, ErrorCode.topic_authorization_failed
            elif topic is None:
                partition, error = _without_topic(context, node, each)
            else:
                each.name = topic.name
                partition, error = topic.partition(request.partition), UNKNOWN_PARTITION
                if partition is not None:
                    # Unlike in ListOffsets, every negative epoch means "unknown".
                    epoch = max(getattr(request, "current_leader_epoch", NO_EPOCH), NO_EPOCH)
                    must_lead = is_follower or is_old_consumer
                    error = leader_error(partition, node.node_id, epoch, must_lead=must_lead)
                    if is_follower and error is NONE:
                        # All nodes share the log, so no node has a follower (upstream:
                        # Partition.followerReplicaOrThrow).
                        error = ErrorCode.not_leader_or_follower
                        if epoch != NO_EPOCH:
                            error = ErrorCode.unknown_leader_epoch
            last_epoch = getattr(request, "last_fetched_epoch", NO_EPOCH)
            offset, bytes_max = request.fetch_offset, request.partition_max_bytes
            requests.append(
                PartitionRequest(request.partition, partition, offset, bytes_max, error, last_epoch)
            )
        return requests

    def _allows(self, name: str | None) -> bool:
        """Return whether the client may read a topic. `name` is None if its id is unknown."""
        context, node = self.context, self.node
        is_follower = self.replica_id > CONSUMER_REPLICA_ID
        key = None if is_follower else name
        if key not in self._allowed:
            if is_follower:
                allowed = allows_cluster(context, node, AclOperation.CLUSTER_ACTION)
            else:
                allowed = key is None or allows_topic(context, node, AclOperation.READ, key)
            self._allowed[key] = allowed
        return self._allowed[key]

    def _attempt(self, requests: list[PartitionRequest]) -> Iterator[None]:
        """Respond if fetch.min.bytes is reached, fetch.max.wait.ms has elapsed, a partition has an
        error or was deleted, or the request may not wait; otherwise wait. (Records appended between
        two slices of a long fetch do not end its wait.)"""
        data: list[PartitionData] = []
        size = 0
        for start in range(0, len(requests), PARTITIONS_PER_STEP):
            step = requests[start : start + PARTITIONS_PER_STEP]
            read, size = read_partitions(
                step, self.bytes_max, size, committed_only=self.committed_only
            )
            data += read
            yield
        if self.context.is_disconnected:
            # The connection was lost between two slices. Nothing would cancel a waiting fetch.
            self._cancel()
            self.context.complete_without_response()
            return
        # The response cannot become larger than bytes_max.
        bytes_min = min(self.context.request.min_bytes, self.bytes_max)
        if size >= bytes_min or self.node.client_timers.now_ms() >= self.deadline_ms:
            yield from self._finish(requests, data, size)
            return
        known = [each for each in zip(requests, data, strict=True) if each[0].partition is not None]
        sizes = [
            available_bytes(request, data, committed_only=self.committed_only)
            for request, data in known
        ]
        missing_bytes = bytes_min - sum(sizes)
        was_deleted = len(known) < self.existing_count
        failed = any(data.error is not NONE or data.diverging for _, data in known)
        must_respond = not known or missing_bytes <= 0 or was_deleted or failed
        if must_respond or not self._park(len(known)):
            yield from self._finish(requests, data, size)
            return
        self.existing_count = len(known)
        self.poll = DelayedFetch(missing_bytes, self.attempt)
        for (request, _), size in zip(known, sizes, strict=True):
            assert request.partition is not None
            self.poll.watch(request.partition.delayed_fetches, max(request.bytes_max - size, 1))
        if self.timer is None:
            self.timer = self.node.client_timers.call_at(self.deadline_ms, self._on_deadline)
            self.context.mute_channel()
            self.context.on_disconnect(self._cancel)

    def _park(self, partitions: int) -> bool:
        """Return whether the request may wait, and count its partitions if so. A waiting request
        uses memory, and a waiting long request (protocol/budgets.py) would block others."""
        cluster = self.node.cluster
        parked = cluster.parked_partitions - self.parked + partitions
        if self.context.is_long or parked > PARKED_PARTITIONS_MAX:
            return False
        cluster.parked_partitions, self.parked = parked, partitions
        return True

    def _on_deadline(self) -> None:
        # The next attempt, or the attempt in progress, always responds.
        self.deadline_ms = 0
        if self.poll is not None:
            self.poll.cancel()
            self.attempt()

    def _cancel(self) -> None:
        self.node.cluster.parked_partitions -= self.parked
        self.parked = 0
        if self.poll is not None:
            self.poll.cancel()
        if self.timer is not None:
            self.timer.cancel()
            # Breaks a reference cycle, so that the request is freed without a garbage collection.
            self.context.on_disconnect(None)

    def _finish(
        self, requests: list[PartitionRequest], data: list[PartitionData], size: int
    ) -> Iterator[None]:
        """Respond with the data, which contains `size` bytes of records."""
        self._cancel()
        context, session = self.context, self.session
        if self._is_outdated():
            return
        results: Iterable[_Result] = zip(self.partitions, requests, data, strict=True)
        if self.meter is not None:
            results = list(results)
            if (yield from self._is_over_quota(self.meter, results)):
                # Respond without records, and without changing the session.
                session_id = NO_SESSION if session is None else session.id
                context.respond(FetchResponse(NONE, [], session_id))
                return
            if self._is_outdated():
                return
        if session is None:
            session_id = self._new_session(data)
        else:
            session_id = session.id
            results = [each for each in results if session.update_response(each[0], each[2])]
        topics = yield from _topic_responses(context, results)
        yield
        endpoints: list[BrokerResponse] = []
        if self.replica_id <= CONSUMER_REPLICA_ID:  # followers know the brokers
            leaders = [
                each.current_leader
                for topic in topics
                for each in topic.partitions
                if isinstance(each, MovedResponse)
            ]
            yield
            endpoints = node_endpoints(context, self.node, leaders)
        response = FetchResponse(NONE, topics, session_id, endpoints)
        if size > JOINED_BYTES_MAX:
            context.respond_in_buffers(response, response_buffers_encoder(FETCH, context.version))
        else:
            context.respond(response)

    def _is_outdated(self) -> bool:
        """Respond with an error and return True if the client has sent a newer request for the
        session on another connection."""
        session = self.session
        if session is None or session.epoch == self.epoch:
            return False
        error = ErrorCode.invalid_fetch_session_epoch
        self.context.respond(FetchResponse(error, [], session.id))
        return True

    def _is_over_quota(
        self, meter: RequestMeter, results: Iterable[_Result]
    ) -> Generator[None, None, bool]:
        """Record the response's size, and return whether the client is over a quota."""
        if self.session is not None:
            results = [each for each in results if each[2].records or each[0].has_news(each[2])]
        topics = yield from _topic_responses(self.context, results)
        encode = response_buffers_encoder(FETCH, self.context.version)
        # As in Kafka, the size includes the length field but not the header.
        header_bytes = 4 if self.context.version < 12 else 5
        size = sum(map(len, encode(FetchResponse(NONE, topics), 0))) - header_bytes
        return meter.is_over_quota(size)


def is_by_id(context: RequestContext) -> bool:
    """Whether the request identifies topics by id (since v13, KIP-516)."""
    return context.version >= 13


def requested_partitions(context: RequestContext) -> Generator[None, None, CachedPartitions]:
    """Return the requested partitions. If a partition is repeated, its last entry wins."""
    by_id = is_by_id(context)
    requested: CachedPartitions = {}
    entries = ((topic, each) for topic in context.request.topics for each in topic.partitions)
    for count, (topic, each) in enumerate(entries, 1):
        key = topic.topic_id if by_id else topic.topic
        requested[key, each.partition] = CachedPartition(key, each)
        if count % PARTITIONS_PER_STEP == 0:
            yield
    return requested


def forgotten_partitions(context: RequestContext) -> list[PartitionKey]:
    """Return the partitions to remove from the session."""
    by_id = is_by_id(context)
    forgotten: list[PartitionKey] = []
    for topic in context.request.forgotten_topics_data:
        key = topic.topic_id if by_id else topic.topic
        forgotten += [(key, index) for index in topic.partitions]
    return forgotten


def _without_topic(
    context: RequestContext, node: Node, partition: CachedPartition
) -> tuple[Partition | None, ErrorCode]:
    """Return the error for an unknown topic. If the session had resolved the topic id to a name,
    also return the partition of the topic that now has this name, if any (upstream:
    FetchSession.maybeResolveUnknownName, ReplicaManager.readFromLog)."""
    if not is_by_id(context):
        return None, UNKNOWN_PARTITION
    if partition.name is None:
        return None, ErrorCode.unknown_topic_id
    successor = node.view.partition(partition.name, partition.request.partition)
    if successor is None:
        return None, UNKNOWN_PARTITION
    return successor, ErrorCode.inconsistent_topic_id


def _missing_rank(request: PartitionRequest) -> int:
    if request.partition is not None:
        return 0
    return 1 if request.error is ErrorCode.unknown_topic_id else 2


def _unknown_server_error(context: RequestContext) -> FetchResponse:
    """Return the response to a request that fails as a whole. Since v13, it has no partitions."""
    error = ErrorCode.unknown_server_error
    request = context.request
    topics = []
    for topic in () if is_by_id(context) else request.topics:
        partitions = [PartitionResponse(each.partition, error) for each in topic.partitions]
        topics.append(TopicResponse(topic.topic, None, partitions))
    return FetchResponse(error, topics, getattr(request, "session_id", NO_SESSION))


def _topic_responses(
    context: RequestContext, results: Iterable[_Result]
) -> Generator[None, None, list[TopicResponse]]:
    """Return the responses by topic. Adjacent partitions of a topic share an entry."""
    by_id = is_by_id(context)
    topics: list[TopicResponse] = []
    key: Any = None
    for count, (partition, request, data) in enumerate(results, 1):
        if count % PARTITIONS_PER_STEP == 0:
            yield
        topic: Any = partition.topic
        if not topics or (topic is not key and topic != key):
            key = topic
            topics.append(TopicResponse("", topic, []) if by_id else TopicResponse(topic, None, []))
        topics[-1].partitions.append(_partition_response(context, request, data))
    return topics


def _partition_response(
    context: RequestContext, request: PartitionRequest, data: PartitionData
) -> PartitionResponse:
    if request.partition is None:
        return PartitionResponse(data.partition_index, data.error)
    committed_only = context.request.isolation_level == READ_COMMITTED
    was_read = data.error is NONE and data.diverging is None
    # Aborted transactions are null if they were not requested or nothing was read (upstream:
    # FetchPartitionData).
    response = PartitionResponse(
        partition_index=data.partition_index,
        error_code=data.error,
        high_watermark=data.high_watermark,
        last_stable_offset=data.last_stable_offset,
        log_start_offset=data.start_offset,
        aborted_transactions=data.aborted if committed_only and was_read else None,
        records=data.records,
    )
    if data.diverging is not None:
        diverging = DivergingResponse(*response)
        diverging.diverging_epoch = data.diverging
        return diverging
    if data.error in MOVED and context.version >= 16:
        moved = MovedResponse(*response)
        moved.current_leader = current_leader(request.partition)
        return moved
    return response
