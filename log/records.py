"""Reads the records inside a batch, decoded or raw (for compaction).

All lengths are checked, so malformed batches with a valid checksum cannot cause reads past the end.
One-byte varints are decoded inline, because decoding dominates loading and compaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.budgets import RECORD_HEADERS_MAX
from ..protocol.primitives import read_varint
from .batch import HEADER_BYTES, read_header
from .codecs import decompress
from .errors import InvalidRecord


class Record(NamedTuple):
    """A decoded record. `timestamp` is in milliseconds. A null key or value is None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(
    buffer: bytes, position: int = 0, decompressed: bytes | None = None
) -> Iterator[Record]:
    """Yield the records of the batch at `position`, without verifying its checksum. `decompressed`
    contains the records if they are compressed and the caller has decompressed them. Raises
    InvalidRecord for an unknown codec or records that are undecodable or do not fill the batch."""
    header = read_header(buffer, position)
    end = position + header.size
    if header.codec:
        data = decompressed
        if data is None:
            data = decompress(header.codec, memoryview(buffer)[position + HEADER_BYTES : end])
        at, end = 0, len(data)
    else:
        data, at = buffer, position + HEADER_BYTES
    append_time = header.max_timestamp if header.timestamp_type else None
    try:
        for _ in range(header.count):
            record, at = _read_record(data, at, end, header.base_offset, header.base_timestamp)
            yield record if append_time is None else record._replace(timestamp=append_time)
    except (IndexError, ValueError) as error:
        raise InvalidRecord(
            f"a record of the batch at offset {header.base_offset} is undecodable"
        ) from error
    if at != end:
        raise InvalidRecord(
            f"the batch at offset {header.base_offset} contains {end - at} extra bytes "
            "after its last record"
        )


def _read_record(
    data: bytes, at: int, batch_end: int, base_offset: int, base_timestamp: int
) -> tuple[Record, int]:
    length = data[at]
    at += 1
    if length < 128:
        length = (length >> 1) ^ -(length & 1)
    else:
        length, at = read_varint(data, at - 1)
    end = at + length
    if length < 0 or end > batch_end:
        raise InvalidRecord(f"a record of {length} bytes exceeds its batch")
    timestamp = data[at + 1]
    at += 2  # skip the attributes, which format v2 does not use
    if timestamp < 128:
        timestamp = (timestamp >> 1) ^ -(timestamp & 1)
    else:
        timestamp, at = read_varint(data, at - 1)
    offset = data[at]
    at += 1
    if offset < 128:
        offset = (offset >> 1) ^ -(offset & 1)
    else:
        offset, at = read_varint(data, at - 1)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if data[at]:
        headers, at = _read_headers(data, at, end)
    else:
        at += 1
    if at != end:
        raise InvalidRecord("the fields of a record do not match its length")
    return Record(base_offset + offset, base_timestamp + timestamp, key, value, headers), at


def _read_bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    size = data[at]
    at += 1
    if size < 128:
        size = (size >> 1) ^ -(size & 1)
    else:
        size, at = read_varint(data, at - 1)
    if size < 0:
        return None, at
    stop = at + size
    if stop > end:
        raise InvalidRecord(f"a field of {size} bytes exceeds its record")
    return data[at:stop], stop


def _read_headers(
    data: bytes, at: int, end: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = read_varint(data, at)
    # Each header takes at least two bytes, so reject impossible counts before allocating memory.
    if not 0 <= count <= min((end - at) // 2, RECORD_HEADERS_MAX):
        raise InvalidRecord(f"invalid header count {count}")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise InvalidRecord("a header name is null")
        value, at = _read_bytes(data, at, end)
        headers.append((name.decode(), value))
    return tuple(headers), at


class RawRecord(NamedTuple):
    """A record for compaction, which copies the bytes from `start` to `end`."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool
    start: int
    end: int


def raw_records(data: bytes, count: int) -> Iterator[RawRecord]:
    """Yield the `count` records in `data`. Raises InvalidRecord if they do not fill it exactly."""
    at, size = 0, len(data)
    try:
        for _ in range(count):
            length = data[at]
            if length < 128:
                length, at = (length >> 1) ^ -(length & 1), at + 1
            else:
                length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > size:
                raise InvalidRecord(f"a record of {length} bytes exceeds its batch")
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
                raise InvalidRecord("a record's key exceeds the record")
            # In zig-zag encoding, odd numbers are negative; a negative size means a null value.
            has_value = not data[at] & 1
            yield RawRecord(offset_delta, timestamp_delta, key, has_value, start, end)
            at = end
    except (IndexError, ValueError) as error:
        raise InvalidRecord(
            "a record is undecodable, or the batch contains too few records"
        ) from error
    if at != size:
        raise InvalidRecord(f"a batch contains {size - at} extra bytes after its last record")
