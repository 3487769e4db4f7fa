"""A reader's place in a partition that others write, roll, compact, cut and delete meanwhile.

No file stays open and nothing is locked: each `read` looks anew at what is in the folder, and finds
its place again by what it read last there, or by offset.
"""

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from ...log.batch import HEADER_BYTES
from ...log.files import Files
from ...log.recovery import Corruption, ValidBatch, scan_segment
from .sources import Source

__all__ = ["Cursor", "Tail"]

# How many batches may be cut off between two looks before the whole segment is read again.
ANCHORS_MAX: Final = 1000
# How often a listed segment may be gone when it is opened. A compaction takes away one at a time; a
# link that leads nowhere is listed for ever.
VANISHED_MAX: Final = 100


class Anchor(NamedTuple):
    """A batch as it was read: while its header is there, all before it is as it was."""

    position: int
    header: bytes
    end: int
    next_offset: int


class Tail(NamedTuple):
    """Where the log ends, so far: bytes in its last segment that nothing sound follows. A crash
    leaves them, or they are just being written."""

    flaw: Corruption


Item: TypeAlias = ValidBatch | Corruption | Tail


class Cursor:
    """`offset`: the lowest that was not read yet; `path`: the segment read last. `say` hears what
    happens to the log itself."""

    def __init__(self, source: Source, files: Files, say: Callable[[str], None]) -> None:
        self.source = source
        self._files = files
        self._say = say
        self._forget()

    def _forget(self) -> None:
        self.offset = 0
        self.path: Path | None = None
        self._base = 0
        self._inode = -1
        self._position = 0
        self._anchors: deque[Anchor] = deque(maxlen=ANCHORS_MAX)

    def read(self) -> Iterator[tuple[Path, int, Item]]:
        """(segment, lowest offset that is new, what) from where the last call ended up to the end
        as it is then. A tail is given again by each call until more is there.

        Raises OSError, UnsupportedMagic."""
        finished, vanished = False, 0
        newest: int | None = None
        while True:
            segments = self._segments()
            if not segments:
                return
            newest = next(reversed(segments)) if newest is None else newest
            relocated = self._choose(segments, finished=finished)
            assert self.path is not None
            is_last = self._base == next(reversed(segments))
            try:
                yield from self._read_segment(self.path, relocated, is_last)
            except FileNotFoundError:
                vanished += 1
                if vanished > VANISHED_MAX:
                    raise
                finished = False  # swapped or removed since it was listed
                continue
            # What rolls while this goes on is for the next call: a broker may write faster.
            if is_last or self._base >= newest:
                return
            finished = True

    def _segments(self) -> dict[int, Path]:
        try:
            segments = self.source.segments()
        except FileNotFoundError:
            segments = {}
        if not segments and self.path is not None:
            self._say(f"{self.source.name} is gone: its folder has no segments any more")
            self._forget()
        return segments

    def _choose(self, segments: dict[int, Path], *, finished: bool) -> bool:
        """Sets the segment to read. True when the place in it has to be found by offset."""
        began = self.path is not None
        stands = began and self._inode_of(segments.get(self._base)) == self._inode
        if stands and not finished:
            return False
        if stands:
            base = min(base for base in segments if base > self._base)
        else:
            base = max((base for base in segments if base <= self.offset), default=min(segments))
            if began and base > self.offset:
                self._say(
                    f"{self.source.name}: offsets {self.offset}..{base - 1} "
                    "were removed before they could be read"
                )
                self.offset = base
            elif self._base in segments and began:
                self._say(
                    f"{segments[self._base]} was compacted while it was read: "
                    f"going on at offset {self.offset}"
                )
        self._base, self.path = base, segments[base]
        self._inode = self._inode_of(self.path)
        self._position = 0
        self._anchors.clear()
        return began and not stands

    def _inode_of(self, path: Path | None) -> int:
        try:
            return -1 if path is None else path.stat().st_ino
        except FileNotFoundError:
            return -1

    def _read_segment(
        self, path: Path, relocated: bool, is_last: bool
    ) -> Iterator[tuple[Path, int, Item]]:
        file = self._files.open(path, read_only=True)
        try:
            self._check_anchors(file.read)
            end_offset = lowest = self._base if relocated else max(self._base, self.offset)
            for item in scan_segment(file, self._base, position=self._position, offset=lowest):
                if isinstance(item, ValidBatch):
                    end_offset = item.header.next_offset
                    header = item.batch[:HEADER_BYTES]
                    self._anchors.append(Anchor(item.position, header, item.end, end_offset))
                elif item.next_offset is not None:
                    end_offset = item.next_offset
                elif is_last:
                    yield path, self.offset, Tail(item)
                    break
                self._position = item.end
                if not relocated or end_offset > self.offset:
                    floor, self.offset = self.offset, max(self.offset, end_offset)
                    yield path, floor, item
            if is_last and relocated and end_offset < self.offset:
                self._say(f"{self.source.name} was cut back to offset {end_offset}")
                self.offset = end_offset
        finally:
            file.close()

    def _check_anchors(self, read: Callable[[int, int], bytes]) -> None:
        """Where what was read last is no longer there: goes on behind what still is."""
        cut = False
        while self._anchors and read(self._anchors[-1].position, HEADER_BYTES) != (
            self._anchors[-1].header
        ):
            self._anchors.pop()
            cut = True
        if cut:
            last = self._anchors[-1] if self._anchors else None
            self._position = last.end if last else 0
            self.offset = last.next_offset if last else self._base
            self._say(f"{self.source.name} was cut back to offset {self.offset}")
