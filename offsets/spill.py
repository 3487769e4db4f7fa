"""Block format for a group's offsets, used by spill files and snapshots.

    crc32c uint32 · size uint32 · group string · count uint32 · count × (name string, value)

Strings and values have a two-byte length prefix; names are "topic-partition", and values are commit
values. Files are not synced, because the log contains all data, and a corrupted block triggers a
reload.
"""

import sys
from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from ..log.files import File

_BLOCK = Struct(">II")  # CRC-32C and size of the rest
_LENGTH = Struct(">H")
_COUNT = Struct(">I")

GroupOffsets: TypeAlias = dict[str, bytes]
"""Values of commit records, by "topic-partition"."""


class UnreadableBlock(OSError):
    """A block cannot be read or is corrupted."""


class Extent(NamedTuple):
    """Location of a group's block."""

    file: File
    position: int
    size: int
    offsets: int  # number of offsets in the block


def append_block(file: File, group_id: str, offsets: Mapping[str, bytes]) -> Extent:
    """Append the offsets of a group to the file. Raises OSError."""
    name = group_id.encode()
    parts = [_LENGTH.pack(len(name)), name, _COUNT.pack(len(offsets))]
    for key, value in offsets.items():
        name = key.encode()
        parts += (_LENGTH.pack(len(name)), name, _LENGTH.pack(len(value)), value)
    content = b"".join(parts)
    block = _BLOCK.pack(crc32c(content), len(content)) + content
    extent = Extent(file, file.size, len(block), len(offsets))
    file.append(block)
    return extent


def read_block(group_id: str, extent: Extent) -> GroupOffsets:
    """Read the block of a group. Raises UnreadableBlock."""
    try:
        data = extent.file.read(extent.position, extent.size)
    except OSError as error:
        raise UnreadableBlock(f"The offsets of group {group_id} cannot be read: {error}") from error
    try:
        content = memoryview(data)[_BLOCK.size :]
        if _BLOCK.unpack_from(data) != (crc32c(content), len(content)):
            raise UnreadableBlock(f"The offsets of group {group_id} are corrupted: wrong checksum")
        found, at = _read_string(data, _BLOCK.size)
        if found != group_id:
            raise UnreadableBlock(f"Found the offsets of group {found}, expected {group_id}")
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        offsets: GroupOffsets = {}
        for _ in range(count):
            key, at = _read_string(data, at)
            end = at + 2 + _LENGTH.unpack_from(data, at)[0]
            # Names are interned, because all groups share the names of partitions (table.py).
            offsets[sys.intern(key)] = data[at + 2 : end]
            at = end
    except (struct_error, UnicodeDecodeError) as error:
        raise UnreadableBlock(f"The offsets of group {group_id} are truncated: {error}") from error
    return offsets


def _read_string(data: bytes, at: int) -> tuple[str, int]:
    start = at + 2
    end = start + _LENGTH.unpack_from(data, at)[0]
    return data[start:end].decode(), end
