"""Log recovery after a crash or disk corruption.

`recover` truncates the log at the first corrupt batch, as Kafka's LogLoader does, and saves the
truncated bytes to other files. A corrupt batch cannot stay in the log, because readers would stop
there and never see later appends. `scan_segment`, for inspection and repair, finds all valid
batches, including batches after corrupt ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from struct import error as struct_error
from typing import Final, NamedTuple

from .batch import HEADER_BYTES, MAGIC_AT, BatchHeader, check_crc, check_extent, read_header
from .errors import CorruptBatch, UnsupportedMagic
from .files import File, Files
from .producer_state import ProducerStates
from .segment import (
    CHUNK_BYTES,
    OFFSET_SPAN_MAX,
    Segment,
    is_zero_from,
    read_batch,
    verify_checksum,
    walk_batches,
)
from .segment_manifest import read_manifest
from .segment_swap import SWAP, finish_swaps, list_segments

_log = logging.getLogger("kohort.log")

# --- opening a log


def recover(
    folder: Path,
    files: Files,
    *,
    index_interval_bytes: int,
    recovery_point: int,
    read_only: bool,
    sync: bool,
    reports_gaps: bool,
    producers: ProducerStates,
) -> list[Segment]:
    """Recover and return the log's segments in order. All but the last one are closed.

    Batches are verified, with two exceptions: batches that a manifest covers are not read, and
    checksums are skipped in segments that end at or before `recovery_point` (known to be durable).
    The bytes from the first corrupt batch on are copied to a `*.cut` file and truncated. Later
    segments are renamed with the same suffix. If `read_only`, no file is changed and the manifest
    is ignored. If `sync`, segments that may not be durable are synced; otherwise, they are marked
    `dirty`. If `reports_gaps` (for logs that were never compacted), missing offsets are logged.
    They may be the only sign of a corrupt base offset, which no checksum covers. `producers` is
    updated from batches that have a producer id.

    Raises OSError, LogError for a segment of more than 2 GiB, and UnsupportedMagic for a log from
    before Kafka 0.11, which is never truncated.
    """
    if not read_only:
        finish_swaps(folder, files)
    recovery = _Recovery(folder, files, index_interval_bytes, read_only, producers)
    try:
        recovery.run(recovery_point, sync)
        if reports_gaps:
            recovery.report_gaps()
    except BaseException:
        for segment in recovery.segments:
            segment.close()
        raise
    return recovery.segments


@dataclass
class _Recovery:
    folder: Path
    files: Files
    index_interval_bytes: int
    read_only: bool
    producers: ProducerStates
    segments: list[Segment] = field(default_factory=list)

    def run(self, recovery_point: int, sync: bool) -> None:
        folder, files, segments = self.folder, self.files, self.segments
        paths = list_segments(folder, files)
        known = {} if self.read_only else read_manifest(folder, files, self.index_interval_bytes)
        bases = list(paths)
        for number, base_offset in enumerate(bases):
            if segments and base_offset < segments[-1].end_offset:
                _log.error(
                    "%s: segment %d begins before offset %d, where the previous one ends",
                    folder,
                    base_offset,
                    segments[-1].end_offset,
                )
                self._rename_unreachable_segments(bases[number:])
                break
            segment = known.get(base_offset) or Segment(
                folder,
                files,
                base_offset,
                self.index_interval_bytes,
                read_only=self.read_only,
                # Opening a log read-only does not complete an unfinished swap.
                suffix=SWAP if paths[base_offset].suffix == SWAP else "",
            )
            later = bases[number + 1 :]
            segments.append(segment)
            durable_bytes = 0 if segment.dirty else segment.size  # according to the manifest
            trusted = bool(later) and later[0] <= recovery_point
            corrupt = segment.scan(check_crcs=not trusted, producers=self.producers)
            segment.dirty = not trusted and segment.size > durable_bytes
            if isinstance(corrupt, UnsupportedMagic):
                raise corrupt
            if corrupt is not None:
                only_zeros = self._truncate(segment, corrupt)
                # Zeros are preallocated space left by a crash.
                if later and not (only_zeros and segment.end_offset == later[0]):
                    self._rename_unreachable_segments(later)
                    later = []
            if sync and segment.dirty:
                _make_durable(segment, durable_bytes)
            if not later:
                break
            segment.close()
        if sync and segments:
            files.sync_folder(folder)
            files.sync_folder(folder.parent)

    def report_gaps(self) -> None:
        """Log the first gap in each segment, and the gaps between segments."""
        end_offset: int | None = None
        for segment in self.segments:
            gaps = [segment.gap]
            if end_offset is not None and segment.base_offset > end_offset:
                gaps.insert(0, (end_offset, segment.base_offset))
            end_offset = segment.end_offset
            for first, following in filter(None, gaps):
                _log.error(
                    "%s: offsets %d to %d are in no batch, but the log was never compacted: "
                    "records are missing, or have wrong offsets",
                    *(segment.path, first, following - 1),
                )

    def _truncate(self, segment: Segment, corrupt: CorruptBatch) -> bool:
        """Truncate the segment at its first corrupt batch, unless it is read-only. Return whether
        it contains only zeros from there on."""
        file = segment.open()
        bytes_cut = file.size - segment.size
        only_zeros = is_zero_from(file, segment.size)
        if not self.read_only:
            if not only_zeros:
                kept = self._copy_tail(segment, file)
                _log.warning(
                    "%s: truncated %d bytes after offset %d: %s, kept in %s",
                    segment.path,
                    bytes_cut,
                    segment.end_offset - 1,
                    corrupt,
                    kept.name,
                )
            file.truncate(segment.size)
            segment.dirty = True
        return only_zeros

    def _copy_tail(self, segment: Segment, file: File) -> Path:
        path = self._unused_name(segment.path, segment.size)
        with closing(self.files.open(path, create=True)) as copy:
            position = segment.size
            while chunk := file.read(position, CHUNK_BYTES):
                copy.append(chunk)
                position += len(chunk)
            copy.sync()
        # Sync before truncating, so that a crash cannot lose the tail.
        self.files.sync_folder(path.parent)
        return path

    def _rename_unreachable_segments(self, bases: list[int]) -> None:
        """Rename segments that follow a corrupt batch or overlap an earlier segment, so that they
        are not read."""
        if self.read_only:
            return
        for base_offset in bases:
            path = self.folder / f"{base_offset:020d}.log"
            kept = self._unused_name(path, 0)
            self.files.rename(path, kept)
            _log.error("%s is no longer read; kept as %s", path, kept.name)

    def _unused_name(self, path: Path, position: int) -> Path:
        names = (path.with_name(f"{path.name}.{position}.{number}.cut") for number in count())
        return next(name for name in names if not self.files.exists(name))


def _make_durable(segment: Segment, durable_bytes: int) -> None:
    file = segment.open()
    # A sync alone is not enough, because a previous process may have failed to sync these bytes.
    file.rewrite(durable_bytes)
    file.sync()
    segment.dirty = False


# --- inspection and repair

# The magic byte of batches, for which `_next_valid` searches.
MAGIC: Final = b"\x02"


class ValidBatch(NamedTuple):
    """A complete batch with a correct checksum, and with higher offsets than earlier batches."""

    position: int
    header: BatchHeader
    batch: bytes

    @property
    def end(self) -> int:
        return self.position + len(self.batch)


class Corruption(NamedTuple):
    """A corrupt range. `next_offset` is the base offset of the next valid batch, or None if no
    valid batch follows (a torn tail, or a batch that is being written)."""

    position: int
    size: int
    reason: str
    first_offset: int
    next_offset: int | None

    @property
    def end(self) -> int:
        return self.position + self.size


def scan_segment(
    file: File, base_offset: int, *, position: int = 0, offset: int | None = None
) -> Iterator[ValidBatch | Corruption]:
    """Yield the valid batches and the corrupt ranges from `position` on, except zeros at the end.
    `offset` is the lowest offset that the next batch may have. Raises OSError and, for formats
    before Kafka 0.11, UnsupportedMagic.
    """
    lowest = before = base_offset if offset is None else offset
    # No checksum covers base offsets, so a batch is accepted only after a comparison with the next
    # batch.
    held: ValidBatch | None = None
    while position < file.size:
        try:
            for valid in _whole_batches(file, position, base_offset):
                if valid.header.base_offset < lowest:
                    if held is None or not _has_wrong_offset(held, before, valid, file):
                        raise CorruptBatch(valid.position, _out_of_order(valid.header, lowest))
                    yield Corruption(
                        held.position,
                        len(held.batch),
                        f"{_out_of_order(held.header, before)}, and lower ones follow",
                        before,
                        valid.header.base_offset,
                    )
                elif held is not None:
                    yield held
                    before = lowest
                held, lowest, position = valid, valid.header.next_offset, valid.end
            break
        except UnsupportedMagic:  # a kind of CorruptBatch
            raise
        except CorruptBatch as error:
            if held is not None:
                yield held
                held, before = None, lowest
            corruption = _corruption(file, error, base_offset, lowest)
            if corruption is not None:
                yield corruption
            if corruption is None or corruption.next_offset is None:
                return
            position = corruption.end
    if held is not None:
        yield held


def _whole_batches(file: File, position: int, base_offset: int) -> Iterator[ValidBatch]:
    """Yield batches. Raises CorruptBatch at the first invalid batch."""
    for batch in walk_batches(file, position, file.size):
        verify_checksum(file, batch)
        header = read_header(batch.buffer, batch.start)
        _check_offsets(batch.position, header, base_offset)
        yield ValidBatch(batch.position, header, read_batch(file, batch))


def _check_offsets(position: int, header: BatchHeader, base_offset: int) -> None:
    if header.last_offset_delta < 0 or header.count < 0:
        raise CorruptBatch(
            position,
            f"{header.count} records and a last offset delta of {header.last_offset_delta}",
        )
    if header.last_offset - base_offset > OFFSET_SPAN_MAX:
        raise CorruptBatch(
            position, f"offset {header.last_offset} is too far from the base offset of its segment"
        )


def _out_of_order(header: BatchHeader, lowest: int) -> str:
    return f"offsets {header.base_offset}..{header.last_offset} where {lowest} is expected next"


def _has_wrong_offset(held: ValidBatch, before: int, valid: ValidBatch, file: File) -> bool:
    """The offsets of `held` and of the next batch, `valid`, contradict each other. Return whether
    those of `held` are wrong: `held` would fit between the offset `before` and `valid`, but `valid`
    does not fit between `held` and the third batch, or the third batch is missing or also
    contradicts `held`."""
    if valid.header.base_offset - before <= held.header.last_offset_delta:
        return False
    third = header_at(file, valid.end)
    if third is None or third.base_offset < held.header.next_offset:
        return True
    return third.base_offset - held.header.next_offset <= valid.header.last_offset_delta


def _corruption(
    file: File, error: CorruptBatch, base_offset: int, lowest: int
) -> Corruption | None:
    """Return the corrupt range that begins at `error`, or None if only zeros follow."""
    start = error.position
    following = _next_valid(file, start, base_offset, lowest)
    if following is not None:
        position, header = following
        return Corruption(start, position - start, error.reason, lowest, header.base_offset)
    if is_zero_from(file, start):
        return None
    return Corruption(start, file.size - start, error.reason, lowest, None)


def _next_valid(
    file: File, start: int, base_offset: int, lowest: int
) -> tuple[int, BatchHeader] | None:
    """Find the first valid batch after a corrupt one."""
    position = start
    # Skip a batch with a plausible length. Its records may contain bytes that look like a batch.
    while (header := header_at(file, position)) is not None:
        position += header.size
        valid = _valid_header_at(file, position, base_offset, lowest)
        if valid is not None:
            return position, valid
        if position == file.size:
            return None
    position = start + 1
    while file.size - position >= HEADER_BYTES:
        chunk = file.read(position, CHUNK_BYTES)
        at = chunk.find(MAGIC, MAGIC_AT)
        while 0 <= at <= len(chunk) - HEADER_BYTES + MAGIC_AT:
            base = int.from_bytes(chunk[at - MAGIC_AT : at - MAGIC_AT + 8], "big")
            # Check this first, because it is cheap and a random match is unlikely.
            if lowest <= base <= base_offset + OFFSET_SPAN_MAX:
                valid = _valid_header_at(file, position + at - MAGIC_AT, base_offset, lowest)
                if valid is not None:
                    return position + at - MAGIC_AT, valid
            at = chunk.find(MAGIC, at + 1)
        position += max(1, len(chunk) - HEADER_BYTES + 1)
    return None


def header_at(file: File, position: int) -> BatchHeader | None:
    """Return the header of the batch at `position`, or None if no batch can begin there."""
    data = file.read(position, HEADER_BYTES)
    try:
        check_extent(data, 0, file.size - position)
    except (CorruptBatch, struct_error):
        return None
    return read_header(data)


def _valid_header_at(
    file: File, position: int, base_offset: int, lowest: int
) -> BatchHeader | None:
    header = header_at(file, position)
    if header is None or header.base_offset < lowest:
        return None
    try:
        _check_offsets(position, header, base_offset)
        check_crc(file.read(position, header.size), 0, header.size)
    except (CorruptBatch, struct_error):
        return None
    return header
