"""The wire client of scenarios: requests and responses as plain values, in an event loop.

kio encodes and decodes them, so mistakes in kohort's own encoding are noticed. Only record batches
are built with kohort's code (records.py).
"""

import asyncio
import dataclasses
import functools
import importlib
import io
import re
import types
from collections import deque
from collections.abc import Container, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self, get_args, get_origin
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.primitive import TZAware

from ..client_security import PLAINTEXT, AuthenticationError, Security

TIMEOUT_SECONDS: Final = 30
NO_TIMES: Final[Mapping[str, tuple[str, ...]]] = {
    "CreateDelegationToken": ("issue_timestamp", "expiry_timestamp", "max_timestamp"),
    "ExpireDelegationToken": ("expiry_timestamp",),
    "RenewDelegationToken": ("expiry_timestamp",),
}


class UnsupportedVersion(Exception):
    """The broker does not list this version of the API."""


@functools.cache
def message_type(api: str, version: int, kind: str) -> Any:
    """Return kio's class of a message, for example `message_type("Heartbeat", 4, "Request")`."""
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", api).lower()
    module = importlib.import_module(f"kio.schema.{snake}.v{version}.{kind.lower()}")
    found = getattr(module, f"{api}{kind}")
    if kind == "Response" and api in NO_TIMES:
        # In error responses, times are -1, which kio does not expect.
        found = _with_types(found, dict.fromkeys(NO_TIMES[api], TZAware | None))
    if (api, kind) == ("DescribeTransactions", "Response"):
        # Before a transaction begins, its start time is -1, which kio does not expect.
        start = {"transaction_start_time": TZAware | None}
        state = _with_types(module.TransactionState, start)
        found = _with_types(found, {"transaction_states": tuple[state, ...]})  # type: ignore[valid-type]
    return found


def _with_types(message_class: Any, types: Mapping[str, Any]) -> Any:
    """Return kio's class with the types of some fields replaced."""
    changed = [
        (each.name, types[each.name], dataclasses.field(metadata=each.metadata))
        for each in dataclasses.fields(message_class)
        if each.name in types
    ]
    name, bases = message_class.__name__, (message_class,)
    return dataclasses.make_dataclass(name, changed, bases=bases, frozen=True, kw_only=True)


def request_of(api: str, version: int, values: Mapping[str, Any]) -> Any:
    """Return kio's request. Fields without a value take the default from Kafka's schema, or are
    null, zero or empty. Values for fields that this version lacks are omitted.
    Times are in milliseconds."""
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


def shape(field: Any) -> tuple[Any, bool, bool]:
    """Return the type of a field's value or items, whether the field is an array, and whether it is
    nullable."""
    declared, nullable = field.type, False
    if get_origin(declared) is types.UnionType:
        declared = next(each for each in get_args(declared) if each is not types.NoneType)
        nullable = "tag" not in field.metadata
    array = get_origin(declared) is tuple
    return (get_args(declared)[0] if array else declared), array, nullable


def smallest(entity: Any) -> Any:
    """Return a message with nulls, zeros and empty arrays."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(entity):
        declared, array, nullable = shape(field)
        if "tag" in field.metadata:
            continue
        if nullable:
            values[field.name] = None
        elif array:
            values[field.name] = ()
        elif dataclasses.is_dataclass(declared):
            values[field.name] = smallest(declared)
        else:
            values[field.name] = _SMALL[field.metadata["kafka_type"]]
    return entity(**values)


_SMALL: Final[Mapping[str, Any]] = {
    **dict.fromkeys(["int8", "int16", "int32", "int64"], 0),
    **dict.fromkeys(["uint8", "uint16", "uint32", "uint64"], 0),
    **dict.fromkeys(["timedelta_i32", "timedelta_i64"], timedelta(0)),
    **dict.fromkeys(["bytes", "records"], b""),
    "bool": False,
    "datetime_i64": datetime.fromtimestamp(0, tz=UTC),
    "error_code": ErrorCode.none,
    "float64": 0.0,
    "string": "",
    "uuid": None,
}


def plain(message: Any) -> Any:
    """Return a message as dicts and lists, with error codes by name and times in milliseconds."""
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


def kio_bytes(message: Any) -> bytes:
    """Return the message as kio encodes it."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return buffer.getvalue()


def encode_frame(request: Any, *, correlation_id: int, client_id: str | None) -> bytes:
    """Return the frame of kio's request, with its size."""
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


