"""A broker is killed with SIGKILL while ten connections commit; what it acknowledged is there.

A life is a data folder that sees five such deaths, under durability fsync and os in turn. Every
connection has groups of its own and commits ever larger offsets, so after a restart a group must
have an offset that was sent, no smaller than the last one acknowledged. A request commits the same
offset for three partitions: they must agree, for a request is written whole or not at all.
"""

import contextlib
import io
import itertools
import random
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from kio.schema.create_topics import v5 as create_topics
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator import v3 as find_coordinator
from kio.schema.offset_commit import v8 as offset_commit
from kio.schema.offset_fetch import v7 as offset_fetch
from kio.serial import entity_reader, entity_writer
from processes import PATIENCE_SECONDS, Served, serving

LIVES = 4
DEATHS_OF_A_LIFE = 5
CONNECTIONS = 10
GROUPS_OF_A_CONNECTION = 3
IN_FLIGHT = 8
TOPIC = "orders"
PARTITIONS = (0, 1, 2)

pytestmark = pytest.mark.crash


@dataclass
class Promises:
    """What one group has sent, and the largest offset that it may rely on."""

    group_id: str
    sent: list[int] = field(default_factory=list)
    kept: int | None = None

    def next_offset(self, chance: random.Random) -> int:
        self.sent.append((self.sent[-1] if self.sent else 0) + chance.randint(1, 9))
        return self.sent[-1]


class Countdown:
    """Calls `then` at the count's end, in whatever thread counts there."""

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self._left = count
        self._then = then
        self._lock = threading.Lock()

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self._then()


