"""Whose offsets have had their time, and which groups are nothing any more?

    group                                   its offsets' age counts from      topics
    none, or without a protocol type        the commit                        all
    Empty                                   its becoming Empty; the commit,   all
                                            where old records do not say when
    Stable, of consumers, subscriptions     the commit                        those nobody reads
    known
    any other                               nothing expires                   -

Groups of other kinds (foreign.py) count as having no protocol type.

An offset that brought its own retention time (OffsetCommit v2 to v4) expires at that time instead,
where anything may expire at all. An Empty group without offsets goes, whatever its age.

Upstream: GroupCoordinatorShard.cleanupGroupMetadata, OffsetMetadataManager.cleanupExpiredOffsets,
ClassicGroup.offsetExpirationCondition.
"""

from typing import NamedTuple

from ..offsets.causes import Cause
from ..offsets.commit_value import decode_commit_value
from ..offsets.records import (
    GroupTombstone,
    GroupType,
    OffsetAndMetadata,
    OffsetsRecord,
    OffsetTombstone,
)
from .deadline_keys import EXPIRING
from .group import Group
from .states import DEAD, EMPTY, STABLE
from .subscriptions import CONSUMER, subscribed_topics
from .turn import NOTHING, Outcome, Shard
from .voice import EventType

# A sweep goes on in slices, between which others are served. One takes up to 2 ms to look at so
# many offsets (or groups without any), and up to 3 ms to write and apply so many tombstones.
SLICE_OFFSETS = 400
SLICE_TOMBSTONES = 250


class Rule(NamedTuple):
    """How the offsets of one group age."""

    since_ms: int | None  # None: since each was committed
    kept_topics: frozenset[str] = frozenset()


_SINCE_COMMIT = Rule(None)


def rule_of(group: Group | None) -> Rule | None:
    """None: nothing expires. No group: one that is nothing but its offsets."""
    if group is None or group.protocol_type is None:
        return _SINCE_COMMIT
    if group.state is EMPTY:
        since_ms = group.state_timestamp_ms
        return _SINCE_COMMIT if since_ms == -1 else Rule(since_ms)
    if group.state is STABLE and group.protocol_type == CONSUMER:
        topics = subscribed_topics(group)
        return None if topics is None else Rule(None, topics)
    return None


def has_expired(offset: OffsetAndMetadata, rule: Rule, now: int, retention_ms: int) -> bool:
    if offset.expire_timestamp_ms is not None:
        return now >= offset.expire_timestamp_ms
    since_ms = offset.commit_timestamp_ms if rule.since_ms is None else rule.since_ms
    return now - since_ms >= retention_ms


def may_expire(shard: Shard, group_id: str) -> bool:
    """Not while a transaction is open; share groups stay until somebody deletes them."""
    foreign = shard.foreign.groups.get(group_id)
    is_share = foreign is not None and foreign.kind is GroupType.SHARE
    return not is_share and not shard.foreign.pending_of(group_id)


class Expiring:
    """The sweeps over one partition's groups: one ends, and the next begins an interval later."""

    __slots__ = ("_began_ms", "_left", "_shard", "_tombstones", "is_under_way")

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self.is_under_way = False
        self._began_ms = 0
        self._tombstones = 0
        # Groups not looked at yet, the next one last; None: not even gathered.
        self._left: list[str] | None = None

    def arm(self, now: int) -> None:
        config = self._shard.config
        self._shard.deadlines.set(EXPIRING, now + config.offsets_retention_check_interval_ms)

    def due(self, now: int) -> Outcome:
        """Begin a sweep, or do the next slice of the one that is under way. While one is, the
        next deadline is now."""
        if not self.is_under_way:
            # What it takes to begin is left for the first slice: all partitions begin at a time.
            self.is_under_way, self._left, self._began_ms, self._tombstones = True, None, now, 0
            self._shard.deadlines.set(EXPIRING, now)
            return NOTHING
        records = self._slice(now)
        self._tombstones += len(records)
        if self._left:
            self._shard.deadlines.set(EXPIRING, now)
        else:
            self._end(now)
        return tuple(records), ()

    def _end(self, now: int) -> None:
        self.is_under_way = False
        self.arm(now)
        if self._tombstones:
            self._shard.voice.info(
                "Generated %d tombstone records while cleaning up group metadata in %d "
                "milliseconds.",
                self._tombstones,
                now - self._began_ms,
            )

    def _slice(self, now: int) -> list[OffsetsRecord]:
        shard = self._shard
        if self._left is None:
            # Groups that are nothing but offsets are known to the table alone. Whoever comes
            # later is looked at in the next sweep.
            groups = {**shard.groups, **shard.foreign.groups}
            self._left = [g for g in shard.table.groups() if g not in groups] + list(groups)
            return []
        left, records, looked = self._left, list[OffsetsRecord](), 0
        while left and looked < SLICE_OFFSETS and len(records) < SLICE_TOMBSTONES:
            group_id = left.pop()
            offsets, is_done = self._look_at(group_id, now, records)
            looked += max(offsets, 1)
            if not is_done:
                left.append(group_id)
        return records

    def _look_at(self, group_id: str, now: int, records: list[OffsetsRecord]) -> tuple[int, bool]:
        """Adds the tombstones that are due; returns at how many offsets it looked, and whether the
        next slice need not go on with this group."""
        shard = self._shard
        group, foreign = shard.groups.get(group_id), shard.foreign.groups.get(group_id)
        if group is None and foreign is None and not shard.table.has(group_id):
            return 0, True  # deleted since the sweep began
        rule = rule_of(group)
        if rule is None or not may_expire(shard, group_id):
            return 0, True
        retention_ms = shard.config.offsets_retention_ms
        looked, before, is_done = 0, len(records), True
        is_empty = group is None or group.state is EMPTY
        for _, topic, partition, value, _ in shard.table.records(group_id):
            looked += 1
            if topic in rule.kept_topics or not has_expired(
                decode_commit_value(value), rule, now, retention_ms
            ):
                is_empty = False
                continue
            records.append(OffsetTombstone(group_id, topic, partition))
            shard.voice.debug(
                "[GroupId %s] Expired offset for partition=%s-%s", group_id, topic, partition
            )
            if len(records) >= SLICE_TOMBSTONES:
                is_done = False
                break
        gone = len(records) - before
        if gone:
            shard.voice.tell(
                EventType.OFFSETS_DELETED,
                group or group_id,
                cause=Cause.OFFSETS_EXPIRED,
                detail={"offsets": str(gone)},
            )
        if is_empty and is_done:
            records += [GroupTombstone(group_id)] if foreign is None else foreign.tombstones()
            shard.voice.tell(
                EventType.GROUP_DELETED,
                group or group_id,
                state_from=EMPTY,
                state_to=DEAD,
                cause=Cause.GROUP_EXPIRED,
            )
        return looked, is_done
