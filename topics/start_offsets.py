"""Where partitions begin after their oldest records were deleted (DeleteRecords).

Kept as Kafka keeps it, in `log-start-offset-checkpoint` beside the partitions' folders: a line with
the version (0), one with the number of entries, then `topic partition offset` for each (upstream:
OffsetCheckpointFile). Kafka writes it once a minute; here it is written before anyone is told.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ..log.files import Files

__all__ = ["StartOffsets"]

FILE: Final = "log-start-offset-checkpoint"
VERSION: Final = "0"

_log = logging.getLogger("kohort.topics")


class StartOffsets:
    """By the partitions' names, as in `orders-0`. Opening raises OSError."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._path = folder / FILE
        self._files = files
        self._offsets = self._read() if files.exists(self._path) else {}

    def of(self, partition: str) -> int:
        """0 where nothing was deleted."""
        return self._offsets.get(partition, 0)

    def raise_to(self, offsets: Mapping[str, int]) -> None:
        """Note durably where these partitions begin from now on. Raises OSError; then nothing is
        noted."""
        higher = {name: offset for name, offset in offsets.items() if offset > self.of(name)}
        if higher:
            self._write(self._offsets | higher)

    def forget(self, partition: str) -> None:
        """The partition is gone: another one of its name begins at 0. Raises OSError."""
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
        try:
            version, count, *lines = text.splitlines()
            entries = [line.split(" ") for line in lines]
            offsets = {f"{topic}-{int(index)}": int(at) for topic, index, at in entries}
            if version != VERSION or int(count) != len(offsets):
                raise ValueError(f"version {version} with {count} entries, found {len(offsets)}")
        except ValueError as error:
            # As Kafka does (LogManager.loadLogs): what was deleted shows again, nothing is lost.
            _log.warning("%s is unreadable and passed over: %s", self._path, error)
            return {}
        return offsets
