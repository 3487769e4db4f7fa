"""Samples of the start and end offsets of topics' logs, from a broker or a folder. Lag is computed
from these samples.

A sample of a past time contains the offset of the first record at or after that time, as in
ListOffsets. Sampling times are multiples of a period, so that the samples of consecutive calls fit
together.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from ...log.batch import HEADER_BYTES, read_header
from ...log.checkpoint import PartitionCheckpoints
from ...log.errors import CorruptBatch
from ...log.files import DISK
from ...log.segment import base_offset_of, segment_name, walk_batches
from ..diagnosis.group_history import LogEnd
from ..tables import TABLES
from .source import TimeSpan
from .wire_cluster import EARLIEST, LATEST, Cluster, TopicPartition

SCHEMA: Final = TABLES["bronze_log_end"].schema
# A usual period of lag exporters. Reading a folder puts no load on a broker, so its samples have a
# shorter period.
BROKER_PERIOD_MS: Final = 30_000
FOLDER_PERIOD_MS: Final = 15_000
# Two days at FOLDER_PERIOD_MS: a broker handles that many requests in about ten seconds, and a
# chart has too few pixels to show more.
TICKS_MAX: Final = 11_520
# The limit for all partitions; a row takes about 50 bytes in memory, and almost nothing in Parquet.
SAMPLES_MAX: Final = 500_000
ARROW_ROWS: Final = 65_536


class Ticks(NamedTuple):
    """`total` times starting at `first_ms`, `period_ms` apart."""

    first_ms: int
    period_ms: int
    total: int

    @classmethod
    def between(cls, since_ms: int, until_ms: int, period_ms: int, partitions: int) -> "Ticks":
        """Return the multiples of a period after `since_ms` and up to `until_ms`; the period is
        doubled until they are few enough for this many partitions."""
        most = max(min(TICKS_MAX, SAMPLES_MAX // max(partitions, 1)), 1)
        while True:
            first = since_ms // period_ms + 1
            count = max(until_ms // period_ms - first + 1, 0)
            if count <= most:
                return cls(first * period_ms, period_ms, count)
            period_ms *= 2

    def at(self, number: int) -> int:
        return self.first_ms + number * self.period_ms


def to_arrow(samples: Iterator[LogEnd], cluster: str) -> Iterator[pa.RecordBatch]:
    """Yield rows of bronze_log_end."""
    while rows := list(islice(samples, ARROW_ROWS)):
        topics, partitions, starts, ends, at_ms = zip(*rows, strict=True)
        times = [ms * 1000 for ms in at_ms]
        columns = ([cluster] * len(rows), topics, partitions, starts, ends, times)
        arrays = [pa.array(each, type_) for each, type_ in zip(columns, SCHEMA.types, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


# --- from a broker: ListOffsets, current and by time
#
# One request finds one time per partition, so the ticks are searched by bisection: if the log end
# is equal at two ticks, it is equal at all ticks in between. An idle topic needs a few requests.


ListOffsets: TypeAlias = Callable[[dict[TopicPartition, int]], dict[TopicPartition, int | None]]
"""The type of `Cluster.offsets`."""


def samples_of_broker(
    cluster: Cluster, topics: Collection[str] | None, past: TimeSpan | None
) -> Iterator[LogEnd]:
    """Yield samples at the ticks in `past`, then current samples. Raises SourceError."""
    found = cluster.topics(None if topics is None else sorted(topics))
    partitions = [(topic, index) for topic in sorted(found) for index in found[topic]]
    starts = cluster.offsets(dict.fromkeys(partitions, EARLIEST))
    ends = cluster.offsets(dict.fromkeys(partitions, LATEST))
    known = {
        tp: (start, end)
        for tp in partitions
        if (start := starts.get(tp)) is not None and (end := ends.get(tp)) is not None
    }
    now_ms = time.time_ns() // 1_000_000
    if past is not None:
        until_ms = min(past.until_ms, now_ms)
        ticks = Ticks.between(past.since_ms, until_ms, BROKER_PERIOD_MS, len(known))
        found_at = ends_at(cluster.offsets, ticks, {tp: end for tp, (_, end) in known.items()})
        for tp, offsets in found_at.items():
            start = known[tp][0]
            for number, end in enumerate(offsets):
                # Before the oldest retained record, the log end is unknown.
                if end > start or not start:
                    yield LogEnd(*tp, None, end, ticks.at(number))
    for tp, (start, end) in known.items():
        yield LogEnd(*tp, start, end, now_ms)


def ends_at(
    list_offsets: ListOffsets, ticks: Ticks, ends: dict[TopicPartition, int]
) -> dict[TopicPartition, list[int]]:
    """Return the log end of each partition at each tick. `ends`: the current log ends, which apply
    to times after the last record. Partitions deleted in the meantime are omitted."""
    found: dict[TopicPartition, list[int]] = {}
    searches = {tp: _search(ticks.total) for tp in ends}
    results: dict[TopicPartition, int | None] = dict.fromkeys(ends)
    while results:
        wanted: dict[TopicPartition, int] = {}
        for tp, offset in results.items():
            try:
                wanted[tp] = ticks.at(searches[tp].send(offset))
            except StopIteration as stopped:
                found[tp] = stopped.value
        offsets = list_offsets(wanted) if wanted else {}
        results = {tp: ends[tp] if offset is None else offset for tp, offset in offsets.items()}
    return found


def _search(count: int) -> Generator[int, int | None, list[int]]:
    """Yield numbers of ticks, receive their offsets, and return the offsets of all ticks."""
    if not count:
        return []
    offsets = [0] * count
    offsets[0] = (yield 0) or 0
    offsets[-1] = (yield count - 1) or 0
    spans = [(0, count - 1)]
    while spans:
        low, high = spans.pop()
        if offsets[low] == offsets[high]:
            offsets[low:high] = [offsets[low]] * (high - low)
        elif high - low > 1:
            middle = (low + high) // 2
            offsets[middle] = (yield middle) or 0
            spans += [(low, middle), (middle, high)]
    return offsets


# --- from a folder: headers of the topics' batches
#
# Only headers are read, so an offset may be that of a batch's first record where a broker would
# return the offset of a record in the middle of the batch.

# How many times a segment may be missing when it is opened. A broker may delete and compact at the
# same time.
MISSING_MAX: Final = 10


def samples_of_folder(
    path: Path, topics: Collection[str] | None, past: TimeSpan | None
) -> Iterator[LogEnd]:
    """Yield samples at the ticks in `past`, and at the end of each log. Raises OSError."""
    partitions = []
    for name in DISK.list(path):
        topic, _, index = name.rpartition("-")
        is_wanted = topics is None or topic in topics
        if is_wanted and topic and index.isascii() and index.isdigit():
            partitions.append((topic, int(index)))
    starts = PartitionCheckpoints(path, DISK).start_offsets
    for topic, partition in partitions:
        name = f"{topic}-{partition}"
        ticks = Ticks.between(*(past or (0, 0)), FOLDER_PERIOD_MS, len(partitions))
        yield from _samples((topic, partition), path / name, starts.get(name), past, ticks)


def _samples(
    tp: TopicPartition, folder: Path, start: int, past: TimeSpan | None, ticks: Ticks
) -> list[LogEnd]:
    for _ in range(MISSING_MAX):
        # kohort creates the first segment with the first record.
        log_start = max([start, *_segments(folder)[:1]])
        try:
            return list(_samples_of_log(tp, folder, log_start, past, ticks))
        except FileNotFoundError:
            continue
    return []


def _samples_of_log(
    tp: TopicPartition, folder: Path, start: int, past: TimeSpan | None, ticks: Ticks
) -> Iterator[LogEnd]:
    newest_ms, end, number = -1, start, 0
    now_ms = max(time.time_ns() // 1_000_000, past.until_ms if past is not None else 0)
    for base, next_offset, timestamp_ms in _batches(
        folder, ticks.first_ms if ticks.total else None
    ):
        # Producers set timestamps. A timestamp in the future is ignored, because samples at that
        # time would hide all later ones.
        at_ms = timestamp_ms if timestamp_ms <= now_ms else newest_ms
        while number < ticks.total and ticks.at(number) <= at_ms:
            # Before the oldest retained record, the log end is unknown.
            if base > start or not start:
                yield LogEnd(*tp, None, base, ticks.at(number))
            number += 1
        newest_ms, end = max(newest_ms, at_ms), max(end, next_offset)
    for rest in range(number, ticks.total):
        yield LogEnd(*tp, None, end, ticks.at(rest))
    if past is not None:
        newest_ms = max(newest_ms, past.until_ms)
    if newest_ms >= 0:  # otherwise no time is known, usually because the log is empty
        yield LogEnd(*tp, start, end, newest_ms)


def _batches(folder: Path, since_ms: int | None) -> Iterator[tuple[int, int, int]]:
    """Yield (base offset, next offset, newest timestamp) of each batch, starting with the last
    segment that begins before `since_ms` or, if it is None, that has a batch."""
    segments = _segments(folder)
    first = max(len(segments) - 1, 0)
    while first > 0 and not _begins_before(folder, segments[first], since_ms):
        first -= 1
    for base in segments[first:]:
        with (
            closing(DISK.open(folder / segment_name(base), read_only=True)) as file,
            suppress(CorruptBatch),  # being written, or left by a crash
        ):
            for batch in walk_batches(file, 0, file.size):
                header = read_header(batch.buffer, batch.start)
                yield header.base_offset, header.next_offset, header.max_timestamp


def _begins_before(folder: Path, base: int, since_ms: int | None) -> bool:
    with closing(DISK.open(folder / segment_name(base), read_only=True)) as file:
        data = file.read(0, HEADER_BYTES)
    if len(data) < HEADER_BYTES:
        return False  # a new segment
    return since_ms is None or read_header(data).max_timestamp < since_ms


def _segments(folder: Path) -> list[int]:
    found = (base_offset_of(name) for name in DISK.list(folder))
    return sorted(base for base in found if base is not None)
