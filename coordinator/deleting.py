"""DeleteGroups, OffsetDelete, DeleteTopics: what may an administrator take away, and from whom?

Upstream: GroupCoordinatorShard.deleteGroups, OffsetMetadataManager.deleteOffsets,
ClassicGroup.validateDeleteGroup and validateOffsetDelete.
"""

from collections.abc import Iterator, Set

from ..offsets.causes import Cause
from ..offsets.records import GroupTombstone, OffsetsRecord, OffsetTombstone
from ..protocol.errors import ErrorCode
from .commands import DeleteGroup, OffsetDelete
from .group import Group
from .results import GroupDeleted, OffsetsDeleted
from .states import DEAD, EMPTY
from .subscriptions import CONSUMER, may_read, subscribed_topics
from .turn import NOTHING, Outcome, Shard, outcome_of
from .voice import EventType

_NONE = ErrorCode.none

# What a deleted topic leaves is looked for in slices, between which others are served: up to 2 ms
# to look at so many offsets, up to 3 ms to write and apply so many tombstones.
SLICE_OFFSETS = 10_000
SLICE_TOMBSTONES = 250


def decide_delete_group(shard: Shard, command: DeleteGroup, ticket: int, _now: int) -> Outcome:
    """Tombstones for all its offsets, and the last for the group: so no reader of the log sees
    offsets of a group that is gone. Who has only been given an id does not keep a group alive."""
    group_id = command.group_id
    group = shard.groups.get(group_id)
    foreign = shard.foreign.groups.get(group_id)
    if group is None and foreign is None and not shard.table.has(group_id):
        return outcome_of(ticket, GroupDeleted(ErrorCode.group_id_not_found))
    if group is not None and group.state is not EMPTY:
        return outcome_of(ticket, GroupDeleted(ErrorCode.non_empty_group))
    records: list[OffsetsRecord] = [
        OffsetTombstone(group_id, offset.topic, offset.partition)
        for offset in shard.table.records(group_id)
    ]
    # What is committed has its tombstone already, and one is enough.
    records += [each for each in shard.foreign.pending_of(group_id) if each not in records]
    shard.voice.info(
        "The following groups were deleted: %s. A total of %d offsets were removed.",
        group_id,
        len(records),
    )
    shard.voice.tell(
        EventType.GROUP_DELETED,
        group or group_id,
        state_from=EMPTY,
        state_to=DEAD,
        cause=Cause.GROUP_DELETED,
        detail={"offsets": str(len(records))},
    )
    records += [GroupTombstone(group_id)] if foreign is None else foreign.tombstones()
    return outcome_of(ticket, GroupDeleted(_NONE), tuple(records))


def tombstones_of_topics(shard: Shard, topics: Set[str]) -> Iterator[Outcome]:
    """Of all groups, whatever their state: the topics are gone, and one that gets such a name
    later is another (upstream: OffsetMetadataManager.onTopicsDeleted). The groups stay.

    A slice at a time: its records are applied before the next one is asked for. Nothing is
    committed for these topics meanwhile.
    """
    topics = {topic for topic in topics if shard.table.has_had(topic)}
    if not topics:
        return
    yield NOTHING  # All partitions begin at a time; what takes long is left for later turns.
    total = looked = 0
    records: list[OffsetsRecord] = []
    for group_id in list(shard.table.groups()):
        looked += shard.table.count(group_id)
        found = shard.table.of_topics(group_id, topics)
        if found:
            shard.voice.tell(
                EventType.OFFSETS_DELETED,
                shard.groups.get(group_id) or group_id,
                cause=Cause.TOPIC_DELETED,
                detail={"offsets": str(len(found))},
            )
        total += len(found)
        records.extend(found)
        while looked >= SLICE_OFFSETS or len(records) >= SLICE_TOMBSTONES:
            yield tuple(records[:SLICE_TOMBSTONES]), ()
            del records[:SLICE_TOMBSTONES]
            looked = 0
    if total:
        yield tuple(records), ()
        shard.voice.info(
            "Generated %d tombstone records while deleting offsets for topics [%s].",
            total,
            ", ".join(sorted(topics)),
        )


def decide_delete_offsets(shard: Shard, command: OffsetDelete, ticket: int, _now: int) -> Outcome:
    group_id = command.group_id
    if not group_id:
        return outcome_of(ticket, OffsetsDeleted(ErrorCode.invalid_group_id, ()))
    group = shard.groups.get(group_id)
    table = shard.table
    if group is None and not table.has(group_id) and group_id not in shard.foreign.groups:
        return outcome_of(ticket, OffsetsDeleted(ErrorCode.group_id_not_found, ()))
    if group is not None and group.state is not EMPTY and group.protocol_type != CONSUMER:
        # What the others read cannot be known.
        return outcome_of(ticket, OffsetsDeleted(ErrorCode.non_empty_group, ()))
    errors = _subscribed(group, command)
    # Deleting what was never committed is well, and writes nothing.
    records: tuple[OffsetsRecord, ...] = tuple(
        OffsetTombstone(group_id, topic, partition)
        for (topic, partitions), error in zip(command.topics, errors, strict=True)
        if error is _NONE
        for partition in partitions
        if table.get(group_id, topic, partition) is not None
        or (group_id, topic, partition) in shard.foreign.pending
    )
    if records:
        shard.voice.tell(
            EventType.OFFSETS_DELETED,
            group or group_id,
            cause=Cause.OFFSETS_DELETED,
            detail={"offsets": str(len(records))},
        )
    return outcome_of(ticket, OffsetsDeleted(_NONE, errors), records)


def _subscribed(group: Group | None, command: OffsetDelete) -> tuple[ErrorCode, ...]:
    """For each topic whether its offsets are somebody's, who would commit them again."""
    if group is None:
        return (_NONE,) * len(command.topics)
    read = subscribed_topics(group)
    return tuple(
        ErrorCode.group_subscribed_to_topic if may_read(group, read, topic) else _NONE
        for topic, _ in command.topics
    )
