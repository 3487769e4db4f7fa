"""Connections that commit until the broker is killed, and the check of the offsets after a restart.

Each group commits from one connection, and each offset is larger than the one before. After a
restart, a group therefore has an offset that was sent and is not below the last acknowledged one. A
request commits the same offset for three partitions, and is written entirely or not at all.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import signal
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kohort.conformance.wire import decode_frame, message_type, plain
from support.running_broker import TIMEOUT_SECONDS, BrokerProcess
from support.wire import Client

IN_FLIGHT = 16
RESPONSE = message_type("OffsetCommit", 8, "Response")
TOPIC = "orders"
PARTITIONS = (0, 1, 2)
# Settings with which a broker compacts its offsets logs all the time.
COMPACTING = (
    "group.initial.rebalance.delay.ms=0",
    "offsets.topic.num.partitions=2",
    "offsets.topic.segment.bytes=1048576",  # the minimum
    "log.cleaner.min.compaction.lag.ms=0",
    "log.cleaner.min.cleanable.ratio=0.01",
    "log.cleaner.delete.retention.ms=0",
    "log.cleaner.backoff.ms=1",
)


@dataclass
class GroupCommits:
    """The offsets sent for one group."""

    group_id: str
    metadata_size: int = 0
    """The minimum length of each offset's metadata."""
    acknowledged: int | None = None
    pending: deque[int] = field(default_factory=deque)
    """Offsets sent after the acknowledged one."""
    last: int = 0

    def next_offset(self, step: int) -> int:
        self.last += step
        self.pending.append(self.last)
        return self.last

    def acknowledge(self, offset: int) -> None:
        self.acknowledged = offset
        while self.pending and self.pending[0] <= offset:
            self.pending.popleft()

    def leader_epoch_and_metadata(self, offset: int) -> tuple[int, str]:
        return offset % 100, f"at {offset} ".ljust(self.metadata_size, "x")

    def request(self, offset: int) -> dict[str, Any]:
        """Return the values of an OffsetCommit."""
        epoch, metadata = self.leader_epoch_and_metadata(offset)
        partitions = [
            {
                "partition_index": partition,
                "committed_offset": offset,
                "committed_leader_epoch": epoch,
                "committed_metadata": metadata,
            }
            for partition in PARTITIONS
        ]
        topic = {"name": TOPIC, "partitions": partitions}
        return {
            "group_id": self.group_id,
            "generation_id_or_member_epoch": -1,
            "topics": [topic],
        }

    def encode(self, client: Client, offset: int) -> bytes:
        return client.encode("OffsetCommit", 8, **self.request(offset))


def groups_of_connections(connections: int, metadata_size: int = 0) -> list[list[GroupCommits]]:
    """Create three groups per connection."""
    return [
        [GroupCommits(f"group-{number}-{n}", metadata_size) for n in range(3)]
        for number in range(connections)
    ]


def create_topic(broker: BrokerProcess) -> None:
    with Client(broker.bootstrap) as client:
        client.create_topics(TOPIC, partitions=len(PARTITIONS))


def error_of_commit(response: Any) -> str:
    """Return the error of an OffsetCommit, which is the same for all partitions."""
    (error,) = {p["error_code"] for topic in response["topics"] for p in topic["partitions"]}
    return str(error)


def commit_until_killed(
    client: Client,
    groups: list[GroupCommits],
    next_step: Callable[[], int],
    on_response: Callable[[], None],
) -> None:
    """Commit for the groups in turn, with requests in flight, until the connection is closed."""
    in_flight: deque[tuple[GroupCommits, int]] = deque()
    without_error = b""

    def receive() -> None:
        nonlocal without_error
        frame = client.receive_frame()
        on_response()
        # Responses without an error differ only in the correlation id, so only one is decoded.
        if frame[4:] != without_error:
            assert error_of_commit(plain(decode_frame(frame, RESPONSE)[1])) == "none"
            without_error = frame[4:]
        group, offset = in_flight.popleft()
        group.acknowledge(offset)

    with contextlib.suppress(ConnectionError):
        for group in itertools.cycle(groups):
            offset = group.next_offset(next_step())
            in_flight.append((group, offset))
            client.socket.sendall(group.encode(client, offset))
            if len(in_flight) == IN_FLIGHT:
                receive()
    # Responses that the broker sent before it was killed.
    with contextlib.suppress(ConnectionError):
        while in_flight:
            receive()


def commit_and_kill(
    broker: BrokerProcess,
    groups_of_connections: list[list[GroupCommits]],
    on_response: Callable[[], None] = lambda: None,
    kill: Callable[[], None] = lambda: None,
    next_step: Callable[[], int] = lambda: random.randint(1, 9),
) -> None:
    """Commit from all connections until `on_response` (called for each response) or `kill` (called
    once after the start) kills the broker."""
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(Client(broker.bootstrap)) for _ in groups_of_connections]
        pool = stack.enter_context(ThreadPoolExecutor(len(clients)))
        futures = [
            pool.submit(commit_until_killed, client, groups, next_step, on_response)
            for client, groups in zip(clients, groups_of_connections, strict=True)
        ]
        kill()
        for future in futures:
            future.result()
    assert broker.process.wait(TIMEOUT_SECONDS) == -signal.SIGKILL


def committed(client: Client, group_id: str) -> dict[tuple[str, int], Any]:
    """Return the group's offsets, once the broker has loaded the group."""
    # The first FindCoordinator creates the offsets topic.
    while client.call("FindCoordinator", 3, key=group_id)["error_code"] != "none":
        pass
    while True:
        response = client.call("OffsetFetch", 7, group_id=group_id, topics=None)
        if response["error_code"] == "none":
            break
        assert response["error_code"] == "coordinator_load_in_progress"
    return {
        (topic["name"], partition["partition_index"]): partition
        for topic in response["topics"]
        for partition in topic["partitions"]
    }


def check(broker: BrokerProcess, groups_of_connections: list[list[GroupCommits]]) -> None:
    """Check that each group has an offset that was sent and is not below the acknowledged one."""
    with Client(broker.bootstrap) as client:
        for group in itertools.chain.from_iterable(groups_of_connections):
            found = committed(client, group.group_id)
            if not found:
                assert group.acknowledged is None, f"{group.group_id} lost {group.acknowledged}"
                continue
            assert found.keys() == {(TOPIC, partition) for partition in PARTITIONS}
            values = {
                (p["committed_offset"], p["committed_leader_epoch"], p["metadata"], p["error_code"])
                for p in found.values()
            }
            offset = found[TOPIC, 0]["committed_offset"]
            assert offset == group.acknowledged or offset in group.pending
            assert values == {(offset, *group.leader_epoch_and_metadata(offset), "none")}
            # The offset was read, so it must not be lost from now on, whether acknowledged or not.
            group.acknowledge(offset)
            group.pending.clear()


def log_bytes(data: Path) -> int:
    """Return the total size of all offsets partitions in a data folder."""
    total = 0
    for file in data.glob("__consumer_offsets-*/*"):
        with contextlib.suppress(FileNotFoundError):  # removed by compaction
            total += file.stat().st_size
    return total
