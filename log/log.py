"""A partition's log: segments of batches, appended at the end, read from any offset.
One thread appends and reads; sync() may run in another beside it. Nothing below
`synced_offset` is ever lost, and no byte is written behind one that failed.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct

from .batch import BatchHeader, read_header
from .config import LogConfig
from .deletion import delete_folder
from .errors import LogError, LogFailed, OffsetOutOfRange
from .files import Files
from .header import LENGTH_END
from .recovery import recover
from .segment import Segment, walk

__all__ = ["Log", "LogConfig"]

_APPENDED = Struct(">qi11xi8xq")


class Log:
    """Made by `Log.open`. `config` may be replaced while the log is open."""

    def __init__(self, folder: Path, files: Files, config: LogConfig, *, read_only: bool) -> None:
        self.folder = folder
        self.config = config
        self.failed: OSError | None = None  # after it nothing is accepted; see recover()
        self.end_offset = 0
        self.synced_offset = 0
        self._files = files
        self._read_only = read_only
        self._segments: list[Segment] = []
        self._folder_dirty = False
        self._reading: Segment | None = None
        # Held while files are synced, closed or cut.
        self._syncing = threading.Lock()

    @classmethod
    def open(
        cls,
        folder: Path,
        files: Files,
        config: LogConfig | None = None,
        *,
        recovery_point: int = 0,
        read_only: bool = False,
    ) -> Log:
        """The log in `folder`, recovered; a folder that is not there yet is an empty log and is
        made by the first append. `recovery_point`: what is below it is known to be durable.

        Raises OSError, UnsupportedMagic.
        """
        log = cls(folder, files, config or LogConfig(), read_only=read_only)
        log._load(recovery_point, sync=log.config.sync_at_open and not read_only)
        log.synced_offset = log.end_offset
        return log

    def _load(self, recovery_point: int, *, sync: bool) -> None:
        self._segments = recover(
            self.folder,
            self._files,
            index_interval_bytes=self.config.index_interval_bytes,
            recovery_point=recovery_point,
            read_only=self._read_only,
            sync=sync,
        )
        self.end_offset = self._segments[-1].end_offset if self._segments else 0

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset if self._segments else self.end_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def append(self, batch: bytes) -> int:
        """Writes one batch, which must begin at `end_offset`, and returns its base offset.

        Raises OSError when the disk refuses; then nothing of the batch is in the log, and it
        may be appended again. If the bytes that were written cannot be cut off either, the log
        is `failed`: it raises LogFailed from then on. The checksum is the caller's business.
        """
        if self.failed is not None or self._read_only:
            raise self._refusal()
        base_offset, length, last_offset_delta, max_timestamp = _APPENDED.unpack_from(batch)
        size = len(batch)
        if base_offset != self.end_offset or length + LENGTH_END != size or last_offset_delta < 0:
            raise LogError(
                f"a batch of {length + LENGTH_END} bytes at offset {base_offset}, given as {size} "
                f"bytes to a log that ends at {self.end_offset}"
            )
        last_offset = base_offset + last_offset_delta
        segments = self._segments
        if not segments or self._is_full(segments[-1], size, last_offset, max_timestamp):
            self._roll()
        segment = segments[-1]
        try:
            segment.opened().append(batch)
        except OSError:
            self._cut_partial(segment)
            raise
        # In this order: a sync beside us reads the end, clears `dirty`, and only then syncs.
        segment.dirty = True
        segment.note(base_offset, last_offset + 1, size, max_timestamp)
        self.end_offset = last_offset + 1
        return int(base_offset)

    def _is_full(self, segment: Segment, size: int, last_offset: int, max_timestamp: int) -> bool:
        """Kafka's LogSegment.shouldRoll, its clock replaced by the batches' own timestamps."""
        if not segment.size:
            return False
        return (
            segment.size + size > self.config.segment_bytes
            or last_offset - segment.base_offset > 0x7FFFFFFF
            or (
                segment.first_timestamp >= 0
                and max_timestamp - segment.first_timestamp > self.config.segment_ms
            )
        )

    def _roll(self) -> None:
        """Begins a segment at `end_offset`. On OSError the log is as it was."""
        if self._segments:
            full = self._segments[-1]
            full.opened().truncate(full.size)  # gives back what was allocated ahead
            full.dirty = True
            if self.config.sync_at_open:
                self.sync()
        else:
            self._files.make_folder(self.folder)
        segment = self._segment(self.end_offset)
        segment.opened(create=True)
        self._folder_dirty = True
        self._segments.append(segment)
        self._close_idle()

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self.folder, self._files, base_offset, self.config.index_interval_bytes)

    def _cut_partial(self, segment: Segment) -> None:
        try:
            file = segment.opened()
            file.truncate(segment.size)
            if self.config.sync_at_open:
                file.sync()
        except OSError as error:
            self.failed = error

    def _refusal(self) -> OSError:
        if self.failed is None:
            return LogFailed(f"{self.folder} was opened for reading only")
        return LogFailed(f"{self.folder} takes nothing after: {self.failed}")

    def sync(self) -> None:
        """Makes all that was appended before durable, and only then raises `synced_offset`.

        May run in another thread while append goes on. On OSError the log is `failed`: the
        system may have dropped what it could not write, so a second sync would prove nothing.
        """
        with self._syncing:
            if self.failed is not None:
                raise self._refusal()
            end_offset = self.end_offset
            dirty = [segment for segment in tuple(self._segments) if segment.dirty]
            folder_dirty, self._folder_dirty = self._folder_dirty, False
            try:
                for segment in dirty:
                    segment.dirty = False
                    segment.opened().sync()
                if folder_dirty:
                    self._files.sync_folder(self.folder)
                    self._files.sync_folder(self.folder.parent)
            except OSError as error:
                self.failed = error
                raise
            self.synced_offset = end_offset

    def recover(self) -> None:
        """After a failure: opens the files again and cuts off everything that was never synced.

        Whoever was refused will not find its bytes later, and what was acknowledged after a
        sync is there. Raises OSError while the disk still refuses; the log then stays failed.
        """
        with self._syncing:
            for segment in self._segments:
                with suppress(OSError):
                    segment.close()
            self.failed = None
        try:
            self._load(self.synced_offset, sync=False)
            if self.end_offset < self.synced_offset:
                raise LogFailed(f"{self.folder} lost synced bytes: it was changed under us")
            self.truncate_to(max(self.start_offset, self.synced_offset))
            self.sync()
        except (OSError, LogError) as error:
            self.failed = error if isinstance(error, OSError) else LogFailed(str(error))
            raise

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
        number = self._number_of(offset)
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
        start_offset = self.start_offset if offset is None else offset
        number = self._number_of(start_offset)
        while number < len(self._segments):
            segment = self._segments[number]
            file = self._files.open(segment.path, read_only=True)
            try:
                position = segment.index.at_or_before_offset(start_offset)
                for place in walk(file, position, segment.size):
                    header = read_header(place.buffer, place.at)
                    if header.last_offset >= start_offset:
                        yield header, segment.whole(place, file)
            finally:
                file.close()
            number += 1

    def offset_for_timestamp(self, timestamp: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record, by offset, at or after `timestamp`.

        Raises InvalidRecord when the batch that must hold it is undecodable.
        """
        for segment in self._segments:
            if segment.max_timestamp >= timestamp:
                self._reads(segment)
                record = segment.first_record_since(timestamp)
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

    def truncate_to(self, offset: int) -> None:
        """Cuts off every batch that reaches `offset` or beyond.

        Raises OffsetOutOfRange below the start; OSError, after which the log is `failed`.
        """
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        with self._syncing:
            try:
                self._truncate(offset)
            except OSError as error:
                self.failed = error
                raise

    def _truncate(self, offset: int) -> None:
        # From the end, so that a failure or a crash leaves a log without a hole.
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            gone = self._segments.pop()
            gone.close()
            self._files.remove(gone.path)
            if self.config.sync_at_open:
                self._files.sync_folder(self.folder)
            self.end_offset = self._segments[-1].end_offset
        segment = self._segments[-1]
        place = segment.place_of(offset)
        if place is not None:
            first = read_header(place.buffer, place.at).base_offset
            segment.truncate(place.position)
            if self.config.sync_at_open:
                segment.opened().sync()
            self.end_offset = min(first, offset)
        else:
            self.end_offset = offset
        self.synced_offset = min(self.synced_offset, self.end_offset)

    def close(self) -> None:
        """Closes the files without syncing; closing twice is fine."""
        with self._syncing:
            for segment in self._segments:
                segment.close()

    def delete(self) -> None:
        """Removes the folder and all in it; finish_deletions ends what a crash interrupts."""
        with self._syncing:
            for segment in self._segments:
                with suppress(OSError):
                    segment.close()
            self._segments = []
            self.end_offset = self.synced_offset = 0
            delete_folder(self.folder, self._files)

    def _number_of(self, offset: int) -> int:
        if self._segments and offset >= self._segments[-1].base_offset:
            return len(self._segments) - 1
        after = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        return max(0, after - 1)

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
