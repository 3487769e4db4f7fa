"""The load client for machines without Go: the same flags and line of JSON as the Go client.

This client sends bursts of prepared frames from several processes. It is slower than the
servers, so it limits the measured throughput.
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
ERROR_CODE_AT = {"commit": -2, "fetch": -4}
"""The position of the error code, from the end of a response with one partition."""


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
    """A connection that sends its next burst once it has received all responses to the previous
    one."""

    socket: socket.socket
    requests: Iterator[bytes]
    depth: int
    received: bytearray = field(default_factory=bytearray)
    pending: int = 0
    sent_at: float = 0.0
    number: int = 0

    def send(self) -> None:
        burst = bytearray()
        for request in islice(self.requests, self.depth):
            self.number += 1
            burst += request
            pack_into(">i", burst, len(burst) - len(request) + CORRELATION_AT, self.number)
        self.pending, self.sent_at = self.depth, time.perf_counter()
        self.socket.sendall(burst)

    def receive(self) -> list[bytes]:
        """Return the complete responses, without their sizes. Raises EOFError."""
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError("the server closed the connection")
        self.received += data
        responses = []
        while len(self.received) >= 4:
            end = 4 + int.from_bytes(self.received[:4], "big")
            if len(self.received) < end:
                break
            responses.append(bytes(self.received[4:end]))
            del self.received[:end]
        self.pending -= len(responses)
        return responses


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), 30)


def call(address: str, request: bytes) -> bytes:
    with connect(address) as connection:
        burst = Burst(connection, repeat(request), 1)
        burst.send()
        while not (responses := burst.receive()):
            pass
        return responses[0]


def error_code(mode: str, response: bytes) -> int:
    at = ERROR_CODE_AT.get(mode)
    if at is None:
        return int.from_bytes(response[4:6], "big")
    return int.from_bytes(response[len(response) + at :][:2], "big")


def warm_up(options: argparse.Namespace) -> None:
    if options.echo or options.mode == "apiversions":
        return
    call(options.addr, create_topic(options.topic))
    for n in range(options.conns * options.spread):
        group = f"{options.group}-{n}"
        call(options.addr, frame(10, 0, string(group)))
        end = time.monotonic() + 20
        while error_code("commit", call(options.addr, prepared("commit", group, options.topic))):
            if time.monotonic() > end:
                raise SystemExit(f"no commit in group {group} succeeded within 20 s")
            time.sleep(0.02)


def run_connections(options: argparse.Namespace, numbers: range) -> tuple[int, int, list[float]]:
    """Run these connections. Return requests, errors and burst times in ms."""
    selector = selectors.DefaultSelector()
    total = errors = 0
    times: list[float] = []
    end = time.perf_counter() + options.seconds
    for n in numbers:
        groups = (f"{options.group}-{n + k * options.conns}" for k in range(options.spread))
        requests = cycle([prepared(options.mode, group, options.topic) for group in groups])
        burst = Burst(connect(options.addr), requests, options.depth)
        selector.register(burst.socket, selectors.EVENT_READ, burst)
        burst.send()
    while selector.get_map():
        for key, _ in selector.select():
            burst = key.data
            for response in burst.receive():
                total += 1
                errors += not options.echo and error_code(options.mode, response) != 0
            if burst.pending:
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
    options = arguments()
    warm_up(options)
    workers = min(options.conns, os.cpu_count() or 1)
    shares = [range(n, options.conns, workers) for n in range(workers)]
    with multiprocessing.Pool(workers) as pool:
        parts = pool.starmap(run_connections, [(options, share) for share in shares])
    times = sorted(value for part in parts for value in part[2])
    total = sum(part[0] for part in parts)
    print(
        json.dumps(
            {
                "mode": options.mode,
                "conns": options.conns,
                "depth": options.depth,
                "requests": total,
                "errors": sum(part[1] for part in parts),
                "requests_s": total / options.seconds,
                "p50_ms": times[len(times) // 2],
                "p99_ms": times[int(len(times) * 0.99)],
                "max_ms": times[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
