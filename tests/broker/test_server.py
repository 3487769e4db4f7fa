"""A server that stops while clients connect."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.meta_properties import cluster_id_of


@pytest.mark.parametrize("iterations", range(4))
async def test_a_client_that_connects_while_the_server_stops_is_disconnected(
    iterations: int,
) -> None:
    """The operating system connects the client this many iterations of the loop before the stop."""
    broker = Broker(BrokerConfig({}))
    await broker.start("127.0.0.1", 0)
    with socket.create_connection((broker.host, broker.port), timeout=5) as client:
        for _ in range(iterations):
            await asyncio.sleep(0)
        await broker.stop_node(1)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.to_thread(client.recv, 1) == b""
    await broker.stop()


async def test_an_aborted_server_sends_nothing_and_accepts_no_connections() -> None:
    broker = Broker(BrokerConfig({}))
    await broker.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    broker.abort_connections()
    assert await reader.read() == b""
    writer.close()
    await broker.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(broker.host, broker.port)


async def test_a_broker_that_fails_to_listen_is_not_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two servers bind the same address, and the other one listens while this broker starts."""
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
