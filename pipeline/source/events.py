"""The coordinator's event log (docs/events.md) as Arrow: `<data>/events/*.jsonl`, while it is
written, rotated and thrown away.

What is read is planned before: `event_ends` says how far each file goes in whole lines, and that is
the position from which the next reader goes on. A line that is not whole yet waits.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ...log.files import DiskFiles, File
from ..tables import TABLES

__all__ = ["EventLines", "event_ends", "read_events"]

FOLDER: Final = "events"
# What is read at once, and how many rows an Arrow batch has at most: some 400 bytes a line.
CHUNK_BYTES: Final = 4 * 1024 * 1024

SCHEMA: Final = TABLES["bronze_event"].schema
_NAME: Final = re.compile(r"\d{20}\.jsonl", re.ASCII)
_FILES: Final = DiskFiles()

logger = logging.getLogger("kohort.pipeline")


def event_ends(data_folder: Path) -> dict[str, int]:
    """How many bytes of each file are whole lines; nothing where there is no event log.
    Raises OSError."""
    folder = data_folder / FOLDER
    found = {}
    for name in filter(_NAME.fullmatch, _FILES.list(folder)):
        try:
            file = _FILES.open(folder / name, read_only=True)
        except FileNotFoundError:
            continue  # the oldest go when there are too many
        try:
            found[name] = _end_of_lines(file)
        finally:
            file.close()
    return found


def read_events(
    data_folder: Path,
    start: Mapping[str, int],
    end: Mapping[str, int],
    cluster: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The lines from `start` to `end` (of `event_ends`), as bronze_event; a file that `start` lacks
    is read from its beginning. `cluster`: in the place of what the lines say.

    Lines that cannot be read are counted and told to the log, files that are gone left out. Raises
    OSError.
    """
    lines = EventLines(cluster)
    for name, upto in sorted(end.items()):
        yield from lines.read(data_folder / FOLDER / name, start.get(name, 0), upto)
    lines.tell()


class EventLines:
    """`malformed`: how many lines could not be read; `first`: of them, where and why."""

    def __init__(self, cluster: str | None = None) -> None:
        self._cluster = cluster
        self.malformed = 0
        self.first = ""

    def read(self, path: Path, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The lines of a file between two ends of lines."""
        try:
            file = _FILES.open(path, read_only=True)
        except FileNotFoundError:
            logger.warning("%s is gone: its events were not read in time", path)
            return
        try:
            if start > end or (start and file.read(start - 1, 1) != b"\n"):
                # A crash took lines that were read already, and others came in their place.
                logger.warning("%s was cut off and written on: events may be missing", path)
                start = _next_line(file, start, end)
            rest = b""
            for at in range(start, end, CHUNK_BYTES):
                data = rest + file.read(at, min(CHUNK_BYTES, end - at))
                whole = data.rfind(b"\n") + 1
                rest = data[whole:]
                yield from self._batches(data[:whole].splitlines(), path)
        finally:
            file.close()

    def tell(self) -> None:
        if self.malformed:
            logger.warning(
                "Lines of the event log that cannot be read: %d; the first: %s",
                self.malformed,
                self.first,
            )

    def _batches(self, lines: list[bytes], path: Path) -> Iterator[pa.RecordBatch]:
        """All of them at once if all can be read; else what is wrong is found by halves."""
        if not lines:
            return
        try:
            yield _batch(lines, self._cluster)
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            if len(lines) > 1:
                half = len(lines) // 2
                yield from self._batches(lines[:half], path)
                yield from self._batches(lines[half:], path)
                return
            if not self.malformed:
                self.first = f"{lines[0][:80]!r} in {path.name} ({error})"
            self.malformed += 1


def _batch(lines: list[bytes], cluster: str | None) -> pa.RecordBatch:
    """Columns of a later version are left out. Raises ValueError (Arrow's errors are such),
    TypeError, OverflowError, RecursionError for what is no event."""
    told = json.loads(b"[" + b",".join(lines) + b"]")
    if len(told) != len(lines) or not all(isinstance(each, dict) for each in told):
        raise ValueError("a line is one JSON object")
    if cluster is not None:
        for each in told:
            each["cluster"] = cluster
    columns = [_column([each.get(field.name) for each in told], field) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_timestamp(field.type):
        column = pa.array(values, pa.string()).cast(field.type)
    elif pa.types.is_map(field.type):
        column = pa.array(map(_pairs, values), field.type)
    else:
        column = pa.array(values, field.type)
    if column.null_count and not field.nullable:
        raise ValueError(f"{field.name} is missing")
    return column


def _pairs(value: Any) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError("detail is no object")
    return list(value.items())


def _end_of_lines(file: File) -> int:
    """Where its last whole line ends."""
    end = file.size
    while end > 0:
        begin = max(0, end - CHUNK_BYTES)
        found = file.read(begin, end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _next_line(file: File, start: int, end: int) -> int:
    while start < end:
        found = file.read(start, min(CHUNK_BYTES, end - start)).find(b"\n")
        if found >= 0:
            return start + found + 1
        start += CHUNK_BYTES
    return end
