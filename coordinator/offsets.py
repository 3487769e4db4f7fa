"""Committed offsets: commit, fetch, delete.

Upstream: OffsetMetadataManager; ClassicGroup.validateOffsetCommit, validateOffsetFetch and
validateOffsetDelete.
"""

from collections.abc import Set
from typing import Final

from ..offsets.causes import Cause
from ..offsets.records import (
    OffsetAndMetadata,
    OffsetsRecord,
    OffsetTombstone,
    TransactionalOffsetCommit,
)
from ..protocol.errors import DecodeError, ErrorCode
from .classic.group import CONSUMER, Group
from .classic.states import COMPLETING, EMPTY, PREPARING, STABLE
from .commands import (
    CommitResult,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchResult,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    TxnOffsetCommit,
)
from .consumer.group import ConsumerGroup
from .decision import PartitionState, fencing_events, group_event
from .outcome import (
    WARNING,
    Event,
    EventType,
    GroupEvent,
    LogLine,
    Outcome,
    make,
    reply,
)

_NONE: Final = ErrorCode.none

# --- OffsetCommit (hot path)

# Successful results by the number of entries. Clients commit whole assignments, so few different
# numbers occur.
_CACHED_RESULTS: Final = 257
_SUCCESS: Final = tuple(CommitResult((_NONE,) * count) for count in range(_CACHED_RESULTS))


def decide_commit(
    partition: PartitionState, command: OffsetCommit, ticket: int, now: int
) -> Outcome:
    group_id, generation_id, member_id, instance_id, entries, offsets, retention_ms, _ = command
    group: Group | None = partition.groups.get(group_id)
    events: tuple[Event, ...] = ()
    if group is None and group_id in partition.consumer_groups:
        error = _validate_consumer_commit(partition, command)
        if error is not _NONE:
            return _rejected(partition, command, ticket, error)
    elif group is not None or generation_id >= 0:
        error = _validate_commit(partition, group, command)
        if error is not _NONE:
            events = fencing_events(error, group, member_id, instance_id, "offset-commit")
            return _rejected(partition, command, ticket, error, events)
        if group is not None and (group.state is STABLE or group.state is PREPARING):
            member = group.members[member_id]
            partition.deadlines.set(member.session, now + member.session_timeout_ms)
    elif not partition.offsets.has_group(group_id):
        events = _group_created(partition, group_id)
    expire_ms = None if retention_ms is None or retention_ms == -1 else now + retention_ms
    encode = partition.codec.offset_commit
    records: list[OffsetsRecord] = []
    for place, (topic, index, epoch, metadata, topic_id) in enumerate(entries):
        if metadata and _is_too_large(partition, metadata):
            continue
        committed = offsets[place]
        records.append(
            encode(group_id, topic, index, committed, epoch, metadata, now, expire_ms, topic_id)
        )
    count = len(entries)
    if len(records) == count < _CACHED_RESULTS:
        replies = ((ticket, _SUCCESS[count]),)
        outcome: Outcome = make(Outcome, (tuple(records), replies, events, ()))
        return outcome
    if not records and not partition.exists(group_id):
        # The group exists without a record until the next load, as in Kafka.
        partition.new_group(group_id, now)
    too_large = ErrorCode.offset_metadata_too_large
    errors = [too_large if _is_too_large(partition, e.metadata or "") else _NONE for e in entries]
    return Outcome(tuple(records), ((ticket, CommitResult(tuple(errors))),), events)


def decide_transactional_commit(
    partition: PartitionState, command: TxnOffsetCommit, ticket: int, now: int
) -> Outcome:
    """Commit offsets in a transaction. They take effect when the transaction is committed. No
    session is extended. Upstream: OffsetMetadataManager.commitTransactionalOffset."""
    commit, producer_id, producer_epoch = command
    group_id = commit.group_id
    group = partition.groups.get(group_id)
    error = _NONE
    if group is None and group_id in partition.consumer_groups:
        if _has_member(commit):
            error = _validate_consumer_commit(partition, commit)
        if error is ErrorCode.stale_member_epoch:
            error = ErrorCode.illegal_generation  # TxnOffsetCommit has no STALE_MEMBER_EPOCH
    elif group is not None or commit.generation_id >= 0:
        error = _validate_commit(partition, group, commit, is_transactional=True)
        if group is None and not partition.offsets.has_group(group_id):
            error = ErrorCode.illegal_generation
    if error is not _NONE:
        return _rejected(partition, commit, ticket, error)
    records: list[OffsetsRecord] = []
    errors = []
    events = () if partition.exists(group_id) else _group_created(partition, group_id)
    encode = partition.codec.offset_commit
    for (topic, index, epoch, metadata, topic_id), offsets in zip(
        commit.entries, commit.offsets, strict=True
    ):
        if metadata and _is_too_large(partition, metadata):
            errors.append(ErrorCode.offset_metadata_too_large)
            continue
        errors.append(_NONE)
        record = encode(group_id, topic, index, offsets, epoch, metadata, now, None, topic_id)
        records.append(make(TransactionalOffsetCommit, (producer_id, producer_epoch, record)))
    if not records and not partition.exists(group_id):
        partition.new_group(group_id, now)
    return Outcome(tuple(records), ((ticket, CommitResult(tuple(errors))),), events)


