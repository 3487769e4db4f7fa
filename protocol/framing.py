"""Splits the bytes of a connection into frames, and decodes request headers.

A frame is an int32 size, followed by a request header and body of this size. Received bytes are
copied once, because frames outlive the receive buffer. Only the received bytes of an incomplete
frame are stored, regardless of its announced size.

Request header v1 consists of API key, version, correlation id and client id. Header v2, used by
flexible versions, adds tagged fields (KIP-482). In both versions, the client id has an int16
length, so it can be decoded without knowing the header version.
"""

from io import BytesIO
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, NamedTuple

from .apis import API_VERSIONS, APIS, BY_KEY
from .budgets import MIB
from .errors import ProtocolError, UnsupportedVersion
from .primitives import JAVA_ERRORS, skip_tagged_fields

SIZE: Final = Struct(">i")
_size_at: Final = SIZE.unpack_from
FRAME_BYTES_MAX: Final = 100 * MIB
"""Kafka's default of socket.request.max.bytes."""

TLS_HANDSHAKE: Final = 0x1603
"""The first two bytes from a TLS client. Read as the start of a frame size, they would mean at
least 369 MB, which exceeds the default of socket.request.max.bytes."""
TLS_ON_PLAINTEXT: Final = "the client uses TLS, but this listener does not"

FRAME_BYTES_MIN: Final = 10
"""Smallest request header in bytes: API key, version, correlation id, length of the client id."""


