"""Groups whose offsets are not in memory: each is a piece of a file, and its place is known.

A file is made of pieces, one behind the other, each with a checksum of its own:

    crc32c uint32 · size uint32 · group string · count uint32 · count × (name string, value)

Strings and values have two bytes of length; a name is "topic-partition", a value the bytes of the
commit (committed.py). Nothing rests on such a file: the log has all that is in it, so it is never
synced, and a piece that does not have its checksum means that the log is to be read again.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from ..log.cache_files import SPILL, InvalidCacheFile, create_empty, frame_block, unframe_block
from ..log.files import File, Files

_LENGTH = Struct(">H")
_COUNT = Struct(">I")

Offsets = dict[str, bytes]
"""Of one group: "topic-partition" -> the bytes of the commit."""


class UnreadableGroup(OSError):
    """A piece is not what was written. Whoever has the log forgets the file and reads the log."""


class Place(NamedTuple):
    """Where a group's offsets are, and how many."""

    file: File
    position: int
    size: int
    offsets: int


def new_spill(folder: Path, files: Files) -> File:
    """An empty file beside a log, for offsets that find no room in memory. Raises OSError."""
    return create_empty(folder / SPILL, files)


def append_piece(file: File, group_id: str, offsets: Mapping[str, bytes]) -> Place:
    """Writes a group's offsets at the end of the file. Raises OSError."""
    data = piece(group_id, offsets)
    place = Place(file, file.size, len(data), len(offsets))
    file.append(data)
    return place


def piece(group_id: str, offsets: Mapping[str, bytes]) -> bytes:
    name = group_id.encode()
    parts = [_LENGTH.pack(len(name)), name, _COUNT.pack(len(offsets))]
    for key, value in offsets.items():
        name = key.encode()
        parts += (_LENGTH.pack(len(name)), name, _LENGTH.pack(len(value)), value)
    return frame_block(b"".join(parts))


def read_piece(group_id: str, place: Place) -> Offsets:
    """Raises UnreadableGroup."""
    try:
        data = place.file.read(place.position, place.size)
    except OSError as error:
        raise UnreadableGroup(f"the bytes of group {group_id!r} cannot be read: {error}") from error
    try:
        data = unframe_block(data)
        found, at = _string(data, 0)
        if found != group_id:
            raise UnreadableGroup(f"group {found!r} stands where {group_id!r} is sought")
        (count,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        offsets: Offsets = {}
        for _ in range(count):
            key, at = _string(data, at)
            end = at + 2 + _LENGTH.unpack_from(data, at)[0]
            # One string for the tables of all groups; see table.py.
            offsets[sys.intern(key)] = data[at + 2 : end]
            at = end
    except InvalidCacheFile as error:
        raise UnreadableGroup(
            f"the {place.size} bytes of group {group_id!r} are damaged"
        ) from error
    except (struct_error, UnicodeDecodeError) as error:
        raise UnreadableGroup(f"the bytes of group {group_id!r} are cut short: {error}") from error
    return offsets


def _string(data: bytes, at: int) -> tuple[str, int]:
    start = at + 2
    end = start + _LENGTH.unpack_from(data, at)[0]
    return data[start:end].decode(), end
