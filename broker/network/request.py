"""A request between connection and handler: its route, its context and its response.

`Routes` finds the decoder, handler and encoder of an API version. A handler gets a
`RequestContext`. Responses do not depend on the version: a response can be any object with kio's
field names, and the encoder uses the fields of the request's version.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial, wraps
from importlib import import_module
from struct import Struct
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, cast

from ...log.segment import FileSlice
from ...log.tasks import CooperativeTask, Step
from ...printable import printable, shortened
from ...protocol.apis import API_VERSIONS, BY_KEY, SASL_AUTHENTICATE, Api, Profile
from ...protocol.budgets import FIRST_STEPS_MAX
from ...protocol.decoder import Decoder, FieldLocator
from ...protocol.encoder import BuffersEncoder, FrameEncoder
from ...protocol.errors import (
    EncodeError,
    ErrorCode,
    ManyItems,
    ProtocolError,
    ResponseTooLarge,
    UnsupportedVersion,
)
from ...protocol.framing import SIZE
from ...protocol.messages import request_decoder, request_field_locator, response_encoder
from ..event_loop.scheduler import SLICE_SECONDS
from ..security.session import ClientSession

_log: Final = logging.getLogger("kohort.requests")
_correlation_id: Final = Struct(">i").pack
# Decodes and encodes long messages. There is only one thread, because it competes with the event
# loop for the interpreter.
codec_thread: Final = ThreadPoolExecutor(1, "kohort-codec")

ResponseFrame: TypeAlias = bytes | list[bytes | FileSlice]
"""A frame. A large frame is a sequence of buffers, because joining them would copy the records."""

Numbers: TypeAlias = Sequence[int]
"""The values of one varying field, one value per pipelined request."""

# Maximum number of pipelined requests handled as one request. A larger number gains nothing, and
# blocks the event loop for too long.
PIPELINED_MAX: Final = 32

_MILLISECOND: Final = timedelta(milliseconds=1)


# A response or a nested structure. Frequent responses are NamedTuples instead, which are created
# three times as fast. Message is an alias, because a subclass crashes when compiled by mypyc.
Message: TypeAlias = SimpleNamespace


def milliseconds(duration: timedelta) -> int:
    return duration // _MILLISECOND


# --- routes


def _find_no_varying_fields(_buffer: bytes, _body: int, _end: int) -> list[tuple[int, str]]:
    return []


@dataclass(eq=False)
class Route:
    """How one version of an API is decoded, handled and encoded.

    decode(buffer, start of the body, its end) returns kio's message of the request; handle(context,
    node) is the entry point of the handler module; encode(response, correlation id) returns the
    whole frame. `decode` and `encode` raise ManyItems for messages that are too long for the event
    loop; `decode_long` and `encode_long`, for the codec thread, do not. `find_varying` locates
    VARYING_FIELD, the field in which otherwise identical requests may differ. `pipelined_max`
    limits how many requests are handled together (1 if the handler mutes the channel).
    """

    api: Api
    version: int
    decode: Decoder
    handle: Callable[[Any, Any], None]
    encode: FrameEncoder
    find_varying: FieldLocator = _find_no_varying_fields
    pipelined_max: int = PIPELINED_MAX

    def decode_long(self, buffer: bytes, start: int, end: int) -> Any:
        return request_decoder(self.api.key, self.version)(buffer, start, end)

    def encode_long(self, messages: Sequence[Any], correlation_ids: Sequence[int]) -> bytes:
        encode = response_encoder(self.api.key, self.version)
        return _encode_each(encode, messages, correlation_ids)


class Routes:
    """Routes of one profile. Schemas are loaded when a client uses them, not at startup."""

    def __init__(self, profile: Profile = BY_KEY) -> None:
        self._profile = profile
        self._routes: dict[tuple[int, int], Route] = {}
        self._bare_token: Route | None = None

    def find(self, key: int, version: int) -> Route:
        """Return the route. Raises ProtocolError if the profile does not serve the API, and
        UnsupportedVersion if it does not serve the version."""
        route = self._routes.get((key, version))
        return self._new_route(key, version) if route is None else route

    def _new_route(self, key: int, version: int) -> Route:
        # decode_request_header rejects APIs that no profile serves.
        api = self._profile.get(key)
        if api is None:
            raise ProtocolError(f"{BY_KEY[key].name} (key {key}) is not served in this profile")
        handler = import_module(f"...handlers.{api.handler}", __name__)
        if not api.serves(version):
            if key == API_VERSIONS:
                # Only ApiVersions responds to unsupported versions (KIP-511), in v0, which every
                # client can decode. The route is not cached, so that clients cannot grow the cache.
                encode = response_encoder(key, 0)
                return Route(api, 0, lambda *_: None, handler.handle_unsupported_version, encode)
            raise UnsupportedVersion(
                f"{api.name} (key {key}) is served in versions {api.min_version} to "
                f"{api.max_version} in this profile, not in version {version}"
            )
        varying: str | None = getattr(handler, "VARYING_FIELD", None)
        route = self._routes[key, version] = Route(
            api,
            version,
            request_decoder(key, version, inline=True),
            handler.handle,
            response_encoder(key, version, inline=True),
            request_field_locator(key, version, varying) if varying else _find_no_varying_fields,
            1 if hasattr(handler, "MUTES_CHANNEL") else PIPELINED_MAX,
        )
        return route

    @property
    def bare_token(self) -> Route:
        """The route of SASL tokens without headers, after SaslHandshake v0. An error closes the
        connection without a response."""
        if self._bare_token is None:
            route = self.find(SASL_AUTHENTICATE, 0)
            self._bare_token = replace(route, decode=_decode_token, encode=_encode_token)
        return self._bare_token


def _decode_token(buffer: bytes, start: int, end: int) -> Message:
    return Message(auth_bytes=buffer[start:end])


def _encode_token(response: Any, _correlation_id: int) -> bytes:
    if response.error_code is not ErrorCode.none:
        return b""
    token: bytes = response.auth_bytes
    return SIZE.pack(len(token)) + token


# --- contexts


class Channel(Protocol):
    """The interface of a connection used by RequestContext."""

    @property
    def client(self) -> ClientSession: ...

    @property
    def is_disconnected(self) -> bool: ...

    def response_ready(self, context: "RequestContext") -> None:
        """Called when the context has its response, which is sent after the responses to all
        earlier requests."""

    def mute(self, context: "RequestContext") -> None:
        """Hold back later requests of the connection until this one has its response."""

    def throttle(self, ms: int) -> None:
        """Hold back later requests of the connection for `ms` milliseconds of wall-clock time."""

    def close_after_responses(self, reason: str) -> None:
        """Send the responses of earlier requests, then close; later requests are dropped."""


class RequestMeter(Protocol):
    """The part of the client quota meter (security/metering.py) that handlers use."""

    @property
    def fetch_bytes_max(self) -> int:
        """The maximum number of bytes that a Fetch may return. A larger response would always cause
        throttling."""

    def is_over_quota(self, fetched_bytes: int) -> bool:
        """Record the size of a Fetch response. Return whether the client is throttled; if so, the
        response must contain no records."""

    def record_mutations(self, partitions: int, *, is_strict: bool) -> None:
        """Record that the request creates or deletes partitions. Raises ApiError if the client is
        over its quota and `is_strict`, that is, if the API version supports
        THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

    def allows_auto_creation(self, partitions: int) -> bool:
        """Return whether the client is within its quota, so that its Metadata request may create
        partitions; if so, record them. The request is not throttled."""


