"""The wire client of the tests: requests and responses as plain values, on a blocking connection
(`Client`) or in an event loop (`AsyncClient`).

kio alone encodes and decodes, so a mistake in kohort's encoding cannot go unnoticed.
"""

import asyncio
import dataclasses
import functools
import importlib
import io
import re
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import TZAware
from support.kio_messages import shape, smallest

TIMEOUT_SECONDS = 30


@functools.cache
def message_type(api: str, version: int, kind: str) -> Any:
    """kio's class: `message_type("Heartbeat", 4, "Request")`."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).lower()
    module = importlib.import_module(f"kio.schema.{snake}.v{version}.{kind.lower()}")
    found = getattr(module, f"{api}{kind}")
    if (api, kind) == ("DescribeTransactions", "Response"):
        # Before a transaction begins, its start time is -1, which kio does not expect.
        start = {"transaction_start_time": TZAware | None}
        state = _with_types(module.TransactionState, start)
        found = _with_types(found, {"transaction_states": tuple[state, ...]})
    return found


def _with_types(message_class: Any, types: Mapping[str, Any]) -> Any:
    """kio's class with other types of some fields."""
    changed = [
        (each.name, types[each.name], dataclasses.field(metadata=each.metadata))
        for each in dataclasses.fields(message_class)
        if each.name in types
    ]
    name, bases = message_class.__name__, (message_class,)
    return dataclasses.make_dataclass(name, changed, bases=bases, frozen=True, kw_only=True)


def request_of(api: str, version: int, values: Mapping[str, Any]) -> Any:
    """kio's request. Fields without a value have the default of Kafka's schema, or are null, zero
    or empty. Values for fields that this version does not have are omitted, as in clients. Times
    are milliseconds."""
    return message_of(message_type(api, version, "Request"), values)


def message_of(message_class: Any, values: Mapping[str, Any]) -> Any:
    fields, defaults = _fields_and_defaults(message_class)
    known = {name: _value(fields[name], v) for name, v in values.items() if name in fields}
    return dataclasses.replace(defaults, **known)


@functools.cache
def _fields_and_defaults(message_class: Any) -> tuple[dict[str, Any], Any]:
    fields = {field.name: field for field in dataclasses.fields(message_class)}
    defaults = {
        name: field.default
        for name, field in fields.items()
        if field.default is not dataclasses.MISSING
    }
    return fields, dataclasses.replace(smallest(message_class), **defaults)


def _value(field: Any, value: Any) -> Any:
    if isinstance(value, Mapping):
        return message_of(shape(field)[0], value)
    if isinstance(value, list | tuple):
        part = shape(field)[0]
        return tuple(message_of(part, v) if isinstance(v, Mapping) else v for v in value)
    if isinstance(value, int) and field.metadata.get("kafka_type", "").startswith("timedelta"):
        return timedelta(milliseconds=value)
    return value


def plain(message: Any) -> Any:
    """A message as dicts and lists, with error codes by name and times in milliseconds."""
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message)]
        return {name: plain(getattr(message, name)) for name in names}
    if isinstance(message, tuple | list):
        return [plain(item) for item in message]
    if isinstance(message, ErrorCode):
        return message.name
    if isinstance(message, timedelta):
        return message // timedelta(milliseconds=1)
    if isinstance(message, memoryview):
        return bytes(message)
    return str(message) if isinstance(message, UUID) else message


def encode_frame(request: Any, *, correlation_id: int, client_id: str | None) -> bytes:
    """The frame of kio's request, with its size."""
    schema = request.__header_schema__
    header = {
        "request_api_key": request.__api_key__,
        "request_api_version": request.__version__,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    # The oldest header has no client id.
    known = schema.__dataclass_fields__
    buffer = io.BytesIO()
    entity_writer(schema)(buffer, schema(**{k: v for k, v in header.items() if k in known}))
    entity_writer(type(request))(buffer, request)
    return buffer.tell().to_bytes(4, "big") + buffer.getvalue()


def decode_frame(frame: bytes, response_type: Any) -> tuple[int, Any]:
    """The correlation id and kio's response of a frame without its size."""
    header, start = entity_reader(response_type.__header_schema__)(frame, 0)
    response, size = entity_reader(response_type)(frame, start)
    assert start + size == len(frame)
    return header.correlation_id, response


def connect(addresses: str) -> socket.socket:
    """Connect to the first of `HOST:PORT[,HOST:PORT…]`."""
    host, _, port = addresses.split(",")[0].rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_SECONDS)


