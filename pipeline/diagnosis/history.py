"""A story, so arranged that rules can ask it: which record followed which, who owned what, who was
silent since when, and was there anything to read meanwhile?
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from statistics import median
from typing import Final, NamedTuple

from .story import Activity, Generation, LogEnd, Member, Story, TopicPartition

__all__ = ["REJOIN_WITHIN_MS", "History", "Step", "identity", "is_cooperative"]

REJOIN_WITHIN_MS: Final = 15 * 60_000
"""A member that comes back within this time is told as one that came back."""


def identity(member: Member) -> str:
    """Who a member is across restarts; a member id dies with the process that it was given to."""
    return member.instance_id or f"{member.client_id} {member.client_host}"


def is_cooperative(generation: Generation) -> bool:
    """By the protocol's name; or by members that still own something when they join, which those of
    an eager one (KIP-429) never do: they give everything up first."""
    return "cooperative" in (generation.protocol or "") or any(
        member.owned for member in generation.members
    )


class Step(NamedTuple):
    """Two records of a group's metadata that follow each other, and who came and went between."""

    before: Generation | None  # None: `after` is the first that is known
    after: Generation
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    kept: tuple[tuple[Member, Member], ...]  # as they were, as they are; replaced ones too
    replaced: tuple[tuple[Member, Member], ...]  # static members under a new id, of `kept`
    back: dict[str, Member]  # left member's id -> the joined member that is the same client
    lost_generations: int | None  # None: not known

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


def _step(before: Generation | None, after: Generation) -> Step:
    was = before.members if before is not None else ()
    old = {member.member_id: member for member in was}
    new_ids = {member.member_id for member in after.members}
    # An instance id whose member is not there any more: whoever has it now has replaced that one.
    orphans = {m.instance_id: m for m in was if m.instance_id and m.member_id not in new_ids}
    kept, replaced, joined = [], [], []
    for member in after.members:
        if member.member_id in old:
            kept.append((old[member.member_id], member))
        elif member.instance_id in orphans:
            replaced.append((orphans.pop(member.instance_id), member))
        else:
            joined.append(member)
    gone = {member.member_id for member, _ in replaced}
    left = [m for m in old.values() if m.member_id not in new_ids and m.member_id not in gone]
    if after.converted:  # its members go on in other records
        left = []
    return Step(
        before,
        after,
        tuple(joined),
        tuple(left),
        (*kept, *replaced),
        tuple(replaced),
        _back(left, joined),
        _lost(before, after),
    )


def _back(left: Iterable[Member], joined: Iterable[Member]) -> dict[str, Member]:
    """Clients of one id on one host (librdkafka's are all "rdkafka") are paired one by one."""
    waiting: dict[str, list[Member]] = defaultdict(list)
    for member in joined:
        waiting[identity(member)].append(member)
    return {
        member.member_id: waiting[identity(member)].pop(0)
        for member in left
        if waiting.get(identity(member))
    }


def _lost(before: Generation | None, after: Generation) -> int | None:
    """Rounds that never came to a sync are visible only as generations that are missing."""
    if after.tombstone or after.generation is None:
        return 0
    if before is None or not after.history_complete:
        return None
    since = 0 if before.tombstone or before.generation is None else before.generation
    return max(after.generation - since - 1, 0) if after.generation >= since else 0


class Owned(NamedTuple):
    """What a member's partitions were committed by in one generation, taken together."""

    commits: int
    repeats: int  # commits that moved nothing: the client commits by the clock
    last_commit_ms: int | None
    last_advance_ms: int | None
    median_gap_ms: int | None
    last_log_offset: int  # of the last commit; without one, of the generation's first record


