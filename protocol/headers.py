"""Request headers: who asks what, in which version. This runs once per request, so it is short.

Header v1 is key, version, correlation id and client id; v2, used by flexible versions, adds
tagged fields (KIP-482). The client id has a two-byte length in both: a broker must be able to
read it before it knows the version.
"""

from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, NamedTuple

from .apis import API_VERSIONS, APIS, BY_KEY
from .errors import InvalidHeader, UnknownApi, UnsupportedVersion
from .primitives import java_text, skip_tagged_fields

_FIXED: Final = Struct(">iih")  # key and version as one number, correlation id, client id's length

# Key and version as they stand on the wire, read as one number -> (key, version, flexible).
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
    """Where the body begins in the buffer."""


_new: Final = tuple.__new__


def read_request_header(buffer: bytes, start: int, end: int) -> RequestHeader:
    """The header of the frame at buffer[start:end].

    ApiVersions is returned in every version, served or not: compare `api_version` with the
    table and answer UNSUPPORTED_VERSION in v0 form without looking at the body.

    Raises UnknownApi, UnsupportedVersion, InvalidHeader.
    """
    try:
        route, correlation_id, length = _FIXED.unpack_from(buffer, start)
    except StructError:
        raise _too_short(start, end) from None
    served = _SERVED.get(route)
    if served is None:
        served = _unserved(route)
    body = start + 10
    client_id: str | None = None
    if length >= 0:
        name = body
        body += length
        try:
            client_id = buffer[name:body].decode()
        except UnicodeDecodeError:
            client_id = java_text(buffer[name:body])
    if served[2]:
        if body < end and buffer[body] == 0:
            body += 1
        else:
            try:
                body = skip_tagged_fields(buffer, body, end)
            except ValueError as error:
                raise InvalidHeader(f"a request header: {error}") from None
    if body > end:
        raise _too_short(start, end)
    return _new(RequestHeader, (served[0], served[1], correlation_id, client_id, body))


def _unserved(route: int) -> tuple[int, int, bool]:
    key = route >> 16
    version = ((route & 0xFFFF) ^ 0x8000) - 0x8000
    if key == API_VERSIONS:
        return key, version, version >= BY_KEY[key].flexible_from
    api = BY_KEY.get(key)
    if api is None:
        raise UnknownApi(f"no API with the key {key} is served (version {version} was asked for)")
    raise UnsupportedVersion(
        f"{api.name} (key {key}) is served in versions {api.min_version} to {api.max_version},"
        f" not in version {version}"
    )


def _too_short(start: int, end: int) -> InvalidHeader:
    return InvalidHeader(f"a frame of {end - start} bytes is too short for its header")
