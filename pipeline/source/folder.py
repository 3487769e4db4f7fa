"""An offsets log in a data folder of Kafka or kohort, possibly while a broker appends to it, rolls,
compacts and truncates it.

Nothing is locked and no file stays open. Positions are cached, in memory and in the hints of
splits, and verified before use.
"""

import re
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from ...log.batch import HEADER_BYTES
from ...log.checkpoint import read_topic_id
from ...log.files import DISK, File, inode_of
from ...log.segment import segment_name
from ...log.segment_swap import list_live_segments
from ...topics.names import OFFSETS_TOPIC
from ..diagnosis.group_history import LogEnd
from .batches import Chunk
from .decoding import decode, within
from .log_ends import samples_of_folder
from .segments import Hop, blocks, first_offset_at, hops, indexed, records_end
from .source import SPLIT_BYTES, Positions, SourceError, Split, TimeSpan, fair_shares, unread
from .topic_ids import topic_ids_of_folder

PARTITION: Final = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)", re.ASCII)


class FolderSource:
    """A `Source`. `path`: a data folder, or the folder of one partition."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[int, PartitionLog] = {}

    def cluster_id(self, timeout_seconds: float | None = None) -> str:  # noqa: ARG002
        folder = self.path.resolve()
        with suppress(FileNotFoundError):
            for line in (folder / "meta.properties").read_text(errors="replace").splitlines():
                key, _, value = line.partition("=")
                if key.strip() == "cluster.id" and value.strip():
                    return value.strip()
        return folder.name

    def topic_ids(self) -> dict[str, str]:
        return topic_ids_of_folder(self.path)

    def log_ends(self, topics: Collection[str] | None, past: TimeSpan | None) -> Iterator[LogEnd]:
        return samples_of_folder(self.path, topics, past)

    def log_id(self) -> str | None:
        for log in self._logs().values():
            if (topic_id := read_topic_id(log.folder, DISK)) is not None:
                return str(topic_id)
        return None

    def starts(self) -> dict[int, int]:
        starts = {partition: log.start() for partition, log in self._logs().items()}
        return {partition: start for partition, start in starts.items() if start is not None}

    def ends(self) -> dict[int, int]:
        ends = {partition: log.end() for partition, log in self._logs().items()}
        return {partition: end for partition, end in ends.items() if end is not None}

    def limited(
        self, start: Positions, end: Positions, *, records_max: int, bytes_max: int
    ) -> dict[int, int]:
        begins = {**self.starts(), **start}
        pending = unread(begins, end)
        logs = {at: self._log(at) for at in pending}
        records = fair_shares(pending, records_max)
        sizes = {at: logs[at].bytes_between(begins[at], end[at]) for at in pending}
        size = fair_shares(sizes, bytes_max)
        return dict(end) | {
            at: logs[at].limited(begins[at], end[at], records_max=records[at], bytes_max=size[at])
            for at in pending
        }

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        begins = {**self.starts(), **start}
        return [
            split
            for at in unread(begins, end)
            for split in self._log(at).splits(begins[at], end[at], split_bytes)
        ]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        partition = split.offsets_partition
        log = self._log(partition)
        for rows in decode(log.chunks(split), partition, split.start):
            yield within(rows, split.start, split.end)

    def _log(self, partition: int) -> "PartitionLog":
        """Return the log of an offsets partition. Raises SourceError and OSError."""
        log = self._logs().get(partition)
        if log is None:
            raise SourceError(f"{self.path} has no folder {OFFSETS_TOPIC}-{partition}.")
        return log

    def _logs(self) -> "dict[int, PartitionLog]":
        """Return logs by offsets partition. Raises SourceError and OSError."""
        if match := PARTITION.fullmatch(self.path.name):
            found = {int(match[1]): self.path}
        elif self.path.is_dir():
            named = ((PARTITION.fullmatch(folder.name), folder) for folder in self.path.iterdir())
            found = {int(match[1]): folder for match, folder in named if match}
        else:
            raise SourceError(f"{self.path} is not a folder: pass a data folder.")
        if not found:
            raise SourceError(f"{self.path} has no folder {OFFSETS_TOPIC}-N: pass a data folder.")
        for partition, folder in found.items():
            if partition not in self._known:
                self._known[partition] = PartitionLog(folder, partition)
        return {partition: self._known[partition] for partition in sorted(found)}


# How many times a listed segment may be missing when it is opened. Compaction replaces one segment
# at a time.
MISSING_MAX: Final = 100
# Number of offsets whose positions are cached, because a stream continues where it stopped.
POSITIONS_MAX: Final = 8


class Position(NamedTuple):
    """The base offset of a segment, and the position in it at which a batch begins."""

    base: int
    position: int


class Anchor(NamedTuple):
    """The last batch read from a segment. As long as its header is unchanged, so is everything
    before it."""

    base: int
    header: bytes
    hop: Hop


class PartitionLog:
    def __init__(self, folder: Path, partition: int) -> None:
        self.folder = folder
        self._partition = partition
        self._positions: dict[int, Position] = {}
        self._anchor: Anchor | None = None

    def start(self) -> int | None:
        """Return the log start offset, or None if there are no segments."""
        return min(self._segments(), default=None)

    def end(self) -> int | None:
        """Return the offset after the last record, or None if the log never had a record."""
        for base, file in self._opened(max(self._segments(), default=0)):
            last = self._last(file, base)
            if last is None:
                return base or None
            return self._end_of(file, base, last)
        return None

    def _last(self, file: File, base: int) -> Hop | None:
        """Return the last valid batch of a segment; verified batches are not read again."""
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
        """Return the approximate size: `end` is treated as the end of its segment."""
        return sum(
            file.size - self._seek(base, file, start)
            for base, file in self._opened(start)
            if base < end
        )

    def limited(self, start: int, end: int, *, records_max: int, bytes_max: int) -> int:
        """Return the offset after at most this many records and bytes, but after at least one
        batch."""
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
                    if found > start:  # otherwise compaction has emptied the batches up to here
                        return min(found, end)
                last = hop
            found = found if last is None else self._end_of(file, base, last)
        # The headers end at invalid bytes: the rest is unknown until it is read.
        return min(found, end) if found > start else end

    def splits(self, start: int, end: int, split_bytes: int) -> list[Split]:
        found: list[Split] = []
        hint: Position | None = None
        size = 0
        for base, file in self._opened(start):
            if base >= end:
                break
            position = self._seek(base, file, start)
            hint = hint or Position(base, position)
            while size + file.size - position > split_bytes:
                before = self._before(base, file, position + split_bytes - size)
                if before is None:
                    break
                upto = self._end_of(file, base, before)
                if not start < upto < end:
                    break
                found.append(Split(self._partition, start, upto, hint))
                start, size, position = upto, 0, before.end
                hint = self._positions[upto]
            size += file.size - position
        if start < end:
            found.append(Split(self._partition, start, end, hint))
        return found

    def chunks(self, split: Split) -> Iterator[Chunk]:
        """Yield the batches of a split. The first may begin before the split, and the last may end
        after it. Batches removed in the meantime are missing. Raises SourceError if the log ends
        before the split ends."""
        offset, missing = split.start, 0
        finished: tuple[int, int] | None = None
        if split.hint is not None:
            self._remember(split.start, Position(*split.hint))
        while offset < split.end:
            segments = self._segments()
            lowest = min(segments, default=-1)
            base = max((each for each in segments if each <= offset), default=lowest)
            if (base, inode_of(segments.get(base))) == finished:
                base = min((each for each in segments if each > base), default=-1)
            if base < 0:
                raise SourceError(
                    f"{self.folder} ends at offset {offset}, before {split.end}: it was truncated "
                    "or recreated; read it into a new lake."
                )
            try:
                path = segments[base]
                finished = base, inode_of(path)
                file = DISK.open(path, read_only=True)
            except FileNotFoundError:
                missing += 1
                if missing > MISSING_MAX:
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
        """Yield the segments starting with the one that contains `start`, each open for one
        iteration."""
        done = -1
        for _ in range(MISSING_MAX):
            segments = self._segments()
            first = max((base for base in segments if base <= start), default=-1)
            try:
                for base, path in segments.items():
                    if base >= first and base > done:
                        with closing(DISK.open(path, read_only=True)) as file:
                            yield base, file
                        done = base
                return
            except FileNotFoundError:
                continue  # replaced or removed after it was listed

    def _segments(self) -> dict[int, Path]:
        try:
            return list_live_segments(self.folder)
        except FileNotFoundError:
            return {}

    def _seek(self, base: int, file: File, offset: int) -> int:
        """Return the position of the batch with `offset`, or of an earlier one."""
        if offset <= base:
            return 0
        known = self._positions.get(offset)
        if known is not None and known.base == base:
            first = first_offset_at(file, known.position)
            if first is not None and first <= offset:
                return known.position
        position = indexed(self._path(base), file, offset=offset - base)
        for hop in hops(file, position):
            position = hop.position
            if hop.next_offset > offset:
                break
        self._remember(offset, Position(base, position))
        return position

    def _before(self, base: int, file: File, position: int) -> Hop | None:
        """Return the first batch that ends at or after `position`; None if it is the last."""
        found = None
        for hop in hops(file, indexed(self._path(base), file, position=position)):
            if found is not None and found.end >= position:
                return found
            found = hop
        return None

    def _end_of(self, file: File, base: int, hop: Hop) -> int:
        """Return the offset after the batch's last record, where the next read begins."""
        end = records_end(file, hop)
        self._remember(end, Position(base, hop.end if end == hop.next_offset else hop.position))
        return end

    def _remember(self, offset: int, position: Position) -> None:
        self._positions.pop(offset, None)
        self._positions[offset] = position
        if len(self._positions) > POSITIONS_MAX:
            del self._positions[next(iter(self._positions))]

    def _path(self, base: int) -> Path:
        return self.folder / segment_name(base)