def is_refused(address: str) -> bool:
    """Return True if nothing listens at the address."""
    try:
        connect(address).close()
    except ConnectionRefusedError:
        return True
    return False


class Pipeline:
    """Correlation ids, starting at 1, and the types of the outstanding responses."""

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id
        self._sent = 0
        self._due: deque[tuple[int, Any]] = deque()

    def encode(self, api: str, version: int, values: Mapping[str, Any]) -> bytes:
        self._sent += 1
        self._due.append((self._sent, message_type(api, version, "Response")))
        request = request_of(api, version, values)
        return encode_frame(request, correlation_id=self._sent, client_id=self._client_id)

    def decode(self, frame: bytes) -> Any:
        correlation_id, response_type = self._due.popleft()
        found, response = decode_frame(frame, response_type)
        assert found == correlation_id
        return plain(response)


class Client:
    """A blocking connection to the first of `addresses`, `HOST:PORT[,HOST:PORT…]`.

    `client.call("Heartbeat", 4, group_id="g", …)` returns the response; several `send` before
    their `receive` are pipelined. A closed connection raises ConnectionError.
    """

    def __init__(
        self,
        addresses: str,
        client_id: str | None = "test",
        *,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.socket = connect(addresses)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self._stream = self.socket.makefile("rb")
        self._pipeline = Pipeline(client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stream.close()
        self.socket.close()

    def call(self, api: str, version: int, /, **values: Any) -> Any:
        self.send(api, version, **values)
        return self.receive()

    def send(self, api: str, version: int, /, **values: Any) -> None:
        self.socket.sendall(self.encode(api, version, **values))

    def encode(self, api: str, version: int, /, **values: Any) -> bytes:
        """Return the frame of the next request, which the caller sends."""
        return self._pipeline.encode(api, version, values)

    def receive(self) -> Any:
        """Return the response to the oldest outstanding request."""
        return self.decode(self.receive_frame())

    def decode(self, frame: bytes) -> Any:
        return self._pipeline.decode(frame)

    def receive_frame(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big"))

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise ConnectionError("the broker closed the connection")
        return data


class AsyncClient(asyncio.Protocol):
    """`await AsyncClient.connect(port)`: like Client, but in an event loop; `send` returns a
    future."""

    def __init__(self, client_id: str | None = "test") -> None:
        self._pipeline = Pipeline(client_id)
        self._transport: Any = None
        self._buffer = b""
        self._futures: deque[asyncio.Future[Any]] = deque()
        self.is_closed = False

    @classmethod
    async def connect(cls, port: int, client_id: str | None = "test") -> Self:
        loop = asyncio.get_running_loop()
        return (await loop.create_connection(lambda: cls(client_id), "127.0.0.1", port))[1]

    @property
    def local_port(self) -> int:
        port: int = self._transport.get_extra_info("sockname")[1]
        return port

    @property
    def is_free(self) -> bool:
        """Return True if no response is outstanding: Kafka handles one request at a time."""
        return not self._futures and not self.is_closed

    async def call(self, api: str, version: int, /, **values: Any) -> Any:
        return await asyncio.wait_for(self.send(api, version, **values), TIMEOUT_SECONDS)

    def send(self, api: str, version: int, /, **values: Any) -> asyncio.Future[Any]:
        """The future fails with ConnectionError if the connection is closed first."""
        assert not self.is_closed
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        self._transport.write(self._pipeline.encode(api, version, values))
        return future

    def close(self) -> None:
        self._futures.clear()
        self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        while self._futures:
            self._futures.popleft().set_exception(ConnectionError("the connection was closed"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            self._futures.popleft().set_result(self._pipeline.decode(frame))