def _rejected(
    partition: PartitionState,
    command: OffsetCommit,
    ticket: int,
    error: ErrorCode,
    events: tuple[Event, ...] = (),
) -> Outcome:
    result = CommitResult((error,) * len(command.entries))
    rejected = _commit_event(EventType.COMMIT_REJECTED, partition, command, result)
    return reply(ticket, result, (*events, rejected))


def _group_created(partition: PartitionState, group_id: str) -> tuple[Event, ...]:
    """Return the event for a commit to a group without offsets; () if pending commits created the
    group."""
    if partition.pending_offsets.has_group(group_id):
        return ()
    cause = Cause.GROUP_CREATED
    return (group_event(EventType.GROUP_CREATED, group_id, state_to=EMPTY, cause=cause),)


def _validate_commit(
    partition: PartitionState,
    group: Group | None,
    command: OffsetCommit,
    *,
    is_transactional: bool = False,
) -> ErrorCode:
    """Validate a commit to an existing group, or a commit with a generation to a group that has
    only offsets or does not exist. The checks are in upstream's order, which clients can observe.
    """
    if group is None:
        if partition.offsets.has_group(command.group_id):
            return ErrorCode.unknown_member_id
        if command.supports_member_epochs:
            return ErrorCode.group_id_not_found
        return ErrorCode.illegal_generation
    generation_id, member_id = command.generation_id, command.member_id
    if generation_id < 0 and group.state is EMPTY:
        # Admin clients and consumers that use assign() send such commits. Ids are not validated.
        return _NONE
    instance_id = command.group_instance_id
    if not _has_member(command):
        # In a transaction, the producer is validated instead.
        return _NONE if is_transactional else ErrorCode.unknown_member_id
    error = group.validate_member(member_id, instance_id)
    if error is not _NONE:
        return error
    if generation_id != group.generation:
        return ErrorCode.illegal_generation
    if group.state is COMPLETING and not is_transactional:
        return ErrorCode.rebalance_in_progress
    return _NONE


def _has_member(command: OffsetCommit) -> bool:
    """Whether a commit has any field that identifies a member."""
    return (
        command.generation_id >= 0
        or bool(command.member_id)
        or command.group_instance_id is not None
    )


