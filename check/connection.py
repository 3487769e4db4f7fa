"""A client's connection, which can be cut at any moment.

The checker has its own client, which speaks the wire protocol. Real clients hide what must be
observed, because they retry, filter, merge responses and reset positions, and do not show
generations, epochs or the response to a single request. The checker itself is tested on Apache
Kafka, where it must find nothing.
"""

import asyncio
import ssl
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final

from ..client_security import AuthenticationError, Security
from ..protocol.apis import APIS
from ..protocol.bootstrap import Address
from ..protocol.errors import DecodeError
from ..protocol.framing import FRAME_BYTES_MAX
from ..protocol.messages import ResponseDecoder, request_encoder, response_decoder

SOFTWARE: Final = "kohort-check"
CONNECT_SECONDS: Final = 2.0
# A JoinGroup waits for the other members, which rejoin after their next heartbeat. A restarted
# broker does not respond to earlier requests, so waiting longer is useless.
RESPONSE_SECONDS: Final = 8.0

# The versions whose requests and responses contain the fields that the clients use, and identify
# topics by name. Kafka 3.0 supports at least one of them for each API.
VERSIONS: Final[Mapping[str, tuple[int, int]]] = {
    "AddOffsetsToTxn": (0, 3),
    "AddPartitionsToTxn": (0, 3),
    "CreateTopics": (5, 7),
    "DeleteGroups": (0, 2),
    "DeleteTopics": (1, 5),
    "EndTxn": (0, 5),
    "Fetch": (11, 12),
    "FindCoordinator": (4, 6),
    "Heartbeat": (3, 4),
    "InitProducerId": (3, 5),
    "JoinGroup": (5, 9),
    "LeaveGroup": (3, 5),
    "ListOffsets": (2, 7),
    "Metadata": (10, 12),
    "OffsetCommit": (7, 9),
    "OffsetFetch": (8, 9),
    "Produce": (3, 12),
    "SyncGroup": (3, 5),
    "TxnOffsetCommit": (3, 5),
}
# The versions of optional APIs (KIP-848, SASL).
OPTIONAL: Final[Mapping[str, tuple[int, int]]] = {
    "ConsumerGroupHeartbeat": (0, 1),
    "SaslAuthenticate": (0, 2),
    "SaslHandshake": (1, 1),
}
_KEYS: Final = {api.name: api.key for api in APIS}


Fields = SimpleNamespace
"""A structure within a request."""


class Disconnected(Exception):
    """There is no response, so the outcome is unknown. The message says why."""


class NotSent(Disconnected):
    """The request was not sent."""


class Unsupported(Exception):
    """The broker lacks an API, or rejects the client, so no later attempt can succeed."""


