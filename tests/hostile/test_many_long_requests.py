"""Long requests of many clients at the same time. Each needs many times its size in memory."""

import socket
import struct
from contextlib import ExitStack
from datetime import timedelta
from types import SimpleNamespace

import pytest
from kohort.protocol.budgets import ITEMS_MAX
from kohort.protocol.messages import request_encoder
from support.wire import connect

from .conftest import FULL, Target

# Each takes 40 MB. Without LONG_REQUESTS_MAX, their sum would exceed the broker's memory limit.
CLIENTS = 30 if FULL else 8
PARTITIONS = ITEMS_MAX - 1 if FULL else 6_000


@pytest.mark.parametrize("max_wait", [0, 60_000], ids=["at once", "parked"])
def test_fetches_of_many_partitions_of_many_clients(attack, max_wait):
    target = attack()
    create_topic(target, 10_000 if FULL else PARTITIONS)
    fetch = encoded_fetch(PARTITIONS, max_wait)
    with ExitStack() as closing:
        clients = [closing.enter_context(connect(target.address)) for _ in range(CLIENTS)]
        for each in clients:
            each.sendall(fetch)
        for each in clients:
            assert each.recv(1) or FULL


def test_fetches_that_their_clients_abandon_while_they_wait(attack):
    """Their deadlines are weeks away. At a kilobyte per partition, all would take 700 MB."""
    target = attack()
    partitions, times = (4_900, 150) if FULL else (490, 50)
    create_topic(target, partitions)
    waiting, complete = encoded_fetch(partitions, 2**31 - 1), encoded_fetch(partitions, 0)
    with target.client() as other:
        for _ in range(times):
            with connect(target.address) as client:
                client.sendall(waiting)
                other.socket.sendall(complete)
                other.receive_frame()
                # The connection is reset, because a client that only stops sending gets a response.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def encoded_fetch(partitions: int, max_wait_ms: int) -> bytes:
    """Return a Fetch request (v11) for the first partitions of the topic. It is not encoded by kio,
    which is slower than the broker."""
    each = {"fetch_offset": 0, "partition_max_bytes": 1}
    topic = SimpleNamespace(
        topic="orders", partitions=[SimpleNamespace(partition=n, **each) for n in range(partitions)]
    )
    request = SimpleNamespace(
        max_wait=timedelta(milliseconds=max_wait_ms),
        min_bytes=1,
        topics=[topic],
        forgotten_topics_data=[],
    )
    return request_encoder(1, 11)(request, 1, "attacker")


def create_topic(target: Target, partitions: int) -> None:
    with target.client() as client:
        client.create_topics("orders", partitions=partitions)
