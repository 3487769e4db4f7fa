"""OffsetCommit (key 8). The request that a broker sees most: what is usual goes the short way.

v2-4 retention_time · v3 throttle_time · v6 committed_leader_epoch · v7 group_instance_id ·
v8 flexible · v9 member epoch for KIP-848 groups, GROUP_ID_NOT_FOUND · v10 topic ids.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ..call import Call
from ..groups.commands import CommitEntry, OffsetCommit
from ..groups.results import CommitDone
from ..node import Node
from .reply import NO_THROTTLE, milliseconds

UNKNOWN_PARTITION = ErrorCode.unknown_topic_or_partition
# Answers of "all well" that are remembered, a few hundred bytes each: consumers commit the same
# partitions over and over.
REMEMBERED_MAX = 4096

_make = tuple.__new__  # a NamedTuple's own __new__ is a Python function, this one is not


class PartitionReply(NamedTuple):
    partition_index: int
    error_code: ErrorCode


class TopicReply(NamedTuple):
    """Up to v9 a topic has its name here, from v10 on its id."""

    name: str | UUID | None
    topic_id: str | UUID | None
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


def _respond(context: tuple[Call, Refused | None], result: CommitDone) -> None:
    call, refused = context
    topics, errors = call.request.topics, result.errors
    if refused is None and not any(errors):
        field = "topic_id" if call.version >= 10 else "name"
        asked = [
            (getattr(topic, field), tuple([p.partition_index for p in topic.partitions]))
            for topic in topics
        ]
        call.reply(_all_well(tuple(asked)))
    else:
        call.reply(_mixed(topics, refused or {}, errors))


@lru_cache(REMEMBERED_MAX)
def _all_well(asked: tuple[tuple[str | UUID, tuple[int, ...]], ...]) -> CommitReply:
    return CommitReply(
        [
            TopicReply(topic, topic, [PartitionReply(i, ErrorCode.none) for i in partitions])
            for topic, partitions in asked
        ]
    )


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
