"""Opening a log's files: what is sound stays, a torn tail is cut off, and what is cut is kept
aside. Cutting matters: a tail that was only skipped would swallow what is appended behind it.
"""

from __future__ import annotations

import logging
from pathlib import Path

from .errors import CorruptBatch, UnsupportedMagic
from .files import File, Files
from .segment import CHUNK_BYTES, Segment, base_offset_of
from .segment_manifest import surveyed_in
from .swapping import SWAP, finish_swaps, leftovers_in, replaced_by

logger = logging.getLogger("kohort.log")


def recover(
    folder: Path,
    files: Files,
    *,
    index_interval_bytes: int,
    recovery_point: int,
    read_only: bool,
    sync: bool,
) -> list[Segment]:
    """The log's segments, scanned, in order. Only the last one is left open.

    Every batch is checked, except in segments that end at or before `recovery_point`: what is
    known to be durable is walked and not summed again. What a survey tells of (survey.py) is not
    walked either. A bad batch ends the log there, as in Kafka's LogLoader; bytes behind it go to a
    file `*.cut`, later segments are renamed to that. With `read_only` the log ends there too, but
    nothing is touched, and no survey is believed. `sync` makes durable what was not trusted; else
    it is left `dirty`.

    Raises OSError, and UnsupportedMagic for logs of Kafka before 0.11, which nobody may cut.
    """
    if not read_only:
        finish_swaps(folder, files, index_interval_bytes)
    segments: list[Segment] = []
    try:
        _scan_all(folder, files, segments, index_interval_bytes, recovery_point, read_only, sync)
    except BaseException:
        for segment in segments:
            segment.close()
        raise
    return segments


def _scan_all(
    folder: Path,
    files: Files,
    segments: list[Segment],
    index_interval_bytes: int,
    recovery_point: int,
    read_only: bool,
    sync: bool,
) -> None:
    suffixes = _segments_in(folder, files, index_interval_bytes)
    surveyed = {} if read_only else surveyed_in(folder, files, index_interval_bytes)
    bases = sorted(suffixes)
    for number, base_offset in enumerate(bases):
        if segments and base_offset < segments[-1].end_offset:
            before = f"before offset {segments[-1].end_offset}, where the one before it ends"
            logger.error("%s: segment %d begins %s", folder, base_offset, before)
            _end_here(folder, files, bases[number:], read_only)
            break
        segment = surveyed.get(base_offset) or Segment(
            folder,
            files,
            base_offset,
            index_interval_bytes,
            read_only=read_only,
            suffix=suffixes[base_offset],
        )
        later = bases[number + 1 :]
        segments.append(segment)
        durable_bytes = 0 if segment.dirty else segment.size  # as a survey told
        trusted = bool(later) and later[0] <= recovery_point
        flaw = segment.scan(check_crcs=not trusted)
        segment.dirty = not trusted and segment.size > durable_bytes
        if isinstance(flaw, UnsupportedMagic):
            raise flaw
        if flaw is not None:
            only_zeros = _cut(segment, flaw, files, read_only)
            # They are room that was allocated ahead; a crash came before it was given back.
            if later and not (only_zeros and segment.end_offset == later[0]):
                _end_here(folder, files, later, read_only)
                later = []
        if sync and segment.dirty:
            _make_durable(segment, durable_bytes)
        if not later:
            break
        segment.close()
    if sync and segments:
        files.sync_folder(folder)
        files.sync_folder(folder.parent)


def _make_durable(segment: Segment, durable_bytes: int) -> None:
    file = segment.opened()
    # A process before this one may have failed to sync it: then a sync alone would prove nothing.
    file.write_again(durable_bytes)
    file.sync()
    segment.dirty = False


def _segments_in(folder: Path, files: Files, index_interval_bytes: int) -> dict[int, str]:
    """Base offset -> suffix of its file: `.swap` where whoever only reads finds a swap that was
    begun, and may not finish it."""
    swaps = leftovers_in(folder, files).swaps
    replaced = replaced_by(folder, files, swaps, index_interval_bytes)
    suffixes = {
        base: ""
        for name in files.list(folder)
        if (base := base_offset_of(name)) is not None and name not in replaced
    }
    for name in swaps:
        base_offset = base_offset_of(name.removesuffix(SWAP))
        if base_offset is not None:
            suffixes[base_offset] = SWAP
    return suffixes


def _cut(segment: Segment, flaw: CorruptBatch, files: Files, read_only: bool) -> bool:
    """Cuts the segment where it stops being sound. True when only zeros went."""
    file = segment.opened()
    cut_bytes = file.size - segment.size
    only_zeros = is_zero(file, segment.size)
    if not read_only:
        if not only_zeros:
            aside = _keep(segment, file, files)
            logger.warning(
                "%s: %d bytes after offset %d cut off: %s. They are kept in %s",
                segment.path,
                cut_bytes,
                segment.end_offset - 1,
                flaw,
                aside.name,
            )
        file.truncate(segment.size)
        segment.dirty = True
    return only_zeros


def _end_here(folder: Path, files: Files, bases: list[int], read_only: bool) -> None:
    """Later segments hang in the air. They are renamed, never removed."""
    if read_only:
        return
    for base_offset in bases:
        path = folder / f"{base_offset:020d}.log"
        aside = _free_name(path, 0, files)
        files.rename(path, aside)
        logger.error("%s: not reachable any more; it is kept as %s", path, aside.name)


def is_zero(file: File, position: int) -> bool:
    """Whether there is nothing but zeros from there on, as in room that was allocated ahead."""
    while chunk := file.read(position, CHUNK_BYTES):
        if chunk.count(0) != len(chunk):
            return False
        position += len(chunk)
    return True


def _keep(segment: Segment, file: File, files: Files) -> Path:
    aside = _free_name(segment.path, segment.size, files)
    kept = files.open(aside, create=True)
    try:
        position = segment.size
        while chunk := file.read(position, CHUNK_BYTES):
            kept.append(chunk)
            position += len(chunk)
        kept.sync()
    finally:
        kept.close()
    # Before the tail goes, or a crash between the two would leave neither.
    files.sync_folder(aside.parent)
    return aside


def _free_name(path: Path, position: int, files: Files) -> Path:
    number = 0
    while True:
        aside = path.with_name(f"{path.name}.{position}.{number}.cut")
        if not files.exists(aside):
            return aside
        number += 1
