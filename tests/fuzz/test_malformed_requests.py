"""Ten thousand malformed frames to a live broker, while a valid client continues."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from struct import pack
from typing import NamedTuple

import pytest
from kohort.protocol.apis import Api
from kohort.protocol.messages import request_module
from support.broker_process import TIMEOUT_SECONDS, BrokerProcess, start_broker
from support.kio_messages import EVERY_VERSION, kio_bytes, largest, smallest

from .valid_client import ValidClient

FRAMES = 10_000
SEED = 20_110_111
# After these the schemas of all versions are loaded and the allocator has its arenas.
WARM_UP_FRAMES = 3_000
# The frames after them have 29 MB, and each has its own connection: leaking every ninth byte, or
# 450 bytes for each frame, exceeds this. The allocator's noise is up to 0.7 MiB.
GROWTH_BYTES_MAX = 3 << 20
CONNECTIONS = 8
# Bodies are smaller than this; the lengths in them are not.
BODY_BYTES_MAX = 4_096


# --- malformed requests


class Malformed(NamedTuple):
    """Bytes for a separate connection."""

    description: str
    data: bytes


def framed(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


def header(api: Api, version: int, random: Random) -> bytes:
    fixed = pack(">hhih", api.key, version, random.getrandbits(31), 4) + b"fuzz"
    return fixed + (b"\0" if version >= api.flexible_from else b"")


@cache
def _requests(api: Api, version: int) -> tuple[bytes, ...]:
    """The smallest and the largest body, encoded by kio."""
    request = getattr(request_module(api.key, version), f"{api.name}Request")
    return kio_bytes(smallest(request)), kio_bytes(largest(request))


def random_body(random: Random, number: int) -> Malformed:
    api, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    body = random.randbytes(random.randint(0, BODY_BYTES_MAX))
    description = f"{api.name} v{version} with a body of {len(body)} random bytes"
    return Malformed(description, framed(header(api, version, random) + body))


def cut_request(random: Random, number: int) -> Malformed:
    """With the size of the shorter frame, or ending in the middle of the longer one."""
    api, version = EVERY_VERSION[number % len(EVERY_VERSION)]
    whole = header(api, version, random) + random.choice(_requests(api, version))
    at = random.randrange(len(whole))
    description = f"{api.name} v{version} cut at {at} of {len(whole)} bytes"
    if random.random() < 0.5:
        return Malformed(description, framed(whole[:at]))
    return Malformed(f"{description}, in the middle of its frame", framed(whole)[: at + 4])


def malformed_requests(count: int, random: Random) -> Iterator[Malformed]:
    """A third each of random bytes, random bodies and cut requests; of all versions in turn."""
    for number in range(count):
        index = number // 3
        if number % 3 == 0:
            data = random.randbytes(random.randint(1, BODY_BYTES_MAX))
            frame = Malformed("a frame of random bytes", framed(data))
            yield frame if index % 2 else Malformed("random bytes", data)
        elif number % 3 == 1:
            yield random_body(random, index)
        else:
            yield cut_request(random, index)


# --- tests


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    delay = "group.initial.rebalance.delay.ms=0"
    with start_broker(
        tmp_path, "--port", "0", "--data-dir", tmp_path / "data", "-o", delay
    ) as served:
        yield served
        assert served.process.poll() is None
        assert served.stop() == 0
        assert "Traceback" not in served.errors.read_text()


@pytest.fixture
def valid_client(broker: BrokerProcess) -> Iterator[ValidClient]:
    client = ValidClient(broker.bootstrap)
    client.start()
    yield client
    client.stop()
    assert client.failure is None


def resident_bytes(broker: BrokerProcess) -> int:
    pages = Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


def send(broker: BrokerProcess, pieces: list[Malformed]) -> None:
    """Each on its own connection, all open at the same time, until the broker has closed them."""
    sockets = [socket.create_connection((broker.host, broker.port)) for _ in pieces]
    try:
        for connection, piece in zip(sockets, pieces, strict=True):
            connection.sendall(piece.data)
            connection.shutdown(socket.SHUT_WR)
        for connection, piece in zip(sockets, pieces, strict=True):
            connection.settimeout(TIMEOUT_SECONDS)
            drain(connection, piece)
    finally:
        for connection in sockets:
            connection.close()


def drain(connection: socket.socket, piece: Malformed) -> None:
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass  # closed before everything was read, which is allowed
    except TimeoutError:
        pytest.fail(f"{piece.description}: no response, and the connection stays open")


def wait_for_iterations(client: ValidClient, count: int) -> None:
    """Wait until the client has gone on, or failed, which the fixture reports."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while client.iterations < count and client.failure is None:
        assert time.monotonic() < deadline, f"timed out after {TIMEOUT_SECONDS} s"
        time.sleep(0.01)


@pytest.mark.slow
@needs_proc
def test_malformed_requests_close_only_their_own_connection(
    broker: BrokerProcess, valid_client: ValidClient
) -> None:
    pieces = list(malformed_requests(FRAMES, Random(SEED)))
    for first in range(0, WARM_UP_FRAMES, CONNECTIONS):
        send(broker, pieces[first : first + CONNECTIONS])
    before, iterations = resident_bytes(broker), valid_client.iterations
    for first in range(WARM_UP_FRAMES, FRAMES, CONNECTIONS):
        send(broker, pieces[first : first + CONNECTIONS])
    growth = resident_bytes(broker) - before
    assert growth < GROWTH_BYTES_MAX, f"{growth:,} bytes over {FRAMES - WARM_UP_FRAMES} frames"
    wait_for_iterations(valid_client, iterations + 1)


@needs_proc
def test_incomplete_large_frames_take_only_the_memory_of_their_bytes(
    broker: BrokerProcess, valid_client: ValidClient
) -> None:
    """Fifty frames of 100 MiB would be 5 GB if the broker allocated the announced sizes."""
    wait_for_iterations(valid_client, 1)
    before = resident_bytes(broker)
    sockets = [socket.create_connection((broker.host, broker.port)) for _ in range(50)]
    for connection in sockets:
        connection.sendall(pack(">ihhi", 100 << 20, 8, 7, 1) + os.urandom(1_000))
    iterations = valid_client.iterations
    wait_for_iterations(valid_client, iterations + 6)
    growth = resident_bytes(broker) - before
    for connection in sockets:
        connection.close()
    # 50 connections with two receive buffers of 64 KiB each.
    assert growth < 50 * 2 * 64 * 1024, f"{growth:,} bytes"


def test_frame_sent_byte_by_byte_gets_a_response(broker: BrokerProcess) -> None:
    frame = pack(">hhih", 18, 0, 4711, -1)
    with socket.create_connection((broker.host, broker.port), TIMEOUT_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in pack(">i", len(frame)) + frame:
            connection.sendall(bytes([byte]))
        assert connection.recv(8)[4:] == pack(">i", 4711)
