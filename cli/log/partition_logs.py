"""Finding the logs at a path, and reading them while a broker writes, compacts or deletes them."""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from os.path import normpath
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from ...log.batch import HEADER_BYTES
from ...log.checkpoint import CLEANED_OFFSETS_FILE, OffsetCheckpoint
from ...log.files import DISK, File, inode_of
from ...log.recovery import Corruption, ValidBatch, scan_segment
from ...log.segment_swap import list_live_segments
from ...printable import printable
from ...topics.names import OFFSETS_TOPIC, REGISTRY_TOPIC, TRANSACTION_TOPIC
from ..errors import UserError

# The files of segments, including those that compaction, deletion, recovery and repair leave
# behind.
SEGMENT: Final = re.compile(
    r"(\d{20})\.log(?:\.(?:cleaned|swap|deleted|(\d+)\.\d+\.cut))?", re.ASCII
)
PARTITION: Final = re.compile(r"(.+)-(\d+)", re.ASCII)
KAFKA_FILES: Final = {
    ".index": "the offset index of a segment",
    ".timeindex": "the time index of a segment",
    ".txnindex": "the transaction index of a segment",
    ".snapshot": "a producer state snapshot",
    ".checkpoint": "a snapshot of cluster metadata",
}
"""Kafka's other files in a partition's folder, by suffix."""

# If more batches are truncated between two reads, the whole segment is read again.
ANCHORS_MAX: Final = 1000
# How many times a listed segment may be missing when it is opened. Compaction removes one segment
# at a time. Without a limit, a dangling symbolic link would be retried forever.
VANISHED_MAX: Final = 100


def report(text: str) -> None:
    """Print a message about the log itself to standard error."""
    sys.stdout.flush()
    print(f"# {printable(text)}", file=sys.stderr)


# --- finding logs


class PartitionLog(NamedTuple):
    """The log in a partition's folder, or only one segment of it."""

    folder: Path
    segment: Path | None = None

    @property
    def name(self) -> str:
        """The name in Kafka's messages, such as `orders-0`."""
        return self.folder.name

    @property
    def topic(self) -> str:
        match = PARTITION.fullmatch(self.name)
        return match[1] if match else self.name

    @property
    def is_offsets(self) -> bool:
        return self.topic == OFFSETS_TOPIC

    @property
    def is_registry(self) -> bool:
        return self.topic == REGISTRY_TOPIC

    @property
    def is_transactions(self) -> bool:
        return self.topic == TRANSACTION_TOPIC

    def may_have_gaps(self) -> bool:
        """Return whether the log may have been compacted or repaired."""
        if self.is_offsets or self.is_registry or self.is_transactions:
            return True
        cleaned = OffsetCheckpoint(self.folder.parent / CLEANED_OFFSETS_FILE, DISK)
        is_kept = any(name.endswith(".cut") for name in DISK.list(self.folder))
        return is_kept or self.name in cleaned

    def segments(self) -> dict[int, Path]:
        """Base offset -> path, in order. Raises OSError."""
        if self.segment is None:
            return list_live_segments(self.folder)
        match = SEGMENT.fullmatch(self.segment.name)
        assert match is not None
        return {int(match[1]): self.segment} if self.segment.exists() else {}


def find_logs(
    path: Path, *, topic: str | None = None, may_be_empty: bool = False
) -> list[PartitionLog]:
    """Return the logs at `path`, sorted by topic and partition. In a data folder, `topic` selects
    one topic, which may have no logs if `may_be_empty`. Raises OSError, and UserError if there is
    no log."""
    path = Path(normpath(path.absolute()))  # resolves `..`, because the name is parsed
    if path.is_file():
        return [_of_file(path)]
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    if not path.is_dir():
        raise UserError(f"{path} is neither a file nor a folder.")
    if list_live_segments(path):
        return [PartitionLog(path)]
    return _of_data_folder(path, topic, may_be_empty)


def size_of(logs: Iterable[PartitionLog]) -> int:
    """Return the total size in bytes of all segments that are not being deleted."""
    size = 0
    for log in logs:
        with suppress(FileNotFoundError):
            for path in log.segments().values():
                size += path.stat().st_size
    return size


def _of_file(path: Path) -> PartitionLog:
    if SEGMENT.fullmatch(path.name):
        return PartitionLog(path.parent, path)
    for suffix, kind in KAFKA_FILES.items():
        if path.name.endswith(suffix):
            raise UserError(f"{path} is {kind}: pass the .log file.")
    raise UserError(f"{path} is not a segment: expected a name of 20 digits and .log.")


def _of_data_folder(path: Path, topic: str | None, may_be_empty: bool) -> list[PartitionLog]:
    named = [PartitionLog(folder) for folder in path.iterdir() if PARTITION.fullmatch(folder.name)]
    # Other topics may have thousands of folders, so they are not opened.
    logs = [log for log in named if topic in (None, log.topic) and _has_segments(log)]
    if may_be_empty or logs:
        return sorted(logs, key=lambda log: (log.topic, int(log.name.rpartition("-")[2])))
    topics = sorted({log.topic for log in named if _has_segments(log)})
    if topics:
        some = ", ".join(topics[:5]) + (", …" if len(topics) > 5 else "")
        raise UserError(
            f"{path} has no {topic}: no group has committed offsets. "
            f"For another topic ({some}), pass a partition folder."
        )
    if not any(path.iterdir()):
        raise UserError(f"{path} is empty.")
    raise UserError(
        f"{path} is not a log: it contains neither segments nor partition folders. "
        "Pass a segment, a partition folder or a data folder."
    )


