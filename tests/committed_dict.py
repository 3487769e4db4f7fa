"""What groups have committed, as a plain dict, for tests that compare a broker with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

PARTITIONS = 3


class Committed(NamedTuple):
    offset: int
    at_ms: int


State = dict[tuple[str, int], Committed]
"""(group, partition) -> what it has committed."""


class Asked(NamedTuple):
    """A commit, or the deletion of the group where there are no partitions."""

    name: str
    group_id: str
    partitions: tuple[int, ...]
    committed: Committed

    def after(self, state: State) -> State:
        if self.partitions:
            return state | {(self.group_id, each): self.committed for each in self.partitions}
        return {key: what for key, what in state.items() if key[0] != self.group_id}


def matching(
    found: Mapping[str, Mapping[int, int]],
    states: Iterable[State],
    has_expired: Callable[[int], bool],
) -> State | None:
    """The first of `states` that is as was found: group -> partition -> offset. What has expired,
    by the time of its commit, may be gone; then it is not in what is returned either."""
    there = {(g, p): offset for g, offsets in found.items() for p, offset in offsets.items()}
    looked_for = {(group_id, partition) for group_id in found for partition in range(PARTITIONS)}
    for state in states:
        missing = {key for key in looked_for if key in state and key not in there}
        as_said = all(key in state and state[key].offset == there[key] for key in there)
        if as_said and all(has_expired(state[key].at_ms) for key in missing):
            return {key: what for key, what in state.items() if key not in missing}
    return None
