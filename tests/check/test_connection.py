"""The connection of a client of the checker."""

import asyncio
import socket
import ssl

import pytest
from kohort.check import connection
from kohort.check.connection import Connection, NotSent
from kohort.client_security import Security
from kohort.protocol.bootstrap import Address


def test_an_undecodable_response_ends_its_request() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        request = await reader.readexactly(size)
        body = request[4:8] + b"\xff"  # the correlation id, and half of an error code
        writer.write(len(body).to_bytes(4) + body)
        await reader.read()
        writer.close()

    async def connect() -> None:
        async with await asyncio.start_server(respond, "127.0.0.1", 0) as server:
            address = Address(*server.sockets[0].getsockname())
            with pytest.raises(NotSent, match=r"invalid response from .* ends early"):
                await Connection.open(address, Security(), "client")

    asyncio.run(connect())


def test_a_timeout_of_the_tls_handshake_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.1)
    security = Security(tls=ssl.create_default_context())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = Address(*silent.getsockname())
        with pytest.raises(NotSent, match=r"^cannot connect to .*: timed out after 0.1 s$"):
            asyncio.run(Connection.open(address, security, "client"))
