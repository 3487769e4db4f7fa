"""What a new generation did to who owns what: moved, kept, given up for nothing, and how many moves
could have been spared.

A restart is no move: a partition is where it was if the same client has it, under whatever id.
"""

from collections import Counter
from typing import NamedTuple

from .history import History, Step, is_cooperative
from .story import Generation, TopicPartition

__all__ = ["Moves", "moves"]


class Moves(NamedTuple):
    """Of the partitions that had an owner before and have one now."""

    moved: int
    kept: int
    revoked_then_returned: int  # given up for the round by an owner who got them back
    stickiness: float | None  # 1: no move that balance did not ask for; None: nothing in common


def moves(history: History, step: Step) -> Moves | None:
    """None: there is nothing to compare, or an assignment cannot be read."""
    before, after = step.before, step.after
    if before is None or not before.members or not after.members:
        return None
    if any(m.assigned is None for m in (*before.members, *after.members)):
        return None
    successor = {old.member_id: new.member_id for old, new in step.kept}
    successor |= {old_id: new.member_id for old_id, new in step.back.items()}
    was = {at: successor.get(owner, "") for at, owner in _owners(before).items()}  # "": departed
    now = _owners(after)
    common = was.keys() & now.keys()
    kept = {at for at in common if was[at] == now[at]}
    moved = len(common) - len(kept)
    spared = moved - _moves_needed(
        [was[at] for at in common], len(after.members), partitions=len(now)
    )
    return Moves(
        moved,
        len(kept),
        _given_up_for_nothing(history, step, kept, now),
        1 - max(spared, 0) / len(common) if common else None,
    )


def _owners(generation: Generation) -> dict[TopicPartition, str]:
    return {at: member.member_id for member in generation.members for at in member.assigned or ()}


def _moves_needed(owners: list[str], members: int, *, partitions: int) -> int:
    """The fewest moves after which every member has its share, rounded up or down; what departed
    members had must move in any case."""
    had = Counter(owners)
    departed = had.pop("", 0)
    share, with_one_more = divmod(partitions, members)
    most_first = sorted(had.values(), reverse=True)
    return departed + sum(
        max(count - share - (place < with_one_more), 0) for place, count in enumerate(most_first)
    )


def _given_up_for_nothing(
    history: History, step: Step, kept: set[TopicPartition], now: dict[TopicPartition, str]
) -> int:
    """An eager protocol gives up everything for each round. A cooperative one only what shall move:
    what was taken from a member in the generation before, and is its again in this one."""
    before, after = step.before, step.after
    assert before is not None
    if not (is_cooperative(before) or is_cooperative(after)):
        return len(kept)
    index = history.records.index(before)
    earlier = history.records[index - 1] if index else None
    if earlier is None:
        return 0
    unassigned = now.keys() - _owners(before).keys()
    had = _owners(earlier)
    return sum(1 for at in unassigned if had.get(at) == now[at])
