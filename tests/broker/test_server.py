"""The server accepts connections, and stops while clients connect."""

import asyncio
import contextlib
import resource
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import uvloop
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.listeners import Listener, SecurityProtocol
from kohort.broker.network.server import Server
from kohort.broker.security.tls import ServerTls
from kohort.log.checkpoint import cluster_id_of
from support.running_broker import running_broker


@pytest.mark.parametrize("iterations", range(4))
async def test_a_client_that_connects_while_the_server_stops_is_disconnected(
    iterations: int,
) -> None:
    """The client is connected this number of loop iterations before the stop."""
    async with running_broker() as broker:
        with socket.create_connection((broker.host, broker.port), timeout=5) as client:
            for _ in range(iterations):
                await asyncio.sleep(0)
            await broker.stop_node(1)
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(client.recv, 1) == b""


async def test_an_aborted_server_sends_nothing_and_accepts_no_connections() -> None:
    async with running_broker() as broker:
        reader, writer = await asyncio.open_connection(broker.host, broker.port)
        broker.abort_connections()
        assert await reader.read() == b""
        writer.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(broker.host, broker.port)


async def test_a_broker_that_fails_to_listen_is_not_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another server binds the same address, and listens while this broker starts."""
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    other.bind(("127.0.0.1", 0))

    def meanwhile(*place: Any) -> str:
        other.listen()
        return cluster_id_of(*place)

    monkeypatch.setattr("kohort.broker.broker.cluster_id_of", meanwhile)
    broker = Broker(BrokerConfig({}))
    with other, pytest.raises(OSError, match="in use"):
        await broker.start("127.0.0.1", other.getsockname()[1])
    assert not broker.is_running
    await broker.stop()


class CountedConnection(asyncio.Protocol):
    """Stands in for Connection."""

    def __init__(self, opened: Any, closed: Any) -> None:
        self._opened, self._closed = opened, closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.close = self.abort = transport.abort  # type: ignore[attr-defined]
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed(self)


class CountingServer(Server):
    def __init__(self) -> None:
        super().__init__(CountedConnection)  # type: ignore[arg-type]
        self.opened = 0

    def _opened(self, connection: Any) -> None:
        self.opened += 1
        super()._opened(connection)


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_waiting_clients_are_accepted_in_a_few_iterations(new_loop: Any) -> None:
    """An iteration of the event loop of a busy broker takes long."""
    clients = 300

    async def accept() -> int:
        server = CountingServer()
        address = await server.bind("127.0.0.1", 0)
        await server.listen()
        with contextlib.ExitStack() as stack:
            for _ in range(clients):
                stack.enter_context(socket.create_connection(address, timeout=5))
            iterations = 0
            while server.opened < clients:
                await asyncio.sleep(0)
                iterations += 1
            await server.stop()
        return iterations

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(accept()) < 30


@pytest.mark.parametrize("new_loop", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_a_client_receives_the_alert_of_its_handshake(new_loop: Any, tmp_path: Path) -> None:
    listener = Listener("SSL", "localhost", 0, SecurityProtocol.SSL)
    config = BrokerConfig({"ssl.client.auth": "required"})
    tls = ServerTls(config, listener, ["localhost"], tmp_path, lambda: 0)

    def connect_without_certificate(address: tuple[str, int]) -> None:
        context = ssl.create_default_context(cafile=tls.ca_file)
        with (
            socket.create_connection(address, timeout=5) as client,
            context.wrap_socket(client, server_hostname="localhost") as connected,
        ):
            connected.recv(1)

    async def serve() -> None:
        server = CountingServer()
        address = await server.bind("127.0.0.1", 0)
        await server.listen(tls)
        try:
            await asyncio.to_thread(connect_without_certificate, address)
        finally:
            await server.stop()

    with (
        asyncio.Runner(loop_factory=new_loop) as runner,
        pytest.raises(ssl.SSLError, match="alert certificate required"),
    ):
        runner.run(serve())


async def test_a_server_without_free_descriptors_accepts_clients_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kohort.broker.network.server.RETRY_ACCEPT_SECONDS", 0.01)
    server = CountingServer()
    address = await server.bind("127.0.0.1", 0)
    await server.listen()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as client:
        resource.setrlimit(resource.RLIMIT_NOFILE, (client.fileno() + 1, hard))
        try:
            client.connect(address)
            while "Cannot accept connections: [Errno 24]" not in caplog.text:
                await asyncio.sleep(0)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        while not server.opened:
            await asyncio.sleep(0)
        await server.stop()
