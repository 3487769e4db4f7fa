"""OffsetCommit (key 8). The request that a broker sees most: what is usual goes the short way.

v2-4 retention_time · v3 throttle_time · v6 committed_leader_epoch · v7 group_instance_id ·
v8 flexible · v9 member epoch for KIP-848 groups, GROUP_ID_NOT_FOUND · v10 topic ids.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ..call import Call
from ..groups.commands import CommitEntry, OffsetCommit
from ..groups.results import CommitDone
from ..node import Node
from .reply import NO_THROTTLE, milliseconds

UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
_make = tuple.__new__  # a NamedTuple's own __new__ is a Python function, this one is not


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


def handle(call: Call, node: Node) -> None:
    request, version = call.request, call.version
    entries, refused = _sort_out(request.topics, node, version)
    if not entries:
        # Nothing is left to commit, so the group is not even looked at (upstream: KafkaApis).
        _respond((call, refused), CommitDone(()))
        return
    retention_ms = milliseconds(request.retention_time) if version <= 4 else -1
    command: OffsetCommit = _make(
        OffsetCommit,
        (
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id if version >= 7 else None,
            entries,
            None if retention_ms == -1 else retention_ms,
            ErrorCode.group_id_not_found if version >= 9 else ErrorCode.illegal_generation,
        ),
    )
    node.groups.submit(command, _respond, (call, refused))


Refused = dict[tuple[int, int], ErrorCode]
"""(position of a topic in the request, position of a partition in it) -> why not."""


def _sort_out(topics: Any, node: Node, version: int) -> tuple[list[CommitEntry], Refused | None]:
    """Part the partitions that exist from those that do not; the latter are ours to refuse."""
    entries: list[CommitEntry] = []
    refused: Refused | None = None
    for place, topic in enumerate(topics):
        if version >= 10:
            found, missing = node.topics.by_id(topic.topic_id), ErrorCode.unknown_topic_id
        else:
            found, missing = node.topics.get(topic.name), UNKNOWN_PARTITION
        name, count = ("", 0) if found is None else (found.name, len(found.partitions))
        for at, asked in enumerate(topic.partitions):
            partition = asked.partition_index
            if 0 <= partition < count:
                epoch = asked.committed_leader_epoch if version >= 6 else -1
                offset, metadata = asked.committed_offset, asked.committed_metadata
                entry = (name, partition, offset, epoch, metadata, None)
                entries.append(_make(CommitEntry, entry))
            else:
                refused = refused or {}
                refused[place, at] = missing if found is None else UNKNOWN_PARTITION
    return entries, refused


Asked = tuple[str | UUID, tuple[int, ...]]
"""A topic by its name, from v10 on by its id, and its partitions as the request lists them."""

# "All well" is said to the same request over and over, so it is written once for each; some
# hundred bytes apiece. Cleared when full.
_all_well: dict[tuple[int, tuple[Asked, ...]], bytes] = {}
REMEMBERED_MAX = 8192


def _respond(context: tuple[Call, Refused | None], result: CommitDone) -> None:
    call, refused = context
    topics, errors, version = call.request.topics, result.errors, call.version
    if refused is not None or any(errors):
        call.reply(_mixed(topics, refused or {}, errors))
        return
    asked: tuple[Asked, ...] = tuple(
        [
            (
                topic.name if version < 10 else topic.topic_id,
                tuple([partition.partition_index for partition in topic.partitions]),
            )
            for topic in topics
        ]
    )
    frame = _all_well.get((version, asked))
    if frame is None:
        if len(_all_well) >= REMEMBERED_MAX:
            _all_well.clear()
        frame = _all_well[version, asked] = call.written(_mixed(topics, {}, errors))
    call.repeat(frame)


def _mixed(topics: Any, refused: Refused, errors: Sequence[ErrorCode]) -> CommitReply:
    """The answer in the request's order: our refusals, and in between the coordinator's errors."""
    decided = iter(errors)
    return CommitReply(
        [
            TopicReply(
                getattr(topic, "name", None),
                getattr(topic, "topic_id", None),
                [
                    PartitionReply(
                        asked.partition_index,
                        refused[place, at] if (place, at) in refused else next(decided),
                    )
                    for at, asked in enumerate(topic.partitions)
                ],
            )
            for place, topic in enumerate(topics)
        ]
    )
