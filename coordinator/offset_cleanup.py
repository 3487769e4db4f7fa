"""The background cleanup of committed offsets in all groups: expiration and deleted topics.

Upstream: GroupCoordinatorShard.cleanupGroupMetadata; OffsetMetadataManager.cleanupExpiredOffsets
and onTopicsDeleted; ClassicGroup.offsetExpirationCondition.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Set
from typing import NamedTuple, TypeAlias

from ..offsets.causes import Cause
from ..offsets.records import (
    OffsetAndMetadata,
    OffsetCommitRecord,
    OffsetsRecord,
    OffsetTombstone,
)
from .classic.group import CONSUMER, Group
from .classic.states import EMPTY, STABLE
from .consumer.group import ConsumerGroup
from .decision import PartitionState, group_deleted, group_tombstones
from .offsets import offsets_deleted, subscribed_topics
from .outcome import DEBUG, INFO, NOTHING, Event, LogLine, Outcome


class ReadGroup(NamedTuple):
    """A cleanup step that needs spilled offsets. The driver reads them from disk and sends them
    into the generator."""

    group_id: str


Sweep: TypeAlias = Generator[Outcome | ReadGroup, Iterable[OffsetCommitRecord] | None, None]
"""A pass over all groups in slices. The outcome of each slice is applied before the next slice;
other commands may be decided between slices."""

# Limits of a slice: about 2 ms to examine offsets (longer for a group with more offsets than this),
# and up to 3 ms to write and apply tombstones.
DELETED_TOPICS_SLICE_OFFSETS = 10_000
EXPIRATION_SLICE_OFFSETS = 400
SLICE_TOMBSTONES = 250


def delete_offsets_of_topics(partition: PartitionState, topics: Set[str]) -> Sweep:
    """Delete the offsets of deleted topics in every group, in any state. The groups are kept.

    A topic that is created later under the same name is another topic (upstream:
    OffsetMetadataManager.onTopicsDeleted). The caller ensures that no offsets of these topics are
    committed during the sweep.
    """
    pending_topics = {topic for _, topic, _ in partition.pending_offsets}
    topics = {t for t in topics if t in pending_topics or t in partition.offsets.topics}
    if not topics:
        return
    yield NOTHING  # the sweeps of all partitions start at once, so begin in a later slice
    examined = 0
    # Pending offsets come first, because their transactions may end during the sweep.
    records: list[OffsetsRecord] = [
        OffsetTombstone(*key) for key in partition.pending_offsets if key[1] in topics
    ]
    total = len(records)
    while records:
        yield Outcome(tuple(records[:SLICE_TOMBSTONES]), ())
        del records[:SLICE_TOMBSTONES]
    events: list[Event] = []
    for group_id in list(partition.offsets.groups()):
        examined += partition.offsets.count(group_id)
        committed = yield from _read(partition, group_id)
        found = [
            OffsetTombstone(group_id, record.topic, record.partition)
            for record in committed
            if record.topic in topics
        ]
        if found:
            group = partition.groups.get(group_id) or group_id
            events.append(offsets_deleted(group, Cause.TOPIC_DELETED, len(found)))
        total += len(found)
        records.extend(found)
        while examined >= DELETED_TOPICS_SLICE_OFFSETS or len(records) >= SLICE_TOMBSTONES:
            yield Outcome(tuple(records[:SLICE_TOMBSTONES]), (), tuple(events))
            del records[:SLICE_TOMBSTONES]
            events.clear()
            examined = 0
    if total:
        line = LogLine(
            INFO,
            "Generated %d tombstone records while deleting offsets for topics [%s].",
            (total, ", ".join(sorted(topics))),
        )
        yield Outcome(tuple(records), (), (*events, line))


def _read(
    partition: PartitionState, group_id: str
) -> Generator[ReadGroup, Iterable[OffsetCommitRecord] | None, Iterator[OffsetCommitRecord]]:
    """Return the offsets of a group, from memory or from the spill file."""
    if partition.offsets.is_loaded(group_id):
        return partition.offsets.records(group_id)
    committed = yield ReadGroup(group_id)
    return iter(committed or ())


class _ExpirationRule(NamedTuple):
    """When the offsets of a group expire.

        group                                since                             topics
        none, or without a protocol type     the commit                        all
        Empty                                it became Empty; the commit, if   all
                                             the record has no timestamp
        Stable, of consumers with known      the commit                        those without a
        subscriptions                                                          subscription
        other states and subscriptions       never                             -
        a consumer group (KIP-848)           the commit                        those without a
                                                                               subscription

    Streams groups are treated like groups without a protocol type; share groups never expire. A
    commit with its own retention time (OffsetCommit v2 to v4) expires after that time.
    """

    since_ms: int | None  # None: the time of each commit
    subscribed_topics: frozenset[str] = frozenset()

    def has_passed(self, offset: OffsetAndMetadata, now: int, retention_ms: int) -> bool:
        if offset.expire_timestamp_ms is not None:
            return now >= offset.expire_timestamp_ms
        since_ms = offset.commit_timestamp_ms if self.since_ms is None else self.since_ms
        return now - since_ms >= retention_ms


_SINCE_COMMIT = _ExpirationRule(None)


def _expiration_rule(
    partition: PartitionState, group: Group | ConsumerGroup | None, events: list[Event]
) -> _ExpirationRule | None:
    """Return the rule for a group, or None if its offsets never expire. `group` is None for a group
    that has only offsets."""
    if isinstance(group, ConsumerGroup):
        return _ExpirationRule(None, frozenset(group.subscriptions().topics))
    if group is None or group.protocol_type is None:
        return _SINCE_COMMIT
    if group.state is EMPTY:
        since_ms = group.state_timestamp_ms
        return _SINCE_COMMIT if since_ms == -1 else _ExpirationRule(since_ms)
    if group.state is STABLE and group.protocol_type == CONSUMER:
        topics = subscribed_topics(partition, group, events)
        return None if topics is None else _ExpirationRule(None, topics)
    return None


def expire_offsets(partition: PartitionState, now_ms: Callable[[], int]) -> Sweep:
    """Delete expired offsets, and Empty groups that have no offsets left, however recently they
    became Empty. Groups that are created during the sweep are left to the next sweep. Upstream:
    GroupCoordinatorShard.cleanupGroupMetadata, OffsetMetadataManager.cleanupExpiredOffsets."""
    yield NOTHING  # the sweeps of all partitions start at once, so begin in a later slice
    groups = {
        **partition.groups,
        **partition.consumer_groups,
        **partition.other_groups.groups,
    }
    group_ids = [g for g in partition.offsets.groups() if g not in groups] + list(groups)
    yield NOTHING
    started_ms = now_ms()
    tombstones = examined = 0
    records: list[OffsetsRecord] = []
    events: list[Event] = []
    for group_id in group_ids:
        is_done = False
        while not is_done:
            count, is_done = yield from _expire_group(
                partition, group_id, now_ms(), records, events
            )
            examined += max(count, 1)
            if examined >= EXPIRATION_SLICE_OFFSETS or len(records) >= SLICE_TOMBSTONES:
                tombstones += len(records)
                yield Outcome(tuple(records), (), tuple(events))
                records.clear()
                events.clear()
                examined = 0
    tombstones += len(records)
    if tombstones:
        line = LogLine(
            INFO,
            "Generated %d tombstone records while cleaning up group metadata in %d milliseconds.",
            (tombstones, now_ms() - started_ms),
        )
        events.append(line)
        yield Outcome(tuple(records), (), tuple(events))


def _expire_group(
    partition: PartitionState,
    group_id: str,
    now: int,
    records: list[OffsetsRecord],
    events: list[Event],
) -> Generator[ReadGroup, Iterable[OffsetCommitRecord] | None, tuple[int, bool]]:
    """Add the tombstones that are due, up to SLICE_TOMBSTONES in `records`. Return how many offsets
    were examined, and whether the group is done."""
    if not partition.exists(group_id):
        return 0, True  # the group was deleted since the sweep began
    group = partition.groups.get(group_id) or partition.consumer_groups.get(group_id)
    expiration = _expiration_rule(partition, group, events)
    if expiration is None or not partition.other_groups.may_expire(group_id):
        return 0, True
    committed = yield from _read(partition, group_id)
    room = SLICE_TOMBSTONES - len(records)
    examined, expired = _find_expired(partition, committed, expiration, now, room)
    records += expired
    if expired:
        events += [
            LogLine(DEBUG, "[GroupId %s] Expired offset for partition=%s-%s", tuple(tombstone))
            for tombstone in expired
        ]
        events.append(offsets_deleted(group or group_id, Cause.OFFSETS_EXPIRED, len(expired)))
    is_done = len(expired) < room
    # A group with pending offsets in a transaction is not deleted.
    is_in_use = partition.pending_offsets.has_group(group_id) or (group and group.members)
    is_empty = not is_in_use and len(expired) == examined
    if is_empty and is_done and (not isinstance(group, Group) or group.state is EMPTY):
        records += group_tombstones(partition, group_id)
        events.append(group_deleted(group or group_id))
    return examined, is_done


def _find_expired(
    partition: PartitionState,
    committed: Iterable[OffsetCommitRecord],
    expiration: _ExpirationRule,
    now: int,
    count_max: int,
) -> tuple[int, list[OffsetTombstone]]:
    """Return how many offsets were examined, and tombstones for at most `count_max` of them."""
    retention_ms = partition.config.offsets_retention_ms
    decode = partition.codec.committed
    examined, expired = 0, list[OffsetTombstone]()
    for record in committed:
        examined += 1
        key = record.group_id, record.topic, record.partition
        if record.topic in expiration.subscribed_topics or key in partition.pending_offsets:
            continue
        if expiration.has_passed(decode(record), now, retention_ms):
            expired.append(OffsetTombstone(*key))
            if len(expired) == count_max:
                break
    return examined, expired
