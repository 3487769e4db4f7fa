"""Delayed fetches, which wait for more bytes. This module reads no clock and does no I/O.

Each append reports its size to the partition's delayed fetches. Kafka's DelayedFetch instead
recounts the available bytes of all its partitions.
"""

from collections.abc import Callable


class DelayedFetch:
    """Waits for `missing_bytes` more bytes. Unless cancelled, `on_complete` is called once."""

    __slots__ = ("_on_complete", "_watched", "missing_bytes")

    def __init__(self, missing_bytes: int, on_complete: Callable[[], None]) -> None:
        self.missing_bytes = missing_bytes
        self._on_complete: Callable[[], None] | None = on_complete
        self._watched: list[DelayedFetches] = []

    def watch(self, partition: "DelayedFetches", bytes_max: int) -> None:
        """Count bytes appended to the partition, up to `bytes_max`."""
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
        # Number of bytes that each delayed fetch can still take from the partition.
        self.waiting: dict[DelayedFetch, int] = {}

    def on_append(self, size: int) -> None:
        """Report `size` appended bytes, and complete fetches that now have enough."""
        for fetch, room in list(self.waiting.items()):
            if fetch not in self.waiting:
                continue  # cancelled by the completion of another fetch
            counted = min(size, room)
            self.waiting[fetch] = room - counted
            fetch.missing_bytes -= counted
            if fetch.missing_bytes <= 0:
                fetch.complete()

    def complete_all(self) -> None:
        """Complete all fetches: the partition was deleted or moved, or records became visible."""
        for fetch in list(self.waiting):
            fetch.complete()