def address(host: str, port: int | str) -> str:
    """Return `host:port`, with brackets around an IPv6 address (RFC 3986)."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Framer:
    """Splits the stream of one connection into frames. An invalid frame size ends the stream; then
    `error` is set, and later bytes are dropped. Earlier frames are still handled."""

    __slots__ = ("_frame_bytes_max", "_frame_bytes_min", "_missing", "_partial", "error")

    error: ProtocolError | None
    """None until the stream has ended."""

    def __init__(
        self, frame_bytes_max: int = FRAME_BYTES_MAX, frame_bytes_min: int = FRAME_BYTES_MIN
    ) -> None:
        self._frame_bytes_max, self._frame_bytes_min = frame_bytes_max, frame_bytes_min
        # BytesIO.getvalue() does not copy.
        self._partial: BytesIO | None = None
        self._missing = 0  # bytes missing from the current frame or its size field
        self.error = None

    @property
    def partial_bytes(self) -> int:
        """Stored bytes of the incomplete frame."""
        return 0 if self._partial is None else self._partial.tell()

    @property
    def partial_frame_bytes(self) -> int:
        """The size of the incomplete frame, or 0 if it is unknown."""
        return 0 if self._partial is None else self._partial.tell() + self._missing - 4

    def clear(self) -> None:
        """Release the memory of the incomplete frame."""
        self._partial = None

    def feed(self, data: bytes | memoryview) -> list[tuple[bytes, int, int]]:
        """Consume received bytes and return the completed frames as (buffer, start, end), without
        the size. `data` may change afterwards. Never raises. Check `error` after handling the
        frames."""
        frames: list[tuple[bytes, int, int]] = []
        if self._partial is not None:
            data = self._finish_partial(data, frames)
        if self.error is not None:
            return frames
        received = len(data)
        if received >= 4:
            end: int = 4 + _size_at(data)[0]
            if end == received and self._frame_bytes_min <= end - 4 <= self._frame_bytes_max:
                return [*frames, (bytes(data), 4, end)]  # usually, there is one complete frame
            # Copy once for all frames, unless the chunk only starts a large frame.
            if end <= received:
                data = bytes(data)
        position = 0
        while received - position >= 4:
            size: int = _size_at(data, position)[0]
            if not self._frame_bytes_min <= size <= self._frame_bytes_max:
                self.error = self._invalid_size(size)
                return frames
            end = position + 4 + size
            if end > received:
                self._store_partial(data, position, end)
                return frames
            frames.append((data, position + 4, end))  # type: ignore[arg-type]  # bytes, by now
            position = end
        if position < received:
            self._store_partial(data, position, position + 4)
        return frames

    def _store_partial(self, data: bytes | memoryview, position: int, end: int) -> None:
        """Store the incomplete frame, or its size, from `position` to `end`."""
        self._partial = BytesIO()
        self._partial.write(memoryview(data)[position:])
        self._missing = end - len(data)

    def _finish_partial(
        self, data: bytes | memoryview, frames: list[tuple[bytes, int, int]]
    ) -> bytes | memoryview:
        """Complete the partial frame, and return the remaining `data`."""
        partial = self._partial
        assert partial is not None
        if partial.tell() < 4:
            data = self._take_missing(data)
            if self._missing:
                return data
            (size,) = SIZE.unpack(partial.getvalue())
            if not self._frame_bytes_min <= size <= self._frame_bytes_max:
                self.error = self._invalid_size(size)
                self._partial = None
                return data
            self._missing = size
        data = self._take_missing(data)
        if not self._missing:
            frames.append((partial.getvalue(), 4, partial.tell()))
            self._partial = None
        return data

    def _take_missing(self, data: bytes | memoryview) -> bytes | memoryview:
        assert self._partial is not None
        view = memoryview(data)
        taken = self._partial.write(view[: self._missing])
        self._missing -= taken
        return view[taken:]

    def _invalid_size(self, size: int) -> ProtocolError:
        if size >> 16 == TLS_HANDSHAKE:
            return ProtocolError(TLS_ON_PLAINTEXT)
        if size > self._frame_bytes_max:
            return ProtocolError(
                f"frame of {size} bytes exceeds socket.request.max.bytes ({self._frame_bytes_max})"
            )
        if size < 0:
            return ProtocolError(f"invalid frame size {size}")
        return ProtocolError(
            f"frame of {size} bytes is too short for a request header ({FRAME_BYTES_MIN} bytes)"
        )


# Request headers

# Key and version as one number, correlation id, length of the client id.
_HEADER_START: Final = Struct(">iih")
_KEY_AND_VERSION: Final = Struct(">hh")

# (key, version, is flexible), by key and version as one number.
_SERVED: Final[dict[int, tuple[int, int, bool]]] = {
    (api.key << 16) | version: (api.key, version, version >= api.flexible_from)
    for api in APIS
    for version in range(api.min_version, api.max_version + 1)
}


class RequestHeader(NamedTuple):
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int
    """Position of the body in the buffer."""


_new: Final = tuple.__new__


def decode_request_header(buffer: bytes, start: int, end: int) -> RequestHeader:
    """Decode the header of the frame at buffer[start:end]. Raises ProtocolError, or
    UnsupportedVersion (except for ApiVersions, whose unknown versions Routes.find handles)."""
    try:
        key_and_version, correlation_id, length = _HEADER_START.unpack_from(buffer, start)
    except StructError:
        raise _too_short(start, end) from None
    served = _SERVED.get(key_and_version)
    if served is None:
        served = _not_served(key_and_version)
    body = start + 10
    client_id: str | None = None
    if length >= 0:
        name = body
        body += length
        try:
            client_id = buffer[name:body].decode()
        except UnicodeDecodeError:
            client_id = buffer[name:body].decode("utf-8", JAVA_ERRORS)
    if served[2]:
        if body < end and buffer[body] == 0:
            body += 1
        else:
            try:
                body = skip_tagged_fields(buffer, body, end)
            except ValueError as error:
                raise ProtocolError(f"request header: {error}") from None
    if body > end:
        raise _too_short(start, end)
    return _new(RequestHeader, (served[0], served[1], correlation_id, client_id, body))


def describe_request(buffer: bytes, start: int, _end: int) -> str:
    """Name the API and version of a frame for the log: `Produce v9`."""
    key, version = _KEY_AND_VERSION.unpack_from(buffer, start)
    api = BY_KEY.get(key)
    return f"{f'API {key}' if api is None else api.name} v{version}"


def api_key(buffer: bytes, start: int, end: int) -> int:
    """Return the API key of a frame, or -1 if it is too short for a header."""
    key: int = _KEY_AND_VERSION.unpack_from(buffer, start)[0] if end - start >= 4 else -1
    return key


def _not_served(key_and_version: int) -> tuple[int, int, bool]:
    key = key_and_version >> 16
    version = ((key_and_version & 0xFFFF) ^ 0x8000) - 0x8000
    if key == API_VERSIONS:
        return key, version, version >= BY_KEY[key].flexible_from
    api = BY_KEY.get(key)
    if api is None:
        raise ProtocolError(f"API key {key} is not served (version {version} was requested)")
    raise UnsupportedVersion(
        f"{api.name} (key {key}) is served in versions {api.min_version} to {api.max_version},"
        f" not in version {version}"
    )


def _too_short(start: int, end: int) -> ProtocolError:
    return ProtocolError(f"frame of {end - start} bytes is too short for its header")
