"""The schemas, decoders and encoders of requests and responses, by API key and version.

For a fast startup, kio's modules are imported, and codecs generated, when a version is first used.
"""

import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from struct import Struct, pack_into
from types import ModuleType
from typing import Any, Final, TypeAlias, get_args, get_origin

from .apis import API_VERSIONS, BY_KEY, Api
from .budgets import INLINE_ITEMS_MAX, ITEMS_MAX, RESPONSE_ITEMS_MAX
from .codegen import ItemLimit
from .decoder import Decoder, FieldLocator, compile_decoder, compile_finder
from .encoder import (
    THROTTLE_TIME,
    BuffersEncoder,
    FrameEncoder,
    compile_body_encoder,
    compile_frame_encoder,
)
from .errors import (
    DecodeError,
    EncodeError,
    ManyItems,
    ProtocolError,
    ResponseTooLarge,
    UnsupportedVersion,
)
from .primitives import skip_tagged_fields, string
from .schema import NO_DEFAULT, STRUCT, Field, Schema, split_tagged

RequestEncoder: TypeAlias = Callable[[Any, int, str | None], bytes]
"""(message, correlation id, client id) -> the frame."""
ResponseDecoder: TypeAlias = Callable[..., Any]
"""(frame, position after the correlation id: 8 if the frame includes its size) -> the message."""

_REQUEST_HEADER: Final = Struct(">ihhi")  # size, key, version, correlation id
_RESPONSE_HEADER_BYTES: Final = 8  # size, correlation id
_INLINE: Final = ItemLimit(INLINE_ITEMS_MAX, ManyItems)


@cache
def request_decoder(key: int, version: int, *, inline: bool = False) -> Decoder:
    """Return decode(buffer, start, end), which raises DecodeError. If `inline`, it raises ManyItems
    for a request that is too long for the event loop."""
    limit = _INLINE if inline else ItemLimit(ITEMS_MAX, _too_many_items)
    return compile_decoder(request_schema(key, version), DecodeError, limit=limit)


@cache
def response_encoder(key: int, version: int, *, inline: bool = False) -> FrameEncoder:
    """Return encode(message, correlation id), which raises EncodeError. If `inline`, it raises
    ManyItems for a response that is too long for the event loop."""
    return compile_frame_encoder(
        response_schema(key, version),
        EncodeError,
        flexible_header=_flexible_header(key, version),
        limit=_INLINE if inline else ItemLimit(RESPONSE_ITEMS_MAX, too_many_to_encode),
    )


@cache
def response_buffers_encoder(key: int, version: int) -> BuffersEncoder:
    """Like response_encoder, but returns a list of buffers without copying records, and does not
    limit the number of items."""
    return compile_frame_encoder(
        response_schema(key, version),
        EncodeError,
        flexible_header=_flexible_header(key, version),
        in_buffers=True,
    )


@cache
def request_encoder(key: int, version: int) -> RequestEncoder:
    """Return encode(message, correlation id, client id) for clients, which raises EncodeError."""
    body = compile_body_encoder(request_schema(key, version), EncodeError)
    tagged_fields = b"\x00" if version >= _api(key).flexible_from else b""

    def encode(message: Any, correlation_id: int, client_id: str | None) -> bytes:
        rest = string(client_id) + tagged_fields + body(message)
        size = len(rest) + _REQUEST_HEADER.size - 4
        return _REQUEST_HEADER.pack(size, key, version, correlation_id) + rest

    return encode


@cache
def response_decoder(key: int, version: int) -> ResponseDecoder:
    """Return the client-side decoder of a response, which raises DecodeError."""
    decode_body = compile_decoder(response_schema(key, version), DecodeError)
    flexible_header = _flexible_header(key, version)

    def decode(frame: bytes, start: int = _RESPONSE_HEADER_BYTES) -> Any:
        if flexible_header:
            try:
                start = skip_tagged_fields(frame, start, len(frame))
            except ValueError as error:
                raise DecodeError(f"{_api(key).name} response header: {error}") from None
        return decode_body(frame, start, len(frame))

    return decode


