"""OffsetCommit (key 8). The request that a broker sees most: what is usual goes the short way.

v2-4 retention_time · v3 throttle_time · v6 committed_leader_epoch · v7 group_instance_id ·
v8 flexible · v9 member epoch for KIP-848 groups, GROUP_ID_NOT_FOUND · v10 topic ids.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from ...coordinator.commands import CommitEntry, OffsetCommit
from ...coordinator.results import CommitDone
from ...coordinator.turn import make
from ...log.header import HEADER_BYTES
from ...protocol.errors import ErrorCode
from ...topics.names import OFFSETS_TOPIC
from ..gather import Gather
from ..node import Node
from ..request import EncodedResponse, RequestContext
from ..request_cache import Numbers, RepeatHandler
from .reply import NO_THROTTLE, merged, milliseconds

CHANGES: Final = "committed_offset"

# The record of a commit without its texts: lengths and numbers in key, value and around them.
RECORD_BYTES_MAX: Final = 64
UTF8_BYTES_MAX: Final = 4  # of a character

Respond = Callable[[Any, CommitDone], None]

UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition


class PartitionReply(NamedTuple):
    partition_index: int
    error_code: ErrorCode


class TopicReply(NamedTuple):
    name: str | None  # up to v9
    topic_id: UUID | None  # from v10 on
    partitions: Sequence[PartitionReply]


class CommitReply(NamedTuple):
    topics: Sequence[TopicReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: RequestContext, node: Node) -> RepeatHandler | None:
    request = call.request
    offsets = [(each.committed_offset,) for topic in request.topics for each in topic.partitions]
    commit = Commit(request, call.version, node)
    commit.submit(call, node, offsets)
    # Where each request is an event, each is decided on its own.
    return None if node.config.str("kohort.events") == "all" else commit.submit


class Sorted(NamedTuple):
    """The topics of a request, parted as the answer has them."""

    refused: list[TopicReply]
    """Unknown topics, and known ones with those of their partitions that do not exist."""
    known: list[tuple[str | None, UUID | None, list[int]]]
    """(name, topic id, partitions): whose errors the coordinator says."""


class Commit:
    """What all requests of one shape ask: everything that an OffsetCommit says but the offsets."""

    __slots__ = (
        "_all_well",
        "_how",
        "_places",
        "_request",
        "_run_max",
        "_sorted",
        "_topics_version",
        "_who",
    )

    def __init__(self, request: Any, version: int, node: Node) -> None:
        self._request = request
        # "All well", once it has been written. It does not depend on which topics there are.
        self._all_well: EncodedResponse | None = None
        self._sort_out(version, node)

    def submit(self, call: RequestContext, node: Node, offsets: Sequence[Numbers]) -> None:
        """Commit what several requests ask, in their order: they are one command, so they are all
        or none of them in the log. `offsets`: those of each partition in the request's order."""
        if self._topics_version != node.topics.version:
            self._sort_out(call.version, node)
        count = len(call.correlation_ids)
        if count == 1 or count <= self._most_together(node):
            self._commit(node, offsets, self._respond, (call, self._sorted))
            return
        run_max = self._run_max
        firsts = range(0, count, run_max)
        respond = partial(self._respond_together, call, self._sorted, run_max)
        decided = Gather(len(firsts), respond)
        for place, first in enumerate(firsts):
            part = [each[first : first + run_max] for each in offsets]
            self._commit(node, part, decided.put, place)

    def _commit(
        self, node: Node, offsets: Sequence[Numbers], respond: Respond, context: Any
    ) -> None:
        if self._places is not None:
            if not self._places:
                # Nothing to commit, so the group is not even looked at (upstream: KafkaApis).
                respond(context, CommitDone(()))
                return
            offsets = [offsets[place] for place in self._places]
        command: OffsetCommit = make(OffsetCommit, (*self._who, offsets, *self._how))
        node.groups.submit(command, respond, context)

    def _sort_out(self, version: int, node: Node) -> None:
        """Part the partitions that exist from those that do not; the latter are ours to refuse."""
        request = self._request
        entries: list[CommitEntry] = []
        places: list[int] = []
        self._sorted = refused, known = Sorted([], [])
        place = 0
        for topic in request.topics:
            names = getattr(topic, "name", None), getattr(topic, "topic_id", None)
            if version >= 10:
                found = node.readable.by_id(topic.topic_id)
                missing = ErrorCode.unknown_topic_id
            else:
                found = node.readable.get(topic.name)
                missing = UNKNOWN_PARTITION
            name, count = ("", 0) if found is None else (found.name, len(found.partitions))
            there: list[int] = []
            absent: list[PartitionReply] = []
            for asked in topic.partitions:
                partition = asked.partition_index
                if 0 <= partition < count:
                    epoch = asked.committed_leader_epoch if version >= 6 else -1
                    entries.append(CommitEntry(name, partition, epoch, asked.committed_metadata))
                    places.append(place)
                    there.append(partition)
                else:
                    error = missing if found is None else UNKNOWN_PARTITION
                    absent.append(PartitionReply(partition, error))
                place += 1
            if absent or found is None:
                refused.append(TopicReply(*names, absent))
            if there:
                known.append((*names, there))
        retention_ms = milliseconds(request.retention_time) if version <= 4 else -1
        self._topics_version = node.topics.version
        # Where the offsets of the entries are; None: each at its own place.
        self._places = places if refused or not places else None
        self._who = (
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id if version >= 7 else None,
            entries,
        )
        self._how = (
            None if retention_ms == -1 else retention_ms,
            ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation,
        )
        self._run_max = 0

    def _most_together(self, node: Node) -> int:
        """How many such requests make one batch for certain, at least one: what is small enough
        on its own must not be refused for its neighbours' sake."""
        if not self._run_max:
            group_id, _, _, _, entries = self._who
            partition = node.topics.partition(OFFSETS_TOPIC, node.groups.partition_of(group_id))
            texts = sum(len(topic) + len(metadata or "") for topic, _, _, metadata in entries)
            texts += len(group_id) * len(entries)
            size = len(entries) * RECORD_BYTES_MAX + texts * UTF8_BYTES_MAX
            bytes_max = 0 if partition is None else partition.settings.max_message_bytes
            self._run_max = max(1, (bytes_max - HEADER_BYTES) // max(1, size))
        return self._run_max

    def _respond_together(
        self, call: RequestContext, sorted_out: Sorted, run_max: int, results: Sequence[CommitDone]
    ) -> None:
        """Each of the results, the last perhaps not, is for `run_max` requests."""
        answers = (_answer(sorted_out, result.errors) for result in results)
        call.reply_each(answer for answer in answers for _ in range(run_max))

    def _respond(self, context: tuple[RequestContext, Sorted], result: CommitDone) -> None:
        call, sorted_out = context
        errors = result.errors
        if sorted_out.refused or any(errors):
            call.reply(_answer(sorted_out, errors))
            return
        if self._all_well is None:
            self._all_well = call.written(_answer(sorted_out, errors))
        call.repeat(self._all_well)


def _answer(sorted_out: Sorted, errors: Sequence[ErrorCode]) -> CommitReply:
    decided = iter(errors)
    known = [
        TopicReply(name, topic_id, [PartitionReply(index, next(decided)) for index in there])
        for name, topic_id, there in sorted_out.known
    ]
    return CommitReply(merged(sorted_out.refused, known))
