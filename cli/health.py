"""`kohort health`: check that a broker responds, for container health checks.

It sends one ApiVersions request, encoded by hand because a client library is slow to import.
"""

import argparse
import socket
import struct
import sys
from typing import BinaryIO, Final

from .errors import UserError

# The maximum timeout of sockets on some platforms.
TIMEOUT_MS_MAX: Final = 2**31 - 1
CLIENT_ID: Final = b"kohort-health"
CORRELATION_ID: Final = 1
# API key 18, version 0, header v1.
REQUEST: Final = struct.pack(">hhih", 18, 0, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
# Kafka 4.3 lists 81 APIs in 500 bytes. A larger size means that the peer does not speak Kafka's
# protocol.
RESPONSE_BYTES_MAX: Final = 64 * 1024


class Unhealthy(Exception):
    """The reason, printed after the broker's address."""


def run(args: argparse.Namespace) -> int:
    """Print that the broker responded and return 0, or print the reason to standard error and
    return 1. Raises UserError."""
    host, colon, port = args.bootstrap_server.rpartition(":")
    is_port = port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
    if not colon or "," in host or not is_port:
        raise UserError(f"invalid address {args.bootstrap_server}: expected HOST:PORT.")
    if not 0 < args.timeout <= TIMEOUT_MS_MAX:
        raise UserError(f"invalid --timeout {args.timeout}: expected milliseconds, such as 5000.")
    address = (host.strip("[]") or "127.0.0.1", int(port))
    try:
        apis = count_apis(address, args.timeout / 1000)
    except UnicodeError as error:  # from the encoding of the host, such as `a..b`
        raise UserError(f"invalid address {args.bootstrap_server}: {error}.") from error
    except Unhealthy as reason:
        print(f"{args.bootstrap_server} {reason}", file=sys.stderr)
        return 1
    print(f"{args.bootstrap_server} is healthy: it serves {apis} APIs.")
    return 0


def count_apis(address: tuple[str, int], timeout_seconds: float) -> int:
    """Return the number of APIs that the broker lists. Raises Unhealthy."""
    try:
        with socket.create_connection(address, timeout_seconds) as connection:
            connection.sendall(struct.pack(">i", len(REQUEST)) + REQUEST)
            stream = connection.makefile("rb")
            (size,) = struct.unpack(">i", _read(stream, 4))
            if not 10 <= size <= RESPONSE_BYTES_MAX:
                raise Unhealthy("did not respond in Kafka's protocol.")
            response = _read(stream, size)
    except TimeoutError as error:
        raise Unhealthy(f"did not respond within {timeout_seconds:g} s.") from error
    except ConnectionRefusedError as error:
        raise Unhealthy("refused the connection: nothing is listening there.") from error
    except OSError as error:
        raise Unhealthy(f"cannot be reached: {error.strerror or error}.") from error
    correlation_id, error_code, apis = struct.unpack_from(">ihi", response)
    if correlation_id != CORRELATION_ID:
        raise Unhealthy("did not respond in Kafka's protocol.")
    if error_code != 0:
        raise Unhealthy(f"responded with error code {error_code}.")
    return int(apis)


def _read(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise Unhealthy("closed the connection without a response.")
    return data
