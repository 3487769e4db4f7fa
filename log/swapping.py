"""Putting a cleaned segment into the place of those that it was made from, so that a crash at any
moment leaves one of the two, whole.

The new file is written as `.cleaned`, synced, and renamed to `.swap`: from then on it counts. The
old ones are renamed to `.deleted`; once that is durable, the new one gets its own name, and what
is `.deleted` is removed. Whoever opens the folder finishes what was begun. Upstream:
LocalLog.replaceSegments, LogLoader.removeTempFilesAndCollectSwapFiles, load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from .errors import CleaningStopped
from .files import Files
from .segment import Segment, base_offset_of, segment_name
from .tasks import CooperativeTask

CLEANED = ".cleaned"
SWAP = ".swap"
DELETED = ".deleted"

# Beside a segment in a folder that Kafka wrote; it makes them again where they are missing, and
# would be led astray by those of a segment that has become another.
SIDECARS = (".index", ".timeindex", ".txnindex")


class Leftovers(NamedTuple):
    """What a folder has of swaps that did not come to their end."""

    useless: list[str]
    swaps: list[str]


def leftovers_in(folder: Path, files: Files) -> Leftovers:
    bases = {name: base for name in files.list(folder) if (base := _base_of(name)) is not None}
    cleaned = [name for name in bases if name.endswith(CLEANED)]
    useless = [name for name in bases if name.endswith(DELETED)] + cleaned
    # KAFKA-6264: a segment that is split becomes several, and all of them are swapped in, from
    # the last one to the first, or none.
    split = min((bases[name] for name in cleaned), default=None)
    swaps: list[str] = []
    for name, base_offset in bases.items():
        if name.endswith(SWAP):
            unfinished = split is not None and base_offset >= split
            (useless if unfinished else swaps).append(name)
    return Leftovers(useless, swaps)


def finish_swaps(folder: Path, files: Files, index_interval_bytes: int) -> None:
    """Ends the swaps that a crash interrupted and removes what is of no use. Raises OSError."""
    useless, swaps = leftovers_in(folder, files)
    for name in useless:
        files.remove(folder / name)
    replaced = replaced_by(folder, files, swaps, index_interval_bytes)
    for name in replaced:
        files.remove(folder / name)
    if useless or replaced:
        # Before a new one has its name: one that came back would lie across it.
        files.sync_folder(folder)
    for name in swaps:
        files.rename(folder / name, folder / name.removesuffix(SWAP))
    if swaps:
        files.sync_folder(folder)


def prepare_swap(folder: Path, files: Files, base_offset: int, data: bytes) -> None:
    """Writes batches that count from now on in the place of all segments from `base_offset` to
    where they end. Nobody may have the log open; whoever opens it finishes the swap. Raises
    OSError."""
    cleaned = folder / (segment_name(base_offset) + CLEANED)
    file = files.open(cleaned, create=True)
    try:
        file.truncate(0)  # what a crash left there
        file.append(data)
        file.truncate(len(data))  # gives back what was allocated ahead
        file.sync()
    finally:
        file.close()
    files.rename(cleaned, cleaned.with_name(segment_name(base_offset) + SWAP))
    files.sync_folder(folder)


def replaced_by(
    folder: Path, files: Files, swaps: Iterable[str], index_interval_bytes: int
) -> list[str]:
    """The files that those to be swapped in were made from, as far as their offsets tell."""
    first, end = None, -1
    for name in swaps:
        base_offset = base_offset_of(name.removesuffix(SWAP))
        if base_offset is not None:
            segment = Segment(folder, files, base_offset, index_interval_bytes, suffix=SWAP)
            try:
                segment.scan(check_crcs=False)
            finally:
                segment.close()
            first = base_offset if first is None else min(first, base_offset)
            end = max(end, segment.end_offset)
    if first is None:
        return []
    return [
        name
        for name in files.list(folder)
        if (base := base_offset_of(_as_log(name))) is not None and first <= base < end
    ]


def set_aside(files: Files, segment: Segment) -> list[str]:
    """Renames a segment's files, so that nobody takes them for a part of the log any more, and
    returns their new names. Does nothing for what is not there."""
    folder, name = segment.path.parent, segment.path.name
    stem = name.removesuffix(".log")
    aside = []
    for each in (*(stem + suffix for suffix in SIDECARS), name):
        if files.exists(folder / each):
            files.rename(folder / each, folder / (each + DELETED))
        aside.append(each + DELETED)
    return aside


def remove_all(files: Files, folder: Path, names: Iterable[str]) -> None:
    """Removes what is there of these. The end of a swap, in a thread: it can take long."""
    for name in names:
        with suppress(FileNotFoundError):
            files.remove(folder / name)


class Swap:
    """A swap under way: `cleaned` has the suffix `.swap`, and all of it is durable. `is_given_up`:
    whether the log was closed, or read again; whoever opens the folder ends the swap."""

    def __init__(
        self,
        files: Files,
        cleaned: Segment,
        old: Iterable[Segment],
        is_given_up: Callable[[], bool],
    ) -> None:
        self._files = files
        self._cleaned = cleaned
        self._folder = cleaned.path.parent
        self._old = list(old)
        self._to_remove: list[str] = []
        self._is_given_up = is_given_up

    def finish(self, done: Callable[[], None]) -> CooperativeTask[None]:
        """Calls `done` at its end. May be called again after an error. Raises OSError,
        CleaningStopped."""
        files, folder = self._files, self._folder
        while self._old:
            self._check()
            self._to_remove += set_aside(files, self._old[-1])
            self._old.pop()
            yield None
        yield partial(files.sync_folder, folder)
        self._check()
        path = self._cleaned.path
        if path.suffix == SWAP and files.exists(path):  # else retention has taken it meanwhile
            self._cleaned.rename("")
        yield partial(files.sync_folder, folder)
        yield partial(remove_all, files, folder, self._to_remove)
        done()

    def _check(self) -> None:
        if self._is_given_up():
            raise CleaningStopped(f"{self._folder} was opened anew in the middle of a swap")


def _as_log(name: str) -> str:
    for suffix in SIDECARS:
        if name.endswith(suffix):
            return name.removesuffix(suffix) + ".log"
    return name


def _base_of(name: str) -> int | None:
    """Of a file of a segment in whatever state: `00000000000000000042.timeindex.swap`."""
    stem = name.partition(".")[0]
    return int(stem) if len(stem) == 20 and stem.isascii() and stem.isdigit() else None
