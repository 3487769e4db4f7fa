"""OffsetCommit (key 8).

v2-4 retention_time · v3 throttle_time · v6 committed_leader_epoch · v7 group_instance_id ·
v8 flexible · v9 member epoch for KIP-848 groups, GROUP_ID_NOT_FOUND · v10 topic ids.
"""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from ...protocol.errors import ErrorCode
from ..call import Call
from ..groups.commands import CommitEntry, OffsetCommit
from ..groups.results import CommitDone
from ..node import Node
from .reply import NO_THROTTLE, milliseconds

UNKNOWN = ErrorCode.unknown_topic_or_partition


class PartitionReply(NamedTuple):
    partition_index: int
    error_code: ErrorCode


class TopicReply(NamedTuple):
    name: str
    topic_id: UUID | None
    partitions: list[PartitionReply]


class CommitReply(NamedTuple):
    topics: list[TopicReply]
    throttle_time: timedelta = NO_THROTTLE


def handle(call: Call, node: Node) -> None:
    request = call.request
    known, entries = _sort_out(request.topics, node, with_ids=call.version >= 10)
    if not entries:
        # Nothing is left to commit, so the group is not even looked at (upstream: KafkaApis).
        call.reply(CommitReply(_topics(known, (), request.topics)))
        return
    retention = getattr(request, "retention_time", None)
    retention_ms = -1 if retention is None else milliseconds(retention)
    command = OffsetCommit(
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        getattr(request, "group_instance_id", None),
        entries,
        None if retention_ms == -1 else retention_ms,
        ErrorCode.group_id_not_found if call.version >= 9 else ErrorCode.illegal_generation,
    )
    node.groups.submit(command, partial(_respond, call, known))


Refused = list[tuple[str | None, list[ErrorCode | None]]]
"""For each topic its name (None: unknown id), and for each of its partitions what refuses it."""


def _sort_out(topics: Any, node: Node, *, with_ids: bool) -> tuple[Refused, list[CommitEntry]]:
    """Part the partitions that exist from those that do not."""
    known: Refused = []
    entries: list[CommitEntry] = []
    for topic in topics:
        found = node.topics.by_id(topic.topic_id) if with_ids else node.topics.get(topic.name)
        missing = ErrorCode.unknown_topic_id if with_ids and found is None else UNKNOWN
        count = 0 if found is None else len(found.partitions)
        name = "" if found is None else found.name
        refusals: list[ErrorCode | None] = []
        for asked in topic.partitions:
            partition = asked.partition_index
            if not 0 <= partition < count:
                refusals.append(missing)
                continue
            refusals.append(None)
            entries.append(
                CommitEntry(
                    name,
                    partition,
                    asked.committed_offset,
                    getattr(asked, "committed_leader_epoch", -1),
                    asked.committed_metadata,
                    None,
                )
            )
        known.append((getattr(topic, "name", None), refusals))
    return known, entries


def _respond(call: Call, known: Refused, result: CommitDone) -> None:
    call.reply(CommitReply(_topics(known, result.errors, call.request.topics)))


def _topics(known: Refused, errors: Sequence[ErrorCode], asked: Any) -> list[TopicReply]:
    """The answer in the request's order: refusals of ours, and the coordinator's `errors`."""
    decided = iter(errors)
    return [
        TopicReply(
            name or "",
            getattr(topic, "topic_id", None),
            [
                PartitionReply(
                    partition.partition_index, next(decided) if refusal is None else refusal
                )
                for partition, refusal in zip(topic.partitions, refusals, strict=True)
            ],
        )
        for topic, (name, refusals) in zip(asked, known, strict=True)
    ]
