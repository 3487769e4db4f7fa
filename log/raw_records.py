"""Records as compaction looks at them: the key, whether there is a value, and where the rest of the
bytes lies, which goes into another batch as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.primitives import read_varint
from .errors import InvalidRecord


class RawRecord(NamedTuple):
    """The record's bytes from its offset delta on are those from `at` to `end`; before them come
    its length, its attributes and its timestamp delta."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool
    at: int
    end: int


def raw_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """The `count` records that fill `data`. Raises InvalidRecord when they do not."""
    at, size = 0, len(data)
    try:
        for _ in range(count):
            # One-byte varints, nearly all, are read in line: this decides how fast a log shrinks.
            length = data[at]
            if length < 128:
                length, at = (length >> 1) ^ -(length & 1), at + 1
            else:
                length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > size:
                raise InvalidRecord(f"a record of {length} bytes does not fit into its batch")
            timestamp_delta, start = read_varint(data, at + 1)
            offset_delta, at = read_varint(data, start)
            key_size = data[at]
            if key_size < 128:
                key_size, at = (key_size >> 1) ^ -(key_size & 1), at + 1
            else:
                key_size, at = read_varint(data, at)
            key = None
            if key_size >= 0:
                key = data[at : at + key_size]
                at += key_size
            if at >= end:
                raise InvalidRecord("a record's key does not fit into it")
            # Zig-zag: a length below zero is odd.
            has_value = not data[at] & 1
            yield RawRecord(offset_delta, timestamp_delta, key, has_value, start, end)
            at = end
    except (IndexError, ValueError) as error:
        raise InvalidRecord("a batch has fewer records than its header says") from error
    if at != size:
        raise InvalidRecord(f"a batch has {size - at} bytes after its last record")
