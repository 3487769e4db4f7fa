"""Ten thousand malformed frames to a live broker, while a valid client continues."""

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from struct import pack

import pytest
from kohort.log.records import records
from kohort.testing.deadline import poll
from support.log import NewRecord, build
from support.malformed import Malformed, malformed_requests
from support.member import TOPIC, Member, rebalance
from support.running_broker import IMMEDIATE, TIMEOUT_SECONDS, BrokerProcess, start_broker

FRAMES = 10_000
SEED = 20_110_111
# After these frames, the schemas of all versions are loaded and the allocator has its arenas.
WARM_UP_FRAMES = 3_000
# The other frames have 29 MB, and each has its own connection: leaking every ninth byte, or 450
# bytes for each frame, exceeds this. The allocator's noise is up to 0.7 MiB.
GROWTH_BYTES_MAX = 3 << 20
CONNECTIONS = 8

TIMEOUT_MS = 30_000
GROUP = "valid-client-group"


# --- the valid client


class ValidClient:
    """The only member of a group, on one connection; any error ends its thread with `failure` set.

    Real clients reconnect and retry, which would hide an error.
    """

    def __init__(self, address: str) -> None:
        self._member = Member(address, "valid", group=GROUP)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="valid client")
        self.iterations = 0
        self.failure: BaseException | None = None
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._member.close()

    def _run(self) -> None:
        try:
            self._join_group()
            while not self._stopping.is_set():
                self._iterate()
        except BaseException as error:  # checked by the test, in its own thread
            self.failure = error

    def _join_group(self) -> None:
        self._member.create_topics(TOPIC)
        found = self._member.call("FindCoordinator", 3, key=GROUP)
        assert found["error_code"] == "none"
        member = self._member
        synced = rebalance(member).sync({member.member_id: [0]})
        assert synced["error_code"] == "none"

    def _iterate(self) -> None:
        """Produce and fetch a record, commit and fetch its offset, and send a heartbeat."""
        call, offset = self._member.call, self.iterations
        value = b"record %d" % offset
        batch = build([NewRecord(None, value, int(time.time() * 1000))], base_offset=0)
        produced = self._member.produce(batch)
        assert (produced["error_code"], produced["base_offset"]) == ("none", offset)

        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000}
        topics = [{"topic": TOPIC, "partitions": [partition]}]
        limits = {"min_bytes": 1, "max_bytes": 2**31 - 1}
        response = call("Fetch", 11, replica_id=-1, session_epoch=-1, **limits, topics=topics)
        fetched = response["responses"][0]["partitions"][0]
        assert fetched["error_code"] == "none"
        assert next(records(fetched["records"], 0)).value == value

        assert self._member.commit_offset(offset + 1) == "none"

        wanted = [{"name": TOPIC, "partition_indexes": [0]}]
        response = call("OffsetFetch", 7, group_id=GROUP, topics=wanted)
        assert response["topics"][0]["partitions"][0]["committed_offset"] == offset + 1

        assert self._member.heartbeat() == "none"
        self.iterations += 1


# --- tests


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    delay = "group.initial.rebalance.delay.ms=0"
    with start_broker(
        tmp_path, "--port", "0", "--data-dir", tmp_path / "data", "-o", delay, *IMMEDIATE
    ) as served:
        yield served
        assert served.process.poll() is None
        assert served.stop() == 0
        assert "Traceback" not in served.errors.read_text()


@pytest.fixture
def valid_client(broker: BrokerProcess) -> Iterator[ValidClient]:
    client = ValidClient(broker.bootstrap)
    yield client
    client.stop()
    assert client.failure is None


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")


def send(broker: BrokerProcess, pieces: list[Malformed]) -> None:
    """Send each piece on its own connection, all at the same time. Wait until the broker has closed
    the connections."""
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
    """Wait until the client has completed this many iterations, or failed. The fixture reports
    failures."""
    assert poll(lambda: client.iterations >= count or client.failure is not None, TIMEOUT_SECONDS)


@pytest.mark.slow
@needs_proc
def test_malformed_requests_close_only_their_own_connection(
    broker: BrokerProcess, valid_client: ValidClient
) -> None:
    pieces = list(malformed_requests(FRAMES, Random(SEED)))
    for first in range(0, WARM_UP_FRAMES, CONNECTIONS):
        send(broker, pieces[first : first + CONNECTIONS])
    before, iterations = broker.resident_bytes, valid_client.iterations
    for first in range(WARM_UP_FRAMES, FRAMES, CONNECTIONS):
        send(broker, pieces[first : first + CONNECTIONS])
    growth = broker.resident_bytes - before
    assert growth < GROWTH_BYTES_MAX, f"{growth:,} bytes over {FRAMES - WARM_UP_FRAMES} frames"
    wait_for_iterations(valid_client, iterations + 1)


@needs_proc
def test_incomplete_large_frames_take_only_the_memory_of_their_bytes(
    broker: BrokerProcess, valid_client: ValidClient
) -> None:
    """Fifty frames of 100 MiB would be 5 GB if the broker allocated the announced sizes."""
    wait_for_iterations(valid_client, 1)
    before = broker.resident_bytes
    sockets = [socket.create_connection((broker.host, broker.port)) for _ in range(50)]
    for connection in sockets:
        connection.sendall(pack(">ihhi", 100 << 20, 8, 7, 1) + os.urandom(1_000))
    iterations = valid_client.iterations
    wait_for_iterations(valid_client, iterations + 6)
    growth = broker.resident_bytes - before
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
