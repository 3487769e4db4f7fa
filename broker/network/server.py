"""The listening sockets of a node's listener, and its open connections."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from ..config.listeners import Listener
from ..security.connection_limits import ConnectionLimits
from ..security.principal import INTERNAL
from ..security.tls import HANDSHAKE_SECONDS_MAX, ServerTls, handshake_problem, handshaking_client
from .connection import Connection
from .idle_connections import IdleConnections

_log: Final = logging.getLogger("kohort.server")

# How long a stopping server waits for clients to receive the responses already written, before it
# aborts their connections. `kohort serve` must stop within two seconds.
CLOSE_SECONDS_MAX: Final = 1.0
# All clients of a test suite may connect at once. Kafka's backlog is 50.
BACKLOG: Final = 1024
# Number of connections that are accepted, at 50 µs each, before other clients are served. (uvloop's
# own servers accept one connection per iteration of the event loop, which takes a minute for 1,000
# clients of a busy broker.)
ACCEPTED_AT_ONCE_MAX: Final = 64
# Pause after a failure to accept, for example because no file descriptors are left.
RETRY_ACCEPT_SECONDS: Final = 1.0


class Server:
    """The listening sockets of a node's listener, one per address of its host.
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
        self._limits: ConnectionLimits | None = None
        self._idle: IdleConnections | None = None
        self._name = ""
        # Tasks that open a connection, and wait for its TLS handshake.
        self._connecting: set[asyncio.Task[None]] = set()
        # Accepted sockets that wait until the limits allow a connection, or until they are closed.
        self._waiting: set[socket.socket] = set()
        self._cancel_waiting: Callable[[], None] | None = None
        self._connections: set[Connection] = set()
        # The IP addresses of the connections that count towards limits.
        self._addresses: dict[Connection, str] = {}
        self._all_closed: asyncio.Event | None = None
        self._is_stopping = False
        self._tls: ServerTls | None = None

    def limit(self, listener: Listener, limits: ConnectionLimits, idle: IdleConnections) -> None:
        """Apply limits to connections over sockets, but not to in-process clients."""
        self._name, self._limits, self._idle = listener.name, limits, idle
        limits.add_listener(listener, lambda: list(self._addresses))

    async def bind(self, host: str, port: int) -> tuple[str, int]:
        """Bind the addresses of `host` without listening yet. Return the host and port of the first
        address. Raises OSError."""
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
                try:
                    listener.bind(address)
                except OSError as error:
                    text = f"{error.strerror}: port {port} on {host or 'this machine'}"
                    raise OSError(error.errno, text) from None
        except OSError:
            self._close_listeners()
            raise
        bound = self._listeners[0].getsockname()
        return bound[0], bound[1]

    async def listen(self, tls: ServerTls | None = None) -> None:
        """Start accepting connections, with TLS unless `tls` is None. Raises OSError."""
        assert self._listeners, "call bind first"
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
            if self._cancel_waiting is not None:
                return
            try:
                client, address = listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionAbortedError:
                continue  # the client has disconnected
            except OSError as error:
                _log.error("Cannot accept connections: %s", error)
                self._pause_accepting()
                loop.call_later(RETRY_ACCEPT_SECONDS, self._accept_soon)
                return
            client.setblocking(False)
            self._connect_when_allowed(client, address[0])

    def _connect_when_allowed(self, client: socket.socket, address: str) -> None:
        """Connect the client now, or when the limits allow it. Until then, no other client is
        accepted."""
        limits = self._limits
        delay_ms = 0 if limits is None else limits.delay_ms(self._name)
        if limits is None or (not delay_ms and limits.has_slot(self._name)):
            self._connect(client, address)
            return
        self._pause_accepting()
        self._waiting.add(client)

        def proceed() -> None:
            self._waiting.discard(client)
            self._cancel_waiting = None
            self._connect(client, address)
            self._accept_soon()

        self._cancel_waiting = limits.wait(self._name, delay_ms, proceed)

    def _connect(self, client: socket.socket, address: str) -> None:
        limits = self._limits
        if limits is not None:
            if close_ms := limits.ip_delay_ms(address):
                self._waiting.add(client)
                limits.call_later(close_ms, partial(self._close_waiting, client))
                return
            if not limits.open(self._name, address):
                client.close()
                return
        connection = self._new_protocol()
        if limits is not None:
            self._addresses[connection] = address
        connecting = asyncio.get_running_loop().create_task(self._open(connection, client))
        self._connecting.add(connecting)
        connecting.add_done_callback(partial(self._connected, connection, address))

    async def _open(self, connection: Connection, client: socket.socket) -> None:
        """Open the connection, after the TLS handshake if there is one."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            await loop.connect_accepted_socket(lambda: connection, client)
        elif self._tls.handshakes_to_drop:
            self._tls.handshakes_to_drop -= 1
            client.close()
            raise ConnectionAbortedError("dropped by a test")
        else:
            handshaking_client.set(client)
            await loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._tls.context(),
                ssl_handshake_timeout=HANDSHAKE_SECONDS_MAX,
            )

    def _connected(
        self, connection: Connection, address: str, connecting: asyncio.Task[None]
    ) -> None:
        self._connecting.discard(connecting)
        error = None if connecting.cancelled() else connecting.exception()
        if connecting.cancelled() or error is not None:
            self._stop_counting(connection)
        if error is None:
            return
        if self._tls is None:
            _log.debug("A client disconnected immediately: %s", error)
        else:
            # Kafka's wording, with the reason.
            problem, client = handshake_problem(error), connection.client
            client.host = f"/{address}"
            _log.info(
                "Failed authentication with %s (SSL handshake failed): %s", client.host, problem
            )
            client.on_failed(client, f"TLS handshake: {problem}")

    def _close_waiting(self, client: socket.socket) -> None:
        self._waiting.discard(client)
        client.close()

    def _stop_counting(self, connection: Connection) -> None:
        address = self._addresses.pop(connection, None)
        if address is not None and self._limits is not None and self._idle is not None:
            self._idle.discard(connection)
            self._limits.close(self._name, address)

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
        # Connections that are still being opened are aborted once they are open.
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
        if self._cancel_waiting is not None:
            self._cancel_waiting()
            self._cancel_waiting = None
        for client in list(self._waiting):
            self._close_waiting(client)

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
        elif self._idle is not None and connection in self._addresses:
            self._idle.add(connection)

    def _closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._stop_counting(connection)
        if self._all_closed is not None and not self._connections:
            self._all_closed.set()
