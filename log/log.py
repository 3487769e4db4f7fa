"""A partition's log: segments of batches, appended at the end, read from any offset.
One thread appends and reads; sync() may run in another beside it. Nothing below
`synced_offset` is ever lost, though it may so far be durable only in what was written ahead
(write_ahead.py), and no byte is written behind one that failed.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Final

from .batch import read_header
from .cache_files import remove_cache_files
from .closed_segments import ClosedSegments
from .config import LogConfig
from .deletion import delete_below, delete_folder
from .errors import LogError, LogFailed, OffsetOutOfRange
from .files import Files
from .header import LENGTH_END
from .recovery import recover
from .segment import Segment
from .segment_manifest import write_survey
from .tasks import in_place

if TYPE_CHECKING:
    from .builder import BatchBuilder
    from .write_ahead import WriteAhead

__all__ = ["Log", "LogConfig"]

_APPENDED: Final = Struct(">qii7xi8xq")


class Log(ClosedSegments):
    """Made by `Log.open`. `config` may be replaced while the log is open."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        config: LogConfig,
        *,
        read_only: bool,
        write_ahead: WriteAhead | None = None,
    ) -> None:
        super().__init__(folder, files, config)
        self.openings = 0
        """How often the files were read, which ends the swaps that were begun."""
        self.write_ahead = write_ahead
        self._read_only = read_only
        self._folder_dirty = False
        # Up to where its own files are synced, which a thread may raise, and up to where it was
        # written ahead of that.
        self._synced_offset = self._ahead_offset = 0

    @classmethod
    def open(
        cls,
        folder: Path,
        files: Files,
        config: LogConfig | None = None,
        *,
        start_offset: int = 0,
        cut_to: int | None = None,
        read_only: bool = False,
        write_ahead: WriteAhead | None = None,
    ) -> Log:
        """The log in `folder`, recovered; a folder that is not there yet is an empty log and is
        made by the first append. `start_offset`: what is below it was deleted (`delete_before`).
        `cut_to`: what lies behind it goes (`truncate_to`). `write_ahead`: what may have kept what
        the files have lost.

        Raises OSError, LogError, UnsupportedMagic.
        """
        config = config or LogConfig()
        log = cls(folder, files, config, read_only=read_only, write_ahead=write_ahead)
        log._deleted_before = start_offset
        must_last = write_ahead is not None and write_ahead.has_left(folder.name)
        try:
            log._load(0, sync=(config.sync_at_open or must_last) and not read_only)
            if write_ahead is not None:
                write_ahead.restore(log)
            if cut_to is not None:
                log.truncate_to(cut_to)
        except BaseException:
            log.close()
            raise
        log._synced_offset = log.end_offset
        return log

    @property
    def synced_offset(self) -> int:
        """What is below it outlives a power loss."""
        return max(self._synced_offset, self._ahead_offset)

    def written_ahead(self, end_offset: int) -> None:
        """All below `end_offset` is durable, though not in the log's own files."""
        self._ahead_offset = end_offset

    def refuse(self, offset: int, error: OSError) -> None:
        """What was appended from `offset` on is refused: the log is `failed`, and recover() cuts
        it off, though it may have been synced meanwhile."""
        with self._syncing:
            self.failed = error
            self._keep_synced(offset)

    def _keep_synced(self, offset: int) -> None:
        self._synced_offset = min(self._synced_offset, offset)
        self._ahead_offset = min(self._ahead_offset, offset)

    def _load(self, recovery_point: int, *, sync: bool) -> None:
        """`recovery_point`: what is below it is known to be durable."""
        self.openings += 1
        self._swap = None  # recover() finishes it
        self._segments = recover(
            self.folder,
            self.files,
            index_interval_bytes=self.config.index_interval_bytes,
            recovery_point=recovery_point,
            read_only=self._read_only,
            sync=sync,
        )
        end_offset = self._segments[-1].end_offset if self._segments else 0
        # A crash may take records that were deleted; their offsets are not given again.
        self.end_offset = max(end_offset, self._deleted_before)
        if not self._read_only:
            delete_below(self._segments, self._deleted_before, self.files)

    def append(self, batch: bytes) -> int:
        """Writes one batch, which must begin at `end_offset`, and returns its base offset.

        Raises OSError when the disk refuses; then nothing of the batch is in the log, and it
        may be appended again. If the bytes that were written cannot be cut off either, the log
        is `failed`: it raises LogFailed from then on. The checksum is the caller's business.
        """
        base_offset, length, epoch, last_offset_delta, max_timestamp = _APPENDED.unpack_from(batch)
        size = len(batch)
        if base_offset != self.end_offset or length + LENGTH_END != size or last_offset_delta < 0:
            raise LogError(
                f"a batch of {length + LENGTH_END} bytes at offset {base_offset}, given as {size} "
                f"bytes to a log that ends at {self.end_offset}"
            )
        self._append(batch, base_offset + last_offset_delta, max_timestamp, epoch)
        return int(base_offset)

    def append_built(self, builder: BatchBuilder) -> bytes:
        """Writes what was gathered as one batch, and returns its bytes. Raises as `append`."""
        base_offset, epoch = self.end_offset, self.config.leader_epoch
        batch = builder.finish(base_offset, epoch)
        self._append(batch, base_offset + builder.count - 1, builder.max_timestamp, epoch)
        return batch

    def _append(self, batch: bytes, last_offset: int, max_timestamp: int, epoch: int) -> None:
        if self.failed is not None or self._read_only:
            raise self._refusal()
        size = len(batch)
        segments = self._segments
        if not segments or segments[-1].is_full(self.config, size, last_offset, max_timestamp):
            self._roll()
        segment = segments[-1]
        try:
            (segment.file or segment.opened()).append(batch)
        except OSError:
            self._cut_partial(segment)
            raise
        # In this order: a sync beside us reads the end, clears `dirty`, and only then syncs.
        segment.dirty = True
        segment.note(self.end_offset, last_offset + 1, size, max_timestamp, epoch)
        self.end_offset = last_offset + 1

    def _roll(self) -> None:
        """Begins a segment at `end_offset`. On OSError the log is as it was."""
        if self._segments:
            full = self._segments[-1]
            full.opened().truncate(full.size)  # gives back what was allocated ahead
            full.dirty = True
            if self.config.sync_at_open:
                self.sync(up_to=0)  # the round that it is in may still be refused
        else:
            self.files.make_folder(self.folder)
        segment = self._segment(self.end_offset)
        segment.opened(create=True)
        self._folder_dirty = True
        self._segments.append(segment)
        self._close_idle()

    def _segment(self, base_offset: int) -> Segment:
        return Segment(self.folder, self.files, base_offset, self.config.index_interval_bytes)

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

    def sync(self, *, up_to: int | None = None) -> None:
        """Makes all that was appended before durable, and only then raises `synced_offset`, to
        `up_to` at most.

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
                    self.files.sync_folder(self.folder)
                    self.files.sync_folder(self.folder.parent)
            except OSError as error:
                self._folder_dirty |= folder_dirty  # synced bytes without a name are lost
                self.failed = error
                raise
            synced_offset = end_offset if up_to is None else min(up_to, end_offset)
            self._synced_offset = max(self._synced_offset, synced_offset)

    def recover(self) -> None:
        """After a failure: opens the files again and cuts off everything that was never synced.
        What was written ahead is given back: a second sync of the file would prove nothing.

        Whoever was refused will not find its bytes later, and what was acknowledged is there.
        Raises OSError while the disk still refuses; the log then stays failed.
        """
        with self._syncing:
            for segment in self._segments:
                with suppress(OSError):
                    segment.close()
            self.failed = None
            durable_offset, synced_offset = self.synced_offset, self._synced_offset
            try:
                self._load(synced_offset, sync=False)
                if self.end_offset < synced_offset:
                    raise LogFailed(f"{self.folder} lost synced bytes: it was changed under us")
                self._cut_to(synced_offset)
                if self.write_ahead is not None and synced_offset < durable_offset:
                    self.write_ahead.give_back(self)
                    if self.end_offset < durable_offset:
                        raise LogFailed(f"{self.folder} lost what was written ahead of it")
                    self._cut_to(durable_offset)
                self.sync()
            except (OSError, LogError) as error:
                self._ahead_offset = durable_offset
                self.failed = error if isinstance(error, OSError) else LogFailed(str(error))
                raise

    def _cut_to(self, offset: int) -> None:
        self.truncate_to(max(self.start_offset, offset))
        if self._segments:
            # What an earlier try has cut and could not sync looks as if it had never been.
            self._segments[-1].dirty = self._folder_dirty = True

    def truncate_to(self, offset: int) -> None:
        """Cuts off every batch that reaches `offset` or beyond.

        Raises OffsetOutOfRange below the start; OSError, after which the log is `failed`, ends at
        `offset` at most, and what is beyond may still be on the disk.
        """
        if offset >= self.end_offset:
            return
        if offset < self.start_offset:
            raise OffsetOutOfRange(offset, self.start_offset, self.end_offset)
        with self._syncing:
            try:
                if offset < self.surveyed_end:
                    in_place(remove_cache_files(self.folder, self.files))
                self._truncate(offset)
            except OSError as error:
                self.end_offset = min(self.end_offset, offset)  # what is beyond counts no more
                self.failed = error
                raise

    def _truncate(self, offset: int) -> None:
        # From the end, so that a failure or a crash leaves a log without a hole.
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            gone = self._segments.pop()
            gone.close()
            self.files.remove(gone.path)
            if self.config.sync_at_open:
                self.files.sync_folder(self.folder)
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
        self._keep_synced(self.end_offset)

    @property
    def surveyed_end(self) -> int:
        """Up to here at most the next opening need not walk the batches."""
        return max((segment.surveyed_end for segment in self._segments), default=0)

    def survey(self) -> None:
        """Leaves word of them beside the log. Raises OSError."""
        # While a sync is under way, or once one has failed, nobody knows what is durable.
        if self.failed is None and self._syncing.acquire(blocking=False):
            try:
                synced = self.config.sync_at_open
                if self._synced_offset < self.synced_offset:
                    self.sync(up_to=self.synced_offset)
                write_survey(self.folder, self.files, self._segments, synced=synced)
            finally:
                self._syncing.release()

    def begin_segment(self) -> None:
        """Closes the active segment, if there is anything in it. Raises OSError."""
        if self._segments and self._segments[-1].size:
            self._roll()

    def close(self) -> None:
        """Closes the files without syncing; closing twice is fine."""
        self.closed = True
        with self._syncing:
            for segment in self._segments:
                segment.close()

    def delete(self) -> None:
        """Removes the folder and all in it; finish_deletions ends what a crash interrupts."""
        self.closed = True
        with self._syncing:
            for segment in self._segments:
                with suppress(OSError):
                    segment.close()
            self._segments = []
            self.end_offset = self._synced_offset = self._ahead_offset = 0
            delete_folder(self.folder, self.files)
