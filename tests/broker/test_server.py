"""A server that stops while clients come in."""

import asyncio
import contextlib
import socket
from typing import Any

import pytest
from kohort.broker.broker import Broker
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.meta_properties import cluster_id_of


@pytest.mark.parametrize("turns", range(4))
async def test_nobody_who_comes_while_it_stops_is_left_waiting(turns: int) -> None:
    """Method: the client is connected (by the system) so many turns of the loop before the stop."""
    broker = Broker(BrokerConfig({}))
    await broker.start("127.0.0.1", 0)
    with socket.create_connection((broker.host, broker.port), timeout=5) as client:
        for _ in range(turns):
            await asyncio.sleep(0)
        await broker.stop_node(1)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.to_thread(client.recv, 1) == b""
    await broker.stop()


async def test_who_is_cut_off_is_told_nothing_and_nobody_gets_in_any_more() -> None:
    broker = Broker(BrokerConfig({}))
    await broker.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(broker.host, broker.port)
    broker.cut()
    assert await reader.read() == b""
    writer.close()
    await broker.stop()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(broker.host, broker.port)


async def test_a_broker_that_could_not_listen_is_not_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Method: two take the same address, and the other one listens while this one assembles."""
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
