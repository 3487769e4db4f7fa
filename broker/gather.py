"""Combines several results into one response."""

from collections.abc import Callable, Sequence
from typing import Any


class Gather:
    """Collects `count` results and calls `done` with them in index order. If `count` is 0, `done`
    is called immediately."""

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[list[Any]], None]) -> None:
        self._results: list[Any] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            done([])

    def put(self, place: int, result: Any) -> None:
        """Set the result at index `place`; each index is set once."""
        self._results[place] = result
        self._missing -= 1
        if not self._missing:
            self._done(self._results)


def merge_topics(rejected: Sequence[Any], decided: Sequence[Any]) -> Sequence[Any]:
    """Merge topics that a handler rejected, entirely or in part, with the coordinator's result.
    Topics are tuples whose last item is their partitions.

    As in upstream's OffsetCommitResponse.Builder and OffsetDeleteResponse.Builder, topics with
    rejected partitions come first, and within a topic, rejected partitions. The entries of a topic
    that is requested twice are merged only if something was rejected.
    """
    if not rejected:
        return decided
    merged: dict[tuple[Any, ...], list[Any]] = {}
    for *names, partitions in (*rejected, *decided):
        merged.setdefault(tuple(names), []).extend(partitions)
    new = type(rejected[0])
    return [new(*names, partitions) for names, partitions in merged.items()]
