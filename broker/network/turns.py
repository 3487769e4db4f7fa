"""Shares the event loop between connections that have much to do."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["Turns"]


class Turns:
    """Callbacks in the order of their calls, one per iteration of the event loop."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def waiting(self) -> int:
        """The number of callbacks that wait for their turn."""
        return len(self._waiting)

    def wait(self, callback: Callable[[], None]) -> None:
        """Call `callback` in its turn."""
        if not self._waiting:
            self._call_soon(self._next)
        self._waiting.append(callback)

    def _next(self) -> None:
        callback = self._waiting.popleft()
        if self._waiting:
            self._call_soon(self._next)
        callback()