@cache
def request_field_locator(key: int, version: int, name: str) -> FieldLocator:
    """Return a function that finds the numeric fields called `name` in a request's body."""
    return compile_finder(request_schema(key, version), DecodeError, name)


def with_throttle_time(key: int, version: int, frames: bytes, throttle_ms: int) -> bytes:
    """Return the response frames of an API, with the throttle time set if the version has the
    field."""
    locate = _throttle_time_locator(key, version)
    body = _RESPONSE_HEADER_BYTES + _flexible_header(key, version)
    changed, start = bytearray(frames), 0
    while start < len(frames):
        end = start + 4 + int.from_bytes(frames[start : start + 4])
        for position, letter in locate(frames, start + body, end):
            pack_into(f">{letter}", changed, position, throttle_ms)
        start = end
    return bytes(changed)


@cache
def _throttle_time_locator(key: int, version: int) -> FieldLocator:
    return compile_finder(response_schema(key, version), DecodeError, THROTTLE_TIME)


def too_many_to_encode() -> ResponseTooLarge:
    return ResponseTooLarge(
        f"the response contains more than {RESPONSE_ITEMS_MAX} items: request less data at a time"
    )


def _too_many_items() -> ValueError:
    return ValueError(f"has more than {ITEMS_MAX} items, together with the arrays before it")


def _flexible_header(key: int, version: int) -> bool:
    # ApiVersions responses always use header v0, because clients read them before they know the
    # broker's versions (KIP-511).
    return version >= _api(key).flexible_from and key != API_VERSIONS


# Schemas


def request_schema(key: int, version: int) -> Schema:
    return kio_schema(getattr(request_module(key, version), f"{_api(key).name}Request"))


def response_schema(key: int, version: int) -> Schema:
    return kio_schema(getattr(response_module(key, version), f"{_api(key).name}Response"))


def request_module(key: int, version: int) -> ModuleType:
    """Return kio's module with the request classes of this version."""
    return _module(key, version, "request")


def response_module(key: int, version: int) -> ModuleType:
    """Return kio's module with the response classes of this version."""
    return _module(key, version, "response")


@cache
def _module(key: int, version: int, part: str) -> ModuleType:
    api = _api(key)
    if not api.serves(version):
        raise UnsupportedVersion(f"{api.name} is not served in version {version}")
    return import_module(f"kio.schema.{api.schema}.v{version}.{part}")


def _api(key: int) -> Api:
    api = BY_KEY.get(key)
    if api is None:
        raise ProtocolError(f"API key {key} is not served")
    return api


@cache
def kio_schema(kio_class: Any) -> Schema:
    """Build the schema of a kio dataclass from its metadata."""
    untagged, tagged = split_tagged([_field(each) for each in fields(kio_class)])
    title = f"{kio_class.__name__} v{kio_class.__version__}"
    return Schema(title, kio_class.__flexible__, untagged, tagged, _message_class(kio_class))


def _field(field: Any) -> Field:
    from kio.schema.types import TopicName

    item, nullable = field.type, False
    if get_origin(item) is types.UnionType:
        nullable = True
        (item,) = (each for each in get_args(item) if each is not types.NoneType)
    is_array = get_origin(item) is tuple
    if is_array:
        # A null array is `tuple[...] | None`. Kafka has no null items.
        item = get_args(item)[0]
    struct: Schema | None = kio_schema(item) if is_dataclass(item) else None  # type: ignore[arg-type]
    return Field(
        field.name,
        field.name,
        STRUCT if struct is not None else field.metadata["kafka_type"],
        struct,
        is_array=is_array,
        nullable=nullable,
        tag=field.metadata.get("tag"),
        default=NO_DEFAULT if field.default is MISSING else field.default,
        is_topic_name=item is TopicName,
    )


def _message_class(kio_class: Any) -> Any:
    """Return a mutable subclass of kio's frozen dataclass. Decoders create its instances three
    times as fast, and they compare equal to kio's."""
    return type(
        kio_class.__name__,
        (kio_class,),
        {
            "__slots__": (),
            "__module__": kio_class.__module__,
            "__class__": property(lambda _: kio_class),
            "__init__": object.__init__,
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        },
    )
