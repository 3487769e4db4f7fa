"""OffsetCommit (key 8), usually the most frequent request.

v2-4 retention_time · v3 throttle_time · v6 committed_leader_epoch · v7 group_instance_id ·
v8 flexible · v9 member epoch for KIP-848 groups, GROUP_ID_NOT_FOUND · v10 topic ids.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from ...coordinator.commands import CommitEntry, CommitResult, OffsetCommit
from ...coordinator.outcome import make
from ...log.batch import HEADER_BYTES
from ...protocol.errors import ErrorCode, ManyItems
from ...topics.acls import AclOperation
from ...topics.names import OFFSETS_TOPIC
from ...topics.topic import Topic
from ..cluster import Node
from ..gather import Gather, merge_topics
from ..network.request import EncodedResponse, Numbers, RequestContext, milliseconds, run_in_slices
from .authorization import allows_group, allows_topic
from .common import PartitionResponse

VARYING_FIELD: Final = "committed_offset"

# Upper bound on the size of a commit record in bytes, excluding strings.
RECORD_BYTES_MAX: Final = 80
UTF8_BYTES_MAX: Final = 4  # per character

# Number of partitions that are looked up in one step, which takes about 0.1 ms.
PARTITIONS_PER_STEP: Final = 100

UNKNOWN_PARTITION: Final = ErrorCode.unknown_topic_or_partition
NO_VERSION: Final = -1  # of the topics

Respond = Callable[[Any, CommitResult], None]


class TopicResponse(NamedTuple):
    name: str | None  # up to v9
    topic_id: UUID | None  # since v10
    partitions: Sequence[PartitionResponse]


class OffsetCommitResponse(NamedTuple):
    topics: Sequence[TopicResponse]


def handle(context: RequestContext, node: Node) -> None:
    commit: Commit | None = context.prepared
    if commit is not None:
        commit.submit(context, node, context.numbers)
        return
    if not allows_group(context, node, AclOperation.READ, context.request.group_id):
        context.respond(_unauthorized(context))
        return
    commit = Commit(context.request, context.version)
    if node.security.authorizer is None:
        context.prepared = commit  # otherwise, `_resolve` decides whether to cache the request
    run_in_slices(context, node, commit.submit_first(context, node))


class Resolved(NamedTuple):
    """The topics of a request, split by the component that determines their errors: this handler or
    the coordinator."""

    rejected: list[TopicResponse]
    """Topics that are unknown or that the client may not read, and unknown partitions."""
    known: list[tuple[str | None, UUID | None, list[int]]]
    """(name, topic id, partitions) of the topics whose errors the coordinator determines."""


class Commit:
    """All fields of an OffsetCommit except the offsets. The request cache keeps this object for
    requests that differ only in their offsets."""

    def __init__(self, request: Any, version: int) -> None:
        self._request = request
        # The command's fields before and after its entries and offsets.
        self._ids = (
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id if version >= 7 else None,
        )
        retention_ms = milliseconds(request.retention_time) if version <= 4 else -1
        self._rest = None if retention_ms == -1 else retention_ms, version >= 9
        self._topics_version = NO_VERSION
        self._entries: list[CommitEntry] = []
        # The encoded response if no partition has an error, or None until it is needed.
        self._success: EncodedResponse | None = None

    def submit_first(self, context: RequestContext, node: Node) -> Iterator[None]:
        """Commit the request that this object was created from, in slices if it has many
        partitions."""
        yield from self._resolve(context, node)
        topics = self._request.topics
        offsets = [(each.committed_offset,) for topic in topics for each in topic.partitions]
        if self._topics_version == node.topics.version:
            self.submit(context, node, offsets)
            return
        self._reject_deleted(context, node)
        self._topics_version = node.topics.version
        self.submit(context, node, offsets)
        self._topics_version = NO_VERSION  # the next request is resolved again

    def submit(self, context: RequestContext, node: Node, offsets: Sequence[Numbers]) -> None:
        """Commit one or more pipelined requests in order. Requests that fit into one batch become
        one command, whose records are stored atomically. `offsets` contains a list for each
        partition, with the offset from each request."""
        if self._topics_version != node.topics.version:
            for _ in self._resolve(context, node):
                pass
        count = len(context.correlation_ids)
        if count == 1 or count <= self._command_max(node):
            self._submit(node, offsets, self._respond, (context, self._resolved))
            return
        size = self._command_max(node)
        starts = range(0, count, size)
        respond = partial(self._respond_each, context, self._resolved, size)
        results = Gather(len(starts), respond)
        for index, start in enumerate(starts):
            part = [each[start : start + size] for each in offsets]
            self._submit(node, part, results.put, index)

    def _submit(
        self, node: Node, offsets: Sequence[Numbers], respond: Respond, argument: Any
    ) -> None:
        if self._indexes is not None:
            if not self._indexes:
                # Without a valid partition, the group is not validated (upstream: KafkaApis).
                respond(argument, CommitResult(()))
                return
            offsets = [offsets[index] for index in self._indexes]
        fields = (*self._ids, self._entries, offsets, *self._rest)
        command: OffsetCommit = make(OffsetCommit, fields)
        node.coordinators.submit(command, respond, argument)

    def _resolve(self, context: RequestContext, node: Node) -> Iterator[None]:
        """Separate the partitions that do not exist or that the client may not read, because the
        coordinator must not commit them. Runs in steps."""
        version, topics_version = context.version, node.topics.version
        entries: list[CommitEntry] = []
        indexes: list[int] = []
        self._resolved = rejected, known = Resolved([], [])
        is_denied = False
        index = 0
        for topic in self._request.topics:
            names = getattr(topic, "name", None), getattr(topic, "topic_id", None)
            found, missing = _find(topic, version, node)
            requested = names[0] if found is None else found.name
            if not (requested is None or allows_topic(context, node, AclOperation.READ, requested)):
                found, missing = None, ErrorCode.topic_authorization_failed
                is_denied = True
            name, topic_id, count = "", b"", 0
            if found is not None:
                name, topic_id, count = found.name, found.id.bytes, len(found.partitions)
            existing: list[int] = []
            absent: list[PartitionResponse] = []
            for each in topic.partitions:
                if index % PARTITIONS_PER_STEP == 0:
                    yield
                partition = each.partition_index
                if 0 <= partition < count:
                    epoch = each.committed_leader_epoch if version >= 6 else -1
                    metadata = each.committed_metadata
                    entries.append(CommitEntry(name, partition, epoch, metadata, topic_id))
                    indexes.append(index)
                    existing.append(partition)
                else:
                    error = missing if found is None else UNKNOWN_PARTITION
                    absent.append(PartitionResponse(partition, error))
                index += 1
            if absent or found is None:
                rejected.append(TopicResponse(*names, absent))
            if existing:
                known.append((*names, existing))
            yield
        # Not cached if a topic is denied, so that each denial is logged.
        context.prepared = None if is_denied else self
        # The version before the first step, so that changes during the steps are noticed.
        self._topics_version = topics_version
        self._entries = entries
        # The indexes of the offsets that belong to `entries`, or None if all offsets do.
        self._indexes = indexes if rejected or not indexes else None
        self._pipelined_max = 0

    def _reject_deleted(self, context: RequestContext, node: Node) -> None:
        """Reject topics that were deleted after they were resolved. A new topic of the same name
        must not get the offsets of the old topic."""
        ids = {each.topic_id for each in self._entries if each.topic_id}
        deleted = {id_ for id_ in ids if node.view.by_id(UUID(bytes=id_)) is None}
        error = ErrorCode.unknown_topic_id if context.version >= 10 else UNKNOWN_PARTITION
        rejected, known = Resolved(self._resolved.rejected, [])
        entries = iter(self._entries)
        for name, topic_id, partitions in self._resolved.known:
            of_topic = [next(entries) for _ in partitions]
            if of_topic[0].topic_id in deleted:
                absent = [PartitionResponse(index, error) for index in partitions]
                rejected.append(TopicResponse(name, topic_id, absent))
            else:
                known.append((name, topic_id, partitions))
        self._resolved = Resolved(rejected, known)
        kept = [n for n, each in enumerate(self._entries) if each.topic_id not in deleted]
        indexes = range(len(self._entries)) if self._indexes is None else self._indexes
        self._indexes = [indexes[n] for n in kept]
        self._entries = [self._entries[n] for n in kept]

    def _command_max(self, node: Node) -> int:
        """Return how many requests fit into one batch, but at least 1. A larger batch would fail,
        although each of its requests alone would succeed."""
        if node.group_config.reports_commits:
            return 1  # each accepted request produces an event
        if not self._pipelined_max:
            group_id, entries = self._ids[0], self._entries
            partition = node.topics.partition(
                OFFSETS_TOPIC, node.coordinators.partition_of(group_id)
            )
            characters = sum(
                len(topic) + len(metadata or "") for topic, _, _, metadata, _ in entries
            )
            characters += len(group_id) * len(entries)
            size = len(entries) * RECORD_BYTES_MAX + characters * UTF8_BYTES_MAX
            bytes_max = 0 if partition is None else partition.settings.max_message_bytes
            self._pipelined_max = max(1, (bytes_max - HEADER_BYTES) // max(1, size))
        return self._pipelined_max

    def _respond_each(
        self,
        context: RequestContext,
        resolved: Resolved,
        size: int,
        results: Sequence[CommitResult],
    ) -> None:
        """Respond to all requests. Each result is for `size` requests; the last may be for
        fewer."""
        responses = (_response(resolved, result.errors) for result in results)
        context.respond_each([response for response in responses for _ in range(size)])

    def _respond(self, argument: tuple[RequestContext, Resolved], result: CommitResult) -> None:
        context, resolved = argument
        errors = result.errors
        if resolved.rejected or any(errors):
            context.respond(_response(resolved, errors))
            return
        if self._success is None:
            response = _response(resolved, errors)
            try:
                self._success = context.encode(response)
            except ManyItems:
                context.respond(response)
                return
        context.respond_encoded(self._success)


def _find(requested: Any, version: int, node: Node) -> tuple[Topic | None, ErrorCode]:
    """Return a topic of a request, or None and the error."""
    if version >= 10:
        return node.view.by_id(requested.topic_id), ErrorCode.unknown_topic_id
    return node.view.get(requested.name), UNKNOWN_PARTITION


def _unauthorized(context: RequestContext) -> OffsetCommitResponse:
    error = ErrorCode.group_authorization_failed
    topics = [
        TopicResponse(
            getattr(topic, "name", None),
            getattr(topic, "topic_id", None),
            [PartitionResponse(each.partition_index, error) for each in topic.partitions],
        )
        for topic in context.request.topics
    ]
    return OffsetCommitResponse(topics)


def _response(resolved: Resolved, errors: Sequence[ErrorCode]) -> OffsetCommitResponse:
    decided = iter(errors)
    known = [
        TopicResponse(
            name, topic_id, [PartitionResponse(index, next(decided)) for index in indexes]
        )
        for name, topic_id, indexes in resolved.known
    ]
    return OffsetCommitResponse(merge_topics(resolved.rejected, known))
