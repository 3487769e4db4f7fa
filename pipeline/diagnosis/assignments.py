"""Assignments: partitions moved by a rebalance (gold_rebalance), and their balance (gold_skew).

A partition has not moved if the same client owns it again, even with a new member id (a restart).
"""

from collections import Counter
from itertools import islice
from statistics import fmean, pstdev
from typing import NamedTuple

from .group_history import Generation, GroupHistory, TopicPartition
from .history_index import HistoryIndex, Transition
from .rows import Skew


class Moves(NamedTuple):
    """Counts of partitions that had an owner before and after a rebalance; None: unknown."""

    moved: int | None = None
    kept: int | None = None
    # Revoked for the rebalance and assigned to the same owner again.
    revoked_then_returned: int | None = None
    stickiness: float | None = None  # 1: no avoidable moves; None: no common partitions


def assignment_moves(index: HistoryIndex, transition: Transition) -> Moves:
    """Count moves, unless there is nothing to compare or an assignment is undecodable."""
    before, after = transition.before, transition.after
    if before is None or not before.members or not after.members:
        return Moves()
    if any(member.assigned is None for member in (*before.members, *after.members)):
        return Moves()
    successor = {old.member_id: new.member_id for old, new in transition.kept}
    successor |= {old_id: new.member_id for old_id, new in transition.returned.items()}
    # "": the owner left.
    old_owners = {tp: successor.get(owner, "") for tp, owner in before.owners.items()}
    owners = after.owners
    common = old_owners.keys() & owners.keys()
    kept = {tp for tp in common if old_owners[tp] == owners[tp]}
    moved = len(common) - len(kept)
    needed = _moves_needed(
        [old_owners[tp] for tp in common], members=len(after.members), partitions=len(owners)
    )
    return Moves(
        moved,
        len(kept),
        _revoked_then_returned(index, transition, kept),
        1 - max(moved - needed, 0) / len(common) if common else None,
    )


def _moves_needed(owners: list[str], *, members: int, partitions: int) -> int:
    """Return the fewest moves that lead to a balanced assignment. All partitions of members that
    left (owner "") have to move."""
    counts = Counter(owners)
    of_departed = counts.pop("", 0)
    share, with_one_more = divmod(partitions, members)
    most_first = sorted(counts.values(), reverse=True)
    return of_departed + sum(
        max(count - share - (place < with_one_more), 0) for place, count in enumerate(most_first)
    )


def _revoked_then_returned(
    index: HistoryIndex, transition: Transition, kept: set[TopicPartition]
) -> int:
    """Count the partitions that were revoked and then returned to the same owner.

    An eager protocol revokes all partitions. A cooperative protocol revokes only partitions that it
    moves; they have no owner in the record `before`."""
    before, after = transition.before, transition.after
    assert before is not None
    if not (before.is_cooperative or after.is_cooperative):
        return len(kept)
    former = next(islice(index.newest_first(before), 1, None), None)
    if former is None:
        return 0
    former_owners, owners = former.owners, after.owners
    unowned = owners.keys() - before.owners.keys()
    return sum(former_owners.get(tp) == owners[tp] for tp in unowned)


# --- balance


def skews(history: GroupHistory) -> list[Skew]:
    """Return, for each record with members, one row for all topics (topic None) and one per topic.
    Records whose assignment cannot be decoded yield no rows."""
    index = HistoryIndex(history)
    rows: list[Skew] = []
    for number, record in enumerate(index.records):
        if not record.members or any(member.assigned is None for member in record.members):
            continue
        ended = next((r.time_ms for r in index.records[number + 1 : number + 2]), None)
        lags = _lags(index, record, history.as_of_ms if ended is None else ended)
        topics = sorted({topic for topic, _ in record.assigned})
        found = (_skew(history, record, topic, lags) for topic in (None, *topics))
        rows += [row for row in found if row is not None]
    return rows


def _skew(
    history: GroupHistory, record: Generation, topic: str | None, lags: dict[TopicPartition, int]
) -> Skew | None:
    counts = [
        sum(topic in (None, tp[0]) for tp in member.assigned or ())
        for member in record.members
        # A member without partitions of a topic is idle only if it subscribes to that topic.
        if topic is None or member.topics is None or topic in member.topics
    ]
    if not counts:
        return None
    ideal = -(-sum(counts) // len(counts))
    mean = fmean(counts)
    of_topic = [lag for tp, lag in lags.items() if topic in (None, tp[0])]
    return Skew(
        cluster=history.cluster,
        group=history.group,
        generation=record.generation or 0,
        log_offset=record.log_offset,
        topic=topic,
        max_parts=max(counts),
        min_parts=min(counts),
        ideal=ideal,
        imbalance=max(counts) / ideal - 1 if ideal else 0.0,
        cv=pstdev(counts) / mean if mean else 0.0,
        idle_members=counts.count(0),
        lag_skew=max(of_topic) / fmean(of_topic) if any(of_topic) else None,
    )


def _lags(index: HistoryIndex, record: Generation, until_ms: int) -> dict[TopicPartition, int]:
    """Return the lag of each partition with commits in the generation, at `until_ms`."""
    lags = {}
    for activity in index.activity(record):
        tp = activity.topic, activity.partition
        end = index.log_end(tp, until_ms)
        if end is not None and activity.last_offset is not None:
            lags[tp] = max(end.log_end - activity.last_offset, 0)
    return lags
