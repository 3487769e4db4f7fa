"""Record batches (RecordBatch v2): the 61-byte header, validation and building.

All integers are big-endian. The checksum does not cover the base offset and the leader epoch, so a
broker may set them. `BatchBuilder` is the hot path of offset commits; `assemble` builds any batch.
Upstream: DefaultRecordBatch, MemoryRecordsBuilder, LogValidator.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from ..protocol.primitives import varint
from .errors import CorruptBatch, InvalidRecord, UnsupportedMagic

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size

# The length field counts neither the base offset nor itself.
LENGTH_END = 12
# The checksum covers the bytes from the attributes on.
CRC_START = 21
MAGIC_AT = 16
MAGIC = 2

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

NO_PRODUCER_ID = -1
NO_TIMESTAMP = -1

_EXTENT: Final = Struct(">qiib")
_EPOCH: Final = Struct(">i")
_OFFSET: Final = Struct(">q")
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
# Message formats v0 and v1: offset 8 bytes, size 4, CRC-32 of the rest 4, magic 1, attributes 1,
# timestamp 8 (v1), key length 4, key, value length 4, value.
_OLD_BYTES_MIN: Final = 26
_OLD_CRC_AT: Final = 12
_OLD_CRC_END: Final = 16

_pack_front: Final = Struct(">qiibI").pack  # up to the checksum
_pack_rest: Final = Struct(">hiqqqhii").pack  # from the attributes on

# --- the header


class BatchHeader(NamedTuple):
    """Header fields as stored. `batch_length` excludes the first two fields; see `size`."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    # Hides tuple.count, which is never called on a header.
    count: int  # type: ignore[assignment]

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0, as in DefaultRecordBatch.incrementSequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """An index into CODECS. The values 5 to 7 are invalid."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime."""
        return (self.attributes & APPEND_TIME) >> 3

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time when tombstones of this batch may be removed (KIP-534). Compaction stores it as
        the base timestamp. Timestamp deltas are relative to the base timestamp, so readers need no
        special case."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: bytes, position: int = 0) -> BatchHeader:
    """Unpack the header at `position` without validation. Raises struct.error if the header is cut
    off."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


# --- validation


def check_extent(buffer: bytes, position: int, end: int) -> int:
    """Return the size of the batch that begins at `position` and must end at or before `end`.
    Raises CorruptBatch if no batch can begin there. The checksum is not verified."""
    if end - position >= HEADER_BYTES:
        _, length, _, magic = _EXTENT.unpack_from(buffer, position)
        size: int = length + LENGTH_END
        if magic == MAGIC and HEADER_BYTES <= size <= end - position:
            return size
    raise _not_a_batch(buffer, position, end)


def _not_a_batch(buffer: bytes, position: int, end: int) -> CorruptBatch:
    left = end - position
    if _is_old_message(buffer, position, end):
        magic = buffer[position + MAGIC_AT]
        return UnsupportedMagic(position, f"message format v{magic} of Kafka before 0.11")
    if left < HEADER_BYTES:
        return CorruptBatch(position, f"only {left} bytes are left, but a batch takes at least 61")
    _, length, _, magic = _EXTENT.unpack_from(buffer, position)
    size = length + LENGTH_END
    if size < HEADER_BYTES:
        return CorruptBatch(position, f"batch length {length} is less than the size of a header")
    if size > left:
        return CorruptBatch(position, f"a batch of {size} bytes, but only {left} bytes are left")
    return CorruptBatch(position, f"invalid magic {magic}, expected {MAGIC}")


def _is_old_message(buffer: bytes, position: int, end: int) -> bool:
    """Whether a complete message in format v0 or v1 begins here, according to its checksum. A torn
    tail may also have magic 0, but must be truncated instead of being reported as unsupported."""
    end = min(end, len(buffer))
    if end - position < _OLD_BYTES_MIN:
        return False
    _, length, _, magic = _EXTENT.unpack_from(buffer, position)
    stop = position + LENGTH_END + length
    if magic not in (0, 1) or not position + _OLD_BYTES_MIN <= stop <= end:
        return False
    stored: int = _CRC.unpack_from(buffer, position + _OLD_CRC_AT)[0]
    return stored == zlib.crc32(memoryview(buffer)[position + _OLD_CRC_END : stop])


def check_crc(buffer: bytes, position: int, size: int) -> None:
    """Verify the checksum of the batch of `size` bytes at `position`. Raises CorruptBatch."""
    stored: int = _CRC.unpack_from(buffer, position + _CRC_AT)[0]
    computed = crc32c(memoryview(buffer)[position + CRC_START : position + size])
    if stored != computed:
        raise CorruptBatch(position, f"checksum {computed:08x}, but {stored:08x} is stored")


def check(buffer: bytes, position: int, end: int) -> BatchHeader:
    """Return the header of the valid batch that begins at `position` and ends at or before `end`.
    Raises CorruptBatch if the batch is cut short or has a wrong magic or checksum, and
    InvalidRecord for a negative offset delta or count. A compacted batch may have fewer records
    than offsets."""
    check_crc(buffer, position, check_extent(buffer, position, end))
    header = read_header(buffer, position)
    if header.last_offset_delta < 0 or header.count < 0:
        raise InvalidRecord(
            f"invalid last offset delta {header.last_offset_delta} or count {header.count}"
        )
    return header


def validate_produced(header: BatchHeader) -> None:
    """Validate a producer's batch. Raises InvalidRecord as LogValidator.validateBatch does."""
    if header.count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {header.count}")
    if header.last_offset_delta + 1 != header.count:
        raise InvalidRecord(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] "
            f"and count of records {header.count}"
        )
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch "
            f"with producerId {header.producer_id}"
        )
    if header.is_control:
        raise InvalidRecord("Clients are not allowed to write control records")


