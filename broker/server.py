"""The listening socket of a node, and the connections that it has accepted."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import cast

from .connection import Connection

# How long a stopping server lets clients take what has been written for them; after that their
# connections are cut. `kohort serve` promises an end within two seconds.
CLOSE_SECONDS_MAX = 1.0


class _TooLate(asyncio.Protocol):
    """Of a client that was accepted in the very turn of the loop in which the server stopped."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.Transport", transport).abort()


class Server:
    """`connection(opened, closed)` makes the protocol of one connection."""

    def __init__(
        self,
        connection: Callable[
            [Callable[[Connection], None], Callable[[Connection], None]], Connection
        ],
    ) -> None:
        self._connection = connection
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._all_closed: asyncio.Event | None = None
        self._is_shut = False

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Take the address, without listening yet; returns what was bound. Raises OSError."""
        self._all_closed = None
        self._is_shut = False
        self._server = await asyncio.get_running_loop().create_server(
            self._accepted,
            host,
            port,
            # Clients of one test suite may all connect at once; Kafka's backlog is 50.
            backlog=1024,
            start_serving=False,
        )
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def listen(self) -> None:
        """From here on clients can connect. Raises OSError."""
        assert self._server is not None, "bind comes first"
        await self._server.start_serving()

    def cut(self) -> None:
        """Let nobody in any more, and break every connection without sending what was written."""
        self._shut()
        for connection in list(self._connections):
            connection.abort()

    def attach(self, transport: asyncio.Transport) -> Connection:
        """The connection of a client in this process, which calls its `data_received` and is
        written to through `transport`. Raises ConnectionRefusedError if the node is down."""
        if self._server is None or self._is_shut or not self._server.is_serving():
            raise ConnectionRefusedError("the node does not listen")
        connection = self._connection(self._opened, self._forget)
        connection.connection_made(transport)
        return connection

    async def stop(self) -> None:
        """Close the listener, then every connection."""
        if self._server is None:
            return
        self._shut()
        # Who was accepted in this turn is let in before the listener is gone: asyncio would leave
        # that socket open, and its client waiting.
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

    def _shut(self) -> None:
        self._is_shut = True
        if self._server is not None:
            for listener in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listener)

    def _accepted(self) -> asyncio.BaseProtocol:
        if self._is_shut:
            return _TooLate()
        return self._connection(self._opened, self._forget)

    def _opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._is_shut:
            connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._all_closed is not None and not self._connections:
            self._all_closed.set()
