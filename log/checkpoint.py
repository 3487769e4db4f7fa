"""Offsets of partitions in a file, as Kafka keeps them beside the partitions' folders: a line with
the version (0), one with the number of entries, then `topic partition offset` for each.

Upstream: OffsetCheckpointFile. Kafka writes its files once a minute; here each change is written
before anyone is told.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from .files import Files

VERSION: Final = "0"

logger = logging.getLogger("kohort.log")


class OffsetCheckpoint:
    """By the partitions' names, as in `orders-0`. Opening raises OSError, as all that writes does;
    then nothing is noted. Safe in threads."""

    def __init__(self, path: Path, files: Files) -> None:
        self._path = path
        self._files = files
        self._writing = threading.Lock()
        self._offsets = self._read() if files.exists(self._path) else {}

    def of(self, partition: str) -> int:
        """0 where nothing was noted."""
        return self._offsets.get(partition, 0)

    def put(self, partition: str, offset: int, is_gone: Callable[[], bool] = lambda: False) -> None:
        """`is_gone`: here and below, whether the partition was deleted since somebody asked for
        this. Nothing is noted then: what comes behind `forget` would be another one's."""
        with self._writing:
            if self._offsets.get(partition) != offset and not is_gone():
                self._write(self._offsets | {partition: offset})

    def raise_to(
        self, offsets: Mapping[str, int], is_gone: Callable[[], bool] = lambda: False
    ) -> None:
        """Notes those that are higher than what was noted before."""
        with self._writing:
            higher = {name: offset for name, offset in offsets.items() if offset > self.of(name)}
            if higher and not is_gone():
                self._write(self._offsets | higher)

    def forget(self, partition: str) -> None:
        """The partition is gone: another one of its name begins at 0."""
        with self._writing:
            if partition in self._offsets:
                self._write({name: at for name, at in self._offsets.items() if name != partition})

    def _write(self, offsets: dict[str, int]) -> None:
        lines = [VERSION, str(len(offsets))]
        for name, offset in offsets.items():
            topic, _, index = name.rpartition("-")
            lines.append(f"{topic} {index} {offset}")
        self._files.replace(self._path, "\n".join([*lines, ""]).encode())
        self._offsets = offsets

    def _read(self) -> dict[str, int]:
        text = self._files.read_bytes(self._path).decode(errors="replace")
        if not text:
            return {}  # as Kafka makes it at its start, before the first entry
        try:
            version, count, *lines = text.splitlines()
            entries = [line.split(" ") for line in lines]
            offsets = {f"{topic}-{int(index)}": int(at) for topic, index, at in entries}
            if version != VERSION or int(count) != len(offsets):
                raise ValueError(f"version {version} with {count} entries, found {len(offsets)}")
        except ValueError as error:
            # As Kafka does (LogManager.loadLogs): what was deleted shows again, what was
            # compacted is once more. Nothing is lost.
            logger.warning("%s is unreadable and passed over: %s", self._path, error)
            return {}
        return offsets
