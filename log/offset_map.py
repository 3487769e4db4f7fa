"""The newest offset of each key, as far as the memory for it reaches."""

from __future__ import annotations

# What CPython 3.11 takes for a key in a dict beside the key's own bytes: 33 for the object around
# them, 32 for the offset, and up to 105 of the dict, which doubles its table before it is full.
ENTRY_BYTES = 170


class OffsetMap:
    """`newest` is read directly, by whoever looks at each record. Upstream: SkimpyOffsetMap, which
    keeps hashes; whole keys cannot collide."""

    def __init__(self, bytes_max: int) -> None:
        self.newest: dict[bytes, int] = {}
        self.latest_offset = -1
        """Up to here every record has been looked at."""
        self._bytes_left = bytes_max

    @property
    def is_full(self) -> bool:
        return self._bytes_left <= 0

    def put(self, key: bytes, offset: int) -> None:
        """Offsets come in order, so that a later one is newer."""
        newest = self.newest
        known = len(newest)
        newest[key] = offset
        if len(newest) != known:
            self._bytes_left -= len(key) + ENTRY_BYTES
