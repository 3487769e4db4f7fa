"""Requests from plain values, answers to plain values, and a connection that says when it has one.

Everything goes through kio: none of our own encoding takes part, so a mistake there cannot hide.
"""

import asyncio
import dataclasses
import struct
from collections.abc import Callable
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode
from kohort.protocol.apis import APIS
from kohort.protocol.messages import response_module
from support.wire import decode_frame, encode_frame, request_of

__all__ = ["BY_NAME", "Connection", "connect", "plain", "request_of"]

BY_NAME = {api.name: api for api in APIS}
# Times differ from run to run; nothing that a group's member relies on is lost with them.
DROPPED = {"throttle_time"}


def plain(message: Any) -> Any:
    """An answer as JSON has it: names for error codes, text for bytes, null stays null."""
    if dataclasses.is_dataclass(message):
        names = [field.name for field in dataclasses.fields(message) if field.name not in DROPPED]
        return {name: plain(getattr(message, name)) for name in names}
    if isinstance(message, tuple | list):
        return [plain(item) for item in message]
    if isinstance(message, ErrorCode):
        return message.name
    if isinstance(message, bytes | memoryview):
        return bytes(message).decode("latin-1")
    return str(message) if isinstance(message, UUID) else message


class Connection(asyncio.Protocol):
    """One socket. Kafka handles one request of a connection at a time, so `is_free` matters."""

    def __init__(self) -> None:
        self._transport: Any = None
        self._buffer = b""
        self._reader: Callable[[bytes], Any] | None = None
        self._done: Callable[[Any], None] | None = None
        self.is_closed = False

    @property
    def is_free(self) -> bool:
        return self._done is None and not self.is_closed

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True
        if self._done is not None:
            self._finish("the connection was closed")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if len(self._buffer) < 4:
            return
        (size,) = struct.unpack_from(">i", self._buffer)
        if len(self._buffer) >= 4 + size:
            frame, self._buffer = self._buffer[4 : 4 + size], self._buffer[4 + size :]
            assert self._reader is not None, "an answer that nobody asked for"
            self._finish(self._reader(frame))

    def close(self) -> None:
        self._done = None
        self._transport.close()

    def send(
        self,
        api: str,
        version: int,
        client_id: str | None,
        request: Any,
        done: Callable[[Any], None],
    ) -> None:
        """`done` is called with the answer as kio reads it, or with the text that there is none."""
        assert self.is_free
        key = BY_NAME[api].key
        entity = getattr(response_module(key, version), f"{api}Response")
        self._reader = lambda frame: decode_frame(frame, entity)[1]
        self._done = done
        self._transport.write(encode_frame(request, correlation_id=7, client_id=client_id))

    def _finish(self, answer: Any) -> None:
        done, self._done = self._done, None
        assert done is not None
        done(answer)


async def connect(port: int) -> Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
    return connection
