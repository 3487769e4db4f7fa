"""One client's connection: frames in, responses out in request order.

Requests are pipelined: a request that waits for a flush does not block the next one. A parked
request (join, sync, long poll) mutes the channel until it completes, as in Kafka's SocketServer.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

from ...log.errors import LogError
from ...log.segment import FileSlice
from ...printable import shortened
from ...protocol.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from ...protocol.budgets import Budgets, MemoryBudget
from ...protocol.errors import ManyItems, ProtocolError
from ...protocol.framing import FRAME_BYTES_MIN, Framer, decode_request_header, describe_request
from ...protocol.framing import api_key as api_key_of
from ..event_loop.timers import Timer
from ..event_loop.watchdog import SHORT_SECONDS, Watchdog, seconds
from ..security.metering import metered
from ..security.principal import ANONYMOUS
from ..security.quotas import ClientQuotas
from ..security.sasl import AuthenticationError, SaslAuthenticator
from ..security.session import ClientSession
from ..security.tls import ServerTls
from .outbox import Outbox, Turns
from .request import Interceptor, RequestContext, Routes, codec_thread
from .request_cache import CachedRequest, Frame, RequestCache

_log: Final = logging.getLogger("kohort.connection")

# Maximum number of requests in flight per connection. Further requests wait in the backlog, and
# then in the socket buffer. Clients have few requests in flight, whatever their limits are (the
# default of max.in.flight.requests.per.connection is 5 in Java and a million in librdkafka).
# Pipelined requests that are handled together count once.
IN_FLIGHT_MAX: Final = 4096
# A connection with more unsent response bytes than this waits for the next iteration of the event
# loop, because small requests can cause large responses (Fetch) and other clients must be served
# too.
UNSENT_BYTES_MAX: Final = 256 * 1024
# Number of bytes that are read from a file and written in one iteration of the event loop.
CHUNK_BYTES: Final = 1024 * 1024
# Receive buffer shared by all connections. asyncio.Protocol would allocate a buffer of this size
# per read, which costs more than handling the request. After a read that fills the buffer, a
# connection takes turns with other such connections, because libuv would read more from each of
# them before it serves the next client. A TLS connection continues to read: if the client
# disconnects while reading is paused, uvloop drops what it has received, for example Produce with
# acks=0.
RECEIVE_BYTES_MAX: Final = 256 * 1024


class Connection(asyncio.BufferedProtocol):
    """A client's connection. It calls `opened` and `closed` with itself.

    All connections of an event loop share the receive buffer `inbox`, because no other connection
    runs between `get_buffer` and `buffer_updated`.

    Back-pressure: reading is paused while received frames wait in the backlog, while the
    transport's write buffer is full, and, after a large read, until the connection's next turn.
    Meanwhile, the socket buffers received data.
    """

    def __init__(
        self,
        *,
        node: Any,
        client: ClientSession,
        routes: Routes,
        inbox: memoryview,
        outbox: Outbox,
        turns: Turns,
        frame_bytes_max: int,
        budgets: "Budgets[Connection]",
        quotas: ClientQuotas,
        watchdog: Watchdog,
        opened: Callable[["Connection"], None],
        closed: Callable[["Connection"], None],
        tls: ServerTls | None = None,
        cache: RequestCache | None = None,
        interceptor: Interceptor | None = None,
    ) -> None:
        self._node, self._routes, self._quotas = node, routes, quotas
        self._inbox, self._outbox, self._turns = inbox, outbox, turns
        # A SASL token without a header can be empty.
        self._framer = Framer(frame_bytes_max, FRAME_BYTES_MIN if client.sasl is None else 0)
        self._budgets, self._watchdog = budgets, watchdog
        self._held_bytes = 0  # charged to the request budget
        self._undecoded: Frame | None = None  # the body of a long request that is not decoded yet
        self._cache, self._interceptor = cache, interceptor
        self._opened, self._closed = opened, closed
        self._transport: asyncio.Transport | None = None
        self.client, self._tls = client, tls
        self.is_disconnected = False
        # For the test harness: called once the connection is lost.
        self.on_lost: list[Callable[[], None]] = []
        # Requests whose responses have not been sent, in order.
        self._pending: deque[RequestContext] = deque()
        # The unsent part of a large response, and how many bytes of its first buffer were written.
        self._stream: deque[bytes | FileSlice] = deque()
        self._stream_position = self._unsent_bytes = 0
        # Whether `write_stream`, `send` (perhaps in the current call) and `_resume` will be called.
        self._will_stream = self._will_send = self._will_resume = False
        # What mutes the channel: a request, or the timer `_throttled`.
        self._muted_by: RequestContext | Timer | None = None
        self._throttled: Timer | None = None
        # Received frames that wait while the channel is muted or `_handle_frames` has stopped.
        self._backlog: deque[Frame] = deque()
        self._is_reading_paused = self._is_writing_paused = False
        self._error: ProtocolError | None = None  # closes the connection after pending responses
        # Whether later frames are ignored; whether EOF arrived before all responses were sent.
        self._drops_frames = self._is_half_closed = False
        self.last_active = seconds()  # when data was last received or sent

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        if peer:
            self.client.host, self.client.port = f"/{peer[0]}", peer[1]
        self._opened(self)
        client = self.client
        if self._tls is not None and client.sasl is None and client.principal is ANONYMOUS:
            self._authenticate_by_certificate(self._tls, transport)

    def _authenticate_by_certificate(
        self, tls: ServerTls, transport: asyncio.BaseTransport
    ) -> None:
        try:
            self.client.principal = tls.principal(transport.get_extra_info("ssl_object"))
        except ValueError as error:
            _log.info("Failed authentication with %s: %s", self.client.host, shortened(str(error)))
            self.client.on_failed(self.client, shortened(str(error)))
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_disconnected = True
        self._transport = None
        if self._throttled is not None:
            self._throttled.cancel()
        pending, self._pending = self._pending, deque()
        self._backlog.clear()
        self._undecoded = None
        self._framer.clear()  # now, because this object may live until the next garbage collection
        self._stream.clear()
        self._budgets.requests.hold(self, 0)
        self._budgets.responses.hold(self, 0)
        for context in pending:
            context.disconnected()
        if self.client.telemetry_instance is not None:
            self._node.telemetry.remove(self.client.telemetry_instance)
        self._closed(self)
        for callback in self.on_lost:
            callback()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._inbox

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(self._inbox[:nbytes])
        if nbytes == len(self._inbox) and self._tls is None and not self._will_resume:
            # If many clients send large requests at once, completing them one by one keeps parts of
            # the others out of memory.
            continues_frame = self._framer.partial_bytes > nbytes
            self._wait_for_turn(first=continues_frame and self._budgets.requests.is_scarce)

    def data_received(self, data: bytes | memoryview) -> None:
        if self._error is not None:
            return
        begin = self.last_active = seconds()
        frames: list[Frame] = []
        # Responses that are ready at the end of this call are sent in one write.
        self._will_send = True
        try:
            frames = self._framer.feed(data)
            if self._muted_by is None and not self._backlog and not self._stream:
                self._handle_frames(frames)
            else:
                self._backlog.extend(frames)
        except ProtocolError as error:
            self._close_because(error)
        if self._framer.error is not None:
            self._close_because(self._framer.error)
        self.send()
        if self._framer.partial_bytes or self._backlog or self._undecoded or self._held_bytes:
            self._charge_requests()
        self._report_duration(begin, frames)

    def eof_received(self) -> bool:
        """After a half-close, the client can still read, so pending requests get their responses.
        TLS has no half-closed connections."""
        if self._tls is not None:
            return False
        if not self._pending and not self._backlog and not self._stream:
            return False
        self._is_half_closed = True
        return True

    def pause_writing(self) -> None:
        self._is_writing_paused = True
        self._charge_responses()
        self._control_flow()

    def resume_writing(self) -> None:
        self._is_writing_paused = False
        self._charge_responses()
        self._stream_soon()
        self._control_flow()

    def _report_duration(self, begin: float, frames: list[Frame]) -> None:
        duration = seconds() - begin
        if duration < SHORT_SECONDS:
            self._watchdog.short += 1
        else:
            self._watchdog.ended(duration, lambda: self._describe(frames))

    def _describe(self, frames: list[Frame]) -> str:
        """Describe the frames for the log: the name of each requested API, once, and the client's
        host."""
        names = dict.fromkeys(describe_request(*frame) for frame in frames)
        return f"{', '.join(names) or 'a part of a request'} from {self.client.host}"

    # --- called by the server and the test harness

    def wrap_transport(self, wrap: Callable[[asyncio.Transport], asyncio.Transport]) -> None:
        """For the test harness: wrap the transport for all further writes."""
        if self._transport is not None:
            self._transport = wrap(self._transport)

    def close(self) -> None:
        """Close the connection after all written data has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- memory

    def _charge_requests(self) -> None:
        frames = self._backlog if self._undecoded is None else (self._undecoded, *self._backlog)
        size = self._framer.partial_bytes + sum(end - start for _, start, end in frames)
        self._held_bytes = size
        self._budgets.requests.hold(self, size)
        self._check(self._budgets.requests, "requests", "queued.max.request.bytes")

    def _charge_responses(self) -> None:
        """Charge the bytes that wait for the client, whether in the transport or the stream.
        Buffers in files do not count."""
        size = sum(len(each) for each in self._stream if isinstance(each, bytes))
        if self._is_writing_paused and self._transport is not None:
            size += self._transport.get_write_buffer_size()
        self._budgets.responses.hold(self, size)
        self._check(self._budgets.responses, "responses", "the limit")

    def _check(self, budget: "MemoryBudget[Connection]", what: str, limit: str) -> None:
        while (connection := budget.excess()) is not None:
            _log.warning(
                "Closing the connection from %s: %d bytes of %s are in memory across all "
                "connections, more than %s (%d), and this connection has been idle the longest",
                *(connection.client.host, budget.total, what, limit, budget.bytes_max),
            )
            budget.hold(connection, 0)
            connection.abort()

    # --- requests

    def _handle_frames(self, frames: list[Frame]) -> None:
        """Handle frames in order, and queue frames that must wait."""
        if self.client.sasl is not None:
            frames = self._authenticate(self.client.sasl, frames)
        cache, interceptor = self._cache, self._interceptor
        index, count = 0, len(frames)
        end = seconds() + self._turns.share_seconds
        while index < count:
            if cache is None:
                hit = None
            elif interceptor is None:
                hit = cache.get(frames, index)
            else:  # the interceptor is called for each pipelined request
                hit = cache.get(frames[index : index + 1], 0)
            if hit is None or (interceptor is not None and interceptor.needs_decoded(hit[0].route)):
                self._handle_frame(*frames[index])
                index += 1
            else:
                (route, client_id, request, prepared), ids, numbers = hit
                self._handle(
                    RequestContext(self, route, ids, client_id, request, prepared, numbers)
                )
                index += len(ids)
            if self._drops_frames or index == count:
                return
            if (
                self._muted_by is not None
                or self._is_writing_paused
                or self._unsent_bytes >= UNSENT_BYTES_MAX
                or len(self._pending) >= IN_FLIGHT_MAX
            ):
                self._backlog.extend(frames[index:])
                return
            if seconds() >= end:
                self._backlog.extend(frames[index:])
                self._wait_for_turn()
                return

    def _authenticate(self, sasl: SaslAuthenticator, frames: list[Frame]) -> list[Frame]:
        """Handle frames one after the other until the client has authenticated and no frame is a
        SaslHandshake. Return the remaining frames, which need no authentication."""
        keys = [api_key_of(*frame) for frame in frames]
        for index, frame in enumerate(frames):
            if self._drops_frames:
                return []
            if self._muted_by is not None:
                self._backlog.extend(frames[index:])
                return []
            if sasl.is_complete:
                if not sasl.session_expires:
                    self.client.sasl = None
                    return frames[index:]
                sasl.admit(keys[index])  # a SaslHandshake may begin a re-authentication
                if sasl.is_complete:
                    if SASL_HANDSHAKE not in keys:
                        return frames[index:]
                    self._handle_frame(*frame)
                    continue
            self._handle_sasl_frame(sasl, *frame)
        if not sasl.is_complete:
            self._check_size(sasl, self._framer.partial_frame_bytes)
        return []

    def _check_size(self, sasl: SaslAuthenticator, size: int) -> None:
        if size > sasl.listener.receive_bytes_max:
            raise sasl.failure("Failing SASL authentication due to invalid receive size")

    def _handle_sasl_frame(
        self, sasl: SaslAuthenticator, buffer: bytes, start: int, end: int
    ) -> None:
        self._check_size(sasl, end - start)
        if sasl.expects_bare_token:
            sasl.admit(SASL_AUTHENTICATE)
            route = self._routes.bare_token
            context = RequestContext(self, route, (0,), None, route.decode(buffer, start, end))
            self._pending.append(context)
            # Interceptors can handle only requests with headers.
            route.handle(context, self._node)
        else:
            key, version, correlation_id, client_id, body = decode_request_header(
                buffer, start, end
            )
            self.client.client_id = client_id
            sasl.admit(key)
            route = self._routes.find(key, version)
            request = route.decode(buffer, body, end)
            context = RequestContext(self, route, (correlation_id,), client_id, request)
            self._handle(context)
        # The next frame depends on the response, which an interceptor may delay.
        self.mute(context)

    def _handle_frame(self, buffer: bytes, start: int, end: int) -> None:
        """Decode and handle a request on a cache miss."""
        key, version, correlation_id, client_id, body = decode_request_header(buffer, start, end)
        route = self._routes.find(key, version)
        try:
            request = route.decode(buffer, body, end)
        except ManyItems:
            context = RequestContext(self, route, (correlation_id,), client_id, None)
            context.size_bytes = end - start
            self._pending.append(context)
            self._muted_by = context
            self._undecoded = buffer, body, end
            self._budgets.long_requests.begin(partial(self._decode, context))
            return
        context = RequestContext(self, route, (correlation_id,), client_id, request)
        context.size_bytes = end - start
        self._handle(context)
        cache, prepared = self._cache, context.prepared
        if cache is None or prepared is None:
            return
        if self._interceptor is None or not self._interceptor.needs_decoded(route):
            entry = CachedRequest(route, client_id, request, prepared)
            cache.put(entry, buffer, start, body, end)

    def _decode(self, context: RequestContext) -> None:
        """Decode a long request in a thread."""
        context.is_long = True
        if self._undecoded is None:  # the connection was lost
            self.end_long(context)
            return
        decoding = asyncio.get_running_loop().run_in_executor(
            codec_thread, context.route.decode_long, *self._undecoded
        )
        decoding.add_done_callback(partial(self._decoded, context))

    def end_long(self, context: RequestContext) -> None:
        """If the request is long and has not ended yet, end it, so that another long request can
        begin."""
        if context.is_long:
            context.is_long = False
            self._budgets.long_requests.end()

    def _decoded(self, context: RequestContext, decoding: "asyncio.Future[Any]") -> None:
        """Handle a long request that has been decoded in a thread."""
        if self._transport is None or decoding.cancelled():
            self.end_long(context)
            return
        begin = seconds()
        self._muted_by = self._throttled
        self._undecoded = None
        self._charge_requests()
        self._pending.pop()  # the last request, because the channel was muted
        try:
            context.request = decoding.result()
        except ProtocolError as error:
            self.end_long(context)
            self._backlog.clear()
            self._close_because(error)
        else:
            self._handle(context)
            if context.is_parked or self._drops_frames:
                self.end_long(context)
        self.send()
        self._watchdog.ended(seconds() - begin, context.__str__)

    def _handle(self, context: RequestContext) -> None:
        if self._quotas.is_active:
            context.route = metered(context.route)
        route, interceptor = context.route, self._interceptor
        self._pending.append(context)
        try:
            if interceptor is None:
                route.handle(context, self._node)
            else:
                interceptor.handle(context, self._node)
        except Exception:
            # This is a bug in the broker. The connection is dropped, so that the client retries.
            _log.exception("Handling %s v%d failed", route.api.name, route.version)
            self._drops_frames = True
            self.abort()

    def _close_because(self, error: ProtocolError) -> None:
        """Close after the pending responses, without an error response, as in Kafka. (After an
        invalid size, the rest of the stream cannot be parsed.)"""
        if self._error is not None:
            return
        self._error = error
        sasl, host, reason = self.client.sasl, self.client.host, shortened(str(error))
        if sasl is not None and sasl.has_failed:
            # Kafka's wording.
            _log.info("Failed %s with %s (%s)", sasl.what, host, reason)
        else:
            _log.warning("Closing the connection from %s: %s", host, reason)
        self.client.on_failed(self.client, reason)

    # --- responses: the methods of Channel, then sending

    def response_ready(self, context: RequestContext) -> None:
        response = context.response
        assert response is not None
        if context.is_long:
            self.end_long(context)
        self._unsent_bytes += (
            len(response) if isinstance(response, bytes) else sum(map(len, response))
        )
        if self._muted_by is context:
            self._muted_by = self._throttled
            if self._backlog:
                self._control_flow()
        if not self._will_send and self._pending and self._pending[0].response is not None:
            self._will_send = True
            self._outbox.add(self)

    def mute(self, context: RequestContext) -> None:
        if context.response is None:
            self._muted_by = context

    def throttle(self, ms: int) -> None:
        """Mute the channel for `ms` milliseconds. If several pipelined requests are throttled, the
        longest time applies."""
        timers = self._node.client_timers
        end_ms = timers.now_ms() + ms
        if self._transport is None or (self._throttled and self._throttled.deadline_ms >= end_ms):
            return
        if self._throttled is not None:
            self._throttled.cancel()
        before, self._throttled = self._throttled, timers.call_at(end_ms, self._throttle_ended)
        if self._muted_by is before:
            self._muted_by = self._throttled

    def _throttle_ended(self) -> None:
        if self._muted_by is self._throttled:
            self._muted_by = None
        self._throttled = None
        self._control_flow()

    def close_after_responses(self, reason: str) -> None:
        self._drops_frames = True
        self._backlog.clear()
        self._close_because(ProtocolError(reason))

    def send(self) -> None:
        """Write all responses that are ready, up to the first pending one. Called by the outbox."""
        self._will_send = False
        pending = self._pending
        frames: list[bytes] = []
        in_buffers = False
        while pending and not self._stream:
            response = pending[0].response
            if response is None:
                break
            if isinstance(response, bytes):
                frames.append(response)
            else:
                frames += self._begin_stream(response)
                in_buffers = True
            pending.popleft()
        if frames:
            if self._transport is not None:
                if in_buffers:
                    self._transport.writelines(frames)
                else:
                    self._transport.write(frames[0] if len(frames) == 1 else b"".join(frames))
                if self._is_writing_paused:
                    self._charge_responses()
            self._unsent_bytes = 0
            self._stream_soon()
        if self._error is not None or self._is_half_closed:
            self._close_if_done()
        # Nearly always false.
        if self._backlog or self._is_reading_paused:
            self._control_flow()

    def _close_if_done(self) -> None:
        if self._pending or self._backlog or self._stream:
            return
        if isinstance(self._error, AuthenticationError):
            timers = self._node.client_timers
            timers.call_at(timers.now_ms() + self._error.close_delay_ms, self.close)
        else:
            self.close()

    def _begin_stream(self, response: list[bytes | FileSlice]) -> list[bytes]:
        """Return the buffers before the first one that is in a file; the others become the
        stream."""
        first: list[bytes] = []
        for buffer in response:
            if self._stream or not isinstance(buffer, bytes):
                self._stream.append(buffer)
            else:
                first.append(buffer)
        return first

    def _stream_soon(self) -> None:
        if self._stream and not self._will_stream and not self._is_writing_paused:
            self._will_stream = True
            self._outbox.add_stream(self)

    def write_stream(self) -> None:
        """Write the next part of a large response, at its client's pace. Called by the outbox."""
        self._will_stream = False
        self.last_active = seconds()
        transport, written = self._transport, 0
        while self._stream and transport is not None and not self._is_writing_paused:
            if written >= CHUNK_BYTES:
                self._stream_soon()
                return
            buffer, position = self._stream[0], self._stream_position
            try:
                chunk = buffer if isinstance(buffer, bytes) else buffer.read(position, CHUNK_BYTES)
            except (OSError, LogError) as error:
                # Part of the response has been written, so an error response is no longer possible.
                _log.error("Closing the connection from %s: %s", self.client.host, error)
                self.abort()
                return
            transport.write(chunk)
            written += len(chunk)
            self._stream_position += len(chunk)
            if self._stream_position >= len(buffer):
                self._stream.popleft()
                self._stream_position = 0
        if not self._stream:
            self._charge_responses()
            self.send()

    # --- flow control

    def _control_flow(self) -> None:
        """Schedule processing of the backlog unless something blocks it. Pause reading while the
        backlog is not empty, writing is paused, or the connection waits for its turn."""
        if self._transport is None:
            return
        if (
            self._backlog
            and self._muted_by is None
            and not self._is_writing_paused
            and not self._stream
            and len(self._pending) < IN_FLIGHT_MAX
            and not self._will_resume
        ):
            self._will_resume = True
            self._turns.call_soon(self._resume)
        pause = bool(self._backlog) or self._is_writing_paused or self._will_resume
        if pause != self._is_reading_paused:
            self._is_reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _wait_for_turn(self, *, first: bool = False) -> None:
        """Read and handle requests again in the connection's next turn."""
        self._will_resume = True
        self._control_flow()
        self._turns.wait(self._resume, first=first)

    def _resume(self) -> None:
        """Process the backlog. Send responses first, because this may reveal that the client has
        disconnected, and its joins must then not add members."""
        self.send()
        self._will_resume = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if self._muted_by is not None or self._is_writing_paused or self._stream:
            self._control_flow()
            return
        begin = self.last_active = seconds()
        self._will_send = True
        frames = list(self._backlog)
        self._backlog.clear()
        try:
            self._handle_frames(frames)
        except ProtocolError as error:
            self._close_because(error)
        self.send()
        if self._held_bytes:
            self._charge_requests()
        self._report_duration(begin, frames)
