"""The coordinator's event log (docs/events.md) as Arrow: `<data>/events/*.jsonl`, possibly while it
is being written, rotated and deleted.

Reads are planned in advance: `event_ends` returns the length of the complete lines of each file,
where the next read begins. An incomplete line is left for later.
"""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ...log.files import DISK, File
from ..tables import TABLES

FOLDER: Final = "events"
# Bytes read at a time. This limits an Arrow batch to about 10,000 lines of 400 bytes.
CHUNK_BYTES: Final = 4 * 1024 * 1024

SCHEMA: Final = TABLES["bronze_event"].schema
_NAME: Final = re.compile(r"\d{20}\.jsonl", re.ASCII)

logger = logging.getLogger("kohort.pipeline")


def event_ends(data_folder: Path) -> dict[str, int]:
    """Return the size of the complete lines in each file. The result is empty without an event log.
    Raises OSError."""
    folder = data_folder / FOLDER
    found = {}
    for name in filter(_NAME.fullmatch, DISK.list(folder)):
        try:
            file = DISK.open(folder / name, read_only=True)
        except FileNotFoundError:
            continue  # the oldest files are deleted when there are too many
        with closing(file):
            found[name] = _end_of_lines(file)
    return found


def read_events(
    data_folder: Path, start: Mapping[str, int], end: Mapping[str, int], cluster: str | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the lines from `start` to `end` (from `event_ends`), as rows of bronze_event; a file
    missing from `start` is read from its beginning. `cluster` replaces the name in the lines.
    Malformed lines are counted and logged; deleted files are skipped. Raises OSError."""
    malformed: list[str] = []
    for name, upto in sorted(end.items()):
        path = data_folder / FOLDER / name
        for lines in _lines(path, start.get(name, 0), upto):
            yield from _batches(lines, path.name, cluster, malformed)
    if malformed:
        logger.warning(
            "Malformed lines in the event log: %d; the first: %s", len(malformed), malformed[0]
        )


def _lines(path: Path, start: int, end: int) -> Iterator[list[bytes]]:
    """Yield the lines of a file between the offsets `start` and `end`, which are at line
    boundaries."""
    try:
        file = DISK.open(path, read_only=True)
    except FileNotFoundError:
        logger.warning("%s was deleted before its events were read", path)
        return
    with closing(file):
        if start > end or (start and file.read(start - 1, 1) != b"\n"):
            # A crash removed lines that had been read, and others replaced them.
            logger.warning("%s was truncated and continued: events may be missing", path)
            start = _next_line(file, start, end)
        rest = b""
        for at in range(start, end, CHUNK_BYTES):
            data = rest + file.read(at, min(CHUNK_BYTES, end - at))
            complete = data.rfind(b"\n") + 1
            rest = data[complete:]
            yield data[:complete].splitlines()


def _batches(
    lines: list[bytes], file: str, cluster: str | None, malformed: list[str]
) -> Iterator[pa.RecordBatch]:
    """Yield one batch if all lines are well-formed; otherwise find the malformed ones by
    bisection, and append a description of each to `malformed`."""
    if not lines:
        return
    try:
        yield _batch(lines, cluster)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        if len(lines) == 1:
            # Only the first one is described, because there may be millions.
            malformed.append("" if malformed else f"{lines[0][:80]!r} in {file} ({error})")
            return
        half = len(lines) // 2
        yield from _batches(lines[:half], file, cluster, malformed)
        yield from _batches(lines[half:], file, cluster, malformed)


def _batch(lines: list[bytes], cluster: str | None) -> pa.RecordBatch:
    """Parse lines; fields of later versions are ignored. Raises ValueError (including Arrow's
    errors), TypeError, OverflowError and RecursionError."""
    events = json.loads(b"[" + b",".join(lines) + b"]")
    if len(events) != len(lines) or not all(isinstance(event, dict) for event in events):
        raise ValueError("a line must be one JSON object")
    if cluster is not None:
        for event in events:
            event["cluster"] = cluster
    columns = [_column([event.get(field.name) for event in events], field) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    if pa.types.is_timestamp(field.type):
        column = pa.array(values, pa.string()).cast(field.type)
    elif pa.types.is_map(field.type):
        column = pa.array(map(_items, values), field.type)
    else:
        column = pa.array(values, field.type)
    if column.null_count and not field.nullable:
        raise ValueError(f"{field.name} is missing")
    return column


def _items(value: Any) -> list[Any] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError("detail is not an object")
    return list(value.items())


def _end_of_lines(file: File) -> int:
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
