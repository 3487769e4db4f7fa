"""Where the log alone cannot tell, by name: docs/diagnosis.md has the table, with the reasons.

Each is decided by what the log holds, not by what was done: whoever has only the log could decide
it, too. There an answer that owns to not knowing is right; a wrong cause is wrong there as well.
"""

from collections.abc import Iterable

from kohort.offsets.causes import Cause
from kohort.pipeline.diagnosis.group_history import Generation, GroupHistory, LogEnd, Member

DOUBTS = frozenset(
    {
        Cause.GROUP_DELETED_OR_EXPIRED,
        Cause.LEFT_UNKNOWN,
        Cause.SAME_MEMBERS_UNKNOWN,
        Cause.TIMEOUT_AMBIGUOUS,
    }
)

# What looks the same in the log, whatever it was: the log's name for it.
LOOKS_LIKE = {
    Cause.REMOVED_BY_ADMIN: {Cause.LEFT_CLEANLY, Cause.RESTARTED},
    Cause.LEADER_REJOINED: {Cause.SAME_MEMBERS_UNKNOWN},
    Cause.METADATA_CHANGED: {Cause.SAME_MEMBERS_UNKNOWN},
}

CAME_AND_WENT = "a member joined and left between two records"
NEVER_COMMITTED = "a member left before its first commit"
OWNED_NOTHING = "a member without partitions left"
CAUGHT_UP = "a member left while there was nothing to commit"
SAME_TIMEOUTS = "a member left after a silence that matches both timeouts"
NO_OFFSETS = "an empty group without offsets was removed at the next cleanup"
REASONS = (
    CAME_AND_WENT,
    NEVER_COMMITTED,
    OWNED_NOTHING,
    CAUGHT_UP,
    SAME_TIMEOUTS,
    NO_OFFSETS,
)

# How long after a timeout its end shows: commits come every 5 s, heartbeats every 3 s.
SLACK_MS = 10_000


def doubt(story: GroupHistory, before: Generation | None, record: Generation) -> str | None:
    """Why the log cannot tell what this record is for; None: it can."""
    if before is None or before.tombstone:
        return None
    if record.tombstone:
        return None if _removed(story, before, record) else NO_OFFSETS
    if not record.members:
        return None
    there = {each.member_id for each in record.members}
    gone = [each for each in before.members if each.member_id not in there]
    if not gone:
        is_same = len(there) == len(before.members)
        return CAME_AND_WENT if is_same and _lost(before, record) else None
    reasons = [_of_member(story, before, record, each) for each in gone]
    return None if None in reasons else reasons[0]


def _lost(before: Generation, record: Generation) -> bool:
    return (record.generation or 0) > (before.generation or 0) + 1


def _removed(story: GroupHistory, before: Generation, record: Generation) -> bool:
    """Whether offsets went with it."""
    since, until = before.log_offset, record.log_offset
    return any(since < each.log_offset < until for each in story.removals)


def _of_member(
    story: GroupHistory, before: Generation, record: Generation, member: Member
) -> str | None:
    owned = set(member.assigned or ())
    if not owned:
        return OWNED_NOTHING
    commits = [
        each
        for each in story.activities
        if each.generation_log_offset == before.log_offset and (each.topic, each.partition) in owned
    ]
    if not commits:
        return NEVER_COMMITTED
    silence_ms = (record.state_ms or 0) - max(each.last_commit_ms for each in commits)
    timeouts = member.session_timeout_ms, member.rebalance_timeout_ms
    if all(ms - SLACK_MS / 2 <= silence_ms <= ms + SLACK_MS for ms in timeouts):
        return SAME_TIMEOUTS
    if any(each.repeats > 1 for each in commits):
        return None  # it commits what has not changed as well: when it ended is plain
    for each in commits:
        end = _end_at(story.log_ends, (each.topic, each.partition), record.state_ms or 0)
        if end is None or end > (each.last_offset or 0):
            return None
    return CAUGHT_UP


def _end_at(ends: Iterable[LogEnd], place: tuple[str, int], ms: int) -> int | None:
    found = [e.log_end for e in ends if (e.topic, e.partition) == place and e.sampled_ms <= ms]
    return found[-1] if found else 0
