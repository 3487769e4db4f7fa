"""Minutes of commits at full speed, while the broker compacts all the time and is killed now and
then: what it takes of memory and disk, and whether anything is lost.

    make crash [LONG=600] [CONNECTIONS=50] [KILLS=3]

Exit code 1 if a commit that was acknowledged is lost, or one is there that was not sent; if the
folder is not sound, memory grows within a life of the broker, or the logs beyond what they may.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from crash.committing import (
    Connection,
    Promises,
    check,
    commit_of,
    connected,
    make_topic,
    size_of,
)
from crash.compacting_broker import OPTIONS
from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.serial import entity_reader
from processes import Served, kohort, overrides, serving

GROUPS_OF_A_CONNECTION = 20
IN_FLIGHT = 16
# No offset that is committed: these eight bytes of a request are where its offset goes.
SOME_OFFSET = 0x0123_4567_89AB_CDEF
REPORT_SECONDS = 10.0
# Of a life's second half over its first.
MEMORY_GROWTH_MAX = 0.15
# Two partitions, each with some segments of 1 MiB that wait for their compaction, and once more
# what a compaction under way has written.
LOG_BYTES_MAX = 64 * 1024 * 1024
MIB = 1024 * 1024


class Constant(Promises):
    def beside(self, offset: int) -> tuple[int, str]:
        return 7, "x" * 100


class Sample(NamedTuple):
    seconds: float
    commits: int
    memory_bytes: int
    log_bytes: int

    def told(self) -> str:
        return (
            f"{self.seconds:7.1f} s  {self.commits:>11,} commits  "
            f"{self.memory_bytes / MIB:7.1f} MiB of memory  {self.log_bytes / MIB:6.1f} MiB of logs"
        )


class Load:
    """Connections that commit until the broker is dead."""

    def __init__(self, connections: int) -> None:
        self.promises: list[list[Promises]] = [
            [Constant(f"group-{number}-{place}") for place in range(GROUPS_OF_A_CONNECTION)]
            for number in range(connections)
        ]
        self.commits = [0] * connections
        self._failures: list[BaseException] = []

    @contextlib.contextmanager
    def on(self, broker: Served) -> Iterator[None]:
        """Kills the broker in the end. Raises what a connection has met."""
        threads = [
            threading.Thread(target=self._commit, args=(broker, number))
            for number in range(len(self.promises))
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            broker.process.kill()
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]

    def _commit(self, broker: Served, number: int) -> None:
        try:
            with connected(broker) as connection, contextlib.suppress(EOFError, ConnectionError):
                self._commit_over(connection, number)
        except BaseException as failure:  # told by `on`
            self._failures.append(failure)

    def _commit_over(self, connection: Connection, number: int) -> None:
        """Requests are made from patterns: who encodes each is slower than the broker."""
        place = SOME_OFFSET.to_bytes(8, "big")
        patterns = [
            (promise, connection.encoded(commit_of(promise, SOME_OFFSET)))
            for promise in self.promises[number]
        ]
        in_flight: deque[tuple[Promises, int]] = deque()

        def take() -> None:
            answer = connection.receive_bytes()
            if answer != self._good_answer:
                self._look_at(answer)
            promise, offset = in_flight.popleft()
            promise.keep(offset)
            self.commits[number] += 1

        try:
            for promise, pattern in itertools.cycle(patterns):
                promise.last += 1
                promise.sent.append(promise.last)
                in_flight.append((promise, promise.last))
                connection.send_bytes(pattern.replace(place, promise.last.to_bytes(8, "big")))
                if len(in_flight) == IN_FLIGHT:
                    take()
        finally:
            # What the broker had answered before it died is still to be read.
            with contextlib.suppress(EOFError, ConnectionError):
                while in_flight:
                    take()

    _good_answer = b""

    def _look_at(self, answer: bytes) -> None:
        _, read = entity_reader(OffsetCommitResponse.__header_schema__)(answer, 0)
        decoded, _ = entity_reader(OffsetCommitResponse)(answer, read)
        errors = {p.error_code for topic in decoded.topics for p in topic.partitions}
        assert errors == {ErrorCode.none}, errors
        self._good_answer = answer


def memory_of(broker: Served) -> int:
    status = Path(f"/proc/{broker.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def life(broker: Served, load: Load, data: Path, begun: float, until: float) -> list[Sample]:
    samples: list[Sample] = []
    told = time.monotonic()
    with load.on(broker):
        while (now := time.monotonic()) < until and broker.process.poll() is None:
            time.sleep(min(0.25, until - now))
            commits = sum(load.commits)
            samples.append(Sample(now - begun, commits, memory_of(broker), size_of(data)))
            if now > told + REPORT_SECONDS:
                told = now
                print(samples[-1].told(), flush=True)
    return samples


def growth_of(samples: list[Sample]) -> float:
    """By how much of itself memory grew from the second quarter of a life to its last."""
    quarter = len(samples) // 4
    early = max(sample.memory_bytes for sample in samples[quarter : 2 * quarter])
    return max(sample.memory_bytes for sample in samples[3 * quarter :]) / early - 1


def run(folder: Path, seconds: float, connections: int, kills: int, durability: str) -> list[str]:
    """What is wrong."""
    data, load, wrong = folder / "data", Load(connections), list[str]()
    where = ("--port", "0", "--data-dir", data, "--durability", durability)
    begun = time.monotonic()
    samples: list[Sample] = []
    for number in range(kills + 1):
        started = time.monotonic()
        with serving(folder, *where, *overrides(OPTIONS)) as broker:
            if not number:
                with connected(broker) as connection:
                    make_topic(connection)
            check(broker, load.promises)
            print(f"all is there, {time.monotonic() - started:.2f} s after the start", flush=True)
            until = begun + seconds * (number + 1) / (kills + 1)
            samples = life(broker, load, data, begun, until)
        print(f"{samples[-1].told()}: killed", flush=True)
        if (grown := growth_of(samples)) > MEMORY_GROWTH_MAX:
            wrong.append(f"memory grew by {grown:.0%} in life {number + 1}")
        if (largest := max(sample.log_bytes for sample in samples)) > LOG_BYTES_MAX:
            wrong.append(f"the logs grew to {largest:,} bytes in life {number + 1}")
    with serving(folder, *where, *overrides(OPTIONS)) as broker:
        check(broker, load.promises)
        if broker.stop() != 0:
            wrong.append("the broker did not end well")
    verified = kohort("log", "verify", data)
    print(verified.stdout.splitlines()[-1])
    if verified.returncode:
        wrong.append("the folder is not sound")
    commits = samples[-1].commits
    print(f"{commits:,} commits in {seconds:g} s, {commits / seconds:,.0f} a second; none lost")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m crash.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--durability", default="fsync", choices=["fsync", "os"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kohort-soak-") as name:
        wrong = run(Path(name), given.seconds, given.connections, given.kills, given.durability)
    for each in wrong:
        print(each)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
