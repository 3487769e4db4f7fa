"""One connection to a broker: requests and responses, in the newest version that both sides
support.

Uses blocking sockets, because a Spark task reads one partition at a time. Does not re-authenticate
(KIP-368): when a session ends, the broker closes the connection, and the next one authenticates.
"""

import socket
import ssl
from types import SimpleNamespace
from typing import Any, Final

from ...client_security import AuthenticationError, Security
from ...protocol.apis import APIS
from ...protocol.bootstrap import Address
from ...protocol.errors import DecodeError
from ...protocol.framing import FRAME_BYTES_MAX
from ...protocol.messages import ResponseDecoder, request_encoder, response_decoder
from ...protocol.primitives import INT32
from .source import SourceError

CLIENT_ID: Final = "kohort-pipeline"
# The clients' socket.connection.setup.timeout.ms and request.timeout.ms.
CONNECT_SECONDS: Final = 10.0
RESPONSE_SECONDS: Final = 30.0
# A batch is no larger than the request that produced it. A response contains at least one batch,
# even if the batch exceeds the requested size.
RESPONSE_BYTES_MAX: Final = 2 * FRAME_BYTES_MAX
RECEIVE_BYTES: Final = 1024 * 1024

# API -> oldest and newest version. The oldest versions date from Kafka 0.11, which introduced the
# supported batch format. Fetch 12 is the last that identifies topics by name; Metadata may also
# return topic ids.
VERSIONS: Final = {
    "ApiVersions": (0, 0),
    "Fetch": (4, 12),
    "ListOffsets": (1, 6),
    "Metadata": (4, 12),
}
# Only with SASL: tokens in requests (KIP-152), since Kafka 1.0.
SASL_VERSIONS: Final = {"SaslHandshake": (1, 1), "SaslAuthenticate": (0, 2)}
_KEYS: Final = {api.name: api.key for api in APIS if api.name in {**VERSIONS, **SASL_VERSIONS}}


class ConnectionLost(Exception):
    """The connection failed or was closed; the message contains the reason."""


class Connection:
    """Responses arrive in the order of requests. All methods raise ConnectionLost, after which the
    connection is closed. Connecting raises SourceError if the client is not authenticated, or does
    not trust the broker."""

    def __init__(self, address: Address, response_seconds: float, security: Security) -> None:
        self.address = address
        self._security = security
        self._pending: list[tuple[int, ResponseDecoder]] = []
        self._sent = 0
        self._versions = {"ApiVersions": 0}
        try:
            self._socket = socket.create_connection(address, min(CONNECT_SECONDS, response_seconds))
        except ConnectionRefusedError:
            raise ConnectionLost(f"connection to {address} refused") from None
        except socket.gaierror as error:
            raise ConnectionLost(f"unknown host in {address} ({error.strerror})") from None
        except TimeoutError:
            raise ConnectionLost(f"connection to {address} timed out") from None
        except OSError as error:
            reason = error.strerror or error
            raise ConnectionLost(f"connection to {address} failed: {reason}") from None
        self._socket.settimeout(response_seconds)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls is not None:
            self._begin_tls(security.tls)
        self._negotiate_versions()
        self._authenticate()

    def _begin_tls(self, context: ssl.SSLContext) -> None:
        address = self.address
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=address.host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:
            raise self._lost(f"{address} closed the connection in the TLS handshake") from error
        except ssl.SSLError as error:
            self.close()
            reason = getattr(error, "verify_message", "") or error.reason or error
            raise SourceError(f"TLS handshake with {address} failed: {reason}") from None
        except TimeoutError:
            raise self._lost(f"timed out in the TLS handshake with {address}") from None
        except OSError as error:
            raise self._lost(f"connection to {address} failed: {error}") from None

    def _authenticate(self) -> None:
        steps, response = self._security.authentication(), None
        try:
            while True:
                name, fields = steps.send(response)
                response = self.request(name, **fields)
        except StopIteration:
            pass  # authentication is complete
        except AuthenticationError as error:
            self.close()
            raise SourceError(f"authentication with {self.address} failed: {error}") from None

    def request(self, name: str, **fields: Any) -> Any:
        """Send a request and return kio's message. `fields`: the request's fields by kio's names;
        other fields take their defaults."""
        self.send(name, **fields)
        return self.receive()

    def send(self, name: str, **fields: Any) -> None:
        api = _KEYS[name], self._versions[name]
        self._sent += 1
        frame = request_encoder(*api)(SimpleNamespace(**fields), self._sent, CLIENT_ID)
        self._pending.append((self._sent, response_decoder(*api)))
        try:
            self._socket.sendall(frame)
        except OSError as error:
            raise self._lost(f"connection to {self.address} failed: {error}") from None

    def receive(self) -> Any:
        correlation_id, decode = self._pending.pop(0)
        (size,) = INT32.unpack(self._take(4))
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            # A TLS alert, or the beginning of another protocol.
            raise self._lost(
                f"{self.address} does not speak Kafka's protocol in plain text: {_needs('TLS')}"
                if self._security.tls is None
                else f"{self.address} does not speak Kafka's protocol"
            )
        frame = self._take(size)
        if INT32.unpack_from(frame) != (correlation_id,):
            raise self._lost(f"{self.address} sent a response with an unknown correlation id")
        try:
            return decode(frame, INT32.size)
        except DecodeError as error:
            raise self._lost(f"invalid response from {self.address}: {error}") from None

    def close(self) -> None:
        self._pending.clear()
        self._socket.close()

    def _negotiate_versions(self) -> None:
        supported = {
            api.api_key: (api.min_version, api.max_version)
            for api in self.request("ApiVersions").api_keys
        }
        sasl = SASL_VERSIONS if self._security.mechanism else {}
        for name, (lowest, highest) in {**VERSIONS, **sasl}.items():
            broker_min, broker_max = supported.get(_KEYS[name], (0, -1))
            self._versions[name] = min(highest, broker_max)
            if self._versions[name] < max(lowest, broker_min):
                raise self._lost(
                    f"{self.address} supports no version of {name} from {lowest} to {highest}:"
                    " Kafka 0.11 or later is required"
                )

    def _take(self, size: int) -> bytes:
        data = bytearray(min(size, RECEIVE_BYTES))
        filled = 0
        while filled < size:
            if filled == len(data):  # grows with the bytes received, not with the announced size
                data.extend(bytes(min(size - filled, len(data))))
            try:
                received = self._socket.recv_into(memoryview(data)[filled:])
            except TimeoutError:
                raise self._lost(f"timed out waiting for a response from {self.address}") from None
            except OSError as error:
                raise self._lost(f"connection to {self.address} failed: {error}") from None
            if not received:
                raise self._lost(self._closed_text())
            filled += received
        return bytes(data)

    def _closed_text(self) -> str:
        closed = f"{self.address} closed the connection"
        if self._security.tls is None and self._sent == 1:
            return f"{closed} without a response: {_needs('TLS')}"
        # If a client does not authenticate, Kafka closes the connection at the first request after
        # ApiVersions.
        if not self._security.mechanism and self._sent == 2:
            return f"{closed} at the first request: {_needs('SASL')}"
        return closed

    def _lost(self, reason: str) -> ConnectionLost:
        self.close()
        return ConnectionLost(reason)


def _needs(what: str) -> str:
    return f"a listener with {what} needs client properties (--command-config)"
