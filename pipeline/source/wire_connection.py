"""One connection to a broker: a question and its answer, in the newest version that both speak.

Plain sockets and blocking calls: a Spark task reads one partition and has nothing else to do.
There is no TLS and no SASL.
"""

import socket
from functools import cache
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ...protocol.apis import APIS
from ...protocol.errors import DecodeError
from ...protocol.framing import FRAME_BYTES_MAX, address
from ...protocol.messages import (
    RequestEncoder,
    ResponseDecoder,
    request_encoder,
    response_decoder,
)

__all__ = ["ANSWER_SECONDS", "Address", "Connection", "Lost", "addresses"]

CLIENT_ID: Final = "kohort-pipeline"
PORT: Final = 9092
# Kafka's clients' socket.connection.setup.timeout.ms and request.timeout.ms.
CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 30.0
# A batch came to the broker in a request, so none is larger than a request may be; the rest of
# the answer is what was asked for beside it.
ANSWER_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
# How much one call takes from the system.
RECEIVE_BYTES: Final = 1024 * 1024

# What is asked: from what Kafka 0.11 has, which brought the batches that are read here, up to the
# last version that names topics and not their ids; of Metadata the one that tells those as well.
VERSIONS: Final = {
    "ApiVersions": (0, 0),
    "Fetch": (4, 12),
    "ListOffsets": (1, 6),
    "Metadata": (4, 12),
}
_SIZE: Final = Struct(">i")
_API: Final = {api.name: api for api in APIS if api.name in VERSIONS}


class Lost(Exception):
    """There is no connection, or none any more; the message is a sentence that says why."""


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return address(*self)


def addresses(bootstrap: str) -> list[Address]:
    """`host:port,host:port`, as Kafka's clients take it. Raises ValueError with a sentence."""
    found = []
    for text in filter(None, map(str.strip, bootstrap.split(","))):
        host, colon, port = text.rpartition(":")
        if not colon or (":" in host and not host.startswith("[")):
            host, port = text, str(PORT)
        if not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{text} is not HOST:PORT")
        found.append(Address(host.removeprefix("[").removesuffix("]"), int(port)))
    if not found:
        raise ValueError("the address of a broker is missing: HOST:PORT")
    return found


class _Speech(NamedTuple):
    """One API in one version."""

    write: RequestEncoder
    read: ResponseDecoder


@cache
def _speech(name: str, version: int) -> _Speech:
    api = _API[name]
    return _Speech(request_encoder(api.key, version), response_decoder(api.key, version))


class Connection:
    """`ask` is `send` and `receive`; answers come in the order of the questions. All raise Lost,
    and then the connection is closed."""

    def __init__(self, address: Address, answer_seconds: float) -> None:
        self.address = address
        self._asked: list[tuple[int, _Speech]] = []
        self._count = 0
        self._versions = {"ApiVersions": 0}
        try:
            self._socket = socket.create_connection(address, min(CONNECT_SECONDS, answer_seconds))
        except ConnectionRefusedError:
            raise Lost(f"nobody listens at {address}") from None
        except socket.gaierror as error:
            raise Lost(f"the host of {address} is not known ({error.strerror})") from None
        except TimeoutError:
            raise Lost(f"{address} does not answer") from None
        except OSError as error:
            raise Lost(f"{address} cannot be reached: {error.strerror or error}") from None
        self._socket.settimeout(answer_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._agree()

    def ask(self, name: str, **fields: Any) -> Any:
        """kio's answer. `fields`: of the request by kio's names; what is left out has its
        default."""
        self.send(name, **fields)
        return self.receive()

    def send(self, name: str, **fields: Any) -> None:
        speech = _speech(name, self._versions[name])
        self._count += 1
        frame = speech.write(SimpleNamespace(**fields), self._count, CLIENT_ID)
        self._asked.append((self._count, speech))
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._lost(f"the connection to {self.address} broke: {error}") from None

    def receive(self) -> Any:
        correlation_id, speech = self._asked.pop(0)
        (size,) = _SIZE.unpack(self._take(4))
        if not 4 <= size <= ANSWER_BYTES_MAX:
            # A TLS alert, or the first words of some other protocol.
            raise self._lost(
                f"{self.address} does not speak Kafka's protocol in plain text;"
                " listeners with TLS cannot be read"
            )
        frame = self._take(size)
        (answered,) = _SIZE.unpack_from(frame)
        if answered != correlation_id:
            raise self._lost(f"{self.address} answered what it was not asked")
        try:
            return speech.read(frame, _SIZE.size)
        except DecodeError as error:
            raise self._lost(f"an answer of {self.address} cannot be read: {error}") from None

    def close(self) -> None:
        self._asked.clear()
        self._socket.close()

    def _agree(self) -> None:
        theirs = {
            each.api_key: (each.min_version, each.max_version)
            for each in self.ask("ApiVersions").api_keys
        }
        for name, (lowest, highest) in VERSIONS.items():
            least, most = theirs.get(_API[name].key, (0, -1))
            self._versions[name] = min(highest, most)
            if self._versions[name] < max(lowest, least):
                raise self._lost(
                    f"{self.address} has no version of {name} from {lowest} to {highest}:"
                    " Kafka 0.11 is the oldest that can be read"
                )

    def _take(self, size: int) -> bytes:
        data = bytearray(min(size, RECEIVE_BYTES))
        filled = 0
        while filled < size:
            if filled == len(data):  # grows with what arrives, not with what was announced
                data.extend(bytes(min(size - filled, len(data))))
            try:
                received = self._socket.recv_into(memoryview(data)[filled:])
            except TimeoutError:
                raise self._lost(f"{self.address} does not answer any more") from None
            except OSError as error:
                raise self._lost(f"the connection to {self.address} broke: {error}") from None
            if not received:
                raise self._lost(self._why_closed())
            filled += received
        return bytes(data)

    def _why_closed(self) -> str:
        if self._count == 1:
            return (
                f"{self.address} closed the connection without a word:"
                " listeners with TLS cannot be read"
            )
        if self._count == 2:  # Kafka's answer to whoever has not authenticated
            return (
                f"{self.address} closed the connection at the first question:"
                " listeners with SASL cannot be read"
            )
        return f"{self.address} closed the connection"

    def _lost(self, why: str) -> Lost:
        self.close()
        return Lost(why)