def _validate_consumer_commit(partition: PartitionState, command: OffsetCommit) -> ErrorCode:
    """Validate a commit to a consumer group. If the request has an older epoch than the member, it
    may still commit partitions that were assigned in that epoch or earlier (KIP-1251). Any other
    partition fails the whole commit, unless its metadata is too large. Sessions are not extended.
    Upstream: ConsumerGroup.validateOffsetCommit."""
    group = partition.consumer_groups[command.group_id]
    epoch = command.generation_id
    if epoch < 0 and not group.members:
        return _NONE
    member = group.members.get(command.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    mismatch = ErrorCode.illegal_generation
    if not member.uses_classic_protocol:
        if not command.supports_member_epochs:
            return ErrorCode.unsupported_version
        mismatch = ErrorCode.stale_member_epoch
    if epoch == member.epoch:
        return _NONE
    if epoch > member.epoch:
        return mismatch
    for entry in command.entries:
        if entry.metadata and _is_too_large(partition, entry.metadata):
            continue
        topic_id = partition.topics.id_of(entry.topic)
        if topic_id is None:
            return mismatch
        assigned_at = member.assignment_epoch(topic_id, entry.partition)
        if assigned_at is None or epoch < assigned_at:
            return mismatch
    return _NONE


def _is_too_large(partition: PartitionState, metadata: str) -> bool:
    """Whether the metadata is too large. As in Java, its size is in UTF-16 code units."""
    limit = partition.config.offset_metadata_max_bytes
    if len(metadata) * 2 <= limit:
        return False
    return len(metadata.encode("utf-16-le", "surrogatepass")) // 2 > limit


def commit_accepted(partition: PartitionState, command: OffsetCommit, outcome: Outcome) -> Outcome:
    """Add an event for the accepted entries of a commit, if there are any."""
    ((_, result),) = outcome.replies
    assert isinstance(result, CommitResult)
    if _NONE not in result.errors:
        return outcome
    event = _commit_event(EventType.COMMIT_ACCEPTED, partition, command, result)
    return outcome._replace(events=(*outcome.events, event))


def commit_events(partition: PartitionState, producer_id: int) -> tuple[GroupEvent, ...]:
    """Return one event per group, with the offsets that the producer's transaction commits."""
    by_group: dict[str, dict[str, str]] = {}
    for record in partition.pending_offsets.to_commit(producer_id):
        detail = by_group.setdefault(record.group_id, {"producer_id": str(producer_id)})
        offset = partition.codec.committed(record).offset
        detail[f"{record.topic}-{record.partition}"] = str(offset)
    return tuple(
        group_event(EventType.COMMIT_ACCEPTED, group_id, detail=detail)
        for group_id, detail in by_group.items()
    )


def _commit_event(
    type_: EventType, partition: PartitionState, command: OffsetCommit, result: CommitResult
) -> GroupEvent:
    """Return the event for the entries of a commit that were accepted, or that were rejected with
    the error of the first entry. The event contains the request's generation."""
    error = _NONE if type_ is EventType.COMMIT_ACCEPTED else result.errors[0]
    entries = zip(command.entries, command.offsets, result.errors, strict=True)
    groups = partition.groups, partition.consumer_groups
    group = next((each[command.group_id] for each in groups if command.group_id in each), None)
    return group_event(
        type_,
        command.group_id,
        None if group is None else group.members.get(command.member_id),
        member_id=command.member_id or None,
        instance_id=command.group_instance_id,
        generation=command.generation_id,
        error=error or None,
        detail={
            f"{entry.topic}-{entry.partition}": str(offsets[-1])  # the last of pipelined requests
            for entry, offsets, each in entries
            if each is error
        },
    )


# --- OffsetFetch


def decide_fetch(
    partition: PartitionState, command: OffsetFetch, ticket: int, _now: int
) -> Outcome:
    """Return committed offsets. Only members of consumer groups are validated. A missing group has
    no offsets. No timer is changed.

    With `require_stable`, offsets that are pending in a transaction cause an error. Records that
    are not durable yet need no special handling, because replies wait for them anyway.
    """
    group_id = command.group_id
    if group_id in partition.consumer_groups:
        error = _validate_consumer_fetch(partition, command)
        if error is not _NONE:
            return reply(ticket, FetchResult(error, ()))
    found: list[tuple[str, tuple[FetchedOffset, ...]]] = []
    get = partition.offsets.get
    if command.topics is None:
        for topic, committed in partition.offsets.of_group(group_id).items():
            found.append((topic, tuple(_fetched(p, c) for p, c in committed.items())))
    elif command.topic_ids is None:
        for topic, indexes in command.topics:
            values = tuple([_fetched(p, get(group_id, topic, p)) for p in indexes])
            found.append((topic, values))
    else:
        for (topic, indexes), id_ in zip(command.topics, command.topic_ids, strict=True):
            of_topic = ((p, _of_topic(get(group_id, topic, p), id_)) for p in indexes)
            found.append((topic, tuple(_fetched(p, each) for p, each in of_topic)))
    if partition.pending_offsets and command.require_stable:
        found = [(topic, _stable(partition, group_id, topic, each)) for topic, each in found]
    return reply(ticket, make(FetchResult, (_NONE, tuple(found))))


def _validate_consumer_fetch(partition: PartitionState, command: OffsetFetch) -> ErrorCode:
    """Validate a fetch from a consumer group. Upstream: ConsumerGroup.validateOffsetFetch."""
    member_id, epoch = command.member_id, command.member_epoch
    if member_id is None:
        # Upstream looks up the null id and fails.
        return _NONE if epoch < 0 else ErrorCode.unknown_server_error
    member = partition.consumer_groups[command.group_id].members.get(member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if epoch == member.epoch:
        return _NONE
    is_classic = member.uses_classic_protocol
    return ErrorCode.illegal_generation if is_classic else ErrorCode.stale_member_epoch


def _of_topic(committed: OffsetAndMetadata | None, topic_id: bytes) -> OffsetAndMetadata | None:
    """Return the offset, or None if it was committed for an earlier topic with the same name. Only
    logs written by Kafka contain such offsets, because kohort deletes the offsets of a topic before
    its name can be reused. Upstream: OffsetMetadataManager.isMismatchedTopicId."""
    is_mismatched = committed is not None and committed.topic_id not in (None, topic_id)
    return None if is_mismatched else committed


def _stable(
    partition: PartitionState, group_id: str, topic: str, fetched: tuple[FetchedOffset, ...]
) -> tuple[FetchedOffset, ...]:
    pending = partition.pending_offsets
    return tuple(
        FetchedOffset(each.partition_index, -1, -1, "", ErrorCode.unstable_offset_commit)
        if (group_id, topic, each.partition_index) in pending
        else each
        for each in fetched
    )


def _fetched(index: int, committed: OffsetAndMetadata | None) -> FetchedOffset:
    values = (index, -1, -1, "", _NONE)
    if committed is not None:
        values = (index, committed.offset, committed.leader_epoch, committed.metadata, _NONE)
    fetched: FetchedOffset = make(FetchedOffset, values)
    return fetched


# --- OffsetDelete


def decide_delete_offsets(
    partition: PartitionState, command: OffsetDelete, ticket: int, _now: int
) -> Outcome:
    group_id, offsets = command.group_id, partition.offsets
    if not group_id:
        return reply(ticket, DeleteOffsetsResult(ErrorCode.invalid_group_id, ()))
    group = partition.groups.get(group_id)
    if not partition.exists(group_id):
        return reply(ticket, DeleteOffsetsResult(ErrorCode.group_id_not_found, ()))
    if group is not None and group.state is not EMPTY and group.protocol_type != CONSUMER:
        # The subscriptions of other protocol types are unknown.
        return reply(ticket, DeleteOffsetsResult(ErrorCode.non_empty_group, ()))
    events: list[Event] = []
    errors = _subscription_errors(partition, group, command, events)
    # Deleting an offset that was never committed succeeds without a record.
    records: tuple[OffsetsRecord, ...] = tuple(
        OffsetTombstone(group_id, topic, index)
        for (topic, indexes), error in zip(command.topics, errors, strict=True)
        if error is _NONE
        for index in indexes
        if offsets.get(group_id, topic, index) is not None
        or (group_id, topic, index) in partition.pending_offsets
    )
    if records:
        events.append(offsets_deleted(group or group_id, Cause.OFFSETS_DELETED, len(records)))
    result = DeleteOffsetsResult(_NONE, errors)
    return Outcome(records, ((ticket, result),), tuple(events))


def _subscription_errors(
    partition: PartitionState, group: Group | None, command: OffsetDelete, events: list[Event]
) -> tuple[ErrorCode, ...]:
    """Return the error of each topic: GROUP_SUBSCRIBED_TO_TOPIC if a consumer of the group is
    subscribed to it, or if subscriptions cannot be decoded (upstream: isSubscribedToTopic)."""
    topics = [topic for topic, _ in command.topics]
    consumer_group = partition.consumer_groups.get(command.group_id)
    subscribed: Set[str] = frozenset()
    if consumer_group is not None:
        subscribed = set(filter(consumer_group.is_subscribed_to, topics))
    elif group is not None:
        known = subscribed_topics(partition, group, events)
        if known is not None:
            subscribed = known
        elif group.protocol_type == CONSUMER:
            subscribed = set(topics)
    error = ErrorCode.group_subscribed_to_topic
    return tuple(error if topic in subscribed else _NONE for topic in topics)


def subscribed_topics(
    partition: PartitionState, group: Group, events: list[Event]
) -> frozenset[str] | None:
    """Return the topics of all members' subscriptions, or None if they are unknown."""
    if group.subscriptions is None:
        return None
    topics: set[str] = set()
    try:
        # Most members of a group have equal subscriptions.
        for metadata in set(group.subscriptions):
            topics.update(partition.codec.subscribed_topics(metadata))
    except DecodeError as error:
        line = LogLine(
            WARNING,
            "Failed to parse Consumer Protocol %s:%s of group %s. Consumer group coordinator is "
            "not aware of the subscribed topics: %s",
            (group.protocol_type, group.protocol_name, group.group_id, str(error)),
        )
        events.append(line)
        return None
    return frozenset(topics)


def offsets_deleted(group: Group | ConsumerGroup | str, cause: Cause, count: int) -> GroupEvent:
    detail = {"offsets": str(count)}
    return group_event(EventType.OFFSETS_DELETED, group, cause=cause, detail=detail)
