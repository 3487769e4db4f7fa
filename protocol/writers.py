"""Response writers: compiled once per message type and version from kio's dataclass fields.

A writer reads attributes by kio's names from any object: a kio message of this or of a newer
version, or a tuple of our own. What this version has not is not looked at; what the object lacks
takes the schema's default, if there is one.
"""

import datetime
from collections.abc import Callable
from functools import cache
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Any, Final

from .apis import STRING_BYTES_MAX
from .errors import EncodeError
from .primitives import unsigned_varint
from .writer_source import WriterSource

BodyWriter = Callable[[Any], bytes]
FrameWriter = Callable[[Any, int], bytes]
PiecesWriter = Callable[[Any, int], list[bytes]]

NAMES_MAX: Final = 4096
"""Encoded topic names that are kept; a client that asks for more than these pays for it itself."""

NAME_LENGTH_MAX: Final = 249
"""Kafka's longest topic name; with NAMES_MAX it bounds the two caches to some 2 MB."""

_MILLISECOND: Final = datetime.timedelta(milliseconds=1)


@cache
def frame_writer(entity: Any, *, flexible_header: bool) -> FrameWriter:
    """(message, correlation id) -> the whole frame: size, response header, body.

    A flexible header (v1) ends with tagged fields. The writer raises EncodeError.
    """
    source = WriterSource(entity, _SCOPE)
    writer: FrameWriter = source.compile_frame(flexible_header=flexible_header)
    return writer


@cache
def pieces_writer(entity: Any, *, flexible_header: bool) -> PiecesWriter:
    """As `frame_writer`, of a message with records: they are pieces of the frame as they are."""
    source = WriterSource(entity, _SCOPE)
    writer: PiecesWriter = source.compile_frame(flexible_header=flexible_header, in_pieces=True)
    return writer


@cache
def body_writer(entity: Any) -> BodyWriter:
    """message -> its bytes without any header. The writer raises EncodeError."""
    writer: BodyWriter = WriterSource(entity, _SCOPE).compile_body()
    return writer


def _string_length(length_and_one: int) -> bytes:
    if length_and_one > STRING_BYTES_MAX + 1:
        raise ValueError(f"a string of {length_and_one - 1} bytes")
    return unsigned_varint(length_and_one)


_legacy_names: Final[dict[str, bytes]] = {}
_compact_names: Final[dict[str, bytes]] = {}


def _legacy_name(name: str) -> bytes:
    encoded = name.encode()
    return _keep_name(_legacy_names, name, len(encoded).to_bytes(2, signed=True) + encoded)


def _compact_name(name: str) -> bytes:
    encoded = name.encode()
    return _keep_name(_compact_names, name, _string_length(len(encoded) + 1) + encoded)


def _keep_name(names: dict[str, bytes], name: str, encoded: bytes) -> bytes:
    if len(name) <= NAME_LENGTH_MAX:
        if len(names) >= NAMES_MAX:
            names.clear()
        names[name] = encoded
    return encoded


def _duration_ms(duration: datetime.timedelta) -> int:
    # As kio rounds it: to the nearest millisecond, halves to even.
    whole, rest = divmod(duration, _MILLISECOND)
    return whole if not rest else round(duration.total_seconds() * 1000)


def _timestamp_ms(moment: datetime.datetime) -> int:
    return round(moment.timestamp() * 1000)


_many: Final[dict[str, Callable[..., bytes]]] = {}


def _pack_many(letter: str, values: Any) -> bytes:
    """An array of numbers without its length."""
    count = len(values)
    if count > 64:
        return Struct(f">{count}{letter}").pack(*values)
    form = f">{count}{letter}"
    pack = _many.get(form)
    if pack is None:
        pack = _many[form] = Struct(form).pack
    return pack(*values)


def _explain(entity: Any, message: Any, error: Exception) -> EncodeError:
    from .writer_errors import explain

    return EncodeError(explain(entity, message, error))


# What compiled writers may use, by the name under which their source knows it.
_SCOPE: Final[dict[str, Any]] = {
    "ERRORS": (AttributeError, OverflowError, StructError, TypeError, ValueError),
    "NULL_UUID": bytes(16),
    "body_writer": body_writer,
    "compact_name": _compact_name,
    "compact_names_get": _compact_names.get,
    "duration_ms": _duration_ms,
    "explain": _explain,
    "join": b"".join,
    "legacy_name": _legacy_name,
    "legacy_names_get": _legacy_names.get,
    "pack_many": _pack_many,
    "string_length": _string_length,
    "timestamp_ms": _timestamp_ms,
    "varint": unsigned_varint,
}
