"""One partition's log in a folder, while a broker may append to it, roll, compact and cut it.

Nothing is locked and no file stays open. Where something stood is remembered, here and in the hints
of splits, and looked at again before it is believed.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from ...log.batch import HEADER_BYTES
from ...log.files import File, Files
from ...log.segment import segment_name
from ...log.segment_swap import list_live_segments
from .batches import Chunk
from .segments import Hop, blocks, first_offset_at, hops, indexed, records_end
from .source import SourceError, Split

__all__ = ["PartitionLog"]

# How often a listed segment may be gone when it is opened: a compaction takes away one at a time.
VANISHED_MAX: Final = 100
# Offsets whose places are remembered: a stream comes back to where it stopped.
PLACES_MAX: Final = 8


class Place(NamedTuple):
    """A segment, by its first offset, and where in it a batch begins."""

    base: int
    position: int


class Anchor(NamedTuple):
    """The last batch of a segment, when it was looked at: while its header is there, all before it
    is as it was."""

    base: int
    header: bytes
    hop: Hop


class PartitionLog:
    def __init__(self, folder: Path, files: Files, partition: int) -> None:
        self.folder = folder
        self._files = files
        self._partition = partition
        self._places: dict[int, Place] = {}
        self._anchor: Anchor | None = None

    def start(self) -> int | None:
        """None for a log without a segment."""
        return min(self._segments(), default=None)

    def end(self) -> int | None:
        """The offset behind the last record; None for an empty log."""
        for base, file in self._opened(max(self._segments(), default=0)):
            last = self._last(file, base)
            if last is None:
                return base or None
            return self._end_of(file, base, last)
        return None

    def _last(self, file: File, base: int) -> Hop | None:
        """The last sound batch of a segment; what was looked at before is not looked at again."""
        anchor, last = self._anchor, None
        if anchor is not None and anchor.base == base and anchor.hop.end <= file.size:
            header = file.read(anchor.hop.position, HEADER_BYTES)
            last = anchor.hop if header == anchor.header else None
        begin = (0, base) if last is None else (last.end, last.next_offset)
        for block in blocks(file, *begin):
            last = block.last()
        if last is not None:
            self._anchor = Anchor(base, file.read(last.position, HEADER_BYTES), last)
        return last

    def bytes_between(self, start: int, end: int) -> int:
        """About: where `start` lies is looked up, `end` is taken to be the end of its segment."""
        return sum(
            file.size - self._seek(base, file, start)
            for base, file in self._opened(start)
            if base < end
        )

    def border(self, start: int, end: int, *, records_max: int, bytes_max: int) -> int:
        """The offset behind so many records and bytes at most, but behind one batch at least."""
        size, found = 0, start
        for base, file in self._opened(start):
            last = None
            for hop in hops(file, self._seek(base, file, start)):
                if hop.next_offset <= start:
                    continue
                size += hop.size
                over = hop.next_offset - start > records_max or size > bytes_max
                if over or hop.base_offset >= end:
                    found = found if last is None else self._end_of(file, base, last)
                    if found > start:  # else compaction has left nothing of the batches so far
                        return min(found, end)
                last = hop
            found = found if last is None else self._end_of(file, base, last)
        # Bad bytes: how much comes behind them only those can tell who read it.
        return min(found, end) if found > start else end

    def splits(self, start: int, end: int, split_bytes: int) -> list[Split]:
        found: list[Split] = []
        hint: Place | None = None
        size = 0
        for base, file in self._opened(start):
            if base >= end:
                break
            position = self._seek(base, file, start)
            hint = hint or Place(base, position)
            while size + file.size - position > split_bytes:
                before = self._before(base, file, position + split_bytes - size)
                if before is None:
                    break
                upto = self._end_of(file, base, before)
                if not start < upto < end:
                    break
                found.append(Split(self._partition, start, upto, hint))
                start, size, position = upto, 0, before.end
                hint = self._places[upto]
            size += file.size - position
        if start < end:
            found.append(Split(self._partition, start, end, hint))
        return found

    def chunks(self, split: Split) -> Iterator[Chunk]:
        """The batches of a split, of which the first may begin before it and the last end behind
        it. What was taken away meanwhile is missing; SourceError if the log ends before it."""
        offset, vanished = split.start, 0
        finished: tuple[int, int] | None = None
        if split.hint is not None:
            self._remember(split.start, Place(*split.hint))
        while offset < split.end:
            segments = self._segments()
            base = max(
                (each for each in segments if each <= offset), default=min(segments, default=-1)
            )
            if (base, _inode(segments.get(base))) == finished:
                base = min((each for each in segments if each > base), default=-1)
            if base < 0:
                raise self._cut(split, offset)
            try:
                path = segments[base]
                finished = base, _inode(path)
                file = self._files.open(path, read_only=True)
            except FileNotFoundError:
                vanished += 1
                if vanished > VANISHED_MAX:
                    raise
                continue
            with closing(file):
                for block in blocks(file, self._seek(base, file, offset), base):
                    first = int(np.searchsorted(block.nexts, offset, side="right"))
                    end = int(np.searchsorted(block.bases, split.end))
                    if first < end:
                        yield block.cut(first, end).chunk
                    if end < len(block.bases):
                        return
                    offset = max(offset, int(block.nexts[-1]))
            offset = max(offset, base)

    def _opened(self, start: int) -> Iterator[tuple[int, File]]:
        """The segments from the one that holds `start` on, each closed when it was looked at."""
        done = -1
        for _ in range(VANISHED_MAX):
            segments = self._segments()
            first = max((base for base in segments if base <= start), default=-1)
            try:
                for base, path in segments.items():
                    if base >= first and base > done:
                        with closing(self._files.open(path, read_only=True)) as file:
                            yield base, file
                        done = base
                return
            except FileNotFoundError:
                continue  # swapped or removed since it was listed

    def _segments(self) -> dict[int, Path]:
        try:
            return list_live_segments(self.folder)
        except FileNotFoundError:
            return {}

    def _seek(self, base: int, file: File, offset: int) -> int:
        """Where the batch that holds `offset` begins, or one before it."""
        if offset <= base:
            return 0
        known = self._places.get(offset)
        if known is not None and known.base == base:
            first = first_offset_at(file, known.position)
            if first is not None and first <= offset:
                return known.position
        position = indexed(self._path(base), file, offset=offset - base)
        for hop in hops(file, position):
            position = hop.position
            if hop.next_offset > offset:
                break
        self._remember(offset, Place(base, position))
        return position

    def _before(self, base: int, file: File, position: int) -> Hop | None:
        """The batch that ends at `position`, or the first one that ends behind it; None if none
        comes behind that."""
        found = None
        for hop in hops(file, indexed(self._path(base), file, position=position)):
            if found is not None and found.end >= position:
                return found
            found = hop
        return None

    def _end_of(self, file: File, base: int, hop: Hop) -> int:
        """Behind its last record: where the next read begins."""
        end = records_end(file, hop)
        self._remember(end, Place(base, hop.end if end == hop.next_offset else hop.position))
        return end

    def _remember(self, offset: int, place: Place) -> None:
        self._places.pop(offset, None)
        self._places[offset] = place
        if len(self._places) > PLACES_MAX:
            del self._places[next(iter(self._places))]

    def _path(self, base: int) -> Path:
        return self.folder / segment_name(base)

    def _cut(self, split: Split, end: int) -> SourceError:
        return SourceError(
            f"{self.folder} ends at offset {end}, and was to be read up to {split.end}: it was"
            " cut off or made anew; read it into a new lake."
        )


def _inode(path: Path | None) -> int:
    try:
        return -1 if path is None else path.stat().st_ino
    except FileNotFoundError:
        return -1
