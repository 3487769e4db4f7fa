"""The 61 bytes before the records of a batch: Kafka's RecordBatch v2, all integers big-endian.
Base offset, length and leader epoch are outside the checksum, so a broker may set them.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size

# The length field counts what follows it: 12 bytes of base offset and length come before.
LENGTH_END = 12
# The checksum covers everything from the attributes on.
CRC_START = 21
MAGIC = 2

CODEC_MASK = 0x07
APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

NO_PRODUCER_ID = -1


class BatchHeader(NamedTuple):
    """Field for field as stored. `batch_length` counts the bytes after itself; see `size`."""

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
    # Kafka calls it so, and nobody asks a header how often it contains a number.
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
        """Sequences wrap from 2^31-1 to 0, as in Kafka's DefaultRecordBatch.incrementSequence."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd; 5 to 7 mean nothing."""
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
        """When tombstones of this batch may go (KIP-534). Set by compaction in place of the base
        timestamp; the records' deltas count from it, so reading them needs no exception."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None


def read_header(buffer: bytes, position: int = 0) -> BatchHeader:
    """The 61 bytes at `position`, unchecked; struct.error when there are fewer."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))
