"""Record batches, whole: their header, whether they are sound, and the few bytes a broker sets.
Records inside are read by `records`, written by `builder`; all of it is named here too.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct

from crc32c import crc32c

from .builder import BatchBuilder, Header, NewRecord, build
from .errors import CorruptBatch, InvalidRecord, UnsupportedMagic
from .header import (
    APPEND_TIME,
    CODECS,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    BatchHeader,
    read_header,
)
from .records import Record, records

__all__ = [
    "CODECS",
    "HEADER",
    "HEADER_BYTES",
    "BatchBuilder",
    "BatchHeader",
    "CorruptBatch",
    "Header",
    "InvalidRecord",
    "NewRecord",
    "Record",
    "UnsupportedMagic",
    "build",
    "check",
    "check_crc",
    "check_extent",
    "check_produced",
    "read_header",
    "records",
    "split",
    "with_append_time",
    "with_base_offset",
]

_EXTENT = Struct(">qiib")
_EPOCH = Struct(">i")
_OFFSET = Struct(">q")
_CRC = Struct(">I")
_OLD_CRC = Struct(">iI")
# magic 0 and 1: offset 8, size 4, CRC-32 (zlib's) of all that follows 4, magic 1.
_OLD_CRC_END = 16


def check_extent(buffer: bytes, position: int, end: int) -> int:
    """The size in bytes of the batch that begins at `position` and ends at or before `end`.

    Raises CorruptBatch when no batch can begin there; its checksum is not looked at.
    """
    if end - position < HEADER_BYTES:
        raise CorruptBatch(position, f"{end - position} bytes are left, a batch has at least 61")
    _, length, _, magic = _EXTENT.unpack_from(buffer, position)
    if length < HEADER_BYTES - LENGTH_END:
        raise CorruptBatch(position, f"a batch of length {length} cannot hold its own header")
    size: int = length + LENGTH_END
    if size > end - position:
        raise CorruptBatch(position, f"a batch of {size} bytes, but {end - position} are left")
    if magic != MAGIC:
        if magic in (0, 1) and _is_old_message(buffer, position, size):
            raise UnsupportedMagic(position, f"message format v{magic} of Kafka before 0.11")
        raise CorruptBatch(position, f"magic {magic} is not {MAGIC}")
    return size


def check_crc(buffer: bytes, position: int, size: int) -> None:
    """Raises CorruptBatch when the checksum does not match the `size` bytes of the batch."""
    stored: int = _CRC.unpack_from(buffer, position + 17)[0]
    computed = crc32c(memoryview(buffer)[position + CRC_START : position + size])
    if stored != computed:
        raise CorruptBatch(position, f"checksum {computed:08x} instead of {stored:08x}")


def check(buffer: bytes, position: int, end: int) -> BatchHeader:
    """The header of a sound batch that begins at `position` and ends at or before `end`.

    Raises CorruptBatch: cut short, wrong magic, wrong checksum; InvalidRecord: offsets that
    no batch can have. Compacted batches pass: they may hold fewer records than offsets.
    """
    check_crc(buffer, position, check_extent(buffer, position, end))
    header = read_header(buffer, position)
    if header.last_offset_delta < 0 or header.count < 0:
        raise InvalidRecord(
            f"a batch with last offset delta {header.last_offset_delta} and {header.count} records"
        )
    return header


def check_produced(header: BatchHeader) -> None:
    """What a producer's batch must fulfil beyond `check` (Kafka's LogValidator.validateBatch).

    Raises InvalidRecord with Kafka's reasons.
    """
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
    """(position, header) of the batches that lie back to back in `buffer`, checksums unchecked.

    Raises CorruptBatch where no whole batch follows.
    """
    position, end = 0, len(buffer)
    while position < end:
        size = check_extent(buffer, position, end)
        yield position, read_header(buffer, position)
        position += size


def with_base_offset(batch: bytes | memoryview, base_offset: int, leader_epoch: int) -> bytes:
    """The same batch at another place in the log. Its checksum stays: it covers neither."""
    view = memoryview(batch)
    return b"".join(
        (_OFFSET.pack(base_offset), view[8:12], _EPOCH.pack(leader_epoch), view[16:]),
    )


def with_append_time(batch: bytes, now_ms: int) -> bytes:
    """The same batch with LogAppendTime `now_ms` (message.timestamp.type of the topic)."""
    header = read_header(batch)
    changed = bytearray(batch)
    HEADER.pack_into(
        changed,
        0,
        *header._replace(attributes=header.attributes | APPEND_TIME, max_timestamp=now_ms),
    )
    _CRC.pack_into(changed, 17, crc32c(memoryview(changed)[CRC_START:]))
    return bytes(changed)


def _is_old_message(buffer: bytes, position: int, size: int) -> bool:
    """By its checksum: a torn tail may show magic 0 by chance, and is cut, not refused."""
    end = position + size
    if end > len(buffer):
        return False
    stored: int = _OLD_CRC.unpack_from(buffer, position + 8)[1]
    return stored == zlib.crc32(memoryview(buffer)[position + _OLD_CRC_END : end])
