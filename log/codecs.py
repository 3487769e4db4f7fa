"""Kafka's four codecs for the records of a batch: gzip, snappy, lz4 frames, zstd."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct
from typing import Final, TypeVar

from ..protocol.budgets import DECOMPRESSED_BYTES_MAX, ConcurrencyLimit
from .errors import InvalidRecord
from .tasks import CooperativeTask, begin, in_thread

T = TypeVar("T")

# Records of up to this uncompressed size are decompressed inline, which takes up to a millisecond.
INLINE_BYTES_MAX: Final = 512 * 1024

# Java clients use snappy-java framing: this header, two int32 versions, then chunks (int32 length,
# raw snappy block). librdkafka sends a single raw block.
_XERIAL_MAGIC = b"\x82SNAPPY\0"
_XERIAL_HEADER_BYTES = 16
_XERIAL_VERSIONS = Struct(">ii").pack(1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024
_CHUNK = Struct(">i")

# The frame header of Kafka's clients: version 1, independent blocks (the only ones Kafka reads) of
# 64 KiB, no checksums. The last byte is the checksum of the header.
_LZ4_HEADER = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x80000000
_LZ4_SIZE = Struct("<I")


def compress(codec: int, data: bytes) -> bytes:
    """Compress with codec 0 to 4 (batch.CODECS)."""
    if codec == 0:
        return data
    if codec == 1:
        return zlib.compress(data, wbits=31)
    # cramjam is imported only when the first compressed batch is processed.
    import cramjam

    if codec == 2:
        parts = [_XERIAL_MAGIC, _XERIAL_VERSIONS]
        for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
            parts += (_CHUNK.pack(len(block)), block)
        return b"".join(parts)
    if codec == 3:
        return _lz4_frame(data)
    if codec == 4:
        return bytes(cramjam.zstd.compress(data))
    raise InvalidRecord(f"unknown codec {codec}")


def _lz4_frame(data: bytes) -> bytes:
    import cramjam

    parts = [_LZ4_HEADER]
    for at in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_LZ4_SIZE.pack(len(block)), block)
        else:
            parts += (_LZ4_SIZE.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_LZ4_SIZE.pack(0))
    return b"".join(parts)


def decompress(codec: int, data: memoryview, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Decompress the records of a batch. Raises InvalidRecord for invalid data, an unknown codec,
    or more than `bytes_max`."""
    if codec == 1:
        return _gunzip(data, bytes_max)
    import cramjam

    if codec == 2:
        return _unsnappy(bytes(data), bytes_max)
    if codec == 3:
        return _decompress_growing(cramjam.lz4.decompress_into, "lz4", bytes(data), bytes_max)
    if codec == 4:
        return _decompress_growing(cramjam.zstd.decompress_into, "zstd", bytes(data), bytes_max)
    raise InvalidRecord(f"unknown codec {codec}")


def decompress_few(codec: int, data: memoryview) -> bytes | None:
    """Return the decompressed records, or None if they are invalid or exceed INLINE_BYTES_MAX."""
    try:
        return decompress(codec, data, INLINE_BYTES_MAX)
    except InvalidRecord:
        return None


def with_decompressed(
    codec: int,
    data: memoryview,
    bytes_max: int,
    limit: ConcurrencyLimit,
    use: Callable[[bytes], CooperativeTask[T]],
) -> CooperativeTask[T]:
    """Run the task `use` with the decompressed records of a batch (any codec, including 0), and
    return its result. Compressed records that exceed INLINE_BYTES_MAX are decompressed in a
    thread, and count towards `limit` until `use` ends. Raises InvalidRecord like `decompress`."""
    few = decompress_few(codec, data) if codec else bytes(data)
    if few is not None:
        return (yield from use(few))
    yield from begin(limit)
    try:
        many = yield from in_thread(lambda: decompress(codec, data, bytes_max))
        return (yield from use(many))
    finally:
        limit.end()


def _gunzip(data: memoryview, bytes_max: int) -> bytes:
    decompressor = zlib.decompressobj(wbits=31)
    try:
        out = decompressor.decompress(data, bytes_max)
    except zlib.error as error:
        raise InvalidRecord(f"invalid gzip data: {error}") from error
    if not decompressor.eof:
        raise InvalidRecord(f"gzip records are truncated or exceed {bytes_max} bytes")
    return out


def _unsnappy(data: bytes, bytes_max: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, bytes_max)
    parts = []
    at = _XERIAL_HEADER_BYTES
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise InvalidRecord("snappy records are truncated")
        part = _snappy_block(data[at : at + size], bytes_max)
        bytes_max -= len(part)
        parts.append(part)
        at += size
    return b"".join(parts)


def _snappy_block(data: bytes, bytes_max: int) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(data) > bytes_max:
            raise InvalidRecord(f"snappy records exceed {bytes_max} bytes")
        return bytes(cramjam.snappy.decompress_raw(data))
    except cramjam.DecompressionError as error:
        raise InvalidRecord(f"invalid snappy data: {error}") from error


def _decompress_growing(
    decompress_into: Callable[[bytes, bytearray], int], name: str, data: bytes, bytes_max: int
) -> bytes:
    """Decompress data that may not state its decompressed size, growing the buffer until it is
    large enough."""
    import cramjam

    size_max = min(bytes_max, max(64 * 1024, 8 * len(data)))
    while True:
        out = bytearray(size_max)
        try:
            size = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if size_max == bytes_max:
                raise InvalidRecord(
                    f"{name} records are invalid or exceed {bytes_max} bytes: {error}"
                ) from error
            size_max = min(bytes_max, size_max * 8)
        else:
            return bytes(memoryview(out)[:size])
