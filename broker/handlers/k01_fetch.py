"""Fetch (key 1).

v5 log_start_offset · v7 sessions (KIP-227) · v9 leader epochs · v11 rack · v12 flexible,
last_fetched_epoch · v13 topic ids (KIP-516) · v15 replica_state · v16 current_leader,
node_endpoints (KIP-951).

Sessions only save bytes of requests between brokers and consumers with many partitions: session
id 0 says that there is none, and every client goes on with full requests.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ...log.writers import AbortedTransaction
from ...protocol.errors import ErrorCode
from ...protocol.messages import response_pieces
from ...topics.fetch import (
    NO_EPOCH,
    Diverging,
    Found,
    Wanted,
    available,
    check_leader,
    read_all,
)
from ...topics.waiters import LongPoll
from ..call import Call
from ..node import Node
from ..timers import Timer
from .k03_metadata import BrokerReply
from .leaders import CurrentLeader, endpoints, leader_of
from .reply import NO_THROTTLE, milliseconds

FETCH = 1
NO_SESSION = 0
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CONSUMER = -1
# More bytes of records than this are handed to the socket as they were read. Fewer are copied
# sooner than the pieces are counted; and so much uvloop sends at once, without a turn of the loop.
JOINED_BYTES_MAX = 64 * 1024
# Epochs of a full request: a new session is asked for, or none (FetchMetadata).
FULL_REQUEST_EPOCHS = (0, -1)
# Those that send the client elsewhere.
MOVED = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
# As plain names: a consumer asks for many partitions, and each would look them up in their enum.
NONE = ErrorCode.none
UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
UNKNOWN_TOPIC_ID = ErrorCode.unknown_topic_id


class PartitionReply(NamedTuple):
    partition_index: int
    error_code: ErrorCode
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = ()
    records: bytes = b""
    preferred_read_replica: int = -1


class DivergingReply(PartitionReply):
    """To a consumer whose last epoch ends here before the offset that it asks for (KIP-595). Of a
    type of its own, so that no other answer has the field to be compared with its default."""

    diverging_epoch: Diverging


class MovedReply(PartitionReply):
    """To a client that believes in another leader, or in an older epoch; of a type of its own
    for the same reason."""

    current_leader: CurrentLeader


class TopicReply(NamedTuple):
    topic: str
    topic_id: UUID | None
    partitions: list[PartitionReply]


class FetchReply(NamedTuple):
    error_code: ErrorCode
    responses: list[TopicReply]
    session_id: int = NO_SESSION
    node_endpoints: Sequence[BrokerReply] = ()
    throttle_time: timedelta = NO_THROTTLE


def handle(call: Call, node: Node) -> None:
    request = call.request
    if call.version >= 7 and request.session_epoch not in FULL_REQUEST_EPOCHS:
        call.reply(FetchReply(ErrorCode.fetch_session_id_not_found, []))
        return
    fetch = _Fetch(call, node)
    known_isolation = request.isolation_level in (READ_UNCOMMITTED, READ_COMMITTED)
    # Kafka stumbles over the level when it begins to read, so only if there is what to read.
    if not known_isolation and any(each.partition is not None for each in fetch.wanted()):
        call.reply(_stumbled(call))
        return
    fetch.attempt()


def _stumbled(call: Call) -> FetchReply:
    """The request as a whole failed: from v13 on partitions are not told one by one."""
    error = ErrorCode.unknown_server_error
    request = call.request
    topics = []
    for topic in () if call.version >= 13 else request.topics:
        partitions = [PartitionReply(each.partition, error) for each in topic.partitions]
        topics.append(TopicReply(topic.topic, None, partitions))
    return FetchReply(error, topics, getattr(request, "session_id", NO_SESSION))


class _Fetch:
    """One request from its first look at the logs to its answer."""

    __slots__ = ("bytes_max", "call", "deadline_ms", "known", "node", "poll", "timer")

    def __init__(self, call: Call, node: Node) -> None:
        self.call = call
        self.node = node
        request = call.request
        self.bytes_max = min(request.max_bytes, node.config.int("fetch.max.bytes"))
        self.deadline_ms = node.waits.now_ms() + milliseconds(request.max_wait)
        self.poll: LongPoll | None = None
        self.timer: Timer | None = None
        # How many of its partitions are waited for: those that exist. What is wrong with the others
        # can wait too.
        self.known = 0

    def wanted(self) -> list[Wanted]:
        """Every partition of the request in its order, as it is now."""
        call, node = self.call, self.node
        return [each for topic in call.request.topics for each in _wanted(call, node, topic)]

    def attempt(self) -> None:
        """Answer with what is there if it is enough or time is up; else wait for more."""
        # Looked up anew each time: a topic may go while a fetch waits for it.
        wanted = self.wanted()
        found, size = read_all(wanted, self.bytes_max)
        # No answer may be larger than bytes_max, so more is not waited for.
        bytes_min = min(self.call.request.min_bytes, self.bytes_max)
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
            self.call.hold()
            self.call.on_gone(self._give_up)

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
        request = self.call.request
        by_id = self.call.version >= 13
        results = iter(zip(wanted, found, strict=True))
        topics = []
        for topic in request.topics:
            partitions = [_partition_reply(self.call, *next(results)) for _ in topic.partitions]
            name, topic_id = ("", topic.topic_id) if by_id else (topic.topic, None)
            topics.append(TopicReply(name, topic_id, partitions))
        leaders = [
            each.current_leader
            for topic in topics
            for each in topic.partitions
            if isinstance(each, MovedReply)
        ]
        reply = FetchReply(NONE, topics, node_endpoints=endpoints(self.node, leaders))
        if sum(len(each.records) for each in found) > JOINED_BYTES_MAX:
            self.call.reply_in_pieces(reply, response_pieces(FETCH, self.call.version))
        else:
            self.call.reply(reply)


def _wanted(call: Call, node: Node, asked: Any) -> list[Wanted]:
    if call.version >= 13:
        id_ = asked.topic_id
        topic, unknown = node.readable.by_id(id_), UNKNOWN_TOPIC_ID
    else:
        name = asked.topic
        topic, unknown = node.readable.get(name), UNKNOWN_PARTITION
    replica_id = _replica_id(call)
    follows = replica_id > CONSUMER
    # Since v11 consumers may read from followers (KIP-392; upstream: FetchParams).
    must_lead = follows or (replica_id == CONSUMER and call.version < 11)
    wanted = []
    for each in asked.partitions:
        partition = None if topic is None else topic.partition(each.partition)
        if partition is None:
            error = unknown if topic is None else UNKNOWN_PARTITION
        else:
            # Here, and not where offsets are asked for, all that is negative believes nothing.
            epoch = max(getattr(each, "current_leader_epoch", NO_EPOCH), NO_EPOCH)
            error = check_leader(partition, node.node_id, epoch, must_lead=must_lead)
            if follows and error is NONE:
                # The nodes share the log: nobody has to copy it, so nobody may say to do so.
                error = ErrorCode.not_leader_or_follower
        last_epoch = getattr(each, "last_fetched_epoch", NO_EPOCH)
        offset, bytes_max = each.fetch_offset, each.partition_max_bytes
        wanted.append(Wanted(each.partition, partition, offset, bytes_max, error, last_epoch))
    return wanted


def _replica_id(call: Call) -> int:
    """Who asks: a consumer (-1, or anything below), or a broker that follows this one."""
    request = call.request
    asker = request if call.version < 15 else request.replica_state
    replica_id: int = asker.replica_id
    return replica_id


def _partition_reply(call: Call, wanted: Wanted, found: Found) -> PartitionReply:
    if wanted.partition is None:
        return PartitionReply(found.number, found.error)
    committed_only = call.request.isolation_level == READ_COMMITTED
    read = found.error is NONE
    # Here no transaction begins, so all that is readable is also stable, and only a Kafka can have
    # aborted one; null says that it was not asked for, or that reading failed (upstream:
    # FetchPartitionData).
    reply = PartitionReply(
        partition_index=found.number,
        error_code=found.error,
        high_watermark=found.high_watermark,
        last_stable_offset=found.high_watermark,
        log_start_offset=found.start_offset,
        aborted_transactions=found.aborted if committed_only and read else None,
        records=found.records,
    )
    if found.diverging is not None:
        diverging = DivergingReply(*reply)
        diverging.diverging_epoch = found.diverging
        return diverging
    if found.error in MOVED and call.version >= 16:
        moved = MovedReply(*reply)
        moved.current_leader = leader_of(wanted.partition)
        return moved
    return reply