class Connection:
    """A connection to a broker, on which several requests may be pending. `open` creates it."""

    def __init__(
        self,
        address: Address,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client_id: str,
    ) -> None:
        self.address = address
        self._client_id = client_id
        self.versions: dict[str, int] = {}
        self.features: dict[str, int] = {}
        """The finalized features of the cluster."""
        self._reader, self._writer = reader, writer
        self._sent = 0
        self._pending: dict[int, tuple[ResponseDecoder, asyncio.Future[Any]]] = {}
        self._receiving = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, address: Address, security: Security, client_id: str) -> "Connection":
        """Connect, negotiate versions, authenticate. Raises NotSent and Unsupported."""
        name = address.host if security.tls is not None else None
        connecting = asyncio.open_connection(
            *address, ssl=security.tls, server_hostname=name, limit=FRAME_BYTES_MAX
        )
        try:
            reader, writer = await asyncio.wait_for(connecting, CONNECT_SECONDS)
        except ssl.SSLCertVerificationError as error:
            raise Unsupported(f"{address} has an untrusted certificate: {error}") from error
        except ConnectionRefusedError as error:  # asyncio's message repeats the address
            raise NotSent(f"cannot connect to {address}: connection refused") from error
        except TimeoutError as error:
            problem = f"timed out after {CONNECT_SECONDS:g} s"
            raise NotSent(f"cannot connect to {address}: {problem}") from error
        except OSError as error:
            raise NotSent(f"cannot connect to {address}: {error}") from error
        if writer.get_extra_info("sockname") == writer.get_extra_info("peername"):
            # While the broker was down, the system chose the broker's port as the local port, so
            # the connection leads to itself.
            writer.transport.abort()
            raise NotSent(f"cannot connect to {address}: connection refused")
        connection = cls(address, reader, writer, client_id)
        try:
            await connection._negotiate()
            await connection._authenticate(security)
        except NotSent:
            raise
        except Disconnected as error:
            raise NotSent(str(error)) from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_closed(self) -> bool:
        return self._receiving.done()

    async def request(self, api: str, *, version_max: int = 99, **fields: Any) -> Any:
        """Send a request and return the response as a kio message. `fields` use kio's names;
        omitted fields take their defaults. Raises Disconnected; after a timeout, the
        connection is closed."""
        return await self._request(api, min(self.versions[api], version_max), fields)

    def close(self) -> None:
        """Cut the connection; unsent data is dropped."""
        self._receiving.cancel()
        self._fail(Disconnected("the client closed the connection"))

    async def _request(self, api: str, version: int, fields: Mapping[str, Any]) -> Any:
        if self.is_closed:
            raise NotSent(f"the connection to {self.address} is closed")
        self._sent += 1
        key, number = _KEYS[api], self._sent
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[number] = response_decoder(key, version), response
        frame = request_encoder(key, version)(SimpleNamespace(**fields), number, self._client_id)
        self._writer.write(frame)
        try:
            return await asyncio.wait_for(response, RESPONSE_SECONDS)
        except TimeoutError:
            self.close()
            raise Disconnected(f"{api}: no response within {RESPONSE_SECONDS:g} s") from None

    async def _receive(self) -> None:
        problem: Exception
        try:
            while True:
                size = int.from_bytes(await self._reader.readexactly(4))
                if not 4 <= size <= FRAME_BYTES_MAX:
                    raise DecodeError(f"size {size} is out of range")
                frame = await self._reader.readexactly(size)
                number = int.from_bytes(frame[:4])
                decode, response = self._pending[number]
                message = decode(frame, 4)
                del self._pending[number]  # only now, so that a failure ends this request as well
                if not response.done():
                    response.set_result(message)
        except (OSError, EOFError):
            problem = Disconnected(f"{self.address} closed the connection")
        except (DecodeError, KeyError) as error:
            problem = Disconnected(f"invalid response from {self.address}: {error}")
        self._fail(problem)

    def _fail(self, error: Exception) -> None:
        self._writer.transport.abort()
        pending, self._pending = self._pending, {}
        for _, response in pending.values():
            if not response.done():
                response.set_exception(error)

    async def _negotiate(self) -> None:
        software = {"client_software_name": SOFTWARE, "client_software_version": "1"}
        response = await self._request("ApiVersions", 3, software)
        served = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        for name, (lowest, highest) in {**VERSIONS, **OPTIONAL}.items():
            broker_min, broker_max = served.get(_KEYS[name], (0, -1))
            if max(lowest, broker_min) <= min(highest, broker_max):
                self.versions[name] = min(highest, broker_max)
            elif name in VERSIONS:
                found = f"{broker_min} to {broker_max}" if broker_max >= 0 else "none"
                raise Unsupported(
                    f"{self.address} does not support {name} in a version from {lowest} to "
                    f"{highest} (it has {found}): Kafka 3.0 or newer is required"
                )
        self.features = {each.name: each.max_version_level for each in response.finalized_features}

    async def _authenticate(self, security: Security) -> None:
        steps, response = security.authentication(), None
        try:
            while True:
                api, fields = steps.send(response)
                response = await self.request(api, **fields)
        except StopIteration:
            pass  # the authentication is complete
        except AuthenticationError as error:
            raise Unsupported(f"authentication with {self.address} failed: {error}") from None
