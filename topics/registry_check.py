"""A registry that is damaged is not opened: it would be cut where the damage is, and the topics
behind it would be forgotten. The tail that a crash tears is another matter: nobody was told of it.
"""

from pathlib import Path

from ..log.batch import HEADER_BYTES, MAGIC, check, check_extent
from ..log.errors import LogError, UnsupportedMagic
from ..log.files import File, Files
from ..log.segment import Segment, base_offset_of
from .names import REGISTRY_TOPIC

__all__ = ["DamagedRegistry", "check_registry"]

# Where a batch has its magic, counted from its beginning.
_MAGIC_AT = 16


class DamagedRegistry(LogError):
    """Some of what the registry says cannot be read any more, and something behind it can."""


def check_registry(folder: Path, files: Files) -> None:
    """Raises DamagedRegistry where the registry of the data folder is damaged anywhere but at its
    very end; OSError. Touches nothing."""
    registry = folder / f"{REGISTRY_TOPIC}-0"
    names = [name for name in files.list(registry) if base_offset_of(name) is not None]
    for name in names:
        segment = Segment(registry, files, int(name[:20]), 4096, read_only=True)
        try:
            flaw = segment.scan(check_crcs=True)
            if flaw is None or isinstance(flaw, UnsupportedMagic):
                continue  # the latter is told when the log is opened
            if name != names[-1] or not _is_tail(segment.open(), segment.size):
                raise DamagedRegistry(
                    f"the registry of topics is damaged, and the topics behind that would be "
                    f"forgotten: {registry.name}/{name}: {flaw}"
                )
        finally:
            segment.close()


def _is_tail(file: File, position: int) -> bool:
    """Whether the bad batch at `position` is the last thing that was written."""
    rest = file.read(position, file.size - position)
    if _is_sound(rest, 0):
        return False  # it has another's offsets
    try:
        # All there but for its bytes. Zeros may follow: room that was allocated ahead.
        return not rest[check_extent(rest, 0, len(rest)) :].strip(b"\0")
    except LogError:
        # Nobody knows where it was to end.
        places = range(1, len(rest) - HEADER_BYTES + 1)
        return not any(rest[at + _MAGIC_AT] == MAGIC and _is_sound(rest, at) for at in places)


def _is_sound(buffer: bytes, position: int) -> bool:
    """Whether a whole batch begins there."""
    try:
        check(buffer, position, len(buffer))
    except LogError:
        return False
    return True
