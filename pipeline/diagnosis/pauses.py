"""How long a group's consumption stood still for a rebalance.

Two prices, and both are told. A member that goes costs the others about one heartbeat interval:
they hear of the round with their next heartbeat, and come back. A round that begins while a member
is still processing costs whatever that one takes, up to its rebalance timeout
(max.poll.interval.ms): everybody waits until it joins. Its own commit, the last thing before its
join, is no sign of life of the others: it is left out of the pause.
"""

from statistics import median

from .history import History, Step
from .silence import Round
from .story import Activity, Member

__all__ = ["pause_ms"]


def pause_ms(history: History, step: Step, round_: Round) -> int | None:
    """From the last commit under the generation before to the first one under this, over all of the
    group, less the usual time between two commits. None: not known, as where nobody had anything to
    read, or there were no members to stand still: what is committed then, an administrator has."""
    before, after = step.before, step.after
    if before is None or not (before.members and after.members) or step.is_same_generation:
        return None
    waited_for = round_.waited_for
    old = [
        activity
        for record in history.written(before)
        for activity in history.activity(record)
        if not (waited_for is not None and _is_of(activity, waited_for))
    ]
    new = history.activity(after)
    if not old or not new or not all(activity.history_complete for activity in (*old, *new)):
        return None
    last = max(activity.last_commit_ms for activity in old)
    first = min(activity.first_commit_ms for activity in new)
    if _was_idle(history, old, new, last, first):
        return None
    gaps = [a.median_gap_ms for a in (*old, *new) if a.median_gap_ms is not None]
    return max(first - last - int(median(gaps) if gaps else 0), 0)


def _is_of(activity: Activity, member: Member) -> bool:
    return (activity.topic, activity.partition) in (member.assigned or ())


def _was_idle(
    history: History, old: list[Activity], new: list[Activity], last: int, first: int
) -> bool:
    """All samples between say that everything was read: nobody commits, and nothing stands still.
    Clients that commit by the clock do so even then."""
    if any(activity.repeats >= 2 for activity in (*old, *new)):
        return False
    position = {(a.topic, a.partition): a.last_offset for a in old}
    seen = [
        end.log_end <= offset
        for at, offset in position.items()
        if offset is not None and (end := history.log_end(at, first)) is not None
        if end.sampled_ms >= last
    ]
    return bool(seen) and all(seen)