class History:
    """A story with its indexes."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.activities = _merged(story.activities)
        self._of_generation: dict[int | None, list[Activity]] = defaultdict(list)
        self._of_partition: dict[TopicPartition, list[Activity]] = defaultdict(list)
        self._first_advance: dict[TopicPartition, int] = {}
        for activity in self.activities:
            at = activity.topic, activity.partition
            self._of_generation[activity.generation_log_offset].append(activity)
            self._of_partition[at].append(activity)
            if activity.last_advance_ms is not None:
                self._first_advance.setdefault(at, activity.generation_log_offset or 0)
        self._ends: dict[TopicPartition, list[LogEnd]] = defaultdict(list)
        for end in sorted(story.log_ends, key=lambda end: end.sampled_ms):
            self._ends[end.topic, end.partition].append(end)
        self._end_times = {at: [end.sampled_ms for end in of] for at, of in self._ends.items()}

    @cached_property
    def records(self) -> list[Generation]:
        return sorted(self.story.generations, key=lambda record: record.log_offset)

    @cached_property
    def steps(self) -> list[Step]:
        records = self.records
        return [
            _step(before, after) for before, after in zip([None, *records], records, strict=False)
        ]

    @property
    def _begins_with_the_group(self) -> bool:
        """Nothing was committed before."""
        return any(record.tombstone or (record.generation or 0) <= 1 for record in self.records[:1])

    def activity(self, generation: Generation | None) -> list[Activity]:
        """Commits under a record of the group; of None: those before any."""
        return self._of_generation.get(generation.log_offset if generation else None, [])

    def written(self, generation: Generation) -> list[Generation]:
        """All records of a generation up to this one: it is written again, under the same number,
        when a static member is replaced."""
        records: list[Generation] = []
        for record in reversed(self.records):
            if record.log_offset > generation.log_offset:
                continue
            if record.tombstone or record.generation != generation.generation:
                break
            records.append(record)
        return records

    def owned(self, generation: Generation, member: Member) -> Owned:
        """What was committed of a member's partitions under a generation of its."""
        written = self.written(generation)
        since = written[-1].log_offset if written else generation.log_offset + 1
        mine = [
            activity
            for at in dict.fromkeys(member.assigned or ())
            for activity in self._up_to(generation, at, since=since)
        ]
        gaps = [a.median_gap_ms for a in mine if a.median_gap_ms is not None]
        return Owned(
            sum(a.commits for a in mine),
            sum(a.repeats for a in mine),
            max((a.last_commit_ms for a in mine), default=None),
            max((a.last_advance_ms for a in mine if a.last_advance_ms is not None), default=None),
            int(median(gaps)) if gaps else None,
            max((a.last_log_offset for a in mine), default=since),
        )

    def log_end(self, at: TopicPartition, time_ms: int) -> LogEnd | None:
        """The newest sample of a partition that is not younger than `time_ms`."""
        index = bisect_right(self._end_times.get(at, []), time_ms)
        return self._ends[at][index - 1] if index else None

    def had_work(
        self, generation: Generation, member: Member, since: int, until: int
    ) -> bool | None:
        """Was there a record that the member had not committed yet, at any time between? None: no
        sample says so. An idle member is silent too, and that proves nothing."""
        idle: list[bool] = []
        for at in member.assigned or ():
            times, ends = self._end_times.get(at, []), self._ends.get(at, [])
            first, last = bisect_right(times, since), bisect_right(times, until)
            position = self._committed_up_to(generation, at)
            if position is None and self._begins_with_the_group:
                position = next((end.log_start for end in ends if end.log_start is not None), 0)
            if position is None:
                idle.append(False)  # committed before the story begins, and who knows where
                continue
            # A log only grows: what was there before is there still, and what is not there in the
            # second half, or later, was not there before.
            if last and ends[last - 1].log_end > position:
                return True
            late = bisect_right(times, (since + until) // 2)
            idle.append(any(end.log_end <= position for end in ends[max(first, late) :]))
        return False if idle and all(idle) else None

    def _up_to(
        self, generation: Generation, at: TopicPartition, *, since: int = -1
    ) -> list[Activity]:
        """A partition's commits, from those under the record at log offset `since` on."""
        of = self._of_partition.get(at, [])
        return of[
            bisect_left(of, since, key=_place) : bisect_right(of, generation.log_offset, key=_place)
        ]

    def _committed_up_to(self, generation: Generation, at: TopicPartition) -> int | None:
        known = reversed(self._up_to(generation, at))
        return next((of.last_offset for of in known if of.last_offset is not None), None)

    def was_active(self, generation: Generation, member: Member) -> bool:
        """Were any of the member's partitions read on under an earlier generation?"""
        return any(
            at in self._first_advance and self._first_advance[at] < generation.log_offset
            for at in member.assigned or ()
        )

    def has_offsets_before(self, tombstone: Generation) -> bool:
        """Was any offset of the group there, to expire or to be deleted with it?"""
        since = max(
            (
                r.log_offset
                for r in self.records
                if r.tombstone and r.log_offset < tombstone.log_offset
            ),
            default=-1,
        )
        return any(
            since < (a.generation_log_offset or 0) < tombstone.log_offset for a in self.activities
        ) or any(since < r.log_offset < tombstone.log_offset for r in self.story.removals)

    def known_partitions(self, up_to: Generation) -> set[TopicPartition]:
        """All that was ever assigned, owned or committed up to a record, itself included."""
        known = {
            (a.topic, a.partition)
            for a in self.activities
            if a.generation_log_offset is None or a.generation_log_offset <= up_to.log_offset
        }
        for record in self.story.generations:
            if record.log_offset <= up_to.log_offset:
                for member in record.members:
                    known.update(member.assigned or (), member.owned or ())
        return known


def _place(activity: Activity) -> int:
    """In the log, of the record that it was committed under."""
    return -1 if activity.generation_log_offset is None else activity.generation_log_offset


def _merged(activities: Iterable[Activity]) -> list[Activity]:
    """One for each partition and generation, in the order of the log. A median of medians is taken
    from the share with the most commits: it is the one that saw most."""
    shares: dict[tuple[str, int, int | None], list[Activity]] = defaultdict(list)
    for activity in activities:
        key = activity.topic, activity.partition, activity.generation_log_offset
        shares[key].append(activity)
    merged = [_sum(of) if len(of) > 1 else of[0] for of in shares.values()]
    return sorted(merged, key=lambda a: (_place(a), a.topic, a.partition))


def _sum(shares: list[Activity]) -> Activity:
    ordered = sorted(shares, key=lambda of: (of.share, of.first_commit_ms))
    most = max(ordered, key=lambda share: (share.median_gap_ms is not None, share.commits))
    return ordered[0]._replace(
        commits=sum(share.commits for share in ordered),
        repeats=sum(share.repeats for share in ordered),
        first_commit_ms=min(share.first_commit_ms for share in ordered),
        last_commit_ms=max(share.last_commit_ms for share in ordered),
        last_advance_ms=max(
            (s.last_advance_ms for s in ordered if s.last_advance_ms is not None), default=None
        ),
        last_offset=ordered[-1].last_offset,
        last_log_offset=max(share.last_log_offset for share in ordered),
        median_gap_ms=most.median_gap_ms,
        history_complete=all(share.history_complete for share in ordered),
    )
