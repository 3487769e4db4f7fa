"""Responses made of several results."""

from collections.abc import Callable, Sequence
from typing import Any


class Gather:
    """Collects `count` results and calls `done` with them in the order of their places; immediately
    if `count` is 0."""

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[list[Any]], None]) -> None:
        self._results: list[Any] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            done([])

    def put(self, place: int, result: Any) -> None:
        """Set one result; each place is set once."""
        self._results[place] = result
        self._missing -= 1
        if not self._missing:
            self._done(self._results)


def merge_topics(rejected: Sequence[Any], decided: Sequence[Any]) -> Sequence[Any]:
    """One list from the topics that a handler rejected, wholly or in part, and those that the
    coordinator decided; both are tuples that end with their partitions.

    In upstream's order (OffsetCommitResponse.Builder, OffsetDeleteResponse.Builder): partitions
    that do not exist come first, and their topics before others. The entries of a topic that the
    request names twice are only merged if something is rejected.
    """
    if not rejected:
        return decided
    merged: dict[tuple[Any, ...], list[Any]] = {}
    for *names, partitions in (*rejected, *decided):
        merged.setdefault(tuple(names), []).extend(partitions)
    new = type(rejected[0])
    return [new(*names, partitions) for names, partitions in merged.items()]
