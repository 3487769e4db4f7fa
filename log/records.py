"""Reading the records inside a batch. Every length is checked against what is there, so that
a batch that lies (with a right checksum) is refused and never read past its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..protocol.primitives import read_varint
from .codecs import decompress
from .errors import InvalidRecord
from .header import HEADER_BYTES, read_header


class Record(NamedTuple):
    """`timestamp` in milliseconds; a null key or value is None; header names are text."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(buffer: bytes, position: int = 0) -> Iterator[Record]:
    """The records of the batch at `position`, decompressed.

    Raises InvalidRecord when they are not what the header says: undecodable, too many or too
    few bytes, a codec that does not exist. The checksum is `check`'s business.
    """
    header = read_header(buffer, position)
    end = position + header.size
    if header.codec:
        data = decompress(header.codec, memoryview(buffer)[position + HEADER_BYTES : end])
        at, end = 0, len(data)
    else:
        data, at = buffer, position + HEADER_BYTES
    append_time = header.max_timestamp if header.timestamp_type else None
    try:
        for _ in range(header.count):
            record, at = _record(data, at, end, header.base_offset, header.base_timestamp)
            yield record if append_time is None else record._replace(timestamp=append_time)
    except (IndexError, ValueError) as error:
        raise InvalidRecord(
            f"a record of the batch at offset {header.base_offset} is undecodable"
        ) from error
    if at != end:
        raise InvalidRecord(
            f"the batch at offset {header.base_offset} has {end - at} bytes after its last record"
        )


def _record(
    data: bytes, at: int, batch_end: int, base_offset: int, base_timestamp: int
) -> tuple[Record, int]:
    """One-byte varints (nearly all) are read in line: this decides how fast a log loads."""
    length = data[at]
    at += 1
    if length < 128:
        length = (length >> 1) ^ -(length & 1)
    else:
        length, at = read_varint(data, at - 1)
    end = at + length
    if length < 0 or end > batch_end:
        raise InvalidRecord(f"a record of {length} bytes does not fit into its batch")
    timestamp = data[at + 1]
    at += 2  # the attributes byte means nothing in format v2
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
    key, at = _bytes(data, at, end)
    value, at = _bytes(data, at, end)
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if data[at]:
        headers, at = _headers(data, at, end)
    else:
        at += 1
    if at != end:
        raise InvalidRecord(f"a record's fields end {end - at} bytes before the record does")
    return Record(base_offset + offset, base_timestamp + timestamp, key, value, headers), at


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes | None, int]:
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
        raise InvalidRecord(f"a field of {size} bytes does not fit into its record")
    return data[at:stop], stop


def _headers(data: bytes, at: int, end: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = read_varint(data, at)
    # A header takes at least two bytes, so a wild claim ends here and not in memory.
    if not 0 <= count <= (end - at) // 2:
        raise InvalidRecord(f"a record claims {count} headers")
    headers = []
    for _ in range(count):
        name, at = _bytes(data, at, end)
        if name is None:
            raise InvalidRecord("a header without a name")
        value, at = _bytes(data, at, end)
        headers.append((name.decode(), value))
    return tuple(headers), at
