"""The segments of a log that a broker may be using: for those who only look at it."""

from __future__ import annotations

from pathlib import Path

from .config import LogConfig
from .files import DiskFiles
from .segment import base_offset_of
from .swapping import SWAP, leftovers_in, replaced_by


def segments_of(folder: Path) -> dict[int, Path]:
    """The segments in a folder, by base offset, in order. Raises OSError.

    What a compaction is just swapping in counts, and what it replaces does not.
    """
    while True:
        try:
            return _segments_of(folder)
        except FileNotFoundError:
            if not folder.exists():
                raise  # else the swap came to its end while it was looked at


def _segments_of(folder: Path) -> dict[int, Path]:
    files = DiskFiles()
    names = [path.name for path in folder.iterdir()]
    swaps = leftovers_in(folder, files).swaps if any(n.endswith(SWAP) for n in names) else []
    replaced = replaced_by(folder, files, swaps, LogConfig().index_interval_bytes)
    found = {base_offset_of(name): name for name in names if name not in replaced}
    found |= {base_offset_of(name.removesuffix(SWAP)): name for name in swaps}
    return {base: folder / found[base] for base in sorted(b for b in found if b is not None)}
