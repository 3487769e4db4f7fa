"""The client of a fake member: connections without sockets, and requests to a group's coordinator
on any node. Runs on the broker's loop."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ...broker.broker import Broker
from ...protocol.apis import PROFILES
from ...protocol.errors import ErrorCode, ProtocolError
from ...protocol.framing import SIZE, Framer
from ...protocol.messages import RequestEncoder, ResponseDecoder, request_encoder, response_decoder

# The wall-clock timeout of requests that a test makes (commit, leave), shorter than a barrier's.
REQUEST_TIMEOUT_SECONDS = 5.0

# The group has another coordinator, or no coordinator yet.
_COORDINATOR_ERRORS = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
    }
)

# OffsetCommit uses topic ids since v10, whereas tests use names. FindCoordinator has one key up to
# v3, which all profiles serve.
_VERSIONS_MAX: Final = {"OffsetCommit": 9, "FindCoordinator": 3}
_HOST: Final = "127.0.0.1"


class Connection(asyncio.Transport):
    """The client's side of a connection, which the broker uses as its transport.

    The other side receives written data in a later iteration of the loop, as with a socket.
    `on_activity` is called when either side receives data, and `on_lost` once, when the broker has
    closed the connection. Raises ConnectionRefusedError if the node is down.
    """

    def __init__(
        self,
        broker: Broker,
        node_id: int,
        client_id: str,
        on_activity: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__()
        self._client_id = client_id
        self._on_activity = on_activity
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._pending: dict[int, tuple[_Api, asyncio.Future[Any]]] = {}
        self._last_correlation_id = 0
        self._to_client = bytearray()
        self._framer = Framer(frame_bytes_min=SIZE.size)
        self._to_broker = bytearray()
        self._is_reading = True
        self._is_closing = False
        self._profile = broker.config.str("kohort.profile")
        self._connection = broker.attach(node_id, self)

    # --- the client's side

    async def request(self, api_name: str, **fields: Any) -> Any:
        """Send a request and return the response message. `fields` use kio's names; omitted fields
        get their defaults. Raises ConnectionError if the connection is closed before the response,
        and ValueError if the broker's profile does not serve the API."""
        if self._is_closing:
            raise ConnectionResetError("the connection is closed")
        api = _find_api(self._profile, api_name)
        self._last_correlation_id += 1
        response: asyncio.Future[Any] = self._loop.create_future()
        self._pending[self._last_correlation_id] = api, response
        self._to_broker += api.encode(
            SimpleNamespace(**fields), self._last_correlation_id, self._client_id
        )
        self._loop.call_soon(self._deliver_to_broker)
        return await response

    def disconnect(self) -> None:
        """Close the connection from the client's side."""
        self._on_lost = lambda: None
        for _, response in self._pending.values():
            response.cancel()
        self._pending.clear()
        self.abort()

    def _deliver_to_broker(self) -> None:
        if self._is_reading and self._to_broker and not self._is_closing:
            self._on_activity()
            data, self._to_broker = bytes(self._to_broker), bytearray()
            self._connection.data_received(data)

    def _deliver_to_client(self) -> None:
        self._on_activity()
        received, self._to_client = bytes(self._to_client), bytearray()
        for data, start, end in self._framer.feed(received):
            (correlation_id,) = SIZE.unpack_from(data, start)
            api, response = self._pending.pop(correlation_id, (None, None))
            if api is None or response is None or response.done():
                continue  # the request was cancelled
            try:
                response.set_result(api.decode(data[start - SIZE.size : end]))
            except ProtocolError as error:
                self.abort()
                response.set_exception(ConnectionAbortedError(f"invalid response: {error}"))
                return

    # --- the broker's side: asyncio.Transport

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._to_client += data
            self._loop.call_soon(self._deliver_to_client)

    def close(self) -> None:
        """Close the connection; the client first receives everything already written."""
        if not self._is_closing:
            self._is_closing = True
            self._loop.call_soon(self._end)

    def abort(self) -> None:
        self._to_client.clear()
        self.close()

    def get_write_buffer_size(self) -> int:
        return len(self._to_client)

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._loop.call_soon(self._deliver_to_broker)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (_HOST, 0) if name == "peername" else default

    def _end(self) -> None:
        self._on_activity()
        self._connection.connection_lost(None)
        pending, self._pending = self._pending, {}
        for _, response in pending.values():
            if not response.done():
                response.set_exception(ConnectionResetError("the broker closed the connection"))
        self._on_lost()


class _Api(NamedTuple):
    """An API in the version that fake members use."""

    encode: RequestEncoder
    decode: ResponseDecoder


@cache
def _find_api(profile: str, name: str) -> _Api:
    api = next((api for api in PROFILES[profile].values() if api.name == name), None)
    if api is None:
        raise ValueError(f"Profile {profile} does not serve {name}")
    version = min(api.max_version, _VERSIONS_MAX.get(name, api.max_version))
    return _Api(request_encoder(api.key, version), response_decoder(api.key, version))


