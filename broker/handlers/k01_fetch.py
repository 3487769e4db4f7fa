"""Fetch (key 1).

v5 log_start_offset · v7 sessions (KIP-227) · v9 leader epochs · v11 rack · v12 flexible,
last_fetched_epoch · v13 topic ids (KIP-516) · v15 replica_state · v16 current_leader,
node_endpoints (KIP-951).
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from ...log.producer_state import AbortedTransaction
from ...protocol.errors import ErrorCode
from ...protocol.messages import response_pieces
from ...topics.delayed_fetch import LongPoll
from ...topics.errors import Refused
from ...topics.fetch import NO_EPOCH, Diverging, Found, Wanted, available, read_all
from ..fetch_sessions import NO_SESSION, CachedPartition
from ..node import Node
from ..request import NO_THROTTLE, RequestContext, milliseconds
from ..timers import Timer
from .fetched import by_id, named_in, new_session, session_of, wanted_now
from .k03_metadata import BrokerResponse
from .leaders import CurrentLeader, endpoints, leader_of

FETCH = 1
ISOLATION_LEVELS = READ_UNCOMMITTED, READ_COMMITTED = 0, 1
# More bytes of records than this are handed to the socket as they were read. Fewer are copied
# sooner than the pieces are counted; and so much uvloop sends at once, without a turn of the loop.
JOINED_BYTES_MAX = 64 * 1024
# Those that send the client elsewhere.
MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
# As a plain name: a consumer asks for many partitions, and each would look it up in its enum.
NONE = ErrorCode.none

_Result: TypeAlias = tuple[CachedPartition, Wanted, Found]


class PartitionResponse(NamedTuple):
    partition_index: int
    error_code: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    records: bytes = b""
    preferred_read_replica: int = -1


class DivergingResponse(PartitionResponse):
    """To a consumer whose last epoch ends here before the offset that it asks for (KIP-595). Of a
    type of its own, so that no other answer has the field to be compared with its default."""

    diverging_epoch: Diverging


class MovedResponse(PartitionResponse):
    """To a client that believes in another leader, or in an older epoch; of a type of its own
    for the same reason."""

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
    throttle_time: timedelta = NO_THROTTLE


def handle(context: RequestContext, node: Node) -> None:
    try:
        fetch = _Fetch(context, node)
    except Refused as refused:
        context.respond(FetchResponse(refused.error, []))
        return
    fetch.begin()


def _stumbled(context: RequestContext) -> FetchResponse:
    """The request as a whole failed: from v13 on partitions are not told one by one."""
    error = ErrorCode.unknown_server_error
    request = context.request
    topics = []
    for topic in () if context.version >= 13 else request.topics:
        partitions = [PartitionResponse(each.partition, error) for each in topic.partitions]
        topics.append(TopicResponse(topic.topic, None, partitions))
    return FetchResponse(error, topics, getattr(request, "session_id", NO_SESSION))


class _Fetch:
    """One request from its first look at the logs to its answer. Raises Refused."""

    __slots__ = (
        "bytes_max",
        "context",
        "deadline_ms",
        "epoch",
        "known",
        "node",
        "partitions",
        "poll",
        "session",
        "timer",
    )

    def __init__(self, context: RequestContext, node: Node) -> None:
        self.context = context
        self.node = node
        request = context.request
        self.bytes_max = min(request.max_bytes, node.config.int("fetch.max.bytes"))
        self.deadline_ms = node.waits.now_ms() + milliseconds(request.max_wait)
        self.poll: LongPoll | None = None
        self.timer: Timer | None = None
        # How many of its partitions are waited for: those that exist. What is wrong with the others
        # can wait too.
        self.known = 0
        named = named_in(context)
        self.session = session_of(context, node, named)
        self.epoch = NO_EPOCH if self.session is None else self.session.epoch
        asked = named if self.session is None else self.session.partitions
        self.partitions = list(asked.values())

    def begin(self) -> None:
        wanted = self._wanted()
        if None in [each.partition for each in wanted]:
            order = sorted(range(len(wanted)), key=lambda place: _is_missing(wanted[place]))
            wanted = [wanted[place] for place in order]
            self.partitions = [self.partitions[place] for place in order]
        # Kafka stumbles over an unknown level when it begins to read, so if there is what to read:
        # what is there is first.
        unknown_level = self.context.request.isolation_level not in ISOLATION_LEVELS
        if unknown_level and wanted and wanted[0].partition is not None:
            self.context.respond(_stumbled(self.context))
            return
        self._attempt(wanted)

    def attempt(self) -> None:
        # Looked up anew each time: a topic may go while a fetch waits for it.
        self._attempt(self._wanted())

    def _wanted(self) -> list[Wanted]:
        """Every partition that is asked for, in the order of the answer, as it is now."""
        return wanted_now(self.context, self.node, self.partitions)

    def _attempt(self, wanted: list[Wanted]) -> None:
        """Answer with what is there if it is enough or time is up; else wait for more."""
        found, size = read_all(wanted, self.bytes_max)
        # No answer may be larger than bytes_max, so more is not waited for.
        bytes_min = min(self.context.request.min_bytes, self.bytes_max)
        if size >= bytes_min or self.node.waits.now_ms() >= self.deadline_ms:
            self._finish(wanted, found)
            return
        known = [each for each in zip(wanted, found, strict=True) if each[0].partition is not None]
        counted = [available(one, got) for one, got in known]
        missing_bytes = bytes_min - sum(counted)
        has_vanished = len(known) < self.known
        failed = any(got.error is not NONE or got.diverging for _, got in known)
        if not known or missing_bytes <= 0 or has_vanished or failed:
            self._finish(wanted, found)
            return
        self.known = len(known)
        self.poll = LongPoll(missing_bytes, self.attempt)
        for (one, _), size in zip(known, counted, strict=True):
            assert one.partition is not None
            self.poll.wait_at(one.partition.waiters, max(one.bytes_max - size, 1))
        if self.timer is None:
            self.timer = self.node.waits.call_at(self.deadline_ms, self._time_is_up)
            self.context.mute_channel()
            self.context.on_disconnect(self._give_up)

    def _time_is_up(self) -> None:
        if self.poll is not None:
            self.poll.cancel()
        # The clock that the timer follows has reached the deadline, so this attempt answers.
        self.deadline_ms = 0
        self.attempt()

    def _give_up(self) -> None:
        if self.poll is not None:
            self.poll.cancel()
        if self.timer is not None:
            self.timer.cancel()

    def _finish(self, wanted: list[Wanted], found: list[Found]) -> None:
        self._give_up()
        session = self.session
        if session is not None and session.epoch != self.epoch:
            # Its client has asked again, on another connection.
            error = ErrorCode.invalid_fetch_session_epoch
            self.context.respond(FetchResponse(error, [], session.id))
            return
        results: Iterable[_Result] = zip(self.partitions, wanted, found, strict=True)
        if session is None:
            session_id = new_session(self.context, self.node, self.partitions, found)
        else:
            session_id = session.id
            results = [each for each in results if session.has_news(each[0], each[2])]
        topics = _topic_replies(self.context, results)
        leaders = [
            each.current_leader
            for topic in topics
            for each in topic.partitions
            if isinstance(each, MovedResponse)
        ]
        reply = FetchResponse(NONE, topics, session_id, endpoints(self.node, leaders))
        if sum(len(each.records) for each in found) > JOINED_BYTES_MAX:
            self.context.respond_in_pieces(reply, response_pieces(FETCH, self.context.version))
        else:
            self.context.respond(reply)


def _is_missing(wanted: Wanted) -> int:
    """What is not there comes last in the answer, unknown ids first of it (upstream:
    KafkaApis.handleFetchRequest)."""
    if wanted.partition is not None:
        return 0
    return 1 if wanted.error is ErrorCode.unknown_topic_id else 2


def _topic_replies(context: RequestContext, results: Iterable[_Result]) -> list[TopicResponse]:
    """Partitions of one topic that follow each other are told together."""
    topics: list[TopicResponse] = []
    known_as: Any = None
    for one, wanted, found in results:
        topic: Any = one.topic
        if not topics or (topic is not known_as and topic != known_as):
            known_as = topic
            new = TopicResponse("", topic, []) if by_id(context) else TopicResponse(topic, None, [])
            topics.append(new)
        topics[-1].partitions.append(_partition_reply(context, wanted, found))
    return topics


def _partition_reply(context: RequestContext, wanted: Wanted, found: Found) -> PartitionResponse:
    if wanted.partition is None:
        return PartitionResponse(found.number, found.error)
    committed_only = context.request.isolation_level == READ_COMMITTED
    read = found.error is NONE and found.diverging is None
    # Here no transaction begins, so all that is readable is also stable, and only a Kafka can have
    # aborted one; null says that it was not asked for, or that reading failed (upstream:
    # FetchPartitionData).
    reply = PartitionResponse(
        partition_index=found.number,
        error_code=found.error,
        high_watermark=found.high_watermark,
        last_stable_offset=found.high_watermark,
        log_start_offset=found.start_offset,
        aborted_transactions=found.aborted if committed_only and read else None,
        records=found.records,
    )
    if found.diverging is not None:
        diverging = DivergingResponse(*reply)
        diverging.diverging_epoch = found.diverging
        return diverging
    if found.error in MOVED and context.version >= 16:
        moved = MovedResponse(*reply)
        moved.current_leader = leader_of(wanted.partition)
        return moved
    return reply
