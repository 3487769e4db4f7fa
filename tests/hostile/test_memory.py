"""Connections that hold memory: half-sent frames, and responses that are never read."""

import socket
import time
from contextlib import ExitStack

from support.broker import batch
from support.wire import connect

from .conftest import FULL, is_closed

MIB = 1024 * 1024
# The default of queued.max.request.bytes, in frames of the largest size.
SENT_AT_ONCE = 2


def test_half_sent_frames(attack):
    size, count = (100 * MIB, 15) if FULL else (10 * MIB, 6)
    target = attack("-o", f"socket.request.max.bytes={size}")
    with ExitStack() as closing:
        clients = [closing.enter_context(connect(target.address)) for _ in range(count)]
        half = size.to_bytes(4, "big") + bytes(size - MIB)
        for client in clients:
            client.sendall(half)
        # The connections that sent their half first have waited longest.
        for client in clients[: -SENT_AT_ONCE - 1]:
            assert is_closed(client)
    assert target.has_logged("more than queued.max.request.bytes")


def test_clients_that_never_read_their_records(attack):
    target = attack("-o", "message.max.bytes=10000000")
    count = 200 if FULL else 10
    with target.client() as client:
        client.create_topics("orders")
        record = batch(bytes(8_000_000), at_ms=time.time_ns() // 1_000_000)
        for _ in range(7):
            assert client.produce(record)["error_code"] == "none"
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 55 * MIB}
        topics = [{"topic": "orders", "partitions": [partition]}]
        fetch = client.encode("Fetch", 11, max_bytes=55 * MIB, min_bytes=1, topics=topics)
    with ExitStack() as closing:
        clients = [closing.enter_context(connect(target.address)) for _ in range(count)]
        for each in clients:
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.sendall(fetch)
        # Meanwhile, the broker serves others, whether or not it closes these connections.
        with target.client() as client:
            for _ in range(100):
                client.call("ApiVersions", 0)
