"""Request bodies become kio's messages, messages become response frames.

Schema modules are imported and writers compiled at a version's first use: starting must not pay
for what nobody asks.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from .apis import API_VERSIONS, BY_KEY, STRING_BYTES_MAX, Api
from .errors import UndecodableBody, UnknownApi, UnsupportedVersion
from .fields import title
from .guards import Finder, Guard, field_finder, request_guard, string_guard
from .writers import FrameWriter, PiecesWriter, frame_writer, pieces_writer

RequestReader = Callable[[bytes, int], tuple[Any, int]]
RequestDecoder = Callable[[bytes, int, int], Any]

# What guards remember, per API and version: 4096 clients (or shapes of requests) with 512 bytes
# each bound it to 2 MB. Beyond that a request is walked over again, and nothing else changes.
_REMEMBERED_MAX: Final = 4096
_REMEMBERED_BYTES_MAX: Final = 512
_NEVER: Final = 1 << 62


def request_module(key: int, version: int) -> ModuleType:
    """kio's module with the request classes of this version."""
    return _schema_module(key, version, "request")


def response_module(key: int, version: int) -> ModuleType:
    """kio's module with the response classes of this version."""
    return _schema_module(key, version, "response")


@cache
def request_reader(key: int, version: int) -> RequestReader:
    """kio's own: (buffer, start of the body) -> (message, bytes that it took).

    Not for bytes from the network: it aborts the process when an array claims to be huge.
    """
    from kio.serial import entity_reader

    reader: RequestReader = entity_reader(_request_class(key, version))
    return reader


@cache
def request_decoder(key: int, version: int) -> RequestDecoder:
    """(buffer, start, end of the body) -> the message. The decoder raises UndecodableBody.

    Bytes after the message's end are ignored, as Kafka does. This is what may be given bytes
    from the network: guard first, then kio, then what Kafka takes and kio does not.
    """
    entity = _request_class(key, version)
    reader = request_reader(key, version)
    guard, strings = request_guard(entity), string_guard(entity)
    if guard is None:
        return _plain(entity, reader, strings)
    return _guarded(entity, reader, guard, strings)


def request_finder(key: int, version: int, name: str) -> Finder:
    """Where in a request's body the fields `name` stand; see `field_finder`."""
    return field_finder(_request_class(key, version), name)


def _plain(entity: Any, reader: RequestReader, strings: Guard | None) -> RequestDecoder:
    def decode(buffer: bytes, body: int, end: int) -> Any:
        if end - body > STRING_BYTES_MAX and strings is not None:
            strings(buffer, body, end)
        try:
            message, size = reader(buffer, body)
        except Exception:
            return _read_leniently(entity, buffer, body, end)
        if body + size > end:
            raise UndecodableBody(f"{title(entity)} does not end within its frame")
        return message

    return decode


def _guarded(
    entity: Any, reader: RequestReader, guard: Guard, strings: Guard | None
) -> RequestDecoder:
    """Remembers the beginnings of bodies: a client's requests mostly differ at the end only.

    From the size of a body it guesses how much of it the guard looked at last time; if those very
    bytes are known, in a body no larger than this one, they need not be walked over again.
    """
    lengths: dict[int, int] = {}  # size of a body -> length of the part that was looked at
    known: dict[bytes, int] = {}  # that part -> the smallest body that it was seen in

    def check(buffer: bytes, body: int, end: int) -> None:
        length = guard(buffer, body, end) - body
        if length <= _REMEMBERED_BYTES_MAX:
            if len(known) >= _REMEMBERED_MAX or len(lengths) >= _REMEMBERED_MAX:
                known.clear()
                lengths.clear()
            lengths[end - body] = length
            known[buffer[body : body + length]] = end - body

    def decode(buffer: bytes, body: int, end: int) -> Any:
        size = end - body
        if size > STRING_BYTES_MAX and strings is not None:
            strings(buffer, body, end)
        if known.get(buffer[body : body + lengths.get(size, 0)], _NEVER) > size:
            check(buffer, body, end)
        try:
            message, read = reader(buffer, body)
        except Exception:
            return _read_leniently(entity, buffer, body, end)
        if read > size:
            raise UndecodableBody(f"{title(entity)} does not end within its frame")
        return message

    return decode


def _read_leniently(entity: Any, buffer: bytes, body: int, end: int) -> Any:
    from .lenient import read_leniently

    return read_leniently(entity, buffer, body, end)


@cache
def response_writer(key: int, version: int) -> FrameWriter:
    """(message, correlation id) -> the whole frame. See `writers` for what a message may be."""
    # ApiVersions is always answered under header v0: the client must be able to read our answer
    # before it knows our versions (KIP-511).
    flexible_header = version >= _api(key).flexible_from and key != API_VERSIONS
    return frame_writer(_response_class(key, version), flexible_header=flexible_header)


@cache
def response_pieces(key: int, version: int) -> PiecesWriter:
    """(message, correlation id) -> the pieces of the frame: records among them are not copied."""
    flexible_header = version >= _api(key).flexible_from
    return pieces_writer(_response_class(key, version), flexible_header=flexible_header)


@cache
def response_decoder(key: int, version: int) -> Callable[[bytes], Any]:
    """(whole frame) -> kio's message, for who looks at answers that we wrote ourselves: it is not
    for bytes from the network."""
    from kio.serial import entity_reader

    reader = entity_reader(getattr(response_module(key, version), f"{_api(key).name}Response"))
    # Size and correlation id; then, as in `response_writer`, no tagged fields or none of them.
    start = 9 if version >= _api(key).flexible_from and key != API_VERSIONS else 8
    return lambda frame: reader(frame, start)[0]


def _request_class(key: int, version: int) -> Any:
    return getattr(request_module(key, version), f"{_api(key).name}Request")


def _response_class(key: int, version: int) -> Any:
    return getattr(response_module(key, version), f"{_api(key).name}Response")


def _api(key: int) -> Api:
    api = BY_KEY.get(key)
    if api is None:
        raise UnknownApi(f"no API with the key {key} is served")
    return api


@cache
def _schema_module(key: int, version: int, part: str) -> ModuleType:
    api = _api(key)
    if not api.serves(version):
        raise UnsupportedVersion(f"{api.name} is not served in version {version}")
    return import_module(f"kio.schema.{api.schema}.v{version}.{part}")
