"""Request bodies become kio's messages, messages become response frames.

Schema modules are imported and writers compiled at a version's first use: starting must not pay
for what nobody asks.
"""

from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from .apis import API_VERSIONS, BY_KEY, Api
from .errors import UndecodableBody, UnknownApi, UnsupportedVersion
from .writers import FrameWriter, frame_writer

RequestReader = Callable[[bytes, int], tuple[Any, int]]


def request_module(key: int, version: int) -> ModuleType:
    """kio's module with the request classes of this version."""
    return _schema_module(key, version, "request")


def response_module(key: int, version: int) -> ModuleType:
    """kio's module with the response classes of this version."""
    return _schema_module(key, version, "response")


@cache
def request_reader(key: int, version: int) -> RequestReader:
    """(buffer, start of the body) -> (message, end of the body); raises whatever kio raises."""
    from kio.serial import entity_reader

    entity = getattr(request_module(key, version), f"{_api(key).name}Request")
    reader: RequestReader = entity_reader(entity)
    return reader


def read_request(api: Api, version: int, buffer: bytes, body: int, end: int) -> Any:
    """The message in buffer[body:end]. Bytes after its end are ignored, as Kafka does.

    Raises UndecodableBody.
    """
    reader = request_reader(api.key, version)
    try:
        message, stop = reader(buffer, body)
    except Exception as error:
        raise UndecodableBody(
            f"the body of {api.name} v{version} ({end - body} bytes) cannot be decoded: {error}"
        ) from error
    if stop > end:
        raise UndecodableBody(f"the body of {api.name} v{version} reaches beyond its frame")
    return message


@cache
def response_writer(key: int, version: int) -> FrameWriter:
    """(message, correlation id) -> the whole frame. See `writers` for what a message may be."""
    entity = getattr(response_module(key, version), f"{_api(key).name}Response")
    # ApiVersions is always answered under header v0: the client must be able to read our answer
    # before it knows our versions (KIP-511).
    flexible_header = version >= _api(key).flexible_from and key != API_VERSIONS
    return frame_writer(entity, flexible_header=flexible_header)


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
