"""Clients that connect to a TLS listener and do not complete their handshakes, or stay idle."""

import contextlib
import socket
import ssl
from contextlib import ExitStack
from random import Random

from support.wire import connect

from .conftest import FULL, Target

IDLE = 10_000 if FULL else 20
SLOW = 500 if FULL else 20
GARBAGE = 2_000 if FULL else 50
TWO_LISTENERS = ("-o", "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0")


def tls_address(target: Target) -> str:
    match = target.broker.logged(r"Awaiting socket connections on (\S+) \(SSL\)\.")
    assert match
    return match[1]


def context(target: Target) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=target.data / "security" / "ca.pem")


def test_clients_that_never_complete_their_handshakes(attack):
    target = attack(*TWO_LISTENERS)
    address = tls_address(target)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context(target).wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    with ExitStack() as closing:
        slow = [closing.enter_context(connect(address)) for _ in range(SLOW)]
        for number, each in enumerate(slow):
            each.sendall(hello[: number % len(hello)])
        with connect(address) as client_socket:
            context(target).wrap_socket(client_socket, server_hostname="localhost").close()


def test_bytes_that_are_no_handshake(attack):
    target = attack(*TWO_LISTENERS)
    address, chance = tls_address(target), Random(7)
    for _ in range(GARBAGE):
        with connect(address) as client, contextlib.suppress(ConnectionError):
            client.sendall(chance.randbytes(chance.randint(1, 2_000)))
            client.shutdown(socket.SHUT_WR)
            while client.recv(1_000):
                pass


def test_idle_clients_with_tls(attack):
    target = attack(*TWO_LISTENERS)
    address, tls = tls_address(target), context(target)
    with ExitStack() as closing:
        for _ in range(IDLE):
            client = closing.enter_context(connect(address))
            closing.enter_context(tls.wrap_socket(client, server_hostname="localhost"))