class RequestError(NamedTuple):
    """An error that a fake member received, with Kafka's name for it. NETWORK_EXCEPTION: no
    coordinator was found, or the connection was lost before the response. REQUEST_TIMED_OUT: no
    response arrived in time."""

    api: str
    error: str


class ErrorResponse(Exception):
    """A response with an error that is not one of the _COORDINATOR_ERRORS, for which the client
    raises ConnectionError."""

    def __init__(self, error: ErrorCode, response: Any) -> None:
        super().__init__(error.name.upper())
        self.error = error
        self.response = response


@dataclass(frozen=True, slots=True)
class Identity:
    group_id: str
    client_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int


class CoordinatorClient:
    """Sends requests to the coordinator of a group. `broker` returns the running broker. `on_error`
    is called after each error has been added to `errors`, `on_lost` when the broker has closed the
    connection."""

    def __init__(
        self,
        broker: Callable[[], Broker],
        identity: Identity,
        on_error: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._broker = broker
        self._identity = identity
        self._on_error = on_error
        self._on_lost = on_lost
        self._connection: Connection | None = None
        self.activity = 0
        """The number of events on the connections. FakeMembers.is_idle uses it to detect that
        nothing is in progress."""
        self.errors: list[RequestError] = []
        self.is_waiting = False
        """Whether `request` is waiting for a response, possibly to its FindCoordinator."""

    async def request(self, api: str, **fields: Any) -> Any:
        """Send a request and return its response. Raises ErrorResponse, and ConnectionError if the
        request must be retried."""
        self.is_waiting = True
        try:
            if self._connection is None:
                self._connection = await self._find_coordinator(api)
            return await self._request_on(self._connection, api, fields)
        finally:
            self.is_waiting = False

    async def request_separately(self, api: str, **fields: Any) -> Any:
        """Like `request`, but on a separate connection, because a pending JoinGroup mutes the main
        one. Also raises TimeoutError."""
        connection: Connection | None = None
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_SECONDS):
                connection = await self._find_coordinator(api)
                return await self._request_on(connection, api, fields)
        except TimeoutError:
            self._record(api, ErrorCode.request_timed_out)
            raise
        finally:
            if connection is not None:
                self._drop(connection)

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._drop(connection)

    async def _request_on(self, connection: Connection, api: str, fields: dict[str, Any]) -> Any:
        identity = {
            "group_id": self._identity.group_id,
            "group_instance_id": self._identity.instance_id,
        }
        try:
            response = await connection.request(api, **identity, **fields)
        except ConnectionError:
            self._record(api, ErrorCode.network_exception)
            raise
        error = _first_error(response)
        if error is ErrorCode.none:
            return response
        if error is not ErrorCode.member_id_required:  # a regular step of a join (KIP-394)
            self._record(api, error)
        if error in _COORDINATOR_ERRORS:
            if connection is self._connection:
                self.disconnect()
            raise ConnectionError(error.name)
        raise ErrorResponse(error, response)

    async def _find_coordinator(self, api: str) -> Connection:
        """Return a connection to the coordinator, for a request of this API."""
        try:
            return await self._connect_to_coordinator()
        except ConnectionError:
            self._record(api, ErrorCode.network_exception)
            raise

    async def _connect_to_coordinator(self) -> Connection:
        broker = self._broker()
        for node_id in broker.addresses:
            try:
                connection = self._connect(broker, node_id)
            except ConnectionRefusedError:
                continue
            try:
                found = await connection.request(
                    "FindCoordinator", key_type=0, key=self._identity.group_id
                )
                if found.error_code is not ErrorCode.none:
                    raise ConnectionError(found.error_code.name)
            except BaseException:
                self._drop(connection)
                raise
            if found.node_id == node_id:
                return connection
            self._drop(connection)
            return self._connect(broker, found.node_id)
        raise ConnectionRefusedError("no node is up")

    def _connect(self, broker: Broker, node_id: int) -> Connection:
        client_id = self._identity.client_id
        return Connection(broker, node_id, client_id, self._count_activity, self._connection_lost)

    def _record(self, api: str, error: ErrorCode) -> None:
        self.errors.append(RequestError(api, error.name.upper()))
        self._on_error()

    def _connection_lost(self) -> None:
        if self._connection is not None and self._connection.is_closing():
            self.disconnect()
            self._on_lost()

    def _drop(self, connection: Connection) -> None:
        self._count_activity()
        connection.disconnect()

    def _count_activity(self) -> None:
        self.activity += 1


def _first_error(response: Any) -> ErrorCode:
    """Return the first error of the response itself, of a member (LeaveGroup) or of a partition."""
    parts = [response]
    for name in ("members", "topics"):
        parts += getattr(response, name, ())
    parts += [each for topic in getattr(response, "topics", ()) for each in topic.partitions]
    errors = (getattr(part, "error_code", ErrorCode.none) for part in parts)
    return next((error for error in errors if error is not ErrorCode.none), ErrorCode.none)
