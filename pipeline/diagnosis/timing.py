"""Durations: silence of members before they left, join phases, pauses of groups.

The log contains commits, but no heartbeats or JoinGroup requests. It records when the join phase of
a rebalance ended (`joined_at`), but not when it began. The start is estimated from the members that
stayed, because they stop committing when they are informed of the rebalance.

A consumer group (KIP-848) has no join phase, but its log shows when each partition was revoked and
assigned.
"""

from collections.abc import Mapping
from statistics import median
from typing import Final, NamedTuple

from .group_history import Generation, Member, TopicPartition
from .history_index import HistoryIndex, Transition

REPORTABLE_WAIT_MS: Final = 10_000
"""Shorter waits are normal: members are informed within three heartbeat intervals (3 s each)."""

REPEATS_MIN: Final = 2
"""A single repeated offset may be the commit before a rebalance. Two repeated offsets mean that the
client commits periodically, even if there is nothing new."""


class JoinPhase(NamedTuple):
    """The join phase that led to a record."""

    started_ms: int | None  # estimated, unless it comes from the event log
    ended_ms: int | None
    waited_for: Member | None = None  # the member that delayed it
    wait_ms: int | None = None


class Silence(NamedTuple):
    """A member's time without a commit before it left, although there were records to read or it
    commits periodically. The silence is None if the member's assignment is empty or cannot be
    decoded, or if the log has a gap after the member's last commit."""

    member: Member
    age_ms: int | None  # age of the generation; no session longer than this can have expired in it
    committed: bool = False  # in this generation; otherwise silence is measured from its start
    until_start_ms: int | None = None  # silence until the rebalance started, estimated
    total_ms: int | None = None  # silence until the join phase ended
    idle_ms: int = 0  # time after the last commit without records to read, before the silence
    gap_ms: int | None = None  # the member's usual time between commits
    had_records: bool | None = None  # whether there was anything to read; None: unknown
    is_periodic: bool = False  # commits periodically, even if nothing is new
    was_active: bool = False  # its partitions advanced in earlier generations
    delayed_rebalance: bool = False  # the join phase waited for this member
    # Time since an offset last advanced, if there were records to read since then; None: there were
    # no commits or no records.
    stuck_ms: int | None = None
    # Consumer groups: how long the member has had partitions to revoke.
    revoking_ms: int | None = None

    @property
    def since_commit_ms(self) -> int | None:
        return None if self.total_ms is None else self.total_ms + self.idle_ms

    @property
    def is_significant(self) -> bool:
        """Whether the silence is at least 1.2 times the usual gap between commits, and the member
        was not idle."""
        if self.total_ms is None:
            return False
        if self.gap_ms is not None and self.total_ms < 1.2 * self.gap_ms:
            return False
        if self.committed:
            return self.is_periodic or self.had_records is not False
        return self.had_records is True or (self.had_records is None and self.was_active)


def silence_of(
    index: HistoryIndex, transition: Transition, member: Member, phase: JoinPhase
) -> Silence:
    """Return the silence of `member`, one of `transition.left`."""
    before = transition.before
    assert before is not None
    commits = index.member_commits(before, member)
    first = index.records_of_member(before, member)[-1]
    began = first.state_ms if first.append_ms is None else first.append_ms
    since = began if commits.last_commit_ms is None else commits.last_commit_ms
    ended = phase.ended_ms
    age = None if began is None or ended is None else max(ended - began, 0)
    is_known = transition.after.is_complete_since(commits.last_log_offset)
    is_periodic = commits.repeats >= REPEATS_MIN
    revoking_ms = _revoking_ms(index, before, member.member_id, ended)
    if since is None or ended is None or not member.assigned or not is_known:
        return Silence(member, age, revoking_ms=revoking_ms)
    had_records = index.had_records_to_read(before, member, since, ended)
    idle_ms = 0
    if had_records and not is_periodic:
        idle_until = index.idle_until(index.positions(before, member), since, ended)
        # A shorter time proves nothing, because a member commits only when its next commit is due.
        if idle_until - since > (commits.median_gap_ms or 0):
            idle_ms, since = idle_until - since, idle_until
    started = ended if phase.started_ms is None else phase.started_ms
    advanced = began if commits.last_advance_ms is None else commits.last_advance_ms
    stuck_ms = None
    if advanced is not None and commits.commits:
        was_behind = index.had_records_to_read(before, member, advanced, ended)
        stuck_ms = max(ended - advanced, 0) if was_behind else None
    return Silence(
        member,
        age,
        committed=commits.last_commit_ms is not None,
        until_start_ms=max(min(started, ended) - since, 0),
        total_ms=max(ended - since, 0),
        idle_ms=idle_ms,
        gap_ms=commits.median_gap_ms,
        had_records=had_records,
        is_periodic=is_periodic,
        was_active=index.was_active(before, member),
        delayed_rebalance=phase.waited_for is member,
        stuck_ms=stuck_ms,
        revoking_ms=revoking_ms,
    )