class Interceptor(Protocol):
    """Hooks between connections and handlers: request log, test harness."""

    def needs_decoded(self, route: Route) -> bool:
        """Whether requests of this route must currently be decoded. If not, the request cache
        recognizes repeated requests. In both cases, each request has its own context."""

    def handle(self, context: "RequestContext", node: Any) -> None:
        """Called instead of `context.route.handle(context, node)`, which it must call itself,
        immediately or later."""


class EncodedResponse(NamedTuple):
    """An encoded response frame without its correlation id, which goes between `size` and
    `rest`."""

    size: bytes
    rest: bytes
    rest_and_size: bytes  # `rest` of one frame and `size` of the next, for pipelined requests


class RequestContext:
    """A request and its position in the connection's response order. A context may represent
    several pipelined requests that differ only in their correlation ids and in varying numbers such
    as the offset of a commit.

    A handler may store derived data, such as the command, in `prepared`. On a cache hit, the new
    context gets the same `prepared` and the cached `request`, with the current values in `numbers`.

    `response` contains the encoded frames (b"" if no response is sent), or is None while pending.
    """

    def __init__(
        self,
        channel: Channel,
        route: Route,
        correlation_ids: Sequence[int],
        client_id: str | None,
        request: Any,
        prepared: Any = None,
        numbers: Sequence[Numbers] = (),
    ) -> None:
        self.channel = channel
        self.route = route
        self.version = route.version
        self.correlation_ids = correlation_ids
        self.client_id = client_id
        self.request = request
        self.prepared = prepared
        self.numbers = numbers
        self.size_bytes = 0
        """The size of a decoded request in bytes, without the four bytes of the length field."""
        # mypyc would ignore this default if it were set in the class.
        self.meter: RequestMeter | None = None
        """Measures the request if there are client quotas."""
        self.response: ResponseFrame | None = None
        self.is_long = False
        """Whether the request counts as a long request (protocol/budgets.py)."""
        self._on_disconnect: Callable[[], None] | None = None

    def __str__(self) -> str:
        client = "" if self.client_id is None else f" ({printable(self.client_id)})"
        return f"{self.route.api.name} v{self.version} from {self.client_host}{client}"

    @property
    def correlation_id(self) -> int:
        """The correlation id (of the first request, if there are several)."""
        return self.correlation_ids[0]

    @property
    def response_bytes(self) -> bytes:
        """The response in one piece, or b"" if there is none."""
        response = self.response or b""
        return b"".join(map(bytes, response)) if isinstance(response, list) else response

    @property
    def client(self) -> ClientSession:
        return self.channel.client

    @property
    def client_host(self) -> str:
        """The client's address as Kafka prints it, with a leading slash."""
        return self.channel.client.host

    @property
    def is_disconnected(self) -> bool:
        return self.channel.is_disconnected

    def respond(self, message: Any) -> None:
        """Respond with `message`, any object with the response's fields (kio's names). The
        message must not be changed afterwards."""
        self.respond_each([message] * len(self.correlation_ids))

    def respond_each(self, messages: Sequence[Any]) -> None:
        """Respond to several requests, each with a separate message."""
        try:
            self.response = _encode_each(self.route.encode, messages, self.correlation_ids)
        except ManyItems:
            encode = partial(self.route.encode_long, messages, self.correlation_ids)
            encoding = asyncio.get_running_loop().run_in_executor(codec_thread, encode)
            encoding.add_done_callback(self._encoded)
            return
        except EncodeError as error:
            # The error is not raised, because the caller often loops over responses to several
            # clients.
            self.close_connection(str(error))
            return
        self.channel.response_ready(self)

    def _encoded(self, encoding: "asyncio.Future[bytes]") -> None:
        if encoding.cancelled():
            return
        try:
            self.response = encoding.result()
        except EncodeError as error:
            self.close_connection(str(error))
            return
        self.channel.response_ready(self)

    def respond_in_buffers(self, message: Any, encode: BuffersEncoder) -> None:
        """Respond to one request with a large `message`, whose records are not copied."""
        try:
            self.response = encode(message, self.correlation_id)
        except EncodeError as error:
            self.close_connection(str(error))
            return
        self.channel.response_ready(self)

    def encode(self, message: Any) -> EncodedResponse:
        """Encode `message` for `respond_encoded` in any context of this route. Raises ManyItems and
        EncodeError."""
        frame = self.route.encode(message, 0)
        return EncodedResponse(frame[:4], frame[8:], frame[8:] + frame[:4])

    def respond_encoded(self, encoded: EncodedResponse) -> None:
        """Respond to every request of the context with a message that is already encoded."""
        size, rest, rest_and_size = encoded
        ids = self.correlation_ids
        if len(ids) == 1:
            self.response = size + _correlation_id(ids[0]) + rest
        else:
            self.response = size + rest_and_size.join(map(_correlation_id, ids)) + rest
        self.channel.response_ready(self)

    def complete_without_response(self) -> None:
        """Complete the request without a response (Produce with acks=0)."""
        self.response = b""
        self.channel.response_ready(self)

    def close_connection(self, reason: str) -> None:
        """Close the connection instead of responding, for example if the response would be too
        large. This is how a client that gets no response (acks=0) notices an error. Upstream:
        KafkaApis.sendNoOpResponseExemptThrottle, closeConnection."""
        self.channel.close_after_responses(reason)
        self.complete_without_response()

    @property
    def is_parked(self) -> bool:
        """Whether the request may wait for other clients, as JoinGroup and SyncGroup do."""
        return self.route.pipelined_max == 1 and self.response is None

    def mute_channel(self) -> None:
        """Mute the channel until this request has its response."""
        self.channel.mute(self)

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` if the connection is lost before the response has been sent. None
        removes the previous callback."""
        self._on_disconnect = callback

    def disconnected(self) -> None:
        """Called when the connection is lost before the response was sent."""
        if self._on_disconnect is not None:
            self._on_disconnect()


def _encode_each(
    encode: FrameEncoder, messages: Sequence[Any], correlation_ids: Sequence[int]
) -> bytes:
    """Encode responses. If an error message in a response is too long for a string, because it
    repeats text from the client, everything in the response gets UNKNOWN_SERVER_ERROR and no
    message, as in Kafka. Raises ManyItems and EncodeError."""
    try:
        return b"".join(map(encode, messages, correlation_ids))
    except ResponseTooLarge:
        raise
    except EncodeError:
        return b"".join(map(partial(_encode_or_fail, encode), messages, correlation_ids))


def _encode_or_fail(encode: FrameEncoder, message: Any, correlation_id: int) -> bytes:
    try:
        return encode(message, correlation_id)
    except ResponseTooLarge:
        raise
    except EncodeError as error:
        _log.warning("Responding with UNKNOWN_SERVER_ERROR: %s", shortened(str(error)))
        return encode(_failed_response(message), correlation_id)


def _failed_response(response: Any) -> Any:
    """Return the response, or a part of it, with UNKNOWN_SERVER_ERROR and without messages."""
    if isinstance(response, Message):
        fields = vars(response)
    elif hasattr(response, "_asdict"):  # a NamedTuple
        fields = response._asdict()
    elif isinstance(response, list | tuple):
        return [_failed_response(each) for each in response]
    else:
        return response
    changed = {name: _failed_response(value) for name, value in fields.items()}
    if "error_code" in fields:
        changed["error_code"] = ErrorCode.unknown_server_error
    if "error_message" in fields:
        changed["error_message"] = None
    return type(response)(**changed)


# --- long requests


def in_slices(
    steps_of: Callable[[RequestContext, Any], Iterator[Step]],
) -> Callable[[RequestContext, Any], None]:
    """Turn a generator function that yields after each step, like the tasks of log/tasks.py, into a
    handler. A short request is handled immediately. A long request mutes its channel, and other
    clients are served between slices of its steps."""

    @wraps(steps_of)
    def handle(context: RequestContext, node: Any) -> None:
        run_in_slices(context, node, steps_of(context, node))

    return handle


def run_in_slices(context: RequestContext, node: Any, steps: Iterator[Step]) -> None:
    """Run the steps of a request; see `in_slices`. If a step raises an unexpected exception, the
    request's connection is closed. The exception is not raised, because the caller may be another
    request that resumed this request."""
    end = 0.0
    try:
        for count, step in enumerate(steps, 1):
            scheduler = node.cluster.scheduler
            if count == 1:
                end = scheduler.seconds() + SLICE_SECONDS
            # A step that is not None needs a thread, or waits.
            if count == FIRST_STEPS_MAX or step is not None or scheduler.seconds() >= end:
                context.mute_channel()
                rest = cast("Generator[Step, None, None]", steps)
                scheduler.spawn(_rest(context, step, rest), name=context)
                return
    except Exception:
        _failed(context)


def _rest(
    context: RequestContext, step: Step, steps: Generator[Step, None, None]
) -> CooperativeTask[None]:
    try:
        while True:
            try:
                yield step
            except Exception as error:  # raised by a step in a thread
                step = steps.throw(error)
            else:
                step = next(steps)
    except StopIteration:
        return
    except Exception:
        _failed(context)


def _failed(context: RequestContext) -> None:
    # As after a bug in a short request, the client retries.
    _log.exception("Handling %s v%d failed", context.route.api.name, context.version)
    context.close_connection("a request failed")
