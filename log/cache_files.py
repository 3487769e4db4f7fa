"""Disposable cache files next to a log. They are never synced.

segments.derived    segment metadata for opening the log (segment_manifest.py)
offsets.derived     a partition's committed offsets and groups (offsets/snapshot.py)
kohort.spill        offsets that were evicted from memory (offsets/spill.py)

Every file is verified when it is read, and may be deleted at any time. If it is missing, the log is
read instead, so a changed format gets a new magic, and no reader of the old format. `*.derived`
files must be durably removed before bytes that they cover are truncated or replaced. For example,
compaction removes tombstones, and a stale cache would resurrect the deleted offsets.

`*.derived` files are written under a temporary name (`segments.new.derived`), then renamed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from crc32c import crc32c

from .files import File, Files
from .tasks import CooperativeTask

_SUFFIX: Final = ".derived"
SEGMENT_MANIFEST: Final = f"segments{_SUFFIX}"
OFFSETS_SNAPSHOT: Final = f"offsets{_SUFFIX}"
SPILL: Final = "kohort.spill"

MAGIC_BYTES: Final = 8
_CRC_BYTES: Final = 4
FRAME_OVERHEAD_BYTES: Final = MAGIC_BYTES + _CRC_BYTES

ByteOrder = Literal["big", "little"]


class InvalidCacheFile(ValueError):
    """The file is truncated, has a wrong magic or checksum, or does not match the log."""


# --- files


def is_cache_file(name: str) -> bool:
    return name.endswith(_SUFFIX) or name == SPILL


def remove_cache_files(folder: Path, files: Files) -> CooperativeTask[None]:
    """Durably remove the `*.derived` files, including files created during the removal. Raises
    OSError."""
    while names := [name for name in files.list(folder) if name.endswith(_SUFFIX)]:
        for name in names:
            files.remove(folder / name)
        yield lambda: files.sync_folder(folder)


def create_empty(path: Path, files: Files) -> File:
    """Replace the file at `path` with an empty file. Existing file handles still refer to the old
    file."""
    if files.exists(path):
        files.remove(path)
    return files.open(path, create=True)


def temporary_name(name: str) -> str:
    """Return the temporary name of a `*.derived` file."""
    return f"{name.removesuffix(_SUFFIX)}.new{_SUFFIX}"


def create_unpublished(folder: Path, files: Files, name: str) -> File:
    """Create a new version of the file `name` under its temporary name, replacing any earlier
    attempt. Raises OSError."""
    return create_empty(folder / temporary_name(name), files)


def publish(folder: Path, files: Files, name: str) -> None:
    """Rename the new version to its final name. Raises OSError."""
    files.rename(folder / temporary_name(name), folder / name)


# --- framing


def frame(magic: bytes, content: bytes, byteorder: ByteOrder = "big") -> bytes:
    """Return `magic` (8 bytes), `content` and the CRC-32C of both."""
    framed = magic + content
    return framed + crc32c(framed).to_bytes(_CRC_BYTES, byteorder)


def unframe(magic: bytes, data: bytes, byteorder: ByteOrder = "big") -> bytes:
    """Return the content of a frame. Raises InvalidCacheFile."""
    end = len(data) - _CRC_BYTES
    if end < MAGIC_BYTES or data[:MAGIC_BYTES] != magic:
        raise InvalidCacheFile("wrong magic")
    if crc32c(memoryview(data)[:end]) != int.from_bytes(data[end:], byteorder):
        raise InvalidCacheFile("wrong checksum")
    return data[MAGIC_BYTES:end]
