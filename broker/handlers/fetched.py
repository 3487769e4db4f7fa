"""Which partitions a Fetch asks for, those of its request or of its session, and what there is of
them now."""

from collections.abc import Iterable
from typing import Any

from ...protocol.errors import ErrorCode
from ...topics.fetch import NO_EPOCH, Found, Wanted, check_leader
from ...topics.partition import Partition
from ...topics.topic import Topic
from ..fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    CachedPartition,
    FetchSession,
    Named,
    Place,
)
from ..node import Node
from ..request import RequestContext

CONSUMER = -1
NONE = ErrorCode.none
UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition


def by_id(context: RequestContext) -> bool:
    """Since v13 topics have no names (KIP-516)."""
    return context.version >= 13


def named_in(context: RequestContext) -> Named:
    """What the request names, each once: of what it says twice the last counts."""
    has_ids = by_id(context)
    named = {}
    for topic in context.request.topics:
        name = topic.topic_id if has_ids else topic.topic
        for each in topic.partitions:
            named[name, each.partition] = CachedPartition(name, each)
    return named


def forgotten_in(context: RequestContext) -> list[Place]:
    """What its session shall be without."""
    has_ids = by_id(context)
    forgotten = []
    for topic in context.request.forgotten_topics_data:
        name = topic.topic_id if has_ids else topic.topic
        forgotten += [(name, index) for index in topic.partitions]
    return forgotten


def session_of(context: RequestContext, node: Node, named: Named) -> FetchSession | None:
    """That of an incremental request, with what this one changes; a full one ends it. Raises
    Refused."""
    if context.version < 7:
        return None
    request, sessions = context.request, node.fetch_sessions
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        sessions.close(request.session_id)
        return None
    return sessions.resume(
        request.session_id,
        request.session_epoch,
        named,
        forgotten_in(context),
        by_id=by_id(context),
        now_ms=node.clock.now_ms(),
    )


def new_session(
    context: RequestContext, node: Node, partitions: list[CachedPartition], told: list[Found]
) -> int:
    """The id of a session for a full request that asks for one."""
    if context.version < 7 or context.request.session_epoch != INITIAL_EPOCH:
        return NO_SESSION
    return node.fetch_sessions.create(
        partitions,
        told,
        by_id=by_id(context),
        is_privileged=_replica_id(context) > CONSUMER,
        now_ms=node.clock.now_ms(),
    )


def wanted_now(
    context: RequestContext, node: Node, partitions: Iterable[CachedPartition]
) -> list[Wanted]:
    """Each of `partitions`, looked up."""
    look_up = node.readable.by_id if by_id(context) else node.readable.get
    replica_id = _replica_id(context)
    follows = replica_id > CONSUMER
    # Since v11 consumers may read from followers (KIP-392; upstream: FetchParams).
    must_lead = follows or (replica_id == CONSUMER and context.version < 11)
    known_as: Any = None
    topic: Topic | None = None
    wanted = []
    for one in partitions:
        # Partitions of a topic mostly come together.
        if one.topic is not known_as:
            known_as = one.topic
            topic = look_up(known_as)
        each = one.asked
        if topic is None:
            partition, error = _of_no_topic(context, node, one)
        else:
            one.name = topic.name
            partition, error = topic.partition(each.partition), UNKNOWN_PARTITION
            if partition is not None:
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


def _of_no_topic(
    context: RequestContext, node: Node, one: CachedPartition
) -> tuple[Partition | None, ErrorCode]:
    """Where a topic id has been known before, its name tells what became of it (upstream:
    FetchSession.maybeResolveUnknownName, ReplicaManager.readFromLog)."""
    if not by_id(context):
        return None, UNKNOWN_PARTITION
    if one.name is None:
        return None, ErrorCode.unknown_topic_id
    successor = node.readable.partition(one.name, one.asked.partition)
    if successor is None:
        return None, UNKNOWN_PARTITION
    return successor, ErrorCode.inconsistent_topic_id


def _replica_id(context: RequestContext) -> int:
    """Who asks: a consumer (-1, or anything below), or a broker that follows this one."""
    request = context.request
    asker = request if context.version < 15 else request.replica_state
    replica_id: int = asker.replica_id
    return replica_id
