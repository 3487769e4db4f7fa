"""Delayed fetches: those that wait for more bytes. No clock and no I/O.

Bytes are counted, not looked up: each append reports its size to the partition's delayed fetches,
and one that has enough is completed at once. (Kafka's DelayedFetch reads the logs again.)
"""

from collections.abc import Callable


class DelayedFetch:
    """A fetch that waits for `missing_bytes` more. `on_complete` is called once; never if it is
    cancelled."""

    __slots__ = ("_on_complete", "_watched", "missing_bytes")

    def __init__(self, missing_bytes: int, on_complete: Callable[[], None]) -> None:
        self.missing_bytes = missing_bytes
        self._on_complete: Callable[[], None] | None = on_complete
        self._watched: list[DelayedFetches] = []

    def watch(self, partition: "DelayedFetches", bytes_max: int) -> None:
        """Count what is appended to the partition, up to `bytes_max`: the response has no room for
        more."""
        self._watched.append(partition)
        partition.waiting[self] = bytes_max

    def complete(self) -> None:
        on_complete = self._on_complete
        self.cancel()
        if on_complete is not None:
            on_complete()

    def cancel(self) -> None:
        self._on_complete = None
        for partition in self._watched:
            partition.waiting.pop(self, None)
        self._watched.clear()


class DelayedFetches:
    """The delayed fetches of a partition."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        # The bytes that each can still take from the partition.
        self.waiting: dict[DelayedFetch, int] = {}

    def on_append(self, size: int) -> None:
        """`size` more bytes can be read: complete the fetches that have enough now."""
        for fetch, room in list(self.waiting.items()):
            counted = min(size, room)
            self.waiting[fetch] = room - counted
            fetch.missing_bytes -= counted
            if fetch.missing_bytes <= 0:
                fetch.complete()

    def complete_all(self) -> None:
        """The partition was deleted, has failed, or has another leader."""
        for fetch in list(self.waiting):
            fetch.complete()
