"""OffsetFetch (key 9).

v2 all topics (null), group error · v3 throttle_time · v5 committed_leader_epoch · v6 flexible ·
v7 require_stable · v8 several groups · v9 member id and epoch (KIP-848) · v10 topic ids.
"""

from collections.abc import Iterable
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ..call import Call
from ..groups.commands import OffsetFetch
from ..groups.results import Fetched
from ..node import Node
from ..together import Together
from .reply import NO_THROTTLE


class PartitionReply(NamedTuple):
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str
    error_code: ErrorCode


class TopicReply(NamedTuple):
    name: str
    partitions: list[PartitionReply]
    topic_id: UUID | None = None


class GroupReply(NamedTuple):
    """One group of v8 and later; the whole answer of those before."""

    group_id: str
    topics: list[TopicReply]
    error_code: ErrorCode
    throttle_time: timedelta = NO_THROTTLE


class FetchReply(NamedTuple):
    groups: list[GroupReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: Call, node: Node) -> None:
    request = call.request
    require_stable = getattr(request, "require_stable", False)
    if call.version < 8:
        command = _command(request, request.topics, require_stable)
        node.groups.submit(command, _respond_one, call)
        return
    groups = request.groups
    unknown: list[list[TopicReply]] = []
    fetched = Together(len(groups), partial(_respond_all, call, node, unknown))
    for place, group in enumerate(groups):
        topics = group.topics
        strange: list[TopicReply] = []
        if call.version >= 10 and topics is not None:
            topics, strange = _resolve(topics, node)
        unknown.append(strange)
        node.groups.submit(_command(group, topics, require_stable), fetched.put, place)


class _Named(NamedTuple):
    name: str
    partition_indexes: tuple[int, ...]


def _resolve(topics: Iterable[Any], node: Node) -> tuple[list[_Named], list[TopicReply]]:
    """Topic ids to names; ids that nobody has are answered by us."""
    named: list[_Named] = []
    unknown: list[TopicReply] = []
    for topic in topics:
        found = node.topics.by_id(topic.topic_id)
        if found is not None:
            named.append(_Named(found.name, topic.partition_indexes))
            continue
        error = ErrorCode.unknown_topic_id
        absent = [PartitionReply(p, -1, -1, "", error) for p in topic.partition_indexes]
        unknown.append(TopicReply("", absent, topic.topic_id))
    return named, unknown


def _command(group: Any, topics: Iterable[Any] | None, require_stable: bool) -> OffsetFetch:
    return OffsetFetch(
        group.group_id,
        None if topics is None else tuple((t.name, t.partition_indexes) for t in topics),
        require_stable,
        getattr(group, "member_id", None),
        getattr(group, "member_epoch", -1),
    )


def _topics(result: Fetched) -> list[TopicReply]:
    return [
        TopicReply(topic, [PartitionReply(*partition) for partition in partitions])
        for topic, partitions in result.topics
    ]


def _respond_one(call: Call, result: Fetched) -> None:
    request = call.request
    topics = _topics(result)
    if call.version < 2 and result.error:
        # v1 has no place for the group's error, so each partition carries it.
        topics = [
            TopicReply(
                topic.name,
                [PartitionReply(p, -1, -1, "", result.error) for p in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    call.reply(GroupReply(request.group_id, topics, result.error))


def _respond_all(
    call: Call, node: Node, unknown: list[list[TopicReply]], results: list[Fetched]
) -> None:
    groups = []
    for asked, strange, result in zip(call.request.groups, unknown, results, strict=True):
        topics = _topics(result)
        if call.version >= 10:
            # A topic that is gone has no id to be named by.
            known = ((topic, node.topics.get(topic.name)) for topic in topics)
            topics = [reply._replace(topic_id=topic.id) for reply, topic in known if topic]
            if not result.error:
                topics += strange
        groups.append(GroupReply(asked.group_id, topics, result.error))
    call.reply(FetchReply(groups))
