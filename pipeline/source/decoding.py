"""Batches as Arrow: what every source does with the bytes that it has found."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

from ...log.batch import check
from ..columns import SOURCE
from .records import Row, rows_of

__all__ = ["decode"]


def decode(
    chunks: Iterable[bytes], offsets_partition: int, next_offset: int
) -> Iterator[pa.RecordBatch]:
    """The records of whole batches that lie back to back in each chunk, in order, as
    columns.SOURCE. `next_offset`: the one behind the last record before them.

    Raises CorruptBatch, UnsupportedMagic for bytes that are no whole batch with a right checksum.
    """
    for chunk in chunks:
        rows: list[Row] = []
        at = 0
        while at < len(chunk):
            header = check(chunk, at, len(chunk))
            rows += rows_of(chunk[at : at + header.size], offsets_partition, next_offset)
            next_offset = rows[-1]["log_offset"] + 1 if rows else next_offset
            at += header.size
        if rows:
            yield pa.RecordBatch.from_pylist(rows, schema=SOURCE)
