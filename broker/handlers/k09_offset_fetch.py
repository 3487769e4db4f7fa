"""OffsetFetch (key 9).

v2 all topics (null), group error · v3 throttle_time · v5 committed_leader_epoch · v6 flexible ·
v7 require_stable · v8 several groups · v9 member id and epoch (KIP-848) · v10 topic ids.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...coordinator.commands import OffsetFetch
from ...coordinator.results import Fetched
from ...protocol.errors import ErrorCode
from ..gather import Gather
from ..node import Node
from ..request import EncodedResponse, RequestContext
from ..request_cache import SHAPE_BYTES, Numbers, RepeatHandler
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


def handle(call: RequestContext, node: Node) -> RepeatHandler | None:
    if call.version >= 10:
        _fetch_by_ids(call, node)
        return None  # what its ids stand for may be another thing the next time
    fetch = Fetch(call.request, call.version)
    fetch.submit(call, node)
    return fetch.submit


class Fetch:
    """What all requests of one shape ask, and what the last of them was told: as long as nothing
    else is found, the answer need not be written again. A long one is not kept: a few bytes can ask
    for all that a group has."""

    __slots__ = ("_commands", "_request", "_results", "_written")

    def __init__(self, request: Any, version: int) -> None:
        self._request = request
        groups = (request,) if version < 8 else request.groups
        stable = getattr(request, "require_stable", False)
        self._commands = [_command(group, group.topics, stable) for group in groups]
        self._results: list[Fetched] | None = None
        self._written: EncodedResponse | None = None

    def submit(self, call: RequestContext, node: Node, _: Sequence[Numbers] = ()) -> None:
        commands = self._commands
        if len(commands) == 1:
            node.groups.submit(commands[0], self._respond_one, call)
            return
        fetched = Gather(len(commands), partial(self._respond, call))
        for place, command in enumerate(commands):
            node.groups.submit(command, fetched.put, place)

    def _respond_one(self, call: RequestContext, result: Fetched) -> None:
        self._respond(call, [result])

    def _respond(self, call: RequestContext, results: list[Fetched]) -> None:
        written = self._written
        if written is None or results != self._results:
            written = call.written(self._answer(call.version, results))
            keeps = len(written.rest) <= SHAPE_BYTES
            self._results, self._written = (results, written) if keeps else (None, None)
        call.repeat(written)

    def _answer(self, version: int, results: list[Fetched]) -> GroupReply | FetchReply:
        if version < 8:
            return _one_group(self._request, version, results[0])
        groups = zip(self._commands, results, strict=True)
        return FetchReply(
            [
                GroupReply(command.group_id, _topics(result), result.error)
                for command, result in groups
            ]
        )


def _one_group(request: Any, version: int, result: Fetched) -> GroupReply:
    topics = _topics(result)
    if version < 2 and result.error:
        # v1 has no place for the group's error, so each partition carries it.
        topics = [
            TopicReply(
                topic.name,
                [PartitionReply(p, -1, -1, "", result.error) for p in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    return GroupReply(request.group_id, topics, result.error)


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


# --- v10: topics by their ids


def _fetch_by_ids(call: RequestContext, node: Node) -> None:
    groups = call.request.groups
    unknown: list[list[TopicReply]] = []
    fetched = Gather(len(groups), partial(_respond_with_ids, call, node, unknown))
    for place, group in enumerate(groups):
        topics = group.topics
        strange: list[TopicReply] = []
        if topics is not None:
            topics, strange = _resolve(topics, node)
        unknown.append(strange)
        command = _command(group, topics, call.request.require_stable)
        node.groups.submit(command, fetched.put, place)


class _Named(NamedTuple):
    name: str
    partition_indexes: tuple[int, ...]


def _resolve(topics: Iterable[Any], node: Node) -> tuple[list[_Named], list[TopicReply]]:
    """Topic ids to names; ids that nobody has are answered by us."""
    named: list[_Named] = []
    unknown: list[TopicReply] = []
    for topic in topics:
        found = node.readable.by_id(topic.topic_id)
        if found is not None:
            named.append(_Named(found.name, topic.partition_indexes))
            continue
        error = ErrorCode.unknown_topic_id
        absent = [PartitionReply(p, -1, -1, "", error) for p in topic.partition_indexes]
        unknown.append(TopicReply("", absent, topic.topic_id))
    return named, unknown


def _respond_with_ids(
    call: RequestContext, node: Node, unknown: list[list[TopicReply]], results: list[Fetched]
) -> None:
    groups = []
    for asked, strange, result in zip(call.request.groups, unknown, results, strict=True):
        # A topic that is gone has no id to be named by.
        known = ((reply, node.readable.get(reply.name)) for reply in _topics(result))
        topics = [reply._replace(topic_id=topic.id) for reply, topic in known if topic]
        if not result.error:
            topics += strange
        groups.append(GroupReply(asked.group_id, topics, result.error))
    call.reply(FetchReply(groups))