def _has_segments(log: PartitionLog) -> bool:
    return log.folder.is_dir() and bool(log.segments())


# --- reading


class Anchor(NamedTuple):
    """A batch that was read. As long as its header is unchanged, so are all batches before it."""

    position: int
    header: bytes
    end: int
    next_offset: int


class TornTail(NamedTuple):
    """Corrupt bytes at the end of the last segment, left by a crash or being written now."""

    corruption: Corruption


Item: TypeAlias = ValidBatch | Corruption | TornTail


class Cursor:
    """A position in a log that a broker may append to, roll, compact, truncate or delete.

    Nothing is locked, and no file is open between reads. Each `read` lists the folder again, and
    continues after the last batch, or at `offset` if the segment was replaced. `offset` is the
    lowest offset not read yet, and `path` is the last segment read. `report` receives messages
    about changes.
    """

    def __init__(self, log: PartitionLog, report: Callable[[str], None]) -> None:
        self.log = log
        self._report = report
        self._reset()

    def _reset(self) -> None:
        self.offset = 0
        self.path: Path | None = None
        self._base = 0
        self._inode = -1
        self._position = 0
        self._anchors: deque[Anchor] = deque(maxlen=ANCHORS_MAX)

    def read(self) -> Iterator[tuple[Path, int, Item]]:
        """Yield (segment, lowest new offset, item) from the current position to the end of the log.
        Each call repeats a torn tail until more is written. Raises OSError and UnsupportedMagic."""
        finished, vanished = False, 0
        newest: int | None = None
        while True:
            segments = self._segments()
            if not segments:
                return
            newest = next(reversed(segments)) if newest is None else newest
            relocated = self._choose_segment(segments, finished=finished)
            assert self.path is not None
            is_last = self._base == next(reversed(segments))
            try:
                yield from self._read_segment(self.path, relocated, is_last)
            except FileNotFoundError:
                vanished += 1
                if vanished > VANISHED_MAX:
                    raise
                finished = False  # replaced or removed after it was listed
                continue
            # A broker may write faster than this loop reads: the next call reads newer segments.
            if is_last or self._base >= newest:
                return
            finished = True

    def _segments(self) -> dict[int, Path]:
        try:
            segments = self.log.segments()
        except FileNotFoundError:
            segments = {}
        if not segments and self.path is not None:
            self._report(f"{self.log.name} was deleted: its folder has no segments")
            self._reset()
        return segments

    def _choose_segment(self, segments: dict[int, Path], *, finished: bool) -> bool:
        """Set the segment to read. Return True if the position in it must be found by offset."""
        began = self.path is not None
        unchanged = began and inode_of(segments.get(self._base)) == self._inode
        if unchanged:
            base = min((base for base in segments if base > self._base), default=None)
            if not finished or base is None:  # None: the following segments were truncated
                return False
        else:
            base = max((base for base in segments if base <= self.offset), default=min(segments))
            if began and base > self.offset:
                self._report(
                    f"{self.log.name}: offsets {self.offset}..{base - 1} "
                    "were removed before they were read"
                )
                self.offset = base
            elif self._base in segments and began:
                self._report(
                    f"{segments[self._base]} was compacted while it was read: "
                    f"continuing at offset {self.offset}"
                )
        self._base, self.path = base, segments[base]
        self._inode = inode_of(self.path)
        self._position = 0
        self._anchors.clear()
        return began and not unchanged

    def _read_segment(
        self, path: Path, relocated: bool, is_last: bool
    ) -> Iterator[tuple[Path, int, Item]]:
        with closing(DISK.open(path, read_only=True)) as file:
            self._check_anchors(file.read)
            end_offset = lowest = self._base if relocated else max(self._base, self.offset)
            for item in self._scan(file, lowest):
                if isinstance(item, ValidBatch):
                    end_offset = item.header.next_offset
                    header = item.batch[:HEADER_BYTES]
                    self._anchors.append(Anchor(item.position, header, item.end, end_offset))
                elif item.next_offset is not None:
                    end_offset = item.next_offset
                elif is_last:
                    yield path, self.offset, TornTail(item)
                    break
                self._position = item.end
                if not relocated or end_offset > self.offset:
                    floor, self.offset = self.offset, max(self.offset, end_offset)
                    yield path, floor, item
            if is_last and relocated and end_offset < self.offset:
                self._report(f"{self.log.name} was truncated to offset {end_offset}")
                self.offset = end_offset

    def _scan(self, file: File, lowest: int) -> Iterator[ValidBatch | Corruption]:
        position = self._position
        while True:
            for item in scan_segment(file, self._base, position=position, offset=lowest):
                if isinstance(item, Corruption) and item.next_offset is not None:
                    # The batch may have been written during the read, and be complete now.
                    position, lowest = item.position, item.first_offset
                    rescan = scan_segment(file, self._base, position=position, offset=lowest)
                    if next(rescan, None) != item:
                        break
                yield item
            else:
                return

    def _check_anchors(self, read: Callable[[int, int], bytes]) -> None:
        """If the last batches were truncated, continue after the last remaining batch."""
        anchors, truncated = self._anchors, False
        while anchors and read(anchors[-1].position, HEADER_BYTES) != anchors[-1].header:
            anchors.pop()
            truncated = True
        if truncated:
            self._position = anchors[-1].end if anchors else 0
            self.offset = anchors[-1].next_offset if anchors else self._base
            self._report(f"{self.log.name} was truncated to offset {self.offset}")
