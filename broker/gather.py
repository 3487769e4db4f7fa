"""One result made of several: it is complete when the last of them has arrived."""

from collections.abc import Callable
from typing import Any


class Gather:
    """Calls `done` with `count` results in the order of their places; at once if `count` is 0."""

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
