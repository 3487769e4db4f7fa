"""Where batches begin in a segment, sparsely: one entry per `interval_bytes`, as in Kafka's
.index and .timeindex files, but in memory: made by a scan, or taken from a survey (survey.py).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right

ENTRY_BYTES = 16


class SparseIndex:
    """16 bytes an entry: 4 MiB for a full 1 GiB segment at Kafka's interval of 4096 bytes.

    Offsets are kept relative to the segment's base, which is why Kafka and we roll a segment
    before its offsets span more than 2^31-1.
    """

    __slots__ = (
        "_base_offset",
        "_interval_bytes",
        "_next_position",
        "_offsets",
        "_positions",
        "_running_max",
    )

    def __init__(self, base_offset: int, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self._next_position = 0
        self._offsets = array("I")
        self._positions = array("I")
        # The largest timestamp of all batches before the entry's own.
        self._running_max = array("q")

    def note(self, base_offset: int, position: int, max_timestamp_before: int) -> None:
        """A batch begins at `position`; call for each one in order."""
        if position >= self._next_position:
            self._offsets.append(base_offset - self._base_offset)
            self._positions.append(position)
            self._running_max.append(max_timestamp_before)
            self._next_position = position + self._interval_bytes

    @property
    def last_position(self) -> int:
        """Of the last noted batch; 0 without one."""
        return self._positions[-1] if self._positions else 0

    def packed(self) -> bytes:
        """All entries, in this machine's byte order."""
        return b"".join(map(array.tobytes, (self._offsets, self._positions, self._running_max)))

    def unpack(self, data: bytes) -> None:
        """In the place of what was noted: what `packed` gave."""
        count = len(data) // ENTRY_BYTES
        offsets, positions, running_max = array("I"), array("I"), array("q")
        offsets.frombytes(data[: 4 * count])
        positions.frombytes(data[4 * count : 8 * count])
        running_max.frombytes(data[8 * count :])
        self._offsets, self._positions, self._running_max = offsets, positions, running_max
        self._next_position = self.last_position + self._interval_bytes if count else 0

    def at_or_before_offset(self, offset: int) -> int:
        """The position of the last noted batch whose base offset is not above `offset`."""
        entry = bisect_right(self._offsets, offset - self._base_offset)
        return self._positions[entry - 1] if entry else 0

    def at_or_before_position(self, position: int) -> int:
        """The position of the last noted batch that begins at or before `position`."""
        entry = bisect_right(self._positions, position)
        return self._positions[entry - 1] if entry else 0

    def before_timestamp(self, timestamp: int) -> int:
        """A position before which no batch reaches `timestamp`."""
        entry = bisect_left(self._running_max, timestamp)
        return self._positions[entry - 1] if entry else 0
