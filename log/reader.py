"""A log as its readers see it: which offsets it has, and the batches from any of them on.

Readers go by offsets alone, never by the number of a segment: compaction puts other segments into
the place of those that were there, and retention takes the first ones away.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from .batch import BatchHeader
from .config import LogConfig
from .epochs import begun_in
from .errors import OffsetOutOfRange
from .segment import Segment, number_of


class LogReader:
    """The reading half of `Log`. `config` may be replaced while the log is open."""

    def __init__(self, config: LogConfig) -> None:
        self.config = config
        self.end_offset = 0
        self._deleted_before = 0
        self._segments: list[Segment] = []
        self._reading: Segment | None = None
        self._syncing = threading.RLock()  # held while files are synced, closed or cut
        self._walks = 0

    @property
    def segments(self) -> tuple[Segment, ...]:
        """In order; the last one is active, the others are closed."""
        return tuple(self._segments)

    @property
    def is_walked(self) -> bool:
        """Whether somebody is on the way through `batches`."""
        return self._walks > 0

    @property
    def start_offset(self) -> int:
        base_offset = self._segments[0].base_offset if self._segments else self.end_offset
        return max(base_offset, self._deleted_before)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool = True, up_to: int | None = None
    ) -> bytes:
        """Whole stored batches, from the one that contains `offset`, of one segment.

        At most `max_bytes`, but the first batch is given whole if `minimum_one`. Batches that
        reach `up_to` or beyond are held back (the high watermark). b"" at the end.
        Raises OffsetOutOfRange, OSError.
        """
        end_offset = self.end_offset if up_to is None else min(up_to, self.end_offset)
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        number = number_of(self._segments, offset)
        while offset < end_offset and number < len(self._segments):
            segment = self._segments[number]
            self._reads(segment)
            end = segment.size
            if segment.end_offset > end_offset:
                hidden = segment.place_of(end_offset)
                end = segment.size if hidden is None else hidden.position
            found = segment.read(offset, max_bytes, minimum_one, end)
            if found is not None:
                return found
            number += 1  # compaction took what the segment had from there on
        return b""

    def batches(self, offset: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every batch from the one that contains `offset` (or the start) to the end as it is
        when the iterator gets there. Reads in chunks through files of its own."""
        next_offset = self.start_offset if offset is None else offset
        number = number_of(self._segments, next_offset)
        self._walks += 1
        try:
            while number < len(self._segments):
                segment = self._segments[number]
                end_offset = segment.end_offset
                yield from segment.batches(next_offset)
                next_offset = max(next_offset, end_offset)
                number = number_of(self._segments, next_offset)
                if self._segments and self._segments[number].end_offset <= next_offset:
                    number += 1
        finally:
            self._walks -= 1

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record, by offset, at or after `timestamp`.

        Raises InvalidRecord when the batch that must hold it is undecodable.
        """
        start_offset = self.start_offset
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                self._reads(segment)
                record = segment.first_record_since(timestamp, start_offset)
                if record is not None:
                    return record.offset, record.timestamp
        return None

    def max_timestamp(self) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record that has the largest timestamp; None when no
        record has one. Raises InvalidRecord as offset_for_timestamp does."""
        segment = max(self._segments, key=lambda each: each.max_timestamp, default=None)
        if segment is None or segment.max_timestamp < 0:
            return None
        self._reads(segment)
        record = segment.latest_record()
        return record.offset, record.timestamp

    def epochs(self) -> list[tuple[int, int]]:
        """See epochs.py. The last one is the leader's of now."""
        begun = begun_in(self._segments, self.start_offset)
        current = self.config.leader_epoch
        return begun if begun and begun[-1][0] >= current else [*begun, (current, self.end_offset)]

    def _reads(self, segment: Segment) -> None:
        """Of segments that are no longer written, only the one being read stays open: a broker
        has many more segments than it may have files."""
        if segment is not self._reading and segment is not self._segments[-1]:
            self._reading = segment
            self._close_idle()

    def _close_idle(self) -> None:
        # A sync under way may be using these files; then they are closed another time.
        if self._syncing.acquire(blocking=False):
            try:
                for segment in self._segments[:-1]:
                    if not segment.dirty and segment is not self._reading:
                        segment.close()
            finally:
                self._syncing.release()
