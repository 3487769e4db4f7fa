"""OffsetFetch (key 9).

v2 all topics (null), group error · v3 throttle_time · v5 committed_leader_epoch · v6 flexible ·
v7 require_stable · v8 several groups · v9 member id and epoch (KIP-848) · v10 topic ids.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...coordinator.commands import FetchedOffset, FetchResult, OffsetFetch
from ...protocol.errors import ErrorCode, ManyItems
from ...topics.acls import AclOperation
from ..cluster import Node
from ..gather import Gather
from ..network.request import EncodedResponse, Message, RequestContext, in_slices, run_in_slices
from .authorization import allows_group, allows_topic

# Longer responses are not cached, because a small request can request all offsets.
KEPT_RESPONSE_BYTES_MAX = 1024
# Number of groups and topics that are authorized in one step, which takes about 0.3 ms.
AUTHORIZED_MAX = 100


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
    fetch: Fetch | None = context.prepared
    if fetch is None:
        # Not cached: topics by id, which may be deleted, and requests that _allows_all rejects.
        if context.version >= 10 or not _allows_all(context, node):
            _fetch_uncached(context, node)
            return
        fetch = context.prepared = Fetch(context.request, context.version)
    fetch.submit(context, node)


def _allows_all(context: RequestContext, node: Node) -> bool:
    """Whether the client may describe all groups and topics that the request names. With an
    authorizer, this is False for a request for all topics, because the topics may have changed when
    the request is repeated, and for more than AUTHORIZED_MAX names."""
    if node.security.authorizer is None:
        return True
    request, describe = context.request, AclOperation.DESCRIBE
    groups = _groups_of(request, context.version)
    if any(group.topics is None for group in groups):
        return False
    if sum(1 + len(group.topics) for group in groups) > AUTHORIZED_MAX:
        return False
    return all(
        allows_group(context, node, describe, group.group_id, reports=False)
        and all(
            allows_topic(context, node, describe, topic.name, reports=False)
            for topic in group.topics
        )
        for group in groups
    )


class Fetch:
    """An OffsetFetch that may be repeated: its commands, and the encoded response, which is rebuilt
    only when the results differ."""

    __slots__ = ("_commands", "_encoded", "_groups", "_results")

    def __init__(self, request: Any, version: int) -> None:
        self._groups = _groups_of(request, version)
        stable = getattr(request, "require_stable", False)
        self._commands = [_command(group, group.topics, stable) for group in self._groups]
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
            return _group_response(self._groups[0], results[0], version)
        groups = zip(self._groups, results, strict=True)
        return Message(groups=[_group_response(group, each, version) for group, each in groups])


def _groups_of(request: Any, version: int) -> Sequence[Any]:
    """Return the groups of a request. Before v8, the request itself has the fields of its group."""
    return request.groups if version >= 8 else (request,)


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


def _group_response(group: Any, result: FetchResult, version: int) -> GroupResponse:
    error = result.error_code
    topics = [TopicResponse(topic, partitions) for topic, partitions in result.topics]
    if version < 2 and error:
        # v1 has no field for the group's error, so each partition contains it.
        topics = [
            TopicResponse(each.name, [_without_offset(p, error) for p in each.partition_indexes])
            for each in group.topics
        ]
    return GroupResponse(group.group_id, topics, error)


def _without_offset(partition: int, error: ErrorCode) -> FetchedOffset:
    return FetchedOffset(partition, -1, -1, "", error)


# --- requests that are not cached


@in_slices
def _fetch_uncached(context: RequestContext, node: Node) -> Iterator[None]:
    request = context.request
    groups = _groups_of(request, context.version)
    require_stable = getattr(request, "require_stable", False)
    rejected: list[list[TopicResponse]] = []
    respond = partial(_respond_uncached, context, node, groups, rejected)
    results = Gather(len(groups), lambda fetched: run_in_slices(context, node, respond(fetched)))
    for index, group in enumerate(groups):
        rejected.append([])
        if not allows_group(context, node, AclOperation.DESCRIBE, group.group_id):
            results.put(index, FetchResult(ErrorCode.group_authorization_failed, ()))
            continue
        topics, topic_ids = group.topics, None
        if topics is not None:
            topics, rejected[-1] = yield from _resolve(context, node, topics)
            if context.version >= 10:
                topic_ids = tuple(each.id.bytes for each in topics if each.id is not None)
        command = _command(group, topics, require_stable, topic_ids)
        node.coordinators.submit(command, results.put, index)
        yield


class _NamedTopic(NamedTuple):
    id: UUID | None  # since v10
    name: str
    partition_indexes: tuple[int, ...]


def _resolve(
    context: RequestContext, node: Node, topics: Iterable[Any]
) -> Generator[None, None, tuple[list[_NamedTopic], list[TopicResponse]]]:
    """Return the topics with their names, and the responses for unknown ids and topics that the
    client may not describe."""
    named: list[_NamedTopic] = []
    rejected: list[TopicResponse] = []
    for topic in topics:
        error = ErrorCode.none
        name, topic_id = getattr(topic, "name", ""), getattr(topic, "topic_id", None)
        if context.version >= 10:
            found = node.view.by_id(topic_id)
            name = "" if found is None else found.name
            error = ErrorCode.unknown_topic_id if found is None else ErrorCode.none
        if not error and not allows_topic(context, node, AclOperation.DESCRIBE, name):
            error = ErrorCode.topic_authorization_failed
        if error:
            partitions = [_without_offset(p, error) for p in topic.partition_indexes]
            rejected.append(TopicResponse(name, partitions, topic_id))
        else:
            named.append(_NamedTopic(topic_id, name, topic.partition_indexes))
        yield
    return named, rejected


def _respond_uncached(
    context: RequestContext,
    node: Node,
    groups: Sequence[Any],
    rejected: list[list[TopicResponse]],
    results: list[FetchResult],
) -> Iterator[None]:
    responses = []
    for group, rejected_topics, result in zip(groups, rejected, results, strict=True):
        response = _group_response(group, result, context.version)
        if not result.error_code:
            topics = response.topics
            if group.topics is None:
                topics = yield from _described(context, node, topics)
            if context.version >= 10:
                # Topics that were deleted in the meantime are omitted, because they have no id.
                found = ((each, node.view.get(each.name)) for each in topics)
                topics = [each._replace(topic_id=topic.id) for each, topic in found if topic]
            response = response._replace(topics=topics + rejected_topics)
        responses.append(response)
        yield
    context.respond(responses[0] if context.version < 8 else Message(groups=responses))


def _described(
    context: RequestContext, node: Node, topics: Iterable[TopicResponse]
) -> Generator[None, None, list[TopicResponse]]:
    described = []
    for topic in topics:
        if allows_topic(context, node, AclOperation.DESCRIBE, topic.name, reports=False):
            described.append(topic)
        yield
    return described
