"""The listening socket of a node, and its open connections."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

from .connection import Connection

# How long a stopping server waits for clients to receive what has been written; then their
# connections are aborted. `kohort serve` promises to stop within two seconds.
CLOSE_SECONDS_MAX = 1.0


class _Rejected(asyncio.Protocol):
    """Closes connections accepted in the loop iteration in which the server stopped."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


class Server:
    """The listening socket of a node. `new_connection(opened, closed)` is the protocol factory."""

    def __init__(
        self,
        new_connection: Callable[
            [Callable[[Connection], None], Callable[[Connection], None]], Connection
        ],
    ) -> None:
        self._new_connection = new_connection
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._all_closed: asyncio.Event | None = None
        self._is_stopping = False

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Bind the address without listening yet; returns host and port. Raises OSError."""
        self._all_closed = None
        self._is_stopping = False
        self._server = await asyncio.get_running_loop().create_server(
            self._new_protocol,
            host,
            port,
            # All clients of a test suite may connect at once; Kafka's backlog is 50.
            backlog=1024,
            start_serving=False,
        )
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def listen(self) -> None:
        """Start accepting connections. Raises OSError."""
        assert self._server is not None, "bind comes first"
        await self._server.start_serving()

    def abort_connections(self) -> None:
        """Stop accepting and abort all connections without flushing."""
        self._stop_accepting()
        for connection in list(self._connections):
            connection.abort()

    def attach(self, transport: asyncio.Transport) -> Connection:
        """Connect an in-process client. Requests are passed to `data_received`; responses go to
        `transport`. Raises ConnectionRefusedError if the node is down."""
        if self._server is None or self._is_stopping or not self._server.is_serving():
            raise ConnectionRefusedError("the node is not listening")
        connection = self._new_connection(self._opened, self._closed)
        connection.connection_made(transport)
        return connection

    async def stop(self) -> None:
        """Close the listening socket, then every connection."""
        if self._server is None:
            return
        self._stop_accepting()
        # An accepted socket without a protocol would be leaked by asyncio, so yield once before
        # closing the listening socket.
        await asyncio.sleep(0)
        self._server.close()
        self._server = None
        self._all_closed = asyncio.Event()
        for connection in list(self._connections):
            connection.close()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), CLOSE_SECONDS_MAX)
        for connection in list(self._connections):
            connection.abort()

    def _stop_accepting(self) -> None:
        self._is_stopping = True
        if self._server is not None:
            for listener in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listener)

    def _new_protocol(self) -> asyncio.BaseProtocol:
        return (
            _Rejected() if self._is_stopping else self._new_connection(self._opened, self._closed)
        )

    def _opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._is_stopping:
            connection.abort()

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._all_closed is not None and not self._connections:
            self._all_closed.set()
