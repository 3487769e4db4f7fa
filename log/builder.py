"""Writing record batches. `BatchBuilder` is the commit path, where every microsecond counts;
`build` can do everything else (null keys, headers, codecs, producers).
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ..protocol.primitives import varint
from .codecs import compress
from .header import CRC_START, HEADER_BYTES, LENGTH_END, MAGIC, NO_PRODUCER_ID

_pack_front: Final = Struct(">qiibI").pack
_pack_rest: Final = Struct(">hiqqqhii").pack

Header = tuple[str, bytes | None]


# All numbers that take one or two bytes, looked up instead of computed: lengths, offset deltas
# and timestamp deltas are hardly ever larger.
_TABLED: Final = 8192
_VARINTS: Final = [bytes((2 * n,)) for n in range(64)] + [
    bytes((2 * n & 0x7F | 0x80, n >> 6)) for n in range(64, _TABLED)
]
_NULL: Final = varint(-1)


class BatchBuilder:
    """Gathers records into one uncompressed batch without a producer.

    `size`: bytes of the batch so far, so that a caller can begin another before a limit.
    """

    __slots__ = ("_base_timestamp", "_parts", "count", "max_timestamp", "size")

    def __init__(self) -> None:
        self.count = 0
        self.size = HEADER_BYTES
        self._parts: list[bytes] = []
        self._base_timestamp = self.max_timestamp = -1

    def add(self, key: bytes, value: bytes | None, timestamp_ms: int) -> None:
        """Appends one record; a value of None is a tombstone."""
        self.add_all(((key, value),), timestamp_ms)

    def add_all(self, records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int) -> None:
        """Appends each of the records (key, value)."""
        count, size, parts = self.count, self.size, self._parts
        if not count:
            self._base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        later = timestamp_ms - self._base_timestamp
        for key, value in records:
            if value is None or later < 0:
                record = encode_record(count, later, key, value, ())
            else:
                try:
                    record = b"\0%b%b%b%b%b%b\0" % (
                        _VARINTS[later],
                        _VARINTS[count],
                        _VARINTS[len(key)],
                        key,
                        _VARINTS[len(value)],
                        value,
                    )
                    record = _VARINTS[len(record)] + record
                except IndexError:  # a number beyond the table
                    record = encode_record(count, later, key, value, ())
            parts.append(record)
            size += len(record)
            count += 1
        self.count, self.size = count, size

    def cut(self, count: int, size: int, max_timestamp: int) -> None:
        """Takes back all but the first `count` records; the others are as they were then."""
        del self._parts[count:]
        self.count, self.size, self.max_timestamp = count, size, max_timestamp

    def finish(self, base_offset: int, leader_epoch: int = 0) -> bytes:
        """The batch, its first record at `base_offset`. The builder may not be used again."""
        assert self.count, "Kafka writes no empty batches, and neither do we"
        rest = _pack_rest(
            0,
            self.count - 1,
            self._base_timestamp,
            self.max_timestamp,
            NO_PRODUCER_ID,
            -1,
            -1,
            self.count,
        )
        return seal(rest + b"".join(self._parts), base_offset, leader_epoch)


def seal(rest: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Puts the first 21 bytes before `rest`: everything from the attributes on."""
    length = len(rest) + CRC_START - LENGTH_END
    return _pack_front(base_offset, length, leader_epoch, MAGIC, crc32c(rest)) + rest


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
) -> bytes:
    """One record with its length, whatever it holds."""
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta)]
    parts += (_field(key), _field(value))
    headers = tuple(headers)
    parts.append(varint(len(headers)))
    for name, content in headers:
        parts += (_field(name.encode()), _field(content))
    body = b"".join(parts)
    return varint(len(body)) + body


def _field(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content


class NewRecord(NamedTuple):
    """A record that has no offset yet."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[Header, ...] = ()


def build(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    codec: int = 0,
    attributes: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    offset_deltas: Iterable[int] | None = None,
    last_offset_delta: int | None = None,
) -> bytes:
    """A batch of any kind. `attributes` are or-ed with the codec; `offset_deltas` and
    `last_offset_delta` are for batches with gaps, as compaction leaves them."""
    gathered = tuple(records)
    deltas = tuple(range(len(gathered)) if offset_deltas is None else offset_deltas)
    base = gathered[0].timestamp_ms if gathered else -1
    body = b"".join(
        encode_record(delta, record.timestamp_ms - base, record.key, record.value, record.headers)
        for delta, record in zip(deltas, gathered, strict=True)
    )
    if last_offset_delta is None:
        last_offset_delta = deltas[-1] if deltas else 0
    rest = _pack_rest(
        attributes | codec,
        last_offset_delta,
        base,
        max((record.timestamp_ms for record in gathered), default=-1),
        producer_id,
        producer_epoch,
        base_sequence,
        len(gathered),
    )
    return seal(rest + compress(codec, body), base_offset, leader_epoch)