# --- the join phase


def join_phase_of(index: HistoryIndex, transition: Transition) -> JoinPhase:
    before, after = transition.before, transition.after
    ended = after.time_ms
    if before is None or before.tombstone or after.tombstone or ended is None:
        return JoinPhase(None, ended)
    if after.is_consumer_group:
        return _revocations(index, after)
    # Members of a cooperative group keep committing during a rebalance.
    if before.is_cooperative or transition.is_same_generation:
        return JoinPhase(None, ended)
    stopped: list[tuple[int, Member, int]] = []
    for member, _ in transition.kept:
        if (found := _last_commit(index, transition, member)) is not None:
            stopped.append((found.ms, member, found.next_ms))
    if not stopped:
        return JoinPhase(None, ended)
    started = min(ended, *(next_ms for _, _, next_ms in stopped))
    last_ms, last_member, _ = max(stopped, key=lambda item: item[0])
    wait_ms = ended - started
    reportable = reportable_wait_ms(before)
    if wait_ms >= reportable:
        # If a member committed right before the end, the others waited for its poll.
        if last_ms >= max(started + reportable, ended - reportable):
            return JoinPhase(started, ended, last_member, wait_ms)
        # Otherwise they waited for a member that never joined, because it had crashed or was slow.
        for member in transition.left:
            limit = 0.9 * min(member.session_timeout_ms, max(member.rebalance_timeout_ms, 0))
            found = _last_commit(index, transition, member)
            if ended - (started if found is None else min(found.ms, started)) >= limit:
                return JoinPhase(started, ended, member, wait_ms)
    return JoinPhase(started, ended)


class _LastCommit(NamedTuple):
    ms: int
    next_ms: int  # when the next one was due


def _last_commit(index: HistoryIndex, transition: Transition, member: Member) -> _LastCommit | None:
    """Return a member's last commit before a record. Return None if it is unknown, or if the member
    may have stopped committing for lack of records."""
    before, after = transition.before, transition.after
    assert before is not None
    commits, ended = index.member_commits(before, member), after.time_ms
    last_ms = commits.last_commit_ms
    if ended is None or last_ms is None or not after.is_complete_since(commits.last_log_offset):
        return None
    due = last_ms + (commits.median_gap_ms or 0)
    if commits.repeats >= REPEATS_MIN:
        return _LastCommit(last_ms, due)
    if not index.had_records_to_read(before, member, last_ms, ended):
        return None
    idle_until = index.idle_until(index.positions(before, member), last_ms, ended)
    return _LastCommit(last_ms, max(due, idle_until))


