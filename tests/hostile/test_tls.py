"""Clients that connect to a TLS listener and do not complete their handshakes, or stay idle."""

import contextlib
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from random import Random

import pytest
from support.broker import batch
from support.wire import Client, connect

from .conftest import FULL, finish, is_closed

IDLE = 8_000 if FULL else 20  # each takes 50 KB
SLOW = 500 if FULL else 20
GARBAGE = 2_000 if FULL else 50
FLOOD = 3_000 if FULL else 40
THREADS = 4
# In total, this is longer than HANDSHAKE_SECONDS_MAX.
BYTES, PACE_SECONDS = (35, 1.0) if FULL else (10, 0.01)
TWO_LISTENERS = ("-o", "listeners=PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0")


def hello_of(tls: ssl.SSLContext) -> bytes:
    """Return the first message of a client."""
    outgoing = ssl.MemoryBIO()
    client = tls.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def connect_with_tls(address: str, tls: ssl.SSLContext) -> ssl.SSLSocket:
    return tls.wrap_socket(connect(address), server_hostname="localhost")


def test_handshakes_of_one_byte_per_second(attack):
    target = attack(*TWO_LISTENERS)
    address, tls = target.listener("SSL"), target.client_context()
    hello = hello_of(tls)
    with ExitStack() as closing:
        slow = [closing.enter_context(connect(address)) for _ in range(SLOW)]
        # At the end, none of them has completed its handshake.
        positions = [number % (len(hello) - BYTES) for number in range(SLOW)]
        for each, position in zip(slow, positions, strict=True):
            each.sendall(hello[:position])
        for step in range(BYTES):
            for each, position in zip(slow, positions, strict=True):
                with contextlib.suppress(ConnectionError):  # disconnected after 30 s
                    each.sendall(hello[position + step : position + step + 1])
            time.sleep(PACE_SECONDS)  # not synchronization, but the pace of the attack
        connect_with_tls(address, tls).close()
        if FULL:
            assert all(map(is_closed, slow))


KINDS = ("complete", "abandoned")


@pytest.mark.parametrize("kinds", [[each] for each in KINDS] if FULL else [KINDS], ids="-".join)
def test_as_many_handshakes_as_possible(attack, kinds):
    """The client does no work for its abandoned handshakes: it sends a prepared message."""
    # If each handshake took as much memory as a connection (50 KB), this would be exceeded.
    target = attack(*TWO_LISTENERS, rss_mib_max=160)
    address, tls = target.listener("SSL"), target.client_context()
    hello = hello_of(tls)

    def flood(number: int) -> None:
        for _ in range(FLOOD // THREADS):
            if kinds[number % len(kinds)] == "complete":
                connect_with_tls(address, tls).close()
                continue
            with connect(address) as client:
                client.sendall(hello)
                assert client.recv(1)

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(flood, range(THREADS)))


def test_bytes_that_are_no_handshake(attack):
    target = attack(*TWO_LISTENERS)
    address, chance = target.listener("SSL"), Random(7)
    for _ in range(GARBAGE):
        with connect(address) as client, contextlib.suppress(ConnectionError):
            client.sendall(chance.randbytes(chance.randint(1, 2_000)))
            finish(client)


def test_idle_clients_with_tls(attack):
    target = attack(*TWO_LISTENERS)
    address, tls = target.listener("SSL"), target.client_context()
    with ExitStack() as closing:
        for _ in range(IDLE):
            closing.enter_context(connect_with_tls(address, tls))


def test_a_large_request_is_handled_although_its_client_disconnects(attack):
    """The client gets no response (acks=0)."""
    target = attack(*TWO_LISTENERS)
    records = batch(b"x" * 700_000)
    data = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    with target.client() as other:
        other.create_topics("orders")
        for count in range(1, 4):
            address, tls = target.listener("SSL"), target.client_context()
            with Client(address, "attacker", tls=tls) as client:
                client.call("ApiVersions", 0)
                client.send("Produce", 9, acks=0, timeout=60_000, topic_data=data)
            fetch = [{"topic": "orders", "partitions": [{"fetch_offset": count - 1}]}]
            response = other.call("Fetch", 4, max_wait=30_000, min_bytes=1, topics=fetch)
            (partition,) = response["responses"][0]["partitions"]
            assert partition["high_watermark"] == count
