"""Long polls: who waits for bytes, and when there are enough. No clock and no I/O in here.

Counted, not looked up: each append tells the partition's waiters its size, and a poll that has
enough is woken at once (upstream: DelayedFetch, which asks every log again).
"""

from collections.abc import Callable

__all__ = ["DelayedFetches", "LongPoll"]


class LongPoll:
    """A fetch that wants `missing_bytes` more. `wake` is called once; a cancelled poll never."""

    __slots__ = ("_at", "_wake", "missing_bytes")

    def __init__(self, missing_bytes: int, wake: Callable[[], None]) -> None:
        self.missing_bytes = missing_bytes
        self._wake: Callable[[], None] | None = wake
        self._at: list[DelayedFetches] = []

    @property
    def is_over(self) -> bool:
        return self._wake is None

    def wait_at(self, waiters: "DelayedFetches", room: int) -> None:
        """Count what arrives there, up to `room` bytes: more would not fit into the answer."""
        self._at.append(waiters)
        waiters._rooms[self] = room

    def wake(self) -> None:
        wake = self._wake
        self.cancel()
        if wake is not None:
            wake()

    def cancel(self) -> None:
        """Nobody waits any more: the client is gone."""
        self._wake = None
        for waiters in self._at:
            waiters._rooms.pop(self, None)
        self._at.clear()


class DelayedFetches:
    """The long polls at one partition, each with the bytes it can still take from there."""

    __slots__ = ("_rooms",)

    def __init__(self) -> None:
        self._rooms: dict[LongPoll, int] = {}

    def __len__(self) -> int:
        return len(self._rooms)

    def arrived(self, size: int) -> None:
        """`size` bytes more can be read: wakes every poll that has enough now."""
        for poll, room in list(self._rooms.items()):
            counted = min(size, room)
            self._rooms[poll] = room - counted
            poll.missing_bytes -= counted
            if poll.missing_bytes <= 0:
                poll.wake()

    def wake_all(self) -> None:
        """The partition is not what it was (deleted, failed): everyone must look again."""
        for poll in list(self._rooms):
            poll.wake()
