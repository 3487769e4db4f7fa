"""Lookups in a group's history: transitions between records, commits by owner, log ends."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import takewhile
from operator import attrgetter
from statistics import median
from typing import Final, NamedTuple

from .group_history import (
    FIRST_EPOCH,
    Activity,
    Generation,
    GroupHistory,
    LogEnd,
    Member,
    TopicPartition,
)

REJOIN_WITHIN_MS: Final = 15 * 60_000
"""A client that rejoins within this time is considered the same member."""

_SAMPLED: Final = attrgetter("sampled_ms")


class Transition(NamedTuple):
    """Two consecutive records of a group (GroupMetadata records, or epochs of a consumer group),
    and the membership changes between them."""

    before: Generation | None  # None: `after` is the first known record
    after: Generation
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    kept: tuple[tuple[Member, Member], ...]  # (before, after), including replaced static members
    replaced: tuple[tuple[Member, Member], ...]  # static members with a new member id
    # Id of a member that left -> the member with which the same client rejoined.
    returned: dict[str, Member]
    lost_generations: int | None  # None: unknown

    @property
    def members_before(self) -> tuple[Member, ...]:
        return self.before.members if self.before is not None else ()

    @property
    def is_same_generation(self) -> bool:
        return (
            self.before is not None
            and not self.before.tombstone
            and self.before.generation == self.after.generation
        )


def _transition(before: Generation | None, after: Generation) -> Transition:
    members = before.members if before is not None else ()
    old = {member.member_id: member for member in members}
    new_ids = {member.member_id for member in after.members}
    # Instance ids of static members that left: a member that joins with one of them is the
    # replacement.
    orphans = {m.instance_id: m for m in members if m.instance_id and m.member_id not in new_ids}
    kept, replaced, joined = [], [], []
    for member in after.members:
        if member.member_id in old:
            kept.append((old[member.member_id], member))
        elif member.instance_id in orphans:
            replaced.append((orphans.pop(member.instance_id), member))
        else:
            joined.append(member)
    remaining = new_ids | {member.member_id for member, _ in replaced}
    left = [member for member in old.values() if member.member_id not in remaining]
    return Transition(
        before,
        after,
        tuple(joined),
        tuple(left),
        (*kept, *replaced),
        tuple(replaced),
        _returned(left, joined),
        _lost_generations(before, after),
    )


def _returned(left: Iterable[Member], joined: Iterable[Member]) -> dict[str, Member]:
    """Match the members that left to those that joined. Clients that share id and host
    (librdkafka's default id is "rdkafka") are paired in order."""
    candidates: dict[str, list[Member]] = defaultdict(list)
    for member in joined:
        candidates[member.identity].append(member)
    return {
        member.member_id: candidates[member.identity].pop(0)
        for member in left
        if candidates.get(member.identity)
    }


def _is_first(record: Generation) -> bool:
    """Whether a group began with this record, or after it if it is a tombstone."""
    first = FIRST_EPOCH if record.is_consumer_group else 1
    return record.tombstone or (record.generation or 0) <= first


def _lost_generations(before: Generation | None, after: Generation) -> int | None:
    """Count rebalances that never reached SyncGroup, visible only as missing generations."""
    if after.tombstone or after.generation is None:
        return 0
    if before is None or not after.history_complete:
        return None
    previous = before.generation
    if before.tombstone or previous is None:
        previous = FIRST_EPOCH - 1 if after.is_consumer_group else 0
    return max(after.generation - previous - 1, 0)


class MemberCommits(NamedTuple):
    """Commits of a member's partitions in one generation."""

    commits: int
    repeats: int
    last_commit_ms: int | None
    last_advance_ms: int | None
    median_gap_ms: int | None
    last_log_offset: int  # of the last commit, or of the generation's first record if there is none


def _epochs_merged(rows: list[Generation]) -> tuple[list[Generation], dict[int | None, int]]:
    """Merge the rows of each epoch of a consumer group. A merged row has the position and start of
    the first row, and the assignment and `append_ms` of the last row. Also map the log
    offset of each row to the log offset of its merged row."""
    records: list[Generation] = []
    first_row: dict[int | None, int] = {}
    for row in rows:
        merged = row
        if records and _is_same_epoch(records[-1], row):
            first = records.pop()
            merged = row._replace(
                log_offset=first.log_offset,
                state_ms=first.state_ms,
                history_complete=first.history_complete,
                last_gap=first.last_gap,
            )
        records.append(merged)
        first_row[row.log_offset] = merged.log_offset
    return records, first_row


def _is_same_epoch(before: Generation, after: Generation) -> bool:
    is_same = before.is_consumer_group and after.is_consumer_group
    if not is_same or before.generation != after.generation:
        return False
    return {m.member_id for m in before.members} == {m.member_id for m in after.members}


class HistoryIndex:
    def __init__(self, history: GroupHistory) -> None:
        self.history = history
        self.rows = sorted(history.generations, key=lambda row: row.log_offset)
        """Rows in log order; an epoch of a consumer group may have several."""
        self.records, first_row = _epochs_merged(self.rows)
        """One record for each generation or epoch, and for each replacement of a static member."""
        activities = (
            each._replace(generation_log_offset=first_row.get(at, at))
            for each in history.activities
            for at in [each.generation_log_offset]
        )
        self.activities = sorted(
            activities, key=lambda a: (_generation_offset(a), a.topic, a.partition)
        )
        self._of_generation: dict[int | None, list[Activity]] = defaultdict(list)
        self._of_partition: dict[TopicPartition, list[Activity]] = defaultdict(list)
        self._first_advance: dict[TopicPartition, int] = {}
        for activity in self.activities:
            tp = activity.topic, activity.partition
            self._of_generation[activity.generation_log_offset].append(activity)
            self._of_partition[tp].append(activity)
            if activity.last_advance_ms is not None:
                self._first_advance.setdefault(tp, activity.generation_log_offset or 0)
        self._ends: dict[TopicPartition, list[LogEnd]] = defaultdict(list)
        for end in sorted(history.log_ends, key=lambda end: end.sampled_ms):
            self._ends[end.topic, end.partition].append(end)

    @cached_property
    def transitions(self) -> list[Transition]:
        pairs = zip([None, *self.records], self.records, strict=False)
        return [_transition(before, after) for before, after in pairs]

    def activity(self, generation: Generation | None) -> list[Activity]:
        """Return the commits in a generation (None: before the first record)."""
        return self._of_generation.get(generation.log_offset if generation else None, [])

    def records_of_generation(self, generation: Generation) -> list[Generation]:
        """Return the records of a generation up to this one, newest first. Replacing a static
        member writes the generation again with the same number."""

        def is_same(record: Generation) -> bool:
            return not record.tombstone and record.generation == generation.generation

        return list(takewhile(is_same, self.newest_first(generation)))

    def records_of_member(self, generation: Generation, member: Member) -> list[Generation]:
        """Return the records up to this one, newest first, since the member last changed. In a
        classic group, these are the records of the generation. In a consumer group, they go back to
        the last change of the member's assignment, because the epoch may change without it."""
        if not generation.is_consumer_group:
            return self.records_of_generation(generation)

        def is_same(record: Generation) -> bool:
            assigned = {each.member_id: each.assigned for each in record.members}
            return record.is_consumer_group and assigned.get(member.member_id) == member.assigned

        return list(takewhile(is_same, self.newest_first(generation)))

    def newest_first(self, generation: Generation) -> Iterator[Generation]:
        """Yield the records up to this one, newest first."""
        end = bisect_right(self.records, generation.log_offset, key=attrgetter("log_offset"))
        return (self.records[number] for number in range(end - 1, -1, -1))

    def rows_of(self, record: Generation) -> range:
        """Return the numbers of the rows that were merged into a record."""
        begin = bisect_left(self.rows, record.log_offset, key=attrgetter("log_offset"))
        at = bisect_right(self.records, record.log_offset, key=attrgetter("log_offset"))
        if at == len(self.records):
            return range(begin, len(self.rows))
        end = self.records[at].log_offset
        return range(begin, bisect_left(self.rows, end, key=attrgetter("log_offset")))

    def member_commits(self, generation: Generation, member: Member) -> MemberCommits:
        records = self.records_of_member(generation, member)
        since = records[-1].log_offset if records else generation.log_offset + 1
        found = [
            activity
            for tp in dict.fromkeys(member.assigned or ())
            for activity in self._up_to(generation, tp, since=since)
        ]
        gaps = [a.median_gap_ms for a in found if a.median_gap_ms is not None]
        return MemberCommits(
            sum(a.commits for a in found),
            sum(a.repeats for a in found),
            max((a.last_commit_ms for a in found), default=None),
            max((a.last_advance_ms for a in found if a.last_advance_ms is not None), default=None),
            int(median(gaps)) if gaps else None,
            max((a.last_log_offset for a in found), default=since),
        )

    def log_end(self, tp: TopicPartition, time_ms: int) -> LogEnd | None:
        """Return the newest sample up to that time."""
        ends = self._ends.get(tp, [])
        index = bisect_right(ends, time_ms, key=_SAMPLED)
        return ends[index - 1] if index else None

    def had_records_to_read(
        self, generation: Generation, member: Member, since_ms: int, until_ms: int
    ) -> bool | None:
        """Whether the member had uncommitted records at any time in the span; None if unknown. If
        False, its silence is meaningless, because an idle member does not commit."""
        idle: list[bool] = []
        for tp, position in self.positions(generation, member).items():
            if position is None:
                idle.append(False)  # it may have committed before the history begins
                continue
            ends = self._ends.get(tp, [])
            first = bisect_right(ends, since_ms, key=_SAMPLED)
            last = bisect_right(ends, until_ms, key=_SAMPLED)
            # Log ends only increase. If the last sample before the end of the span shows unread
            # records, the member had records to read. If a sample from the second half of the span,
            # or a later sample, shows none, there were none before it.
            if last and ends[last - 1].log_end > position:
                return True
            late = bisect_right(ends, (since_ms + until_ms) // 2, key=_SAMPLED)
            idle.append(any(end.log_end <= position for end in ends[max(first, late) :]))
        return False if idle and all(idle) else None

    def positions(self, generation: Generation, member: Member) -> dict[TopicPartition, int | None]:
        """Return the offset from which the member reads each of its partitions at the end of the
        generation: the last committed offset. None: unknown."""
        # A history that begins when the group was created has no earlier commits.
        is_complete = any(_is_first(record) for record in self.records[:1])
        found: dict[TopicPartition, int | None] = {}
        for tp in member.assigned or ():
            newest_first = reversed(self._up_to(generation, tp))
            offsets = (a.last_offset for a in newest_first if a.last_offset is not None)
            position = next(offsets, None)
            if position is None and is_complete:
                starts = (end.log_start for end in self._ends.get(tp, []))
                position = next((start for start in starts if start is not None), 0)
            found[tp] = position
        return found

    def idle_until(
        self, positions: Mapping[TopicPartition, int | None], since_ms: int, until_ms: int
    ) -> int:
        """Return the time up to which samples in the span show that all partitions had been read to
        their ends, given `positions`; `since_ms` if no samples show this."""
        times = []
        for tp, position in positions.items():
            ends = self._ends.get(tp, [])
            first = bisect_right(ends, since_ms, key=_SAMPLED)
            last = bisect_right(ends, until_ms, key=_SAMPLED)
            if position is not None:
                last = bisect_right(ends, position, first, last, key=attrgetter("log_end"))
            is_idle = position is not None and last > first
            times.append(ends[last - 1].sampled_ms if is_idle else since_ms)
        return min(times, default=since_ms)

    def was_active(self, generation: Generation, member: Member) -> bool:
        """Whether an offset of the member's partitions advanced in an earlier generation."""
        return any(
            tp in self._first_advance and self._first_advance[tp] < generation.log_offset
            for tp in member.assigned or ()
        )

    def had_offsets(self, tombstone: Generation) -> bool:
        """Whether the deleted group had committed offsets."""
        end = tombstone.log_offset
        deletions = [record.log_offset for record in self.records if record.tombstone]
        begin = max((offset for offset in deletions if offset < end), default=-1)
        offsets = [activity.generation_log_offset or 0 for activity in self.activities]
        offsets += [removal.log_offset for removal in self.history.removals]
        return any(begin < offset < end for offset in offsets)

    def retained_since(self, empty: Generation | None, deleted: Generation | None) -> int | None:
        """Return the time from which the offsets of an empty group are retained. For a classic
        group that had members, it is when the group became empty. Otherwise, it is the last commit
        (upstream: offsetExpirationCondition of ConsumerGroup and ClassicGroup). None: unknown."""
        if empty is not None and not (empty.is_consumer_group or empty.tombstone):
            return empty.state_ms
        end = -1 if empty is None else empty.log_offset
        commits = [a for a in self.activities if _generation_offset(a) <= end]
        last = max(commits, key=attrgetter("last_commit_ms"), default=None)
        if last is None or not (deleted is None or deleted.is_complete_since(last.last_log_offset)):
            return None
        return last.last_commit_ms

    @cached_property
    def _known_since(self) -> dict[TopicPartition, int]:
        """The log offset of the first record in which a partition was assigned, owned or committed;
        -1: it was committed before the first record."""
        known: dict[TopicPartition, int] = {}
        for activity in self.activities:
            known.setdefault((activity.topic, activity.partition), _generation_offset(activity))
        for record in self.records:
            for member in record.members:
                for tp in (*(member.assigned or ()), *(member.owned or ())):
                    known[tp] = min(known.get(tp, record.log_offset), record.log_offset)
        return known

    def known_partitions(self, up_to: Generation) -> set[TopicPartition]:
        """Return all partitions assigned, owned or committed up to and including a record."""
        return {tp for tp, since in self._known_since.items() if since <= up_to.log_offset}

    def _up_to(self, generation: Generation, tp: TopicPartition, since: int = -1) -> list[Activity]:
        """Return a partition's commits in the generations from log offset `since` to this one."""
        found = self._of_partition.get(tp, [])
        begin = bisect_left(found, since, key=_generation_offset)
        return found[begin : bisect_right(found, generation.log_offset, key=_generation_offset)]


def _generation_offset(activity: Activity) -> int:
    return -1 if activity.generation_log_offset is None else activity.generation_log_offset
