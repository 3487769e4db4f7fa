"""A partition's log. Batches are appended at its end and read from any offset.

One thread appends and reads, and `sync` may run concurrently in another thread. Some batches below
`synced_offset` may be durable only in the write-ahead log (write_ahead.py). After a failed sync, or
a failed write that cannot be undone, appends are rejected. Readers address records by offset, never
by segment index, because compaction replaces segments, and retention removes the oldest segments.
Upstream: UnifiedLog, LocalLog.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

from ..protocol.budgets import DECOMPRESSED_BYTES_MAX, ConcurrencyLimit
from .batch import HEADER_BYTES, LENGTH_END, BatchBuilder, BatchHeader, read_header
from .cache_files import remove_cache_files
from .codecs import with_decompressed
from .errors import CleaningStopped, LogError, LogFailed, OffsetOutOfRange
from .files import Files, delete_folder
from .producer_state import ProducerStates
from .records import raw_records
from .recovery import recover
from .segment import OFFSET_SPAN_MAX, FileSlice, Segment, read_batch, segment_number, walk_batches
from .segment_manifest import write_manifest
from .segment_swap import SegmentSwap, mark_deleted
from .tasks import CooperativeTask, no_steps, run_synchronously
from .transaction_index import append_entry, write_indexes

# Limits of a step in a timestamp search. A step takes about 300 µs.
STEP_BATCHES: Final = 512
STEP_RECORDS: Final = 512

# Base offset, length, leader epoch, last offset delta, maximum timestamp, producer id.
_APPENDED: Final = Struct(">qii7xi8xqq")


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of a log. Those with the names of topic configs have Kafka's defaults, and are
    in bytes or milliseconds."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = 7 * 24 * 3600 * 1000
    index_interval_bytes: int = 4096
    # Maximum batch size, enforced by callers of `append`.
    max_message_bytes: int = 1_048_588
    # Stored in batches that the log builds (append_built).
    leader_epoch: int = 0
    # Whether open, roll and truncate sync. Without these syncs, a power loss could undo served
    # data, a later segment could survive an earlier one, and truncated records could reappear.
    # False for logs that are not synced by default, where rolling would sync a whole segment.
    sync_at_open: bool = True
    # Whether opening the log reports missing offsets. True for logs that were never compacted.
    reports_gaps: bool = False


class WriteAheadSource(Protocol):
    """The part of the write-ahead log that a log uses."""

    def has_batches_for(self, name: str) -> bool:
        """Whether the write-ahead log contains batches of this log, left by a crash."""

    def restore(self, log: Log) -> None:
        """Re-append lost batches to an opened log, and sync. May be retried after an OSError."""

    def replay(self, log: Log) -> None:
        """Re-append batches lost since the log was opened. Raises OSError."""


class Log:
    """A partition's log, opened by Log.open(). `config` may be replaced at any time."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        config: LogConfig,
        *,
        read_only: bool,
        write_ahead: WriteAheadSource | None = None,
    ) -> None:
        self.folder = folder
        self.files = files
        self.config = config
        self.write_ahead = write_ahead
        self.end_offset = 0
        self.closed = False
        self.failed: OSError | None = None
        """Set by a failed sync, or by a failed write that cannot be undone. Appends are then
        rejected until reopen()."""
        self.producers = ProducerStates()
        """The producers of all batches."""
        self.load_count = 0
        """Incremented each time the files are (re)loaded, which completes an unfinished swap."""
        self._read_only = read_only
        self._segments: list[Segment] = []
        self._deleted_before = 0
        self._reading: Segment | None = None
        self._open_iterators = 0
        self._swap: SegmentSwap | None = None
        self._syncing = threading.RLock()  # held while files are synced, closed or truncated
        self._folder_dirty = False
        # End offset of the batches that are durable in the log's own files (raised by the sync
        # thread), and in the write-ahead log.
        self._synced_offset = self._written_ahead_offset = 0

    @classmethod
    def open(
        cls,
        folder: Path,
        files: Files,
        config: LogConfig | None = None,
        *,
        start_offset: int = 0,
        truncate_to: int | None = None,
        rewrite_from: int | None = None,
        read_only: bool = False,
        write_ahead: WriteAheadSource | None = None,
    ) -> Log:
        """Recover the log in `folder`. The first append creates a missing folder. Records below
        `start_offset` were deleted (`delete_before`). Batches from `truncate_to` on are removed.
        Batches from `rewrite_from` on, whose sync has failed, are written again. Raises OSError,
        LogError and UnsupportedMagic."""
        config = config or LogConfig()
        log = cls(folder, files, config, read_only=read_only, write_ahead=write_ahead)
        log._deleted_before = start_offset
        must_sync = write_ahead is not None and write_ahead.has_batches_for(folder.name)
        try:
            must_sync |= config.sync_at_open
            log._load(0, sync=must_sync and not read_only)
            # The previous process may have ended before it synced the name of a new file.
            log._folder_dirty = bool(log._segments) and not (must_sync or read_only)
            if write_ahead is not None:
                write_ahead.restore(log)
            log._synced_offset = log.end_offset
            if truncate_to is not None:
                log._truncate_durably(truncate_to)
            if rewrite_from is not None:
                log._rewrite(rewrite_from)
            if truncate_to is not None:
                log.sync()
        except BaseException:
            log.close()
            raise
        return log

    def _rewrite(self, offset: int) -> None:
        """Write all batches from `offset` on again, because the OS may have dropped the pages that
        it could not write, and the next sync would succeed without them. After a power loss,
        recovery would then truncate the log there, and lose all later batches."""
        self._limit_synced(offset)
        self._folder_dirty = True
        for segment in self._segments:
            if segment.end_offset > offset:
                first = segment.find(offset)
                if first is not None:
                    segment.open().rewrite(first.position)
                    segment.dirty = True

    def _load(self, recovery_point: int, *, sync: bool) -> None:
        """Load the files. Batches below `recovery_point` are known to be durable."""
        self.load_count += 1
        self._swap = None  # recover() completes it
        self.producers.clear()
        self._segments = recover(
            self.folder,
            self.files,
            index_interval_bytes=self.config.index_interval_bytes,
            recovery_point=recovery_point,
            read_only=self._read_only,
            sync=sync,
            reports_gaps=self.config.reports_gaps,
            producers=self.producers,
        )
        end_offset = self._segments[-1].end_offset if self._segments else 0
        # After a crash, the log may end below its start offset. These offsets must never be reused.
        self.end_offset = max(end_offset, self._deleted_before)
        if not self._read_only:
            self._delete_segments_below(self._deleted_before)
            self._write_transaction_indexes()

    def _write_transaction_indexes(self) -> None:
        if self._segments:
            write_indexes(self.folder, self.files, self._segments, self.producers.aborted)

    # --- state

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments in order. The last one is active, and the others are closed."""
        return tuple(self._segments)

    @property
    def start_offset(self) -> int:
        base_offset = self._segments[0].base_offset if self._segments else self.end_offset
        return max(base_offset, self._deleted_before)

    @property
    def synced_offset(self) -> int:
        """Durable end offset."""
        return max(self._synced_offset, self._written_ahead_offset)

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    @property
    def is_being_iterated(self) -> bool:
        """Whether an iterator of `batches` is in use."""
        return self._open_iterators > 0

    @property
    def manifest_end_offset(self) -> int:
        """Upper bound of the offsets covered by the manifest. The next open may skip them."""
        return max((segment.manifest_end_offset for segment in self._segments), default=0)

    # --- appending

    def append(self, batch: bytes, now_ms: int = 0) -> int:
        """Append a batch, which must begin at `end_offset`, and return its base offset. The
        checksum is not verified. `now_ms` is the time from which the expiration of its producer is
        counted.

        After an OSError, nothing was appended. The call may be retried, unless a sync failed or the
        partial write could not be truncated: the log is then `failed` and raises LogFailed.
        """
        base_offset, length, epoch, last_offset_delta, max_timestamp, producer_id = (
            _APPENDED.unpack_from(batch)
        )
        size = len(batch)
        if base_offset != self.end_offset or length + LENGTH_END != size or last_offset_delta < 0:
            raise LogError(
                f"cannot append a batch of {length + LENGTH_END} bytes at offset {base_offset}, "
                f"passed as {size} bytes, to a log that ends at {self.end_offset}"
            )
        self._append(batch, base_offset + last_offset_delta, max_timestamp, epoch)
        if producer_id >= 0:
            self._on_producer(read_header(batch), batch, now_ms)
        return int(base_offset)

    def append_built(self, builder: BatchBuilder) -> bytes:
        """Write the builder's records as one batch and return its bytes. Raises the same errors as
        `append`."""
        base_offset, epoch = self.end_offset, self.config.leader_epoch
        batch = builder.finish(base_offset, epoch)
        self._append(batch, base_offset + builder.count - 1, builder.max_timestamp, epoch)
        if builder.producer is not None and builder.producer.producer_id >= 0:
            self._on_producer(read_header(batch), batch, builder.max_timestamp)
        return batch

    def _on_producer(self, header: BatchHeader, batch: bytes, now_ms: int) -> None:
        aborted = self.producers.aborted
        count = len(aborted)
        self.producers.on_batch(header, batch, now_ms)
        if len(aborted) > count:
            append_entry(self._segments[-1], aborted[-1])

    def _append(self, batch: bytes, last_offset: int, max_timestamp: int, epoch: int) -> None:
        if self.failed is not None or self.closed or self._read_only:
            raise self._log_failed()
        size = len(batch)
        segments = self._segments
        if not segments or self._should_roll(segments[-1], size, last_offset, max_timestamp):
            self._roll()
        segment = segments[-1]
        try:
            (segment.file or segment.open()).append(batch)
        except OSError:
            self._truncate_partial_write(segment)
            raise
        # In this order, because a concurrent sync reads the end, clears `dirty`, then syncs.
        segment.dirty = True
        segment.add_batch(self.end_offset, last_offset + 1, size, max_timestamp, epoch)
        self.end_offset = last_offset + 1

    def _should_roll(
        self, active: Segment, size: int, last_offset: int, max_timestamp: int
    ) -> bool:
        """Like LogSegment.shouldRoll, but a segment without timestamps never rolls because of its
        age."""
        if not active.size:
            return False
        config = self.config
        return (
            active.size + size > config.segment_bytes
            or last_offset - active.base_offset > OFFSET_SPAN_MAX
            or (
                active.first_timestamp >= 0
                and max_timestamp - active.first_timestamp > config.segment_ms
            )
        )

    def roll(self) -> None:
        """Close the active segment unless it is empty. Raises OSError."""
        if self._segments and self._segments[-1].size:
            self._roll()

    def _roll(self) -> None:
        """Begin a segment at `end_offset`. After an OSError, no segment was added; after a failed
        sync, the log is also `failed`."""
        if self._segments:
            full = self._segments[-1]
            full.open().truncate(full.size)  # drop preallocated space
            full.dirty = True
            if self.config.sync_at_open:
                # This does not raise `synced_offset`, because the pending flush may still fail.
                self.sync(up_to=0)
        else:
            self.files.make_folder(self.folder)
        segment = Segment(
            self.folder, self.files, self.end_offset, self.config.index_interval_bytes
        )
        segment.open(create=True)
        self._folder_dirty = True
        self._segments.append(segment)
        self._close_idle()

    def _truncate_partial_write(self, segment: Segment) -> None:
        try:
            file = segment.open()
            file.truncate(segment.size)
            if self.config.sync_at_open:
                file.sync()
        except OSError as error:
            self.failed = error

    def _log_failed(self) -> OSError:
        if self.failed is None:
            reason = "is closed" if self.closed else "was opened read-only"
            return LogFailed(f"{self.folder} {reason}")
        return LogFailed(f"{self.folder} rejects appends after a failure: {self.failed}")

    # --- durability

    def sync(self, *, up_to: int | None = None) -> None:
        """Make all batches appended so far durable, then raise `synced_offset`, at most to `up_to`.

        May run in another thread, concurrently with `append`. After an OSError, the log is
        `failed`, because the OS may have dropped the pages it could not write, and a second sync
        would then succeed without writing them."""
        with self._syncing:
            if self.failed is not None:
                raise self._log_failed()
            end_offset = self.end_offset
            dirty = [segment for segment in tuple(self._segments) if segment.dirty]
            folder_dirty, self._folder_dirty = self._folder_dirty, False
            try:
                for segment in dirty:
                    segment.dirty = False
                    segment.open().sync()
                if folder_dirty:
                    self.files.sync_folder(self.folder)
                    self.files.sync_folder(self.folder.parent)
            except OSError as error:
                self._folder_dirty |= folder_dirty  # a file is lost if its name was not synced
                self.failed = error
                raise
            finally:
                if self.closed:
                    self.close()  # also closes files that this sync has opened
            synced_offset = end_offset if up_to is None else min(up_to, end_offset)
            self._synced_offset = max(self._synced_offset, synced_offset)

    def set_written_ahead(self, end_offset: int) -> None:
        """Mark batches below `end_offset` as durable in the write-ahead log."""
        self._written_ahead_offset = end_offset

    def mark_failed_from(self, offset: int, error: OSError) -> None:
        """Mark the log failed, because requests from `offset` on were rejected. reopen() truncates
        there, even if a later sync made the records durable."""
        with self._syncing:
            self.failed = error
            self._limit_synced(offset)

    def _limit_synced(self, offset: int) -> None:
        self._synced_offset = min(self._synced_offset, offset)
        self._written_ahead_offset = min(self._written_ahead_offset, offset)

    def reopen(self) -> None:
        """Reopen the files after a failure, and truncate all batches that were never synced.

        Acknowledged batches that are durable only in the write-ahead log are appended again,
        because a successful second sync of the file would not prove that they are on disk. Rejected
        batches do not reappear. Raises OSError or LogError while the disk still fails. The log then
        remains failed.
        """
        with self._syncing:
            for segment in self._segments:
                with suppress(OSError):  # the unsynced bytes are discarded anyway
                    segment.close()
            self.failed = None
            durable_offset, synced_offset = self.synced_offset, self._synced_offset
            try:
                self._load(synced_offset, sync=False)
                if self.end_offset < synced_offset:
                    raise LogFailed(
                        f"{self.folder} lost synced bytes because its files were modified"
                    )
                self._truncate_durably(synced_offset)
                if self.write_ahead is not None and synced_offset < durable_offset:
                    self.write_ahead.replay(self)
                    if self.end_offset < durable_offset:
                        raise LogFailed(f"{self.folder} lost bytes of its write-ahead log")
                    self._truncate_durably(durable_offset)
                self.sync()
            except (OSError, LogError) as error:
                self._written_ahead_offset = durable_offset
                self.failed = error if isinstance(error, OSError) else LogFailed(str(error))
                raise

    def _truncate_durably(self, offset: int) -> None:
        self.truncate_to(max(self.start_offset, offset))
        if self._segments:
            # An earlier attempt may have truncated the file without syncing it.
            self._segments[-1].dirty = self._folder_dirty = True

    def truncate_to(self, offset: int) -> None:
        """Remove every batch that extends to `offset` or beyond. Raises OffsetOutOfRange below the
        start, and OSError. After an OSError, the log is `failed` and its end offset is at most
        `offset`, though the files may be longer."""
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        with self._syncing:
            try:
                if offset < self.manifest_end_offset:
                    run_synchronously(remove_cache_files(self.folder, self.files))
                self._truncate(offset)
            except OSError as error:
                self.end_offset = min(self.end_offset, offset)
                self.failed = error
                raise

    def _truncate(self, offset: int) -> None:
        # Truncate back to front, so that a crash leaves no gap.
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            removed = self._segments.pop()
            removed.close()
            self.files.remove(removed.path)
            if self.config.sync_at_open:
                self.files.sync_folder(self.folder)
            self.end_offset = self._segments[-1].end_offset
        segment = self._segments[-1]
        batch = segment.find(offset)
        if batch is not None:
            first = read_header(batch.buffer, batch.start).base_offset
            segment.truncate(batch.position)
            if self.config.sync_at_open:
                segment.open().sync()
            self.end_offset = min(first, offset)
        else:
            self.end_offset = offset
        self._limit_synced(self.end_offset)
        if self.producers:
            self._read_producers()
            self._write_transaction_indexes()

    def _read_producers(self) -> None:
        self.producers.clear()
        for header, batch in self.batches():
            if header.producer_id >= 0:
                self.producers.on_batch(header, batch)

    def write_manifest(self) -> None:
        """Write the segment manifest for the next open. For a log with producers, write none,
        because the next open must read all batches to restore the producers' state. Raises
        OSError."""
        # Durability is unknown during a sync and after a failed sync.
        if self.failed is None and not self.producers and self._syncing.acquire(blocking=False):
            try:
                synced = self.config.sync_at_open
                if self._synced_offset < self.synced_offset:
                    self.sync(up_to=self.synced_offset)
                # An unfinished swap may replace the segments on the next open. The manifest is then
                # rejected, unless the new file begins with the same batches.
                write_manifest(self.folder, self.files, self._segments, synced=synced)
            finally:
                self._syncing.release()

    def close(self) -> None:
        """Close the files without syncing. May be called twice."""
        self.closed = True
        with self._syncing:
            for segment in self._segments:
                segment.close()

    def delete(self) -> None:
        """Remove the folder and its contents. After a crash, finish_deletions removes leftovers."""
        self.closed = True
        with self._syncing:
            for segment in self._segments:
                with suppress(OSError):  # the file is deleted below
                    segment.close()
            self._segments = []
            self.end_offset = self._synced_offset = self._written_ahead_offset = 0
            self._folder_dirty = False  # a flush may still sync the log
            delete_folder(self.folder, self.files)

    # --- reading

    def read(
        self, offset: int, max_bytes: int, *, minimum_one: bool = True, up_to: int | None = None
    ) -> bytes | FileSlice:
        """Return complete batches of one segment, starting with the batch that contains `offset`.

        Returns at most `max_bytes`, except that `minimum_one` returns the first batch whatever its
        size. Batches that extend to `up_to` (the high watermark or the last stable offset) or
        beyond are excluded. At the end of the log, the result is b"". A large result is a
        FileSlice. Raises OffsetOutOfRange and OSError.
        """
        end_offset = self.end_offset if up_to is None else min(up_to, self.end_offset)
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        number = segment_number(self._segments, offset)
        while offset < end_offset and number < len(self._segments):
            segment = self._segments[number]
            self._begin_reading(segment)
            end = segment.size
            if segment.end_offset > end_offset:
                hidden = segment.find(end_offset)
                end = segment.size if hidden is None else hidden.position
            data = segment.read(offset, max_bytes, minimum_one, end)
            if data is not None:
                return data
            number += 1  # compaction removed the rest of this segment, so continue in the next
        return b""

    def batches(self, offset: int | None = None) -> Iterator[tuple[BatchHeader, bytes]]:
        """Yield the header and the bytes of each batch from the one containing `offset` on,
        including batches appended during the iteration. Uses its own file handles."""
        next_offset = self.start_offset if offset is None else offset
        number = segment_number(self._segments, next_offset)
        self._open_iterators += 1
        try:
            while number < len(self._segments):
                segment = self._segments[number]
                end_offset = segment.end_offset
                yield from segment.batches(next_offset)
                next_offset = max(next_offset, end_offset)
                number = segment_number(self._segments, next_offset)
                if self._segments and self._segments[number].end_offset <= next_offset:
                    number += 1
        finally:
            self._open_iterators -= 1

    def offset_for_timestamp(
        self, timestamp: int, decompressions: ConcurrencyLimit
    ) -> CooperativeTask[tuple[int, int] | None]:
        """Return (offset, timestamp) of the first record with a timestamp >= `timestamp`. Raises
        InvalidRecord if the batch that must contain it is undecodable."""
        return self._first_since(timestamp, self.start_offset, decompressions)

    def max_timestamp(
        self, decompressions: ConcurrencyLimit
    ) -> CooperativeTask[tuple[int, int] | None]:
        """Return (offset, timestamp) of the first record with the maximum timestamp, or None if
        there are no records. The timestamp is -1 if no record has a timestamp. Raises InvalidRecord
        like offset_for_timestamp."""
        timestamp = max((segment.max_timestamp for segment in self._segments), default=-1)
        return self._first_since(timestamp, 0, decompressions)

    def _first_since(
        self, timestamp: int, start_offset: int, decompressions: ConcurrencyLimit
    ) -> CooperativeTask[tuple[int, int] | None]:
        offset = start_offset
        # The next segment is found by its offset, because compaction may have replaced segments.
        while segment := next(
            (s for s in self._segments if s.end_offset > offset and s.max_timestamp >= timestamp),
            None,
        ):
            offset = segment.end_offset
            position = segment.index.before_timestamp(timestamp)
            file = self.files.open(segment.path, read_only=True)
            try:
                for number, batch in enumerate(walk_batches(file, position, segment.size)):
                    header = read_header(batch.buffer, batch.start)
                    if header.max_timestamp >= timestamp:
                        found = yield from with_decompressed(
                            header.codec,
                            memoryview(read_batch(file, batch))[HEADER_BYTES:],
                            DECOMPRESSED_BYTES_MAX,
                            decompressions,
                            partial(_find_since, header, timestamp, start_offset),
                        )
                        if found is not None:
                            return found
                    if number % STEP_BATCHES == STEP_BATCHES - 1:
                        yield None
            finally:
                file.close()
        return None

    def _begin_reading(self, segment: Segment) -> None:
        """Keep only one closed segment open, to limit the number of file descriptors."""
        if segment is not self._reading and segment is not self._segments[-1]:
            self._reading = segment
            self._close_idle()

    def _close_idle(self) -> None:
        # A sync in progress may be using the segments, which are then closed next time.
        if self._syncing.acquire(blocking=False):
            try:
                for segment in self._segments[:-1]:
                    if not segment.dirty and segment is not self._reading:
                        segment.close()
            finally:
                self._syncing.release()

    # --- leader epochs, which are in each batch header (upstream: LeaderEpochFileCache)

    def leader_epochs(self) -> list[tuple[int, int]]:
        """Return (epoch, first offset) of the leader epochs in order, the current one last."""
        start_offset, current = self.start_offset, self.config.leader_epoch
        begun: list[tuple[int, int]] = []
        for segment in self._segments:
            for epoch, offset in segment.epochs:
                if not begun or epoch > begun[-1][0]:
                    begun.append((epoch, max(offset, start_offset)))
        return begun if begun and begun[-1][0] >= current else [*begun, (current, self.end_offset)]

    # --- deleting the oldest records

    def delete_before(self, offset: int) -> None:
        """Hide records below `offset` from readers, and remove segments that end at or below it.
        The new start is not persistent, so the caller must durably store `offset` first and pass it
        to `open`. Raises OffsetOutOfRange beyond the end, and OSError if a segment could not be
        removed."""
        if offset > self.end_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        self._deleted_before = max(offset, self._deleted_before)
        self.producers.remove_before(offset)
        with self._syncing:
            self._delete_segments_below(offset)
        self._write_transaction_indexes()

    def _delete_segments_below(self, offset: int) -> None:
        # Oldest first. A segment that reappears after a crash is removed when the log is opened.
        segments = self._segments
        while segments and segments[0].base_offset < offset >= segments[0].end_offset:
            segments[0].close()
            self.files.remove(segments[0].path)
            del segments[0]

    def detach_before(self, offset: int) -> list[str] | None:
        """Move the log start to `offset`, which the caller has durably stored, and drop closed
        segments below it. Return the file names to remove in a thread, or None if the caller must
        retry, because a sync is using the files. Raises OSError."""
        if not self._syncing.acquire(blocking=False):
            return None
        try:
            self._deleted_before = max(offset, self._deleted_before)
            self.producers.remove_before(offset)
            segments = self._segments
            detached: list[str] = []
            while len(segments) > 1 and segments[1].base_offset <= offset:
                segments[0].close()
                detached += mark_deleted(segments[0])
                del segments[0]
        finally:
            self._syncing.release()
        return detached

    # --- compaction

    def replace_segments(self, old: Sequence[Segment], cleaned: Segment) -> bool:
        """Replace closed segments with `cleaned`, whose file has the suffix `.swap`. `finish_swap`
        completes the swap on disk. Return False if the caller must retry, because a sync is using
        the files. Raises CleaningStopped if the segments are no longer part of the log."""
        if not self._syncing.acquire(blocking=False):
            return False
        try:
            number = self.position_of_closed(old)
            for segment in old:
                segment.close()
            self._segments[number : number + len(old)] = [cleaned]
            # After reopen(), the swap is complete, and the old file names may be in use again.
            swap = SegmentSwap(cleaned, list(old), lambda: self.closed or self._swap is not swap)
            self._swap = swap
        finally:
            self._syncing.release()
        return True

    def position_of_closed(self, run: Sequence[Segment]) -> int:
        """Return the index of this run of closed segments in the log. Raises CleaningStopped."""
        segments = self._segments
        if not self.closed and self.failed is None and run[0] in segments[:-1]:
            number = segments.index(run[0])
            if segments[number : min(number + len(run), len(segments) - 1)] == list(run):
                return number
        raise CleaningStopped(f"{self.folder} changed during compaction")

    def finish_swap(self) -> CooperativeTask[None]:
        """Complete a pending swap. After an OSError, retry before replacing other segments."""
        # Not a generator, because a mypyc generator that propagates an exception triggers a warning
        # with Python 3.12+, which is fatal with -W error.
        return no_steps() if self._swap is None else self._swap.finish(self._swap_finished)

    def _swap_finished(self) -> None:
        self._swap = None
        self._write_transaction_indexes()


def _find_since(
    header: BatchHeader, timestamp: int, start_offset: int, data: bytes
) -> CooperativeTask[tuple[int, int] | None]:
    """Return (offset, timestamp) of the first record with a timestamp >= `timestamp`, or None."""
    for number, record in enumerate(raw_records(data, header.count)):
        offset = header.base_offset + record.offset_delta
        at = header.max_timestamp
        if not header.timestamp_type:
            at = header.base_timestamp + record.timestamp_delta
        if at >= timestamp and offset >= start_offset:
            return offset, at
        if number % STEP_RECORDS == STEP_RECORDS - 1:
            yield None
    return None
