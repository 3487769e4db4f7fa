"""Batches as Arrow: what every source does with the bytes that it has found.

Batches that are as clients and brokers write them are decoded together, all others one by one; both
ways give the same rows.
"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...log.batch import check, read_header
from ..columns import SOURCE
from .assembling import assembled
from .batches import Chunk, Sections, sections_of, walk
from .commits import read_commits
from .lockstep import find_records
from .records import rows_of

__all__ = ["decode", "decode_chunks", "within"]


def decode(
    chunks: Iterable[bytes], offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    """The records of whole batches that lie back to back in each chunk, in order, as
    columns.SOURCE. `next_offset`: the one behind the last record before them. Chunks of some MiB
    are decoded fastest.

    Raises CorruptBatch, UnsupportedMagic, InvalidRecord for bytes that are no whole batch with a
    right checksum."""
    return decode_chunks(map(_whole, chunks), offsets_partition, next_offset)


def _whole(data: bytes) -> Chunk:
    chunk, end = walk(data)
    if end < len(data):
        check(data, end, len(data))
        raise AssertionError("two checks of a batch disagree")
    return chunk


def decode_chunks(
    chunks: Iterable[Chunk], offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    """The same for batches whose checksums were looked at."""
    for chunk in chunks:
        left = chunk
        while left.starts:
            sections = sections_of(left)
            count = len(sections.begins)
            now = left._replace(starts=left.starts[:count])
            left = left._replace(starts=left.starts[count:])
            for rows in _decoded(now, sections, offsets_partition, next_offset):
                if len(rows):
                    next_offset = rows["log_offset"][-1].as_py() + 1
                    yield rows


def within(rows: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    """Without what batches hold beyond the borders of a split."""
    offsets = rows["log_offset"]
    if not len(offsets) or start <= offsets[0].as_py() <= offsets[-1].as_py() < end:
        return rows
    return rows.filter(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end)))


def _decoded(
    chunk: Chunk, sections: Sections, offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    counts = np.where(sections.readable, sections.headers["count"], 0).astype(np.int64)
    records = find_records(sections.data, sections.begins, sections.ends, counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    commits = read_commits(sections.data, records, owner)
    sound = sections.readable & records.sound
    if sound.all():
        yield assembled(sections, records, owner, commits, offsets_partition, next_offset)
        return
    for is_sound, run in groupby(range(len(counts)), key=sound.__getitem__):
        starts = [chunk.starts[number] for number in run]
        if is_sound:
            found = decode_chunks([chunk._replace(starts=starts)], offsets_partition, next_offset)
        else:
            found = _one_by_one(chunk.data, starts, offsets_partition, next_offset)
        for rows in found:
            yield rows
            next_offset = rows["log_offset"][-1].as_py() + 1


def _one_by_one(
    data: bytes, starts: list[int], offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    for start in starts:
        batch = data[start : start + read_header(data, start).size]
        rows = list(rows_of(batch, offsets_partition, next_offset))
        if rows:
            next_offset = rows[-1]["log_offset"] + 1
            yield pa.RecordBatch.from_pylist(rows, schema=SOURCE)
