"""The listening sockets of a listener of a node, and its open connections."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from .connection import Connection
from .security.principal import INTERNAL
from .security.tls import HANDSHAKE_SECONDS_MAX, ServerTls, handshake_problem

_log: Final = logging.getLogger("kohort.server")

# How long a stopping server waits for clients to receive the responses already written; then their
# connections are aborted. `kohort serve` promises to stop within two seconds.
CLOSE_SECONDS_MAX: Final = 1.0
# All clients of a test suite may connect at once; Kafka's backlog is 50.
BACKLOG: Final = 1024
# Connections accepted before other clients are served: 50 µs each. (uvloop's own servers accept one
# per iteration of the event loop, which takes a minute for 1,000 clients of a busy broker.)
ACCEPTED_AT_ONCE_MAX: Final = 64
# Pause after a failure to accept, for example because no file descriptors are left.
RETRY_ACCEPT_SECONDS: Final = 1.0


class Server:
    """The listening sockets of a listener of a node: one per address of its host.
    `new_connection(opened, closed)` is the protocol factory."""

    def __init__(
        self,
        new_connection: Callable[
            [Callable[[Connection], None], Callable[[Connection], None]], Connection
        ],
    ) -> None:
        self._new_connection = new_connection
        self._listeners: list[socket.socket] = []
        self._is_listening = False
        # Accepted sockets that have no connection yet.
        self._connecting: set[asyncio.Task[None]] = set()
        self._connections: set[Connection] = set()
        self._all_closed: asyncio.Event | None = None
        self._is_stopping = False
        self._tls: ServerTls | None = None

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Bind the addresses of `host` without listening yet; returns host and port of the first
        one. Raises OSError."""
        self._all_closed = None
        self._is_stopping = False
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, type_, protocol, _, address in dict.fromkeys(infos):
                listener = socket.socket(family, type_, protocol)
                self._listeners.append(listener)
                listener.setblocking(False)
                if os.name == "posix":
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
        except OSError:
            self._close_listeners()
            raise
        bound = self._listeners[0].getsockname()
        return bound[0], bound[1]

    async def listen(self, tls: ServerTls | None = None) -> None:
        """Start accepting connections, with TLS if it is given. Raises OSError."""
        assert self._listeners, "bind comes first"
        self._tls = tls
        for listener in self._listeners:
            listener.listen(BACKLOG)
        self._is_listening = True
        self._accept_soon()

    def _accept_soon(self) -> None:
        if not self._is_listening:
            return
        for listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                _log.error("Cannot accept connections: %s", error)
                self._pause_accepting()
                loop.call_later(RETRY_ACCEPT_SECONDS, self._accept_soon)
                return
            client.setblocking(False)
            connecting = loop.create_task(self._connect(client))
            self._connecting.add(connecting)
            connecting.add_done_callback(partial(self._connected, address[0]))

    async def _connect(self, client: socket.socket) -> None:
        """Create the connection, after the TLS handshake if there is one."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            await loop.connect_accepted_socket(self._new_protocol, client)
        elif self._tls.handshakes_to_drop:
            self._tls.handshakes_to_drop -= 1
            client.close()
        else:
            await loop.connect_accepted_socket(
                self._new_protocol,
                client,
                ssl=self._tls.context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            )

    def _connected(self, host: str, connecting: asyncio.Task[None]) -> None:
        self._connecting.discard(connecting)
        if connecting.cancelled() or (error := connecting.exception()) is None:
            return
        if self._tls is None:
            _log.debug("A client has disconnected at once: %s", error)
        else:
            # Kafka's wording, with the reason.
            _log.info(
                "Failed authentication with /%s (SSL handshake failed): %s",
                host,
                handshake_problem(error),
            )

    def abort_connections(self) -> None:
        """Stop accepting and abort all connections without flushing."""
        self._stop_accepting()
        for connection in list(self._connections):
            connection.abort()

    def attach(self, transport: asyncio.Transport) -> Connection:
        """Connect an in-process client. Requests are passed to `data_received`; responses go to
        `transport`. Raises ConnectionRefusedError if the node is down."""
        if not self._is_listening:
            raise ConnectionRefusedError("the node is not listening")
        connection = self._new_protocol()
        connection.client.principal, connection.client.sasl = INTERNAL, None
        connection.connection_made(transport)
        return connection

    async def stop(self) -> None:
        """Close the listening sockets, then every connection."""
        if not self._listeners:
            return
        self._stop_accepting()
        if self._tls is not None:  # a client may never complete its handshake
            for each in self._connecting:
                each.cancel()
        # The other connections are aborted as soon as they are made.
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self._close_listeners()
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
        self._is_listening = False
        self._pause_accepting()

    def _pause_accepting(self) -> None:
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._listeners = []

    def _new_protocol(self) -> Connection:
        return self._new_connection(self._opened, self._closed)

    def _opened(self, connection: Connection) -> None:
        self._connections.add(connection)
        if self._is_stopping:
            connection.abort()

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._all_closed is not None and not self._connections:
            self._all_closed.set()
