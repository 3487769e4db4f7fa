"""The load client for machines without Go: the same flags and the same line of JSON.

It sends bursts of ready-made frames from several processes; it cannot outrun the servers.
"""

import argparse
import json
import multiprocessing
import os
import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice, repeat
from struct import pack, pack_into

CORRELATION_AT = 8
OK_CODES_AT_END = {"commit": -2, "fetch": -4}
"""Where an answer with one partition has its error code, counted from the end."""


def string(value: str) -> bytes:
    return pack(">h", len(value)) + value.encode()


def frame(key: int, version: int, body: bytes) -> bytes:
    payload = pack(">hhi", key, version, 0) + string("bench") + body
    return pack(">i", len(payload)) + payload


def prepared(mode: str, group: str, topic: str) -> bytes:
    partitions = string(group) + pack(">i", 1) + string(topic) + pack(">ii", 1, 0)
    if mode == "fetch":
        return frame(9, 5, partitions)
    if mode == "commit":
        head = string(group) + pack(">i", -1) + string("") + pack(">h", -1)
        rest = pack(">i", 1) + string(topic) + pack(">iiqi", 1, 0, 1, -1) + string("")
        return frame(8, 7, head + rest)
    return frame(18, 0, b"")


def create_topic(topic: str, partitions: int = 1) -> bytes:
    rest = pack(">ihiiib", partitions, 1, 0, 0, 30_000, 0)
    return frame(19, 2, pack(">i", 1) + string(topic) + rest)


@dataclass
class Burst:
    """One connection: a burst of requests goes out when the answers to the last are in."""

    socket: socket.socket
    requests: Iterator[bytes]
    depth: int
    received: bytearray = field(default_factory=bytearray)
    left: int = 0
    sent_at: float = 0.0
    number: int = 0

    def send(self) -> None:
        burst = bytearray()
        for request in islice(self.requests, self.depth):
            self.number += 1
            burst += request
            pack_into(">i", burst, len(burst) - len(request) + CORRELATION_AT, self.number)
        self.left, self.sent_at = self.depth, time.perf_counter()
        self.socket.sendall(burst)

    def take(self) -> list[bytes]:
        """The answers that are complete, without their sizes; raises EOFError."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self.received += data
        answers = []
        while len(self.received) >= 4:
            end = 4 + int.from_bytes(self.received[:4], "big")
            if len(self.received) < end:
                break
            answers.append(bytes(self.received[4:end]))
            del self.received[:end]
        self.left -= len(answers)
        return answers


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 30)


def ask(address: str, request: bytes) -> bytes:
    with connect(address) as connection:
        burst = Burst(connection, repeat(request), 1)
        burst.send()
        while not (answers := burst.take()):
            pass
        return answers[0]


def code(mode: str, answer: bytes) -> int:
    at = OK_CODES_AT_END.get(mode)
    if at is None:
        return int.from_bytes(answer[4:6], "big")
    return int.from_bytes(answer[len(answer) + at :][:2], "big")


def warm_up(given: argparse.Namespace) -> None:
    if given.echo or given.mode == "apiversions":
        return
    ask(given.addr, create_topic(given.topic))
    for n in range(given.conns * given.spread):
        group = f"{given.group}-{n}"
        ask(given.addr, frame(10, 0, string(group)))
        end = time.monotonic() + 20
        while code("commit", ask(given.addr, prepared("commit", group, given.topic))):
            if time.monotonic() > end:
                raise SystemExit("no commit was accepted in 20 s")
            time.sleep(0.02)


def drive(given: argparse.Namespace, numbers: range) -> tuple[int, int, list[float]]:
    """Requests, errors and burst times in ms of these connections."""
    selector = selectors.DefaultSelector()
    total = errors = 0
    times: list[float] = []
    end = time.perf_counter() + given.seconds
    for n in numbers:
        groups = (f"{given.group}-{n + k * given.conns}" for k in range(given.spread))
        requests = cycle([prepared(given.mode, group, given.topic) for group in groups])
        burst = Burst(connect(given.addr), requests, given.depth)
        selector.register(burst.socket, selectors.EVENT_READ, burst)
        burst.send()
    while selector.get_map():
        for key, _ in selector.select():
            burst = key.data
            for answer in burst.take():
                total += 1
                errors += not given.echo and code(given.mode, answer) != 0
            if burst.left:
                continue
            times.append((time.perf_counter() - burst.sent_at) * 1e3)
            if time.perf_counter() < end:
                burst.send()
            else:
                selector.unregister(burst.socket)
                burst.socket.close()
    selector.close()
    return total, errors, times


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("-addr", required=True)
    parser.add_argument("-mode", choices=("apiversions", "commit", "fetch"), required=True)
    parser.add_argument("-echo", action="store_true")
    parser.add_argument("-conns", type=int, default=50)
    parser.add_argument("-depth", type=int, default=20)
    parser.add_argument("-spread", type=int, default=1)
    parser.add_argument("-seconds", type=float, default=3)
    parser.add_argument("-topic", default="bench")
    parser.add_argument("-group", default="bench")
    return parser.parse_args()


def main() -> None:
    given = arguments()
    warm_up(given)
    workers = min(given.conns, os.cpu_count() or 1)
    shares = [range(n, given.conns, workers) for n in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        parts = pool.starmap(drive, [(given, share) for share in shares])
    times = sorted(value for part in parts for value in part[2])
    total = sum(part[0] for part in parts)
    print(
        json.dumps(
            {
                "mode": given.mode,
                "conns": given.conns,
                "depth": given.depth,
                "requests": total,
                "errors": sum(part[1] for part in parts),
                "requests_s": total / given.seconds,
                "p50_ms": times[len(times) // 2],
                "p99_ms": times[int(len(times) * 0.99)],
                "max_ms": times[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