def split(buffer: bytes) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of adjacent batches. Does not verify checksums. Raises
    CorruptBatch."""
    position, end = 0, len(buffer)
    while position < end:
        size = check_extent(buffer, position, end)
        yield position, read_header(buffer, position)
        position += size


# --- fields set by the broker


def with_base_offset(batch: bytes | memoryview, base_offset: int, leader_epoch: int) -> bytes:
    """Return the batch with another base offset and leader epoch (outside the checksum)."""
    view = memoryview(batch)
    return b"".join((_OFFSET.pack(base_offset), view[8:12], _EPOCH.pack(leader_epoch), view[16:]))


def with_append_time(batch: bytes, now_ms: int) -> bytes:
    """Return the batch with LogAppendTime `now_ms` (the topic's message.timestamp.type)."""
    header = read_header(batch)
    attributes = header.attributes | APPEND_TIME
    header = header._replace(attributes=attributes, max_timestamp=now_ms)
    return assemble(header, batch[HEADER_BYTES:])


# --- building

Header = tuple[str, bytes | None]

# Precomputed encodings of numbers that take one or two bytes. Larger lengths and deltas are rare.
_TABLED: Final = 8192
_VARINTS: Final = [bytes((2 * n,)) for n in range(64)] + [
    bytes((2 * n & 0x7F | 0x80, n >> 6)) for n in range(64, _TABLED)
]
_NULL: Final = varint(-1)


class BatchProducer(NamedTuple):
    """The producer of a transactional batch that the broker writes (offsets or a marker)."""

    producer_id: int
    epoch: int
    is_control: bool = False


class BatchBuilder:
    """Builds an uncompressed batch. Only transactional batches, except markers, have sequence
    numbers, which start at 0 in each batch, as in Kafka. `size` is the current size of the batch
    in bytes, so that the caller can start another batch before reaching a limit."""

    __slots__ = ("_base_timestamp", "_parts", "count", "max_timestamp", "producer", "size")

    def __init__(self, producer: BatchProducer | None = None) -> None:
        self.producer = producer
        self.count = 0
        self.size = HEADER_BYTES
        self._parts: list[bytes] = []
        self._base_timestamp = self.max_timestamp = NO_TIMESTAMP

    def add(
        self,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Iterable[Header] = (),
    ) -> None:
        """Append a record."""
        timestamp_delta = self._timestamp_delta(timestamp_ms)
        record = encode_record(self.count, timestamp_delta, key, value, headers)
        self._parts.append(record)
        self.size += len(record)
        self.count += 1

    def add_all(self, records: Iterable[tuple[bytes, bytes | None]], timestamp_ms: int) -> None:
        """Append records (key, value). A value of None is a tombstone."""
        timestamp_delta = self._timestamp_delta(timestamp_ms)
        count, size, parts = self.count, self.size, self._parts
        for key, value in records:
            if value is None or timestamp_delta < 0:
                record = encode_record(count, timestamp_delta, key, value, ())
            else:
                try:
                    record = b"\0%b%b%b%b%b%b\0" % (
                        _VARINTS[timestamp_delta],
                        _VARINTS[count],
                        _VARINTS[len(key)],
                        key,
                        _VARINTS[len(value)],
                        value,
                    )
                    record = _VARINTS[len(record)] + record
                except IndexError:  # a number beyond the table
                    record = encode_record(count, timestamp_delta, key, value, ())
            parts.append(record)
            size += len(record)
            count += 1
        self.count, self.size = count, size

    def _timestamp_delta(self, timestamp_ms: int) -> int:
        if not self.count:
            self._base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        return timestamp_ms - self._base_timestamp

    def truncate(self, count: int, size: int, max_timestamp: int) -> None:
        """Roll back to an earlier `count`, `size` and `max_timestamp`."""
        del self._parts[count:]
        self.count, self.size, self.max_timestamp = count, size, max_timestamp

    def finish(self, base_offset: int, leader_epoch: int = 0) -> bytes:
        """Return the batch, which begins at `base_offset`. The builder must not be reused."""
        assert self.count, "a batch must contain records"
        times = self._base_timestamp, self.max_timestamp
        attributes, producer_id, epoch, sequence = 0, NO_PRODUCER_ID, -1, -1
        if self.producer is not None:
            producer_id, epoch, is_control = self.producer
            attributes = TRANSACTIONAL | CONTROL if is_control else TRANSACTIONAL
            sequence = -1 if is_control else 0
        producer = producer_id, epoch, sequence
        rest = _pack_rest(attributes, self.count - 1, *times, *producer, self.count)
        return seal(rest + b"".join(self._parts), base_offset, leader_epoch)


def assemble(header: BatchHeader, payload: bytes) -> bytes:
    """Return a batch with this header. Its length, magic and checksum are computed. `payload`
    contains the records, compressed as the attributes specify."""
    return seal(_pack_rest(*header[5:]) + payload, header.base_offset, header.leader_epoch)


def seal(rest: bytes, base_offset: int, leader_epoch: int) -> bytes:
    """Return a complete batch. `rest` contains the bytes from the attributes on."""
    length = len(rest) + CRC_START - LENGTH_END
    return _pack_front(base_offset, length, leader_epoch, MAGIC, crc32c(rest)) + rest


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[Header],
) -> bytes:
    """Encode a record, including its length prefix."""
    headers = tuple(headers)
    parts = [b"\0", varint(timestamp_delta), varint(offset_delta), _field(key), _field(value)]
    parts.append(varint(len(headers)))
    for name, content in headers:
        parts += (_field(name.encode()), _field(content))
    body = b"".join(parts)
    return varint(len(body)) + body


def _field(content: bytes | None) -> bytes:
    return _NULL if content is None else varint(len(content)) + content
