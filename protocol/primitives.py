"""Reads and writes Kafka's primitive types.

All numbers are big-endian. Flexible versions (KIP-482) write a length plus one as an unsigned
varint, so that zero means null, and end each structure with tagged fields. Fields of records in a
batch use zig-zag varints. Readers raise ValueError for invalid encodings and for reads beyond the
end. Their callers add the field's name. Upstream: ByteUtils, Readable, Writable.
"""

import codecs
import re
from base64 import urlsafe_b64encode
from struct import Struct
from typing import Final

from .apis import STRING_BYTES_MAX

INT8: Final = Struct(">b")
INT16: Final = Struct(">h")
INT32: Final = Struct(">i")
INT64: Final = Struct(">q")

UNSIGNED_VARINT_BYTES_MAX: Final = 5
VARINT_BYTES_MAX: Final = 10
"""Maximum size of a varlong in bytes. Also used for varints, because callers reject values that are
too large."""

JAVA_ERRORS: Final = "kohort.java"
"""The name of an error handler for bytes.decode: malformed UTF-8 becomes U+FFFD as in Java."""

_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


# Writing


def unsigned_varint(value: int) -> bytes:
    """Encode a compact length, a count or a tag: seven bits per byte, lowest first."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint(value: int) -> bytes:
    """Encode Kafka's varint or varlong (zig-zag)."""
    return unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def string(text: str | None) -> bytes:
    """Encode a string with an int16 length, or None as null (length -1). Raises ValueError."""
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(f"a string of {len(encoded)} bytes exceeds {STRING_BYTES_MAX}")
    return INT16.pack(len(encoded)) + encoded


# Reading


def read_unsigned_varint(
    buffer: bytes, position: int, bytes_max: int = UNSIGNED_VARINT_BYTES_MAX
) -> tuple[int, int]:
    """Return the value and the position after it."""
    try:
        value = buffer[position]
        position += 1
        if value > 127:
            value &= 0x7F
            for shift in range(7, 7 * bytes_max, 7):
                byte = buffer[position]
                position += 1
                value |= (byte & 0x7F) << shift
                if byte < 128:
                    break
            else:
                raise ValueError(f"a varint is longer than {bytes_max} bytes")
    except IndexError:
        raise ValueError("a varint exceeds its buffer") from None
    return value, position


def read_varint(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the value of a zig-zag varint or varlong and the position after it."""
    # On the hot path of loading, so the decoding of the second byte is inlined.
    try:
        value = buffer[position]
        position += 1
        if value > 127:
            byte = buffer[position]
            if byte > 127:
                value, position = read_unsigned_varint(buffer, position - 1, VARINT_BYTES_MAX)
            else:
                value = value & 0x7F | byte << 7
                position += 1
    except IndexError:
        raise ValueError("a varint exceeds its buffer") from None
    return (value >> 1) ^ -(value & 1), position


def skip_tagged_fields(buffer: bytes, position: int, end: int) -> int:
    """Return the position after a section of tagged fields (KIP-482)."""
    count, position = read_unsigned_varint(buffer, position)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        size, position = read_unsigned_varint(buffer, position)
        position += size
        if position > end:
            raise ValueError(f"a tagged field of {size} bytes exceeds its buffer")
    if position > end:
        raise ValueError("the tagged fields exceed their buffer")
    return position


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    # UTF-8 has no surrogates. For an encoded surrogate, Java emits one replacement character, and
    # Python emits one per byte.
    surrogate = _SURROGATE.match(error.object, error.start)
    return "\ufffd", error.end if surrogate is None else surrogate.end()


_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
codecs.register_error(JAVA_ERRORS, _replace_as_java)


def uuid_text(encoded: bytes) -> str:
    """Format a UUID as Kafka does: URL-safe base64 without padding."""
    return urlsafe_b64encode(encoded).decode().rstrip("=")


class Reader:
    """Sequential reader of a small structure. Every method may raise ValueError. If `flexible`,
    strings have compact lengths."""

    __slots__ = ("_buffer", "_flexible", "position")

    def __init__(self, buffer: bytes, position: int = 0, *, flexible: bool) -> None:
        self._buffer = buffer
        self._flexible = flexible
        self.position = position

    def take(self, size: int) -> bytes:
        start, end = self.position, self.position + size
        if end > len(self._buffer):
            raise ValueError(f"unexpected end at byte {len(self._buffer)}, expected {end}")
        self.position = end
        return self._buffer[start:end]

    def int8(self) -> int:
        number: int = INT8.unpack(self.take(1))[0]
        return number

    def int16(self) -> int:
        number: int = INT16.unpack(self.take(2))[0]
        return number

    def int32(self) -> int:
        number: int = INT32.unpack(self.take(4))[0]
        return number

    def int64(self) -> int:
        number: int = INT64.unpack(self.take(8))[0]
        return number

    def uuid(self) -> bytes:
        return self.take(16)

    def unsigned_varint(self) -> int:
        value, self.position = read_unsigned_varint(self._buffer, self.position)
        return value

    def nullable_string(self) -> str | None:
        size = self.unsigned_varint() - 1 if self._flexible else self.int16()
        if size < 0:
            return None
        if size > STRING_BYTES_MAX:
            raise ValueError(f"a string of {size} bytes exceeds {STRING_BYTES_MAX}")
        encoded = self.take(size)
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise ValueError("a string is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise ValueError("a string is null, which its schema does not allow")
        return text
