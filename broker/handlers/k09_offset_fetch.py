"""OffsetFetch (key 9).

v2 all topics (null), group error · v3 throttle_time · v5 committed_leader_epoch · v6 flexible ·
v7 require_stable · v8 several groups · v9 member id and epoch (KIP-848) · v10 topic ids.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...coordinator.commands import FetchedOffset, FetchResult, OffsetFetch
from ...protocol.errors import ErrorCode, ManyItems
from ..cluster import Node
from ..gather import Gather
from ..request import EncodedResponse, Message, RequestContext, in_slices, run_in_slices

# Responses longer than this are not cached: a tiny request can request all offsets of a group.
KEPT_RESPONSE_BYTES_MAX = 1024


class TopicResponse(NamedTuple):
    name: str
    partitions: Sequence[FetchedOffset]
    topic_id: UUID | None = None


class GroupResponse(NamedTuple):
    """One group (since v8), or the whole response (before v8)."""

    group_id: str
    topics: list[TopicResponse]
    error_code: ErrorCode


def handle(context: RequestContext, node: Node) -> None:
    if context.version >= 10:
        _fetch_by_ids(context, node)  # not cached: topic ids may resolve differently next time
        return
    fetch: Fetch | None = context.prepared
    if fetch is None:
        fetch = context.prepared = Fetch(context.request, context.version)
    fetch.submit(context, node)


class Fetch:
    """Cached per repeated request: the commands, and the encoded response, which is rebuilt only
    when results differ."""

    __slots__ = ("_commands", "_encoded", "_request", "_results")

    def __init__(self, request: Any, version: int) -> None:
        self._request = request
        groups = (request,) if version < 8 else request.groups
        stable = getattr(request, "require_stable", False)
        self._commands = [_command(group, group.topics, stable) for group in groups]
        self._results: list[FetchResult] | None = None
        self._encoded: EncodedResponse | None = None

    def submit(self, context: RequestContext, node: Node) -> None:
        commands = self._commands
        if len(commands) == 1:
            node.coordinators.submit(commands[0], self._respond_one, context)
            return
        run_in_slices(context, node, self._submit_each(context, node))

    def _submit_each(self, context: RequestContext, node: Node) -> Iterator[None]:
        results = Gather(len(self._commands), partial(self._respond, context))
        for index, command in enumerate(self._commands):
            node.coordinators.submit(command, results.put, index)
            yield

    def _respond_one(self, context: RequestContext, result: FetchResult) -> None:
        self._respond(context, [result])

    def _respond(self, context: RequestContext, results: list[FetchResult]) -> None:
        encoded = self._encoded
        if encoded is None or results != self._results:
            response = self._response(context.version, results)
            try:
                encoded = context.encode(response)
            except ManyItems:
                context.respond(response)
                return
            is_kept = len(encoded.rest) <= KEPT_RESPONSE_BYTES_MAX
            self._results, self._encoded = (results, encoded) if is_kept else (None, None)
        context.respond_encoded(encoded)

    def _response(self, version: int, results: list[FetchResult]) -> GroupResponse | Message:
        if version < 8:
            return _one_group(self._request, version, results[0])
        groups = zip(self._commands, results, strict=True)
        responses = [
            GroupResponse(command.group_id, _topics(result), result.error_code)
            for command, result in groups
        ]
        return Message(groups=responses)


def _one_group(request: Any, version: int, result: FetchResult) -> GroupResponse:
    topics = _topics(result)
    if version < 2 and result.error_code:
        # v1 has no field for the group's error, so each partition carries it.
        topics = [
            TopicResponse(
                topic.name,
                [_without_offset(p, result.error_code) for p in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    return GroupResponse(request.group_id, topics, result.error_code)


def _command(
    group: Any,
    topics: Iterable[Any] | None,
    require_stable: bool,
    topic_ids: tuple[bytes, ...] | None = None,
) -> OffsetFetch:
    return OffsetFetch(
        group.group_id,
        None if topics is None else tuple((t.name, t.partition_indexes) for t in topics),
        require_stable,
        getattr(group, "member_id", None),
        getattr(group, "member_epoch", -1),
        topic_ids,
    )


def _topics(result: FetchResult) -> list[TopicResponse]:
    return [TopicResponse(topic, partitions) for topic, partitions in result.topics]


def _without_offset(partition: int, error: ErrorCode) -> FetchedOffset:
    return FetchedOffset(partition, -1, -1, "", error)


# --- v10: topics by their ids


@in_slices
def _fetch_by_ids(context: RequestContext, node: Node) -> Iterator[None]:
    groups = context.request.groups
    unknown: list[list[TopicResponse]] = []
    results = Gather(len(groups), partial(_respond_with_ids, context, node, unknown))
    for index, group in enumerate(groups):
        topics, topic_ids = group.topics, None
        unknown_topics: list[TopicResponse] = []
        if topics is not None:
            topics, unknown_topics = _resolve(topics, node)
            topic_ids = tuple(topic.id.bytes for topic in topics)
        unknown.append(unknown_topics)
        command = _command(group, topics, context.request.require_stable, topic_ids)
        node.coordinators.submit(command, results.put, index)
        yield


class _NamedTopic(NamedTuple):
    id: UUID
    name: str
    partition_indexes: tuple[int, ...]


def _resolve(topics: Iterable[Any], node: Node) -> tuple[list[_NamedTopic], list[TopicResponse]]:
    """The topics with their names, and the responses for unknown ids."""
    named: list[_NamedTopic] = []
    unknown: list[TopicResponse] = []
    for topic in topics:
        found = node.view.by_id(topic.topic_id)
        if found is not None:
            named.append(_NamedTopic(found.id, found.name, topic.partition_indexes))
            continue
        error = ErrorCode.unknown_topic_id
        partitions = [_without_offset(p, error) for p in topic.partition_indexes]
        unknown.append(TopicResponse("", partitions, topic.topic_id))
    return named, unknown


def _respond_with_ids(
    context: RequestContext,
    node: Node,
    unknown: list[list[TopicResponse]],
    results: list[FetchResult],
) -> None:
    run_in_slices(context, node, _groups_with_ids(context, node, unknown, results))


def _groups_with_ids(
    context: RequestContext,
    node: Node,
    unknown: list[list[TopicResponse]],
    results: list[FetchResult],
) -> Iterator[None]:
    groups = []
    for group, unknown_topics, result in zip(context.request.groups, unknown, results, strict=True):
        # Deleted in the meantime: no id to return.
        found = ((each, node.view.get(each.name)) for each in _topics(result))
        topics = [each._replace(topic_id=topic.id) for each, topic in found if topic]
        if not result.error_code:
            topics += unknown_topics
        groups.append(GroupResponse(group.group_id, topics, result.error_code))
        yield
    context.respond(Message(groups=groups))