def decode_frame(frame: bytes, response_type: Any, *, exact: bool = True) -> tuple[int, Any]:
    """Decode a frame without its size: return the correlation id and kio's response. Unless
    `exact`, bytes after the response are ignored, because clients ignore them."""
    header, start = entity_reader(response_type.__header_schema__)(frame, 0)
    response, size = entity_reader(response_type)(frame, start)
    assert not exact or start + size == len(frame)
    return header.correlation_id, response


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

    def decode(self, frame: bytes, *, exact: bool = True) -> Any:
        correlation_id, response_type = self._due.popleft()
        found, response = decode_frame(frame, response_type, exact=exact)
        assert found == correlation_id
        return plain(response)


class AsyncClient(asyncio.Protocol):
    """A client of a broker: after `await AsyncClient.connect(port)`,
    `await client.call("Heartbeat", 4, group_id="g", …)` returns the response; `send` returns a
    future. Both raise ConnectionError if the connection is closed first, or a response is invalid;
    `call` raises TimeoutError after TIMEOUT_SECONDS."""

    versions: Mapping[int, Container[int]] | None = None
    """The allowed versions by API key. Other versions raise UnsupportedVersion. None allows all.
    """

    is_exact = True
    """Whether bytes after a response make it invalid; clients ignore them."""

    def __init__(self, client_id: str | None = "test") -> None:
        self._pipeline = Pipeline(client_id)
        self._transport: Any = None
        self._buffer = b""
        self._futures: deque[asyncio.Future[Any]] = deque()
        self.is_closed = False

    @classmethod
    async def connect(
        cls,
        port: int,
        client_id: str | None = "test",
        *,
        host: str = "127.0.0.1",
        security: Security = PLAINTEXT,
    ) -> Self:
        """Return a connected client. Raises OSError, and in particular PermissionError if the
        broker does not authenticate the client."""
        loop = asyncio.get_running_loop()
        connecting = loop.create_connection(lambda: cls(client_id), host, port, ssl=security.tls)
        client = (await asyncio.wait_for(connecting, TIMEOUT_SECONDS))[1]
        try:
            await client._authenticate(security)
        except BaseException:
            client.close()
            raise
        return client

    async def _authenticate(self, security: Security) -> None:
        steps, response = security.authentication(), None
        try:
            while True:
                api, fields = steps.send(response)
                values = await self.call(api, 1, **fields)
                error = ErrorCode[values.pop("error_code")]
                response = types.SimpleNamespace(**values, error_code=error)
        except StopIteration:
            pass  # the authentication is complete
        except AuthenticationError as problem:
            raise PermissionError(f"authentication failed: {problem}") from None

    @property
    def local_host(self) -> str:
        host: str = self._transport.get_extra_info("sockname")[0]
        return host

    @property
    def local_port(self) -> int:
        port: int = self._transport.get_extra_info("sockname")[1]
        return port

    @property
    def is_free(self) -> bool:
        """Whether the connection is open and no response is outstanding. Kafka handles one request
        of a connection at a time."""
        return not self._futures and not self.is_closed

    async def call(self, api: str, version: int, /, **values: Any) -> Any:
        return await asyncio.wait_for(self.send(api, version, **values), TIMEOUT_SECONDS)

    def supports(self, api: str, version: int) -> bool:
        key = message_type(api, version, "Request").__api_key__
        return self.versions is None or version in self.versions.get(key, ())

    def send(self, api: str, version: int, /, **values: Any) -> asyncio.Future[Any]:
        if self.is_closed:
            raise ConnectionError("the connection was closed")
        if not self.supports(api, version):
            raise UnsupportedVersion(f"{api} v{version}")
        future = asyncio.get_running_loop().create_future()
        self._futures.append(future)
        self._transport.write(self._pipeline.encode(api, version, values))
        return future

    def close(self) -> None:
        self._futures.clear()
        self._transport.close()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._fail("the connection was closed")

    def _fail(self, reason: str) -> None:
        self.is_closed = True
        while self._futures:
            future = self._futures.popleft()
            if not future.done():  # otherwise the caller has timed out
                future.set_exception(ConnectionError(reason))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4 and not self.is_closed:
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            if len(self._buffer) < end:
                return
            frame, self._buffer = self._buffer[4:end], self._buffer[end:]
            try:
                response = self._pipeline.decode(frame, exact=self.is_exact)
            except (AssertionError, LookupError, SerialError, ValueError) as error:
                self._fail(f"invalid response: {type(error).__name__}: {error}")
                self._transport.close()
                return
            future = self._futures.popleft()
            if not future.done():
                future.set_result(response)
