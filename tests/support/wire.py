"""The blocking client of the tests, `Client`; `AsyncClient` and the codec are those of scenarios.

kio alone encodes and decodes, so a mistake in kohort's encoding cannot go unnoticed.
"""

import socket
import ssl
from typing import Any, Self

from kohort.conformance.wire import (
    TIMEOUT_SECONDS,
    AsyncClient,
    Pipeline,
    decode_frame,
    encode_frame,
    message_of,
    message_type,
    plain,
    request_of,
)

__all__ = [
    "TIMEOUT_SECONDS",
    "AsyncClient",
    "Client",
    "Pipeline",
    "connect",
    "decode_frame",
    "encode_frame",
    "is_refused",
    "message_of",
    "message_type",
    "plain",
    "request_of",
]


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