class Connection:
    """Requests over one socket, written and read by kio; answers come in the order of requests."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address, PATIENCE_SECONDS)
        self._stream: BinaryIO = self._socket.makefile("rb")
        self._asked = 0
        self._answered = 0
        self.on_answer: Callable[[], None] = lambda: None

    def send(self, request: Any) -> None:
        self._asked += 1
        header_type = request.__header_schema__
        header = header_type(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=self._asked,
            client_id="crash",
        )
        buffer = io.BytesIO()
        entity_writer(header_type)(buffer, header)
        entity_writer(type(request))(buffer, request)
        self._socket.sendall(buffer.tell().to_bytes(4, "big") + buffer.getvalue())

    def receive(self, response_type: Any) -> Any:
        """The next answer; raises EOFError or OSError when the broker is dead."""
        size = int.from_bytes(self._exactly(4), "big")
        self.on_answer()
        frame = self._exactly(size)
        self._answered += 1
        header, read = entity_reader(response_type.__header_schema__)(frame, 0)
        assert header.correlation_id == self._answered
        return entity_reader(response_type)(frame, read)[0]

    def ask(self, request: Any, response_type: Any) -> Any:
        self.send(request)
        return self.receive(response_type)

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def _exactly(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise EOFError
        return data


@contextlib.contextmanager
def connected(broker: Served) -> Iterator[Connection]:
    connection = Connection((broker.host, broker.port))
    try:
        yield connection
    finally:
        connection.close()


def make_topic(connection: Connection) -> None:
    topic = create_topics.request.CreatableTopic(
        name=TOPIC,
        num_partitions=len(PARTITIONS),
        replication_factor=1,
        assignments=(),
        configs=(),
    )
    request = create_topics.request.CreateTopicsRequest(topics=(topic,))
    answer = connection.ask(request, create_topics.response.CreateTopicsResponse)
    assert answer.topics[0].error_code is ErrorCode.none


def find_group(connection: Connection, group_id: str) -> None:
    """The first search for a coordinator makes the offsets topic."""
    request = find_coordinator.request.FindCoordinatorRequest(key=group_id)
    while True:
        answer = connection.ask(request, find_coordinator.response.FindCoordinatorResponse)
        if answer.error_code is ErrorCode.none:
            return
        assert answer.error_code is ErrorCode.coordinator_not_available


def commit_of(group_id: str, offset: int) -> Any:
    partitions = tuple(
        offset_commit.request.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=offset % 100,
            committed_metadata=f"at {offset}",
        )
        for partition in PARTITIONS
    )
    topic = offset_commit.request.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return offset_commit.request.OffsetCommitRequest(
        group_id=group_id, member_id="", group_instance_id=None, topics=(topic,)
    )


def commit_until_death(
    connection: Connection, promises: list[Promises], chance: random.Random, countdown: Countdown
) -> None:
    """Commits for these groups in turn, requests always in flight, until the broker is dead."""
    in_flight: deque[tuple[Promises, int]] = deque()
    connection.on_answer = countdown.count

    def read_one() -> None:
        answer = connection.receive(offset_commit.response.OffsetCommitResponse)
        errors = [p.error_code for topic in answer.topics for p in topic.partitions]
        assert errors == [ErrorCode.none] * len(PARTITIONS)
        promise, offset = in_flight.popleft()
        promise.kept = offset

    with contextlib.suppress(EOFError, ConnectionError):
        for promise in itertools.cycle(promises):
            offset = promise.next_offset(chance)
            in_flight.append((promise, offset))
            connection.send(commit_of(promise.group_id, offset))
            if len(in_flight) == IN_FLIGHT:
                read_one()
    # What the broker had answered before it died is still to be read.
    with contextlib.suppress(EOFError, ConnectionError):
        while in_flight:
            read_one()


def commit_and_kill(broker: Served, promises: list[list[Promises]], chance: random.Random) -> None:
    """Ten connections commit; whoever gets the acknowledgement that chance drew kills."""
    # Small and large numbers alike: a death among the very first commits is one of its own.
    countdown = Countdown(int(10 ** chance.uniform(0, 3.3)), broker.process.kill)
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(broker)) for _ in promises]
        pool = stack.enter_context(ThreadPoolExecutor(CONNECTIONS))
        committing = [
            pool.submit(commit_until_death, connection, own, random.Random(seed), countdown)
            for seed, (connection, own) in enumerate(zip(connections, promises, strict=True))
        ]
        for one in committing:
            one.result()
    assert broker.process.wait(PATIENCE_SECONDS) == -signal.SIGKILL


def committed(connection: Connection, group_id: str) -> dict[tuple[str, int], Any]:
    """All that the broker says the group has committed, once it has loaded the group."""
    request = offset_fetch.request.OffsetFetchRequest(group_id=group_id, topics=None)
    while True:
        answer = connection.ask(request, offset_fetch.response.OffsetFetchResponse)
        if answer.error_code is ErrorCode.none:
            break
        assert answer.error_code is ErrorCode.coordinator_load_in_progress
    return {(t.name, p.partition_index): p for t in answer.topics for p in t.partitions}


def check(broker: Served, promises: list[list[Promises]]) -> None:
    """Each group has an offset that was sent, and none behind what it may rely on."""
    with connected(broker) as connection:
        for promise in itertools.chain.from_iterable(promises):
            find_group(connection, promise.group_id)
            found = committed(connection, promise.group_id)
            if not found:
                assert promise.kept is None, f"{promise.group_id} lost {promise.kept}"
                continue
            assert found.keys() == {(TOPIC, partition) for partition in PARTITIONS}
            said = {(p.committed_offset, p.committed_leader_epoch, p.metadata, p.error_code)
                    for p in found.values()}  # fmt: skip
            offset = found[TOPIC, 0].committed_offset
            assert offset in promise.sent
            assert promise.kept is None or offset >= promise.kept
            assert said == {(offset, offset % 100, f"at {offset}", ErrorCode.none)}
            # Who has read it relies on it, acknowledged or not.
            promise.kept = offset


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Whoever gets the fatal acknowledgement kills at once, while the broker is still busy with
    what led to it, and not when nine other threads have had their turn."""
    seconds = sys.getswitchinterval()
    sys.setswitchinterval(50e-6)
    yield
    sys.setswitchinterval(seconds)


@pytest.mark.usefixtures("quick_switches")
@pytest.mark.parametrize("seed", range(LIVES))
def test_what_was_acknowledged_before_a_kill_is_there_after_the_restart(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    promises = [
        [Promises(f"group-{number}-{place}") for place in range(GROUPS_OF_A_CONNECTION)]
        for number in range(CONNECTIONS)
    ]

    def start(durability: str) -> contextlib.AbstractContextManager[Served]:
        return serving(
            tmp_path, "--port", "0", "--data-dir", tmp_path / "data", "--durability", durability,
            "-o", "group.initial.rebalance.delay.ms=0",
        )  # fmt: skip

    for death in range(DEATHS_OF_A_LIFE):
        with start(("fsync", "os")[(seed + death) % 2]) as broker:
            if not death:
                with connected(broker) as connection:
                    make_topic(connection)
            check(broker, promises)
            commit_and_kill(broker, promises, chance)
    with start("fsync") as broker:
        check(broker, promises)
    assert any(promise.kept for own in promises for promise in own)
