"""Ten thousand frames that nobody should send, to a live broker, beside a good client."""

import os
import resource
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from struct import pack

import pytest
from processes import PATIENCE_SECONDS, Served, serving

from .frames import Junk, junk
from .good_client import GoodClient

FRAMES = 10_000
SEED = 20_110_111
# By then the schemas of all versions are loaded and the allocator has its arenas.
WARM_UP_FRAMES = 3_000
# The frames after it carry 29 MB, and each has a connection of its own: a broker that kept every
# ninth byte, or 450 bytes for each frame, would grow by more than this. What is left over is an
# allocator's noise (up to 0.7 MiB seen).
GROWTH_BYTES_MAX = 3 << 20
AT_ONCE = 8


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Served]:
    delay = "group.initial.rebalance.delay.ms=0"
    with serving(tmp_path, "--port", "0", "--data-dir", tmp_path / "data", "-o", delay) as served:
        yield served
        assert served.process.poll() is None
        assert served.stop() == 0
        assert "Traceback" not in served.errors.read_text()


@pytest.fixture
def good_client(broker: Served) -> Iterator[GoodClient]:
    client = GoodClient((broker.host, broker.port))
    client.start()
    yield client
    client.stop()
    assert client.failure is None


def resident_bytes(broker: Served) -> int:
    pages = Path(f"/proc/{broker.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


def send(broker: Served, pieces: list[Junk]) -> None:
    """Each on a connection of its own, all open at once; returns when the broker has ended them."""
    sockets = [socket.create_connection((broker.host, broker.port)) for _ in pieces]
    try:
        for connection, piece in zip(sockets, pieces, strict=True):
            connection.sendall(piece.data)
            connection.shutdown(socket.SHUT_WR)
        for connection, piece in zip(sockets, pieces, strict=True):
            connection.settimeout(PATIENCE_SECONDS)
            drain(connection, piece)
    finally:
        for connection in sockets:
            connection.close()


def drain(connection: socket.socket, piece: Junk) -> None:
    try:
        while connection.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass  # it was closed before it had read all: as good an end as any
    except TimeoutError:
        pytest.fail(f"{piece.what} was neither answered nor its connection closed")


def until(done: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        assert time.monotonic() < end, f"not within {PATIENCE_SECONDS} s: {what}"
        time.sleep(0.01)


@pytest.mark.slow
@needs_proc
def test_junk_ends_only_the_connection_that_it_came_by(
    broker: Served, good_client: GoodClient
) -> None:
    chance = Random(SEED)
    pieces = list(junk(FRAMES, chance))
    for first in range(0, WARM_UP_FRAMES, AT_ONCE):
        send(broker, pieces[first : first + AT_ONCE])
    before, turns = resident_bytes(broker), good_client.turns
    for first in range(WARM_UP_FRAMES, FRAMES, AT_ONCE):
        send(broker, pieces[first : first + AT_ONCE])
    growth = resident_bytes(broker) - before
    assert growth < GROWTH_BYTES_MAX, f"{growth:,} bytes over {FRAMES - WARM_UP_FRAMES} frames"
    until(lambda: good_client.turns > turns or good_client.failure is not None, "a good turn")


@needs_proc
def test_frames_that_claim_to_be_large_take_only_what_has_come(
    broker: Served, good_client: GoodClient
) -> None:
    """Fifty half frames of 100 MiB would be 5 GB, if the broker believed what they say."""
    until(lambda: good_client.turns > 0 or good_client.failure is not None, "a good turn")
    before = resident_bytes(broker)
    sockets = [socket.create_connection((broker.host, broker.port)) for _ in range(50)]
    for connection in sockets:
        connection.sendall(pack(">ihhi", 100 << 20, 8, 7, 1) + os.urandom(1_000))
    turns = good_client.turns
    until(lambda: good_client.turns > turns + 5 or good_client.failure is not None, "good turns")
    growth = resident_bytes(broker) - before
    for connection in sockets:
        connection.close()
    # 50 connections with a buffer of 64 KiB each for what the system hands over at once, twice.
    assert growth < 50 * 2 * 64 * 1024, f"{growth:,} bytes"


def test_a_frame_byte_by_byte_is_answered_like_any_other(broker: Served) -> None:
    frame = pack(">hhih", 18, 0, 4711, -1)
    with socket.create_connection((broker.host, broker.port), PATIENCE_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in pack(">i", len(frame)) + frame:
            connection.sendall(bytes([byte]))
        assert connection.recv(8)[4:] == pack(">i", 4711)
