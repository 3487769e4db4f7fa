"""An offsets log in a folder: of Kafka or of kohort, at rest or with a broker that writes it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...log.errors import CorruptBatch
from ...log.files import DiskFiles
from ...log.segment import base_offset_of, check_place, last_offset, walk
from ...topics.names import OFFSETS_TOPIC
from .decoding import decode
from .source import SPLIT_BYTES, Positions, SourceError, Split, shares

__all__ = ["FolderSource"]

PARTITION: Final = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)", re.ASCII)


class FolderSource:
    """`path`: a data folder, or one partition's folder in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = DiskFiles()

    def starts(self) -> dict[int, int]:
        return {
            partition: min(segments)
            for partition, folder in self._folders().items()
            if (segments := _segments(folder))
        }

    def ends(self) -> dict[int, int]:
        found = {}
        for partition, folder in self._folders().items():
            for _, _, end in self._batches(folder):
                found[partition] = end
        return found

    def limited(
        self, start: Positions, end: Positions, *, records_max: int | None, bytes_max: int | None
    ) -> dict[int, int]:
        begins = {**self.starts(), **start}
        waiting = {
            partition: upto - begins[partition]
            for partition, upto in end.items()
            if upto > begins.get(partition, upto)
        }
        found = {partition: upto for partition, upto in end.items() if partition not in waiting}
        records_of = shares(waiting, records_max or sum(waiting.values()))
        for partition, wanted in waiting.items():
            begin, size = begins[partition], 0
            for _, batch, behind in self._batches(self._folders()[partition]):
                if behind <= begin:
                    continue
                size += len(batch)
                over = behind - begin > max(1, records_of[partition]) or (
                    bytes_max is not None and size > bytes_max // len(waiting)
                )
                if over and partition in found:
                    break
                found[partition] = min(behind, begin + wanted)
        return found

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        begins = {**self.starts(), **start}
        found = []
        for partition, upto in end.items():
            begin, size = begins.get(partition, upto), 0
            for _, batch, behind in self._batches(self._folders()[partition]):
                size += len(batch) if behind > begin else 0
                if size >= split_bytes and behind < upto:
                    found.append(Split(partition, begin, behind))
                    begin, size = behind, 0
            if begin < upto:
                found.append(Split(partition, begin, upto))
        return found

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        folder = self._folders()[split.offsets_partition]
        chunks = (
            batch
            for base, batch, behind in self._batches(folder)
            if behind > split.start and base < split.end
        )
        for rows in decode(chunks, split.offsets_partition, split.start):
            inside = pc.and_(
                pc.greater_equal(rows["log_offset"], split.start),
                pc.less(rows["log_offset"], split.end),
            )
            yield rows.filter(inside)

    def _folders(self) -> dict[int, Path]:
        """Of each offsets partition. Raises SourceError, OSError."""
        match = PARTITION.fullmatch(self.path.name)
        if match:
            return {int(match[1]): self.path}
        found = {
            int(match[1]): folder
            for folder in self.path.iterdir()
            if (match := PARTITION.fullmatch(folder.name))
        }
        if not found:
            raise SourceError(f"{self.path} has no folder {OFFSETS_TOPIC}-N: name a data folder.")
        return dict(sorted(found.items()))

    def _batches(self, folder: Path) -> Iterator[tuple[int, bytes, int]]:
        """(first offset, batch, the offset behind it); what is not sound ends a segment."""
        for _, path in sorted(_segments(folder).items()):
            file = self._files.open(path, read_only=True)
            try:
                for place in walk(file, 0, file.size):
                    check_place(file, place)
                    batch = file.read(place.position, place.size)
                    yield int.from_bytes(batch[:8], "big"), batch, last_offset(place) + 1
            except CorruptBatch:
                continue
            finally:
                file.close()


def _segments(folder: Path) -> dict[int, Path]:
    return {
        base: path for path in folder.iterdir() if (base := base_offset_of(path.name)) is not None
    }
