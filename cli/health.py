"""`kohort health`: does something that speaks Kafka's protocol answer there? For health checks.

One ApiVersions request, version 0, by hand: it must be quick, and need no client library.
"""

import argparse
import socket
import struct
import sys

from .errors import UserError

CLIENT_ID = b"kohort-health"
CORRELATION_ID = 1
# key 18, version 0, header v1; the size in front.
REQUEST = struct.pack(">hhih", 18, 0, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
# Kafka 4.3 lists 81 APIs in 500 bytes; a size beyond this is another protocol's answer.
ANSWER_BYTES_MAX = 64 * 1024


class Unwell(Exception):
    """Why the broker is not healthy, after its address."""


def run(args: argparse.Namespace) -> int:
    """0 and a line on standard output, or 1 and the reason on standard error."""
    host, colon, port = args.bootstrap_server.rpartition(":")
    if not colon or "," in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UserError(f"{args.bootstrap_server} is no address: write it as 127.0.0.1:9092.")
    if args.timeout <= 0:
        raise UserError(f"--timeout {args.timeout} is no time: give milliseconds, as in 5000.")
    address = (host.strip("[]") or "127.0.0.1", int(port))
    try:
        apis = ask(address, args.timeout / 1000)
    except Unwell as reason:
        print(f"{args.bootstrap_server} {reason}", file=sys.stderr)
        return 1
    print(f"{args.bootstrap_server} is well: it serves {apis} APIs.")
    return 0


def ask(address: tuple[str, int], timeout_seconds: float) -> int:
    """How many APIs the broker lists; raises Unwell."""
    try:
        with socket.create_connection(address, timeout_seconds) as connection:
            connection.sendall(struct.pack(">i", len(REQUEST)) + REQUEST)
            (size,) = struct.unpack(">i", _read(connection, 4))
            if not 10 <= size <= ANSWER_BYTES_MAX:
                raise Unwell("does not speak Kafka's protocol.")
            answer = _read(connection, size)
    except TimeoutError as error:
        raise Unwell(f"did not answer within {timeout_seconds:g} s.") from error
    except ConnectionRefusedError as error:
        raise Unwell("refuses connections: nothing listens there.") from error
    except OSError as error:
        raise Unwell(f"cannot be reached ({error.strerror or error}).") from error
    correlation_id, error_code, apis = struct.unpack_from(">ihi", answer)
    if correlation_id != CORRELATION_ID or error_code != 0:
        raise Unwell(f"answered with error {error_code}.")
    return int(apis)


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise Unwell("closed the connection instead of answering.")
        data += more
    return data
