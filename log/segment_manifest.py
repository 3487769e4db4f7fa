"""What walking a log's batches has found out, kept beside it in `segments.derived`: so the next
opening walks only what has come since.

Under durability `fsync` it tells of bytes that were synced, and of no others. Where nobody syncs it
tells of all, for as long as the machine is not started anew: power that goes may leave holes.

Nothing rests on this file. It is never synced; one that is torn, of another start of the machine,
or that does not fit the segments is ignored and removed. And it is removed before its bytes change
in any way but that more come behind them (derived.py), lest others fit by chance. All it says is
that they were sound when they were walked: who reads records from there looks at the checksums.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Final

from .cache_files import (
    SEGMENT_MANIFEST,
    InvalidCacheFile,
    create_unpublished,
    frame,
    publish,
    unframe,
)
from .errors import CorruptBatch
from .files import Files
from .index import ENTRY_BYTES
from .segment import Segment, check_place, last_offset, walk
from .swapping import leftovers_in

# In the byte order of this machine, as the index is: of another order the magic is wrong.
_MAGIC: Final = 0x6B6F686F72740001.to_bytes(8, sys.byteorder)
_BOOT_ID: Final = Struct("36s")  # empty: all was synced
# Base offset, size, end offset; first and largest timestamp, where the largest is; last epoch;
# how many epochs, and how many entries of the index follow.
_SEGMENT: Final = Struct("=qqqqqqiII")
_EPOCH: Final = Struct("=iq")


def write_survey(folder: Path, files: Files, segments: Sequence[Segment], *, synced: bool) -> None:
    """Tells of the segments up to the first that is dirty if `synced`, else of all of them. Does
    nothing where there is nothing to be told for sure. Raises OSError."""
    boot_id = "" if synced else files.boot_id()
    # Whoever opens the folder ends the swap, and finds other segments than these.
    if not (synced or boot_id) or leftovers_in(folder, files).swaps:
        return
    parts = [_BOOT_ID.pack(boot_id.encode())]
    for segment in segments:
        if synced and segment.dirty:
            break
        if segment.size:
            parts += _packed(segment)
            segment.surveyed_end = segment.end_offset
    file = create_unpublished(folder, files, SEGMENT_MANIFEST)
    try:
        file.append(frame(_MAGIC, b"".join(parts), sys.byteorder))
    finally:
        file.close()
    publish(folder, files, SEGMENT_MANIFEST)


def _packed(segment: Segment) -> list[bytes]:
    index = segment.index.packed()
    fixed = _SEGMENT.pack(
        segment.base_offset,
        segment.size,
        segment.end_offset,
        segment.first_timestamp,
        segment.max_timestamp,
        segment.max_timestamp_position,
        segment.last_epoch,
        len(segment.epochs),
        len(index) // ENTRY_BYTES,
    )
    return [fixed, *(_EPOCH.pack(*epoch) for epoch in segment.epochs), index]


def surveyed_in(folder: Path, files: Files, index_interval_bytes: int) -> dict[int, Segment]:
    """The segments that the survey of the folder tells of and that are there, by base offset, as
    far as it goes, closed; `dirty` where they are not known to be durable. None of them, and no
    survey is left, if it is not good for all. Raises OSError."""
    path = folder / SEGMENT_MANIFEST
    if not files.exists(path):
        return {}
    try:
        data = files.read_bytes(path)
    except OSError:
        data = b""  # no word of it is needed
    try:
        segments = _read(data, folder, files, index_interval_bytes)
        if all(map(_fits, segments)):
            return {segment.base_offset: segment for segment in segments}
    except (ValueError, struct_error):
        pass  # removed like any other that is no good
    files.remove(path)
    # One that came back might fit what will have been written by then.
    files.sync_folder(folder)
    return {}


def _read(data: bytes, folder: Path, files: Files, index_interval_bytes: int) -> list[Segment]:
    """Raises ValueError, struct.error for what is torn or of another time."""
    data = unframe(_MAGIC, data, sys.byteorder)
    (boot_id,) = _BOOT_ID.unpack_from(data)
    boot = boot_id.rstrip(b"\0").decode()
    if boot not in ("", files.boot_id()):
        raise InvalidCacheFile("written before the machine was started")
    at, end = _BOOT_ID.size, len(data)
    segments = []
    while at < end:
        base_offset, size, end_offset, *rest, epochs, entries = _SEGMENT.unpack_from(data, at)
        at += _SEGMENT.size
        segment = Segment(folder, files, base_offset, index_interval_bytes)
        segment.size, segment.end_offset = size, end_offset
        segment.first_timestamp, segment.max_timestamp = rest[:2]
        segment.max_timestamp_position, segment.last_epoch = rest[2:]
        for _ in range(epochs):
            segment.epochs.append(_EPOCH.unpack_from(data, at))
            at += _EPOCH.size
        segment.index.unpack(data[at : at + entries * ENTRY_BYTES])
        at += entries * ENTRY_BYTES
        segment.surveyed_end, segment.dirty = end_offset, bool(boot)
        if files.exists(segment.path):  # else retention has taken it
            segments.append(segment)
    return segments


def _fits(segment: Segment) -> bool:
    """Whether the last stretch is what the survey tells of: batches, sound, up to where it ends."""
    file = segment.opened()
    end_offset = -1
    try:
        if file.size >= segment.size:
            for place in walk(file, segment.index.last_position, segment.size):
                check_place(file, place)
                end_offset = last_offset(place) + 1
    except CorruptBatch:
        return False
    finally:
        segment.close()
    return end_offset == segment.end_offset
