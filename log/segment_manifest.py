"""`segments.derived` stores the state of segments, so that opening a log scans only new batches.

For a log that is always synced (`LogConfig.sync_at_open`), the manifest covers only synced bytes.
Otherwise, it covers all bytes, but is valid only until the machine reboots.

The file is disposable (cache_files.py). It is removed before any bytes that it covers change, and
by the next open if it is invalid or does not match the segments. Appends leave it valid. It does
not prove that the batches are still valid, so readers verify checksums.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
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
from .segment import INDEX_ENTRY_BYTES, Segment, last_offset_of, verify_checksum, walk_batches

# In native byte order, like the index, so the magic does not match on a machine with another one.
_MAGIC: Final = 0x6B6F686F72740002.to_bytes(8, sys.byteorder)
_BOOT_ID: Final = Struct("36s")  # empty if all bytes were synced
# Base offset, size, end offset; first and largest timestamp; last epoch; the counts of epochs and
# index entries that follow.
_SEGMENT: Final = Struct("=qqqqqiII")
_EPOCH: Final = Struct("=iq")


def write_manifest(
    folder: Path, files: Files, segments: Sequence[Segment], *, synced: bool
) -> None:
    """Write the state of all segments, or, if `synced`, only of segments before the first dirty
    one. Unless `synced`, write nothing if the boot id is unknown, because a reboot could not be
    detected. Raises OSError."""
    boot_id = "" if synced else files.boot_id()
    if not (synced or boot_id):
        return
    parts = [_BOOT_ID.pack(boot_id.encode())]
    for segment in segments:
        if synced and segment.dirty:
            break
        if segment.size:
            parts += _encode(segment)
            segment.manifest_end_offset = segment.end_offset
    with closing(create_unpublished(folder, files, SEGMENT_MANIFEST)) as file:
        file.append(frame(_MAGIC, b"".join(parts), sys.byteorder))
    publish(folder, files, SEGMENT_MANIFEST)


def read_manifest(folder: Path, files: Files, index_interval_bytes: int) -> dict[int, Segment]:
    """Return the segments that the manifest covers, by base offset. They are closed, and `dirty` if
    they may not be durable. An invalid manifest is removed, and the result is then empty. Raises
    OSError."""
    path = folder / SEGMENT_MANIFEST
    if not files.exists(path):
        return {}
    try:
        data = files.read_bytes(path)
    except OSError:
        data = b""  # an unreadable file is invalid
    try:
        segments = _decode(data, folder, files, index_interval_bytes)
        if all(map(_matches_file, segments)):
            return {segment.base_offset: segment for segment in segments}
    except (ValueError, struct_error):
        pass  # the manifest is invalid
    files.remove(path)
    # Without a sync, the file could reappear after a crash and match new data.
    files.sync_folder(folder)
    return {}


def _encode(segment: Segment) -> list[bytes]:
    index = segment.index.to_bytes()
    fixed = _SEGMENT.pack(
        segment.base_offset,
        segment.size,
        segment.end_offset,
        segment.first_timestamp,
        segment.max_timestamp,
        segment.last_epoch,
        len(segment.epochs),
        len(index) // INDEX_ENTRY_BYTES,
    )
    return [fixed, *(_EPOCH.pack(*epoch) for epoch in segment.epochs), index]


def _decode(data: bytes, folder: Path, files: Files, index_interval_bytes: int) -> list[Segment]:
    """Decode the manifest. Raises InvalidCacheFile, ValueError and struct.error."""
    data = unframe(_MAGIC, data, sys.byteorder)
    (boot_id,) = _BOOT_ID.unpack_from(data)
    boot = boot_id.rstrip(b"\0").decode()
    if boot not in ("", files.boot_id()):
        raise InvalidCacheFile("written before the machine was restarted")
    at, end = _BOOT_ID.size, len(data)
    segments = []
    while at < end:
        base_offset, *fields, epochs, entries = _SEGMENT.unpack_from(data, at)
        at += _SEGMENT.size
        segment = Segment(folder, files, base_offset, index_interval_bytes)
        segment.size, segment.end_offset = fields[:2]
        segment.first_timestamp, segment.max_timestamp, segment.last_epoch = fields[2:]
        for _ in range(epochs):
            segment.epochs.append(_EPOCH.unpack_from(data, at))
            at += _EPOCH.size
        segment.index.load(data[at : at + entries * INDEX_ENTRY_BYTES])
        at += entries * INDEX_ENTRY_BYTES
        segment.manifest_end_offset, segment.dirty = segment.end_offset, bool(boot)
        if files.exists(segment.path):  # may have been removed by retention
            segments.append(segment)
    return segments


def _matches_file(segment: Segment) -> bool:
    """Whether the batches after the last index entry are valid and end at the expected offset."""
    file = segment.open()
    end_offset = -1
    try:
        if file.size >= segment.size:
            for batch in walk_batches(file, segment.index.last_position, segment.size):
                verify_checksum(file, batch)
                end_offset = last_offset_of(batch) + 1
    except CorruptBatch:
        return False
    finally:
        segment.close()
    return end_offset == segment.end_offset
