"""Connections that commit until the broker is dead, and what must be there afterwards.

Every connection has groups of its own and commits ever larger offsets, so after a restart a group
must have an offset that was sent, no smaller than the last one acknowledged. A request commits the
same offset for three partitions: they must agree, for a request is written whole or not at all.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from frames import answer_in, framed
from kio.schema.create_topics import v5 as create_topics
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator import v3 as find_coordinator
from kio.schema.offset_commit import v8 as offset_commit
from kio.schema.offset_fetch import v7 as offset_fetch
from processes import PATIENCE_SECONDS, Served

IN_FLIGHT = 8
TOPIC = "orders"
PARTITIONS = (0, 1, 2)


@dataclass
class Promises:
    """What one group has sent, and the largest offset that it may rely on."""

    group_id: str
    text_size: int = 0
    """Of the text beside each offset, at least."""
    kept: int | None = None
    sent: deque[int] = field(default_factory=deque)
    """What came after that, and has no answer yet."""
    last: int = 0

    def next_offset(self, chance: random.Random) -> int:
        self.last += chance.randint(1, 9)
        self.sent.append(self.last)
        return self.last

    def keep(self, offset: int) -> None:
        """Somebody relies on it from now on."""
        self.kept = offset
        while self.sent and self.sent[0] <= offset:
            self.sent.popleft()

    def beside(self, offset: int) -> tuple[int, str]:
        """The leader epoch and the text that are committed with an offset."""
        return offset % 100, f"at {offset} ".ljust(self.text_size, "x")


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
        self.send_bytes(self.encoded(request))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def encoded(self, request: Any) -> bytes:
        """The request as it is sent next."""
        return framed(request, correlation_id=self._asked, client_id="crash")

    def receive(self, response_type: Any) -> Any:
        """The next answer; raises EOFError or OSError when the broker is dead."""
        frame = self.receive_bytes()
        self._answered += 1
        correlation_id, answer = answer_in(frame, response_type)
        assert correlation_id == self._answered
        return answer

    def receive_bytes(self) -> bytes:
        size = int.from_bytes(self._exactly(4), "big")
        self.on_answer()
        return self._exactly(size)

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


def commit_of(promise: Promises, offset: int) -> Any:
    epoch, text = promise.beside(offset)
    partitions = tuple(
        offset_commit.request.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=epoch,
            committed_metadata=text,
        )
        for partition in PARTITIONS
    )
    topic = offset_commit.request.OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return offset_commit.request.OffsetCommitRequest(
        group_id=promise.group_id, member_id="", group_instance_id=None, topics=(topic,)
    )


def commit_until_death(
    connection: Connection,
    promises: list[Promises],
    chance: random.Random,
    on_answer: Callable[[], None],
) -> None:
    """Commits for these groups in turn, requests always in flight, until the broker is dead."""
    in_flight: deque[tuple[Promises, int]] = deque()
    connection.on_answer = on_answer

    def read_one() -> None:
        answer = connection.receive(offset_commit.response.OffsetCommitResponse)
        errors = [p.error_code for topic in answer.topics for p in topic.partitions]
        assert errors == [ErrorCode.none] * len(PARTITIONS)
        promise, offset = in_flight.popleft()
        promise.keep(offset)

    with contextlib.suppress(EOFError, ConnectionError):
        for promise in itertools.cycle(promises):
            offset = promise.next_offset(chance)
            in_flight.append((promise, offset))
            connection.send(commit_of(promise, offset))
            if len(in_flight) == IN_FLIGHT:
                read_one()
    # What the broker had answered before it died is still to be read.
    with contextlib.suppress(EOFError, ConnectionError):
        while in_flight:
            read_one()


def commit_and_kill(
    broker: Served,
    promises: list[list[Promises]],
    on_answer: Callable[[], None],
    until: Callable[[], None] = lambda: None,
) -> None:
    """All connections commit until the broker is killed: by `on_answer`, which hears of each
    answer, or when `until` is over."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connected(broker)) for _ in promises]
        pool = stack.enter_context(ThreadPoolExecutor(len(promises)))
        committing = [
            pool.submit(commit_until_death, connection, own, random.Random(seed), on_answer)
            for seed, (connection, own) in enumerate(zip(connections, promises, strict=True))
        ]
        until()
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
            assert offset == promise.kept or offset in promise.sent
            assert said == {(offset, *promise.beside(offset), ErrorCode.none)}
            # Who has read it relies on it, acknowledged or not.
            promise.keep(offset)
            promise.sent.clear()  # what did not come before the death will not come any more


def size_of(data: Path) -> int:
    """Bytes of all offsets partitions in a data folder."""
    total = 0
    for file in data.glob("__consumer_offsets-*/*"):
        with contextlib.suppress(FileNotFoundError):  # it is compacted while we look
            total += file.stat().st_size
    return total