def reportable_wait_ms(generation: Generation) -> int:
    """Return the shortest join phase that is reported as waiting for a member: REPORTABLE_WAIT_MS,
    but at most a third of a session timeout (the upper bound for heartbeat.interval.ms)."""
    thirds = (member.session_timeout_ms // 3 for member in generation.members)
    return min([REPORTABLE_WAIT_MS, *thirds])


# --- the pause


def pause_ms(index: HistoryIndex, transition: Transition, phase: JoinPhase) -> int | None:
    """Return the time from the group's last commit in one generation to the first in the next,
    minus the usual gap between commits. Return None if it is unknown, if there was nothing to read,
    or if one of the generations has no members, because its commits come from an admin client.

    Commits of the member that the others waited for are ignored, because this member commits right
    before it joins. For a consumer group, the pause is the result of `_unowned_ms`.
    """
    before, after = transition.before, transition.after
    if before is None or not (before.members and after.members) or transition.is_same_generation:
        return None
    if after.is_consumer_group:
        return _unowned_ms(index, after)
    ignored = set(phase.waited_for.assigned or ()) if phase.waited_for is not None else set()
    old = [
        activity
        for record in index.records_of_generation(before)
        for activity in index.activity(record)
        if (activity.topic, activity.partition) not in ignored
    ]
    new = index.activity(after)
    if not old or not new or not all(activity.history_complete for activity in (*old, *new)):
        return None
    last = max(activity.last_commit_ms for activity in old)
    first = min(activity.first_commit_ms for activity in new)
    gaps = [a.median_gap_ms for a in (*old, *new) if a.median_gap_ms is not None]
    gap = int(median(gaps) if gaps else 0)
    # Clients that commit periodically are never idle.
    if not any(activity.repeats >= REPEATS_MIN for activity in (*old, *new)):
        position = {(a.topic, a.partition): a.last_offset for a in reversed(old)}  # newest wins
        if _was_idle(index, position, last, first):
            return None
        idle_until = index.idle_until(position, last, first)
        if idle_until - last > gap:
            last = idle_until
    return max(first - last - gap, 0)


def _was_idle(
    index: HistoryIndex, position: Mapping[TopicPartition, int | None], last: int, first: int
) -> bool:
    """Whether the newest sample of each partition between `last` and `first` shows that all records
    had been read."""
    had_read_all = [
        end.log_end <= offset
        for tp, offset in position.items()
        if offset is not None and (end := index.log_end(tp, first)) is not None
        if end.sampled_ms >= last
    ]
    return bool(had_read_all) and all(had_read_all)


# --- consumer groups


def _unowned_ms(index: HistoryIndex, epoch: Generation) -> int:
    """Return the longest time for which a partition that lost its owner in this epoch had no owner.
    Other partitions are read in the meantime."""
    longest = 0
    for number in index.rows_of(epoch):
        row = index.rows[number]
        if not number or row.append_ms is None:
            continue
        lost = index.rows[number - 1].assigned - row.assigned
        for place in range(number + 1, len(index.rows)):
            if not lost:
                break
            later = index.rows[place]
            found = lost & later.assigned
            if found and later.append_ms is not None:
                longest = max(longest, later.append_ms - row.append_ms)
            lost -= found
    return longest


def _revocations(index: HistoryIndex, epoch: Generation) -> JoinPhase:
    """Return the start of the epoch, and the member that took longest to revoke its partitions, if
    that time is reportable."""
    slowest: Member | None = None
    wait_ms = 0
    revoking: dict[str, int] = {}
    numbers = index.rows_of(epoch)
    # The row after the epoch may show that its last revocations have ended.
    for row in index.rows[numbers.start : numbers.stop + 1]:
        members = {member.member_id: member for member in row.members}
        if row.append_ms is None:
            continue
        for member_id, since in list(revoking.items()):
            member = members.get(member_id)
            if member is None or not member.is_revoking:
                del revoking[member_id]
                if row.append_ms - since > wait_ms and member is not None:
                    slowest, wait_ms = member, row.append_ms - since
        for member in row.members:
            if member.is_revoking:
                revoking.setdefault(member.member_id, row.append_ms)
    started = epoch.time_ms
    if slowest is None or wait_ms < reportable_wait_ms(epoch):
        return JoinPhase(started, started)
    return JoinPhase(started, started, slowest, wait_ms)


def _revoking_ms(
    index: HistoryIndex, before: Generation, member_id: str, ended: int | None
) -> int | None:
    """Return how long the member had partitions to revoke when it left."""
    since = None
    if not before.is_consumer_group or ended is None:
        return None
    for place in range(index.rows_of(before).stop - 1, -1, -1):
        row = index.rows[place]
        found = next((each for each in row.members if each.member_id == member_id), None)
        if found is None or not found.is_revoking:
            break
        since = row.append_ms
    return None if since is None else max(ended - since, 0)
