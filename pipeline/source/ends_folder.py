"""Samples from a folder: the headers of the topics' own batches say when they came.

Nothing of a batch is read but its header, so that an offset may be that of a batch's first record
where a broker would name one in its middle.
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ...log.batch import HEADER_BYTES, read_header
from ...log.checkpoint import PartitionCheckpoints
from ...log.errors import CorruptBatch
from ...log.files import DiskFiles
from ...log.segment import base_offset_of, segment_name, walk_batches
from .ends import FOLDER_PERIOD_MS, Sample, Span, Ticks

__all__ = ["samples_of_folder"]

# How often a segment may be gone when it is opened: a broker deletes and compacts meanwhile.
VANISHED_MAX: Final = 10
_FILES: Final = DiskFiles()


def samples_of_folder(
    path: Path, topics: Sequence[str] | None, past: Span | None
) -> Iterator[Sample]:
    """Of the ticks of `past`, and of the end. Raises OSError."""
    wanted = None if topics is None else set(topics)
    places = []
    for name in _FILES.list(path):
        topic, _, index = name.rpartition("-")
        is_wanted = wanted is None or topic in wanted
        if is_wanted and topic and index.isascii() and index.isdigit():
            places.append((topic, int(index)))
    starts = PartitionCheckpoints(path, _FILES).start_offsets
    for topic, partition in places:
        name = f"{topic}-{partition}"
        yield from _samples(topic, partition, path / name, starts.get(name), past, len(places))


def _samples(
    topic: str, partition: int, folder: Path, start: int, past: Span | None, partitions: int
) -> list[Sample]:
    for _ in range(VANISHED_MAX):
        # A broker of ours makes no segment before the first record.
        begin = max([start, *_segments(folder)[:1]])
        try:
            return list(_of_log(topic, partition, folder, begin, past, partitions))
        except FileNotFoundError:
            continue
    return []


def _of_log(
    topic: str, partition: int, folder: Path, start: int, past: Span | None, partitions: int
) -> Iterator[Sample]:
    ticks = Ticks(0, FOLDER_PERIOD_MS, 0)
    if past is not None:
        ticks = Ticks.between(*past, FOLDER_PERIOD_MS, partitions)
    newest_ms, end, number = -1, start, 0
    now_ms = max(time.time_ns() // 1_000_000, past.until_ms if past is not None else 0)
    for base, behind, told_ms in _batches(folder, ticks.first_ms if ticks.total else None):
        # Producers say when, and brokers believe them: a time that is still to come is as good as
        # none, and what comes from it would outlast all that is true.
        at_ms = told_ms if told_ms <= now_ms else newest_ms
        while number < ticks.total and ticks.at(number) <= at_ms:
            # At a time before all that retention left the log ended there, or earlier.
            if base > start or not start:
                yield Sample(topic, partition, None, base, ticks.at(number))
            number += 1
        newest_ms, end = max(newest_ms, at_ms), max(end, behind)
    for rest in range(number, ticks.total):
        yield Sample(topic, partition, None, end, ticks.at(rest))
    if past is not None:
        newest_ms = max(newest_ms, past.until_ms)
    if newest_ms >= 0:  # else there was never anything in it, and nobody asks for a time
        yield Sample(topic, partition, start, end, newest_ms)


def _batches(folder: Path, since_ms: int | None) -> Iterator[tuple[int, int, int]]:
    """(first offset, offset behind, newest time) of each batch; of those before `since_ms` only
    some, or, where it is None, of all but the last segments'."""
    segments = _segments(folder)
    first = max(len(segments) - 1, 0)
    while first > 0 and not _begins_before(folder, segments[first], since_ms):
        first -= 1
    for base in segments[first:]:
        file = _FILES.open(folder / segment_name(base), read_only=True)
        try:
            for batch in walk_batches(file, 0, file.size):
                header = read_header(batch.buffer, batch.start)
                yield header.base_offset, header.next_offset, header.max_timestamp
        except CorruptBatch:
            continue  # what is being written, or what a crash left
        finally:
            file.close()


def _begins_before(folder: Path, base: int, since_ms: int | None) -> bool:
    file = _FILES.open(folder / segment_name(base), read_only=True)
    try:
        data = file.read(0, HEADER_BYTES)
    finally:
        file.close()
    if len(data) < HEADER_BYTES:
        return False  # it has just been begun
    return since_ms is None or read_header(data).max_timestamp < since_ms


def _segments(folder: Path) -> list[int]:
    found = (base_offset_of(name) for name in _FILES.list(folder))
    return sorted(base for base in found if base is not None)
