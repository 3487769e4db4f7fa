"""Adjacent record batches in memory: their positions, headers as columns, decompression."""

from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
from crc32c import crc32c

from ...log.batch import CODEC_MASK, CRC_START, HEADER, HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader
from ...log.codecs import decompress
from ...log.errors import InvalidRecord
from .vectorized import PAD_BYTES, RECORD_BYTES_MIN

# log.batch.HEADER for numpy.
_CODES: Final = HEADER.format.removeprefix(">")
HEADER_TYPE: Final = np.dtype(
    [(name, f">{code}") for name, code in zip(BatchHeader._fields, _CODES, strict=True)]
)
assert HEADER_TYPE.itemsize == HEADER.size

# Length, magic, checksum, last offset delta, count: the fields needed for validation.
_LOOK: Final = Struct(">8xi4xbI2xi30xi")
LENGTH_MIN: Final = HEADER_BYTES - LENGTH_END
# A batch may decompress to 128 MiB, and positions must fit in 31 bits.
SECTIONS_BYTES_MAX: Final = 64 * 1024 * 1024


class Chunk(NamedTuple):
    """Valid batches: `starts` are their positions in `data`, ascending."""

    data: bytes
    starts: list[int]


class Sections(NamedTuple):
    """The decompressed records of batches, each from its `begins` to its `ends` in `data`, which is
    padded by PAD_BYTES. `readable` is false for a batch that cannot be decompressed or claims more
    records than fit."""

    headers: Any
    data: bytes
    begins: Any
    ends: Any
    readable: Any


def walk(data: bytes, at: int = 0) -> tuple[Chunk, int]:
    """Return the valid batches from `at` on, and the position of the first invalid or incomplete
    one. Optimized, because a batch may contain a single record."""
    starts = []
    view = memoryview(data)
    unpack, crc_of = _LOOK.unpack_from, crc32c
    size = len(data)
    last = size - HEADER_BYTES
    while at <= last:
        length, magic, crc, last_delta, count = unpack(data, at)
        end = at + LENGTH_END + length
        if magic != MAGIC or length < LENGTH_MIN or end > size or last_delta < 0 or count < 0:
            break
        if crc_of(view[at + CRC_START : end]) != crc:
            break
        starts.append(at)
        at = end
    return Chunk(data, starts), at


def headers_of(chunk: Chunk) -> Any:
    """Return one row of HEADER_TYPE per batch."""
    shape = (max(0, len(chunk.data) - HEADER_BYTES + 1),)
    every = np.ndarray(shape, HEADER_TYPE, chunk.data, 0, (1,))
    return every[np.array(chunk.starts, np.int64)]


def sections_of(chunk: Chunk) -> Sections:
    """Decompress the first batches of the chunk, until their total size exceeds SECTIONS_BYTES_MAX.
    If no batch is compressed, return all batches."""
    headers = headers_of(chunk)
    starts = np.array(chunk.starts, np.int64)
    begins = starts + HEADER_BYTES
    ends = starts + LENGTH_END + headers["batch_length"]
    codecs = headers["attributes"] & CODEC_MASK
    if not codecs.any():
        return _sections(headers, [chunk.data], begins, ends, np.ones(len(starts), bool))
    parts: list[bytes | None] = []
    size = 0
    for codec, begin, end in zip(codecs.tolist(), begins.tolist(), ends.tolist(), strict=True):
        if size > SECTIONS_BYTES_MAX:
            break
        parts.append(_decompressed(chunk.data, codec, begin, end))
        size += len(parts[-1] or b"")
    sizes = np.array([len(part or b"") for part in parts], np.int64)
    ends = np.cumsum(sizes)
    readable = np.array([part is not None for part in parts])
    found = [part for part in parts if part]
    return _sections(headers[: len(parts)], found, ends - sizes, ends, readable)


def _sections(headers: Any, parts: list[bytes], begins: Any, ends: Any, readable: Any) -> Sections:
    readable &= headers["count"] <= (ends - begins) // RECORD_BYTES_MIN
    return Sections(headers, b"".join([*parts, bytes(PAD_BYTES)]), begins, ends, readable)


def _decompressed(data: bytes, codec: int, begin: int, end: int) -> bytes | None:
    if not codec:
        return data[begin:end]
    try:
        return decompress(codec, memoryview(data)[begin:end])
    except InvalidRecord:
        return None
