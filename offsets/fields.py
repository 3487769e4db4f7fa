"""The fields that values are made of, in both of Kafka's encodings: fixed lengths, and flexible.

Not read through kio: it refuses tagged fields that it does not know, but a value of version 4 may
carry what a later broker added, and KIP-482 says that a reader steps over them.
"""

from collections.abc import Iterator

from ..protocol.apis import STRING_BYTES_MAX
from ..protocol.primitives import INT8, INT16, INT32, INT64, read_unsigned_varint
from .errors import UndecodableRecord, UnencodableRecord


class FieldReader:
    """Reads one value field by field, from just after its version.

    Every method raises UndecodableRecord when the bytes end early or say something impossible.
    """

    __slots__ = ("_at", "_buffer", "_flexible", "_what")

    def __init__(self, what: str, buffer: bytes, at: int, *, flexible: bool) -> None:
        self._what = what
        self._buffer = buffer
        self._at = at
        self._flexible = flexible

    def int8(self) -> int:
        number: int = INT8.unpack(self._take(1))[0]
        return number

    def int16(self) -> int:
        number: int = INT16.unpack(self._take(2))[0]
        return number

    def uint16(self) -> int:
        return int.from_bytes(self._take(2), "big")

    def int32(self) -> int:
        number: int = INT32.unpack(self._take(4))[0]
        return number

    def int64(self) -> int:
        number: int = INT64.unpack(self._take(8))[0]
        return number

    def nullable_string(self) -> str | None:
        size = self._uvarint() - 1 if self._flexible else INT16.unpack(self._take(2))[0]
        if size > STRING_BYTES_MAX:
            raise self._wrong(f"a string of {size} bytes")
        raw = self._sized(size)
        try:
            return None if raw is None else raw.decode()
        except UnicodeDecodeError as error:
            raise self._wrong("a string that is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise self._wrong("null where a string must be")
        return text

    def nullable_data(self) -> bytes | None:
        return self._sized(self._length())

    def data(self) -> bytes:
        raw = self.nullable_data()
        if raw is None:
            raise self._wrong("null where bytes must be")
        return raw

    def uuid(self) -> bytes:
        return self._take(16)

    def nullable_count(self) -> int | None:
        """The length of an array; None for one that is null."""
        count = self._length()
        if count < -1:
            raise self._wrong(f"an array of {count} elements")
        return None if count == -1 else count

    def count(self) -> int:
        """The length of an array that cannot be null."""
        count = self.nullable_count()
        if count is None:
            raise self._wrong("an array of -1 elements")
        return count

    def tags(self) -> "Iterator[tuple[int, FieldReader]]":
        """The tagged fields of a flexible entity, each with its number; a fixed one has none."""
        for _ in range(self._uvarint() if self._flexible else 0):
            number = self._uvarint()
            yield number, FieldReader(self._what, self._take(self._uvarint()), 0, flexible=True)

    def skip_tags(self) -> None:
        """Steps over the tagged fields."""
        for _ in self.tags():
            pass

    def _length(self) -> int:
        return self._uvarint() - 1 if self._flexible else self.int32()

    def _sized(self, size: int) -> bytes | None:
        if size < -1:
            raise self._wrong(f"a length of {size}")
        return None if size == -1 else self._take(size)

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._buffer):
            raise self._wrong(f"it ends at byte {len(self._buffer)}, short of {self._at}")
        return self._buffer[start : self._at]

    def _uvarint(self) -> int:
        try:
            number, self._at = read_unsigned_varint(self._buffer, self._at)
        except ValueError as error:
            raise self._wrong(str(error)) from None
        return number

    def _wrong(self, how: str) -> UndecodableRecord:
        return UndecodableRecord(f"{self._what}: {how}")


def string_bytes(what: str, text: str | None) -> bytes:
    """A string as fixed layouts have it: int16 length and UTF-8; null is length -1."""
    if text is None:
        return b"\xff\xff"
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise UnencodableRecord(f"{what} cannot be written as UTF-8: {error.reason}") from error
    if len(raw) > STRING_BYTES_MAX:
        raise UnencodableRecord(
            f"{what} has {len(raw)} bytes; the layout of the offsets log holds {STRING_BYTES_MAX}"
        )
    return INT16.pack(len(raw)) + raw
