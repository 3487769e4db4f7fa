"""One answer made of several: it is given when the last of them has come."""

from collections.abc import Callable
from typing import Any


class Gather:
    """Calls `done` with `count` results in the order of their places, however they come. With
    none to come, at once."""

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[list[Any]], None]) -> None:
        self._results: list[Any] = [None] * count
        self._missing = count
        self._done = done
        if not count:
            done([])

    def put(self, place: int, result: Any) -> None:
        """The result of the question `place`; once for each."""
        self._results[place] = result
        self._missing -= 1
        if not self._missing:
            self._done(self._results)
