"""Crash-safe replacement of segments by a cleaned segment.

The new file is written as `.cleaned`, synced, and renamed to `.swap`. From then on, it is part of
the log. The old files are renamed to `.deleted`. When the renames are durable, the new file gets
its final name, and the `.deleted` files are removed. Opening the folder completes interrupted
swaps. Upstream: LocalLog.replaceSegments, LogLoader.removeTempFilesAndCollectSwapFiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .errors import CleaningStopped
from .files import DISK, Files
from .segment import Segment, base_offset_of, segment_name
from .tasks import CooperativeTask

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

# Kafka's index files of a segment. Kafka recreates missing files, but would trust stale files.
INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")


class UnfinishedSwaps(NamedTuple):
    """Leftover files. Files in `useless` must be removed; files in `swaps` belong to the log."""

    useless: list[str]
    swaps: list[str]


def find_unfinished_swaps(folder: Path, files: Files) -> UnfinishedSwaps:
    bases = {
        name: base for name in files.list(folder) if (base := _base_offset_of(name)) is not None
    }
    cleaned = [name for name in bases if name.endswith(CLEANED)]
    useless = [name for name in bases if name.endswith(DELETED)] + cleaned
    # Kafka swaps in the segments of a split from last to first. If a segment is still `.cleaned`,
    # the split is incomplete, and the later `.swap` files are useless (KAFKA-6264).
    split = min((bases[name] for name in cleaned), default=None)
    swaps: list[str] = []
    for name, base_offset in bases.items():
        if name.endswith(SWAP):
            is_incomplete = split is not None and base_offset >= split
            (useless if is_incomplete else swaps).append(name)
    return UnfinishedSwaps(useless, swaps)


def finish_swaps(folder: Path, files: Files) -> None:
    """Complete the swaps that a crash interrupted and remove useless files. Raises OSError."""
    useless, swaps = find_unfinished_swaps(folder, files)
    replaced = _segments_replaced_by(swaps, folder, files)
    for name in (*useless, *replaced):
        files.remove(folder / name)
    if useless or replaced:
        # Sync first, because an old segment that reappears after a crash would overlap the new one.
        files.sync_folder(folder)
    for name in swaps:
        files.rename(folder / name, folder / name.removesuffix(SWAP))
    if swaps:
        files.sync_folder(folder)


def list_segments(folder: Path, files: Files) -> dict[int, Path]:
    """Return sorted paths by base offset; an unfinished swap's path still ends in `.swap`. Raises
    OSError."""
    useless, swaps = find_unfinished_swaps(folder, files)
    ignored = {*useless, *_segments_replaced_by(swaps, folder, files)}
    return {
        base_offset: folder / name
        for name in files.list(folder)
        if name not in ignored
        and (base_offset := base_offset_of(name.removesuffix(SWAP))) is not None
    }


def list_live_segments(folder: Path) -> dict[int, Path]:
    """Like `list_segments`, for a folder that may be in use by a broker."""
    while True:
        try:
            return list_segments(folder, DISK)
        except FileNotFoundError:
            if not folder.exists():
                raise  # otherwise, retry, because a concurrent swap was completed


def _segments_replaced_by(swaps: Iterable[str], folder: Path, files: Files) -> list[str]:
    """Return the files that the swaps replace, according to their offsets."""
    first, end = None, -1
    for name in swaps:
        base_offset = base_offset_of(name.removesuffix(SWAP))
        if base_offset is not None:
            segment = Segment(folder, files, base_offset, read_only=True, suffix=SWAP)
            with closing(segment):
                segment.scan(check_crcs=False)
            first = base_offset if first is None else min(first, base_offset)
            end = max(end, segment.end_offset)
    if first is None:
        return []
    return [
        name
        for name in files.list(folder)
        if name.endswith((".log", *INDEX_SUFFIXES))
        and (base := _base_offset_of(name)) is not None
        and first <= base < end
    ]


def write_swap(folder: Path, files: Files, base_offset: int, data: bytes) -> None:
    """Write batches that replace all segments from `base_offset` to the end of these batches. The
    log must be closed. The next open completes the swap. Raises OSError."""
    cleaned = folder / (segment_name(base_offset) + CLEANED)
    with closing(files.open(cleaned, create=True)) as file:
        file.truncate(0)  # left by a crash
        file.append(data)
        file.truncate(len(data))  # drop preallocated space
        file.sync()
    files.rename(cleaned, cleaned.with_name(segment_name(base_offset) + SWAP))
    files.sync_folder(folder)


def mark_deleted(segment: Segment) -> list[str]:
    """Mark a segment's files as deleted by renaming them. Return the new names."""
    files, folder, name = segment.files, segment.path.parent, segment.path.name
    stem = name.removesuffix(".log")
    renamed = []
    for each in (*(stem + suffix for suffix in INDEX_SUFFIXES), name):
        if files.exists(folder / each):
            files.rename(folder / each, folder / (each + DELETED))
        renamed.append(each + DELETED)
    return renamed


def remove_files(files: Files, folder: Path, names: Iterable[str]) -> None:
    """Remove files, ignoring missing ones. Blocks, so it must run in a thread."""
    for name in names:
        with suppress(FileNotFoundError):
            files.remove(folder / name)


@dataclass
class SegmentSwap:
    """A swap in progress. `cleaned` has the suffix `.swap` and is durable. `is_aborted`
    returns whether the log was closed or reloaded; the next open then completes the swap."""

    cleaned: Segment
    old: list[Segment]
    is_aborted: Callable[[], bool]
    to_remove: list[str] = field(default_factory=list)

    def finish(self, on_finish: Callable[[], None]) -> CooperativeTask[None]:
        """Complete the swap, then call `on_finish`. May be called again after an error. Raises
        OSError and CleaningStopped."""
        files, path = self.cleaned.files, self.cleaned.path
        folder = path.parent
        while self.old:
            self._check()
            self.to_remove += mark_deleted(self.old[-1])
            self.old.pop()
            yield None
        yield partial(files.sync_folder, folder)
        self._check()
        if path.suffix == SWAP and files.exists(path):  # may have been removed by retention
            self.cleaned.rename("")
        yield partial(files.sync_folder, folder)
        yield partial(remove_files, files, folder, self.to_remove)
        on_finish()

    def _check(self) -> None:
        if self.is_aborted():
            raise CleaningStopped(
                f"{self.cleaned.path.parent} was closed or reopened during a swap"
            )


def _base_offset_of(name: str) -> int | None:
    """Return the base offset in a segment file's name."""
    return base_offset_of(name.partition(".")[0] + ".log")
