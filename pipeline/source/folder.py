"""An offsets log in a folder: of Kafka or of kohort, at rest or with a broker that writes it."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

from ...log.checkpoint import read_topic_id
from ...log.files import DiskFiles
from ...topics.names import OFFSETS_TOPIC
from .decoding import decode_chunks, within
from .partition_log import PartitionLog
from .source import SPLIT_BYTES, Positions, SourceError, Split, shares

__all__ = ["FolderSource"]

PARTITION: Final = re.compile(re.escape(OFFSETS_TOPIC) + r"-(\d+)", re.ASCII)
NO_LIMIT: Final = 1 << 62


class FolderSource:
    """`path`: a data folder, or one partition's folder in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[int, PartitionLog] = {}

    def log_id(self) -> str | None:
        for log in self._logs().values():
            if (topic_id := read_topic_id(log.folder, DiskFiles())) is not None:
                return str(topic_id)
        return None

    def starts(self) -> dict[int, int]:
        starts = {partition: log.start() for partition, log in self._logs().items()}
        return {partition: start for partition, start in starts.items() if start is not None}

    def ends(self) -> dict[int, int]:
        ends = {partition: log.end() for partition, log in self._logs().items()}
        return {partition: end for partition, end in ends.items() if end is not None}

    def limited(
        self, start: Positions, end: Positions, *, records_max: int | None, bytes_max: int | None
    ) -> dict[int, int]:
        if records_max is None and bytes_max is None:
            return dict(end)
        begins = {**self.starts(), **start}
        waiting = {
            partition: upto - begins[partition]
            for partition, upto in end.items()
            if upto > begins.get(partition, upto)
        }
        logs = self._logs()
        sizes = {
            partition: logs[partition].bytes_between(begins[partition], end[partition])
            for partition in waiting
        }
        records = shares(waiting, NO_LIMIT if records_max is None else records_max)
        size = shares(sizes, NO_LIMIT if bytes_max is None else bytes_max)
        return {
            partition: (
                logs[partition].border(
                    begins[partition],
                    upto,
                    records_max=records[partition],
                    bytes_max=size[partition],
                )
                if partition in waiting
                else upto
            )
            for partition, upto in end.items()
        }

    def splits(
        self, start: Positions, end: Positions, split_bytes: int = SPLIT_BYTES
    ) -> list[Split]:
        begins = {**self.starts(), **start}
        logs = self._logs()
        return [
            split
            for partition, upto in end.items()
            if begins.get(partition, upto) < upto
            for split in logs[partition].splits(begins[partition], upto, split_bytes)
        ]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        partition = split.offsets_partition
        log = self._logs().get(partition)
        if log is None:
            raise SourceError(f"{self.path} has no folder {OFFSETS_TOPIC}-{partition} any more.")
        for rows in decode_chunks(log.chunks(split), partition, split.start):
            yield within(rows, split.start, split.end)

    def _logs(self) -> dict[int, PartitionLog]:
        """Of each offsets partition. Raises SourceError, OSError."""
        match = PARTITION.fullmatch(self.path.name)
        found = {int(match[1]): self.path} if match else _folders(self.path)
        if not found:
            raise SourceError(f"{self.path} has no folder {OFFSETS_TOPIC}-N: name a data folder.")
        for partition, folder in found.items():
            if partition not in self._known:
                self._known[partition] = PartitionLog(folder, DiskFiles(), partition)
        return {partition: self._known[partition] for partition in sorted(found)}


def _folders(data: Path) -> dict[int, Path]:
    if not data.is_dir():
        raise SourceError(f"{data} is no folder: name a data folder with an offsets log.")
    return {
        int(match[1]): folder
        for folder in data.iterdir()
        if (match := PARTITION.fullmatch(folder.name))
    }
