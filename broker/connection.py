"""One client's connection: frames in, answers out in the order of the requests.

A request that waits for a flush does not hold back the next one: its answer queues behind it. A
parked one (a join, a sync, a long poll) does hold back what its client sent after it, as Kafka
does by muting the channel (SocketServer).
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from ..protocol.errors import ProtocolError
from ..protocol.framing import Framer
from ..protocol.headers import read_request_header
from .request import RequestContext
from .request_cache import CachedRequest, Frame, Numbers, RequestCache
from .routes import Route, Routes

_log: Final = logging.getLogger("kohort.connection")

# Requests of one connection whose answers are outstanding; more are left in the socket. Clients
# keep at most a few (Java's max.in.flight.requests.per.connection is 5, librdkafka's a million).
# What is asked together (shapes.py) counts once.
CALLS_IN_FLIGHT_MAX: Final = 4096
# A client whose answers come to this much in one turn of the loop has had its turn: a few bytes can
# ask for gigabytes (Fetch), and the others want to be served too.
TURN_BYTES_MAX: Final = 256 * 1024
# What one reading of a socket may bring. asyncio.Protocol would allocate as much for each reading,
# and give nearly all of it back: more work than the request itself.
RECEIVE_BYTES_MAX: Final = 256 * 1024
# How long a client that has shut down its sending side is waited for, as a silent one by Kafka
# (connections.max.idle.ms).
HALF_CLOSED_SECONDS_MAX: Final = 600


class Outbox:
    """The connections that have answers to send; one turn of the loop sends them all."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._waiting: list[Connection] = []

    def add(self, connection: "Connection") -> None:
        if not self._waiting:
            self._call_soon(self.send)
        self._waiting.append(connection)

    def send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.send()


class Connection(asyncio.BufferedProtocol):
    """`opened` and `closed` tell the server which connections there are. All connections of a loop
    receive into `inbox`: from the reading of a socket to `buffer_updated` no other has a turn."""

    def __init__(
        self,
        *,
        node: Any,
        routes: Routes,
        inbox: memoryview,
        outbox: Outbox,
        frame_bytes_max: int,
        opened: Callable[["Connection"], None],
        closed: Callable[["Connection"], None],
    ) -> None:
        self._node = node
        self._routes = routes
        self._inbox = inbox
        self._outbox = outbox
        self._framer = Framer(frame_bytes_max)
        self._shapes = RequestCache()
        self._opened = opened
        self._closed = closed
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self.client_host = ""
        self.client_software: str | None = None
        self.is_gone = False
        # For who steers a broker in a test: called once the connection is lost.
        self.when_lost: list[Callable[[], None]] = []
        # Answers in the order of requests.
        self._calls: deque[RequestContext] = deque()
        # Somebody will send what is answered by then: this pass, or the outbox.
        self._is_sending = False
        # Whom the client's next requests wait for, and those requests.
        self._held: RequestContext | None = None
        self._backlog: deque[Frame] = deque()
        self._is_resuming = False
        self._is_reading = True
        self._is_choked = False
        self._unsent_bytes = 0
        # How it ends: a bad frame, a request that ends it, the client's last word.
        self._error: ProtocolError | None = None
        self._is_ended = False
        self._half_closed: asyncio.TimerHandle | None = None

    # --- the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client_host = f"/{peer[0]}" if peer else "/unknown"
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.is_gone = True
        self._transport = None
        if self._half_closed is not None:
            self._half_closed.cancel()
        calls, self._calls = self._calls, deque()
        self._backlog.clear()
        for call in calls:
            if call.when_gone is not None:
                call.when_gone()
        self._closed(self)
        for told in self.when_lost:
            told()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        return self._inbox

    def buffer_updated(self, nbytes: int) -> None:
        self.received(self._inbox[:nbytes])

    def received(self, data: bytes | memoryview) -> None:
        if self._error is not None:
            return
        # Answers that are known by the end of this pass go out in one write.
        self._is_sending = True
        try:
            frames = self._framer.feed(data)
            if self._held is None and not self._backlog:
                self._take(frames)
            else:
                self._backlog.extend(frames)
        except ProtocolError as error:
            self._refuse(error)
        if self._framer.error is not None:
            self._refuse(self._framer.error)
        self.send()

    def eof_received(self) -> bool:
        """A client that sends no more may still read: what it asked for is answered first."""
        if not self._calls and not self._backlog:
            return False
        if self._half_closed is None:
            self._half_closed = self._loop.call_later(HALF_CLOSED_SECONDS_MAX, self.abort)
        return True

    def pause_writing(self) -> None:
        self._is_choked = True
        self._regulate()

    def resume_writing(self) -> None:
        self._is_choked = False
        self._regulate()

    def write_through(self, wrap: Callable[[asyncio.Transport], asyncio.Transport]) -> None:
        """For who steers a broker in a test: from now on it writes to what this makes of its
        transport."""
        if self._transport is not None:
            self._transport = wrap(self._transport)

    def close(self) -> None:
        """Close once what has been written is out."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- requests

    def _take(self, frames: list[Frame]) -> None:
        """Handle `frames` in their order; what must wait goes to the backlog."""
        recall = self._shapes.recall
        taken, count = 0, len(frames)
        while taken < count:
            seen = recall(frames, taken)
            if seen is None:
                self._take_new(*frames[taken])
                taken += 1
            else:
                shape, correlation_ids, changes = seen
                self._take_known(shape, correlation_ids, changes)
                taken += len(correlation_ids)
            if self._is_ended or taken == count:
                return
            if (
                self._held is not None
                or self._is_choked
                or self._unsent_bytes >= TURN_BYTES_MAX
                or len(self._calls) >= CALLS_IN_FLIGHT_MAX
            ):
                self._backlog.extend(frames[taken:])
                return

    def _take_new(self, buffer: bytes, start: int, end: int) -> None:
        key, version, correlation_id, client_id, body = read_request_header(buffer, start, end)
        route = self._routes[key, version]
        request = route.read(buffer, body, end)
        call = RequestContext(self, route, (correlation_id,), client_id, request)
        self._calls.append(call)
        try:
            learnt = route.handle(call, self._node)
            if learnt is not None:
                shape = CachedRequest(route, client_id, request, learnt)
                self._shapes.learn(shape, buffer, start, body, end)
        except Exception:
            self._fail(route)

    def _take_known(
        self, shape: CachedRequest, correlation_ids: Numbers, changes: Sequence[Numbers]
    ) -> None:
        route, client_id, request, again = shape
        call = RequestContext(self, route, correlation_ids, client_id, request)
        self._calls.append(call)
        try:
            again(call, self._node, changes)
        except Exception:
            self._fail(route)

    def _fail(self, route: Route) -> None:
        """Our fault, not the client's. It learns so by the connection's end, and retries."""
        _log.exception("Handling %s v%d failed", route.api.name, route.version)
        self._is_ended = True
        self.abort()

    def end(self, reason: str) -> None:
        self._is_ended = True
        self._refuse(ProtocolError(reason))

    def _refuse(self, error: ProtocolError) -> None:
        """Answer what came before, then close: what follows cannot be told apart from garbage.

        Kafka does the same, and so says nothing to the client itself.
        """
        if self._error is None:
            _log.warning("Closing the connection from %s: %s", self.client_host, error)
            self._error = error

    # --- answers (the handlers' side, through Call)

    def answered(self, call: RequestContext) -> None:
        answer = call.answer
        assert answer is not None
        self._unsent_bytes += len(answer) if isinstance(answer, bytes) else sum(map(len, answer))
        if self._held is call:
            self._held = None
            if self._backlog:
                self._regulate()
        if not self._is_sending and self._calls and self._calls[0].answer is not None:
            self._is_sending = True
            self._outbox.add(self)

    def hold(self, call: RequestContext) -> None:
        if call.answer is None:
            self._held = call

    def send(self) -> None:
        """Write what is answered (the outbox calls)."""
        self._is_sending = False
        calls = self._calls
        answers: list[bytes] = []
        in_pieces = False
        while calls:
            answer = calls[0].answer
            if answer is None:
                break
            if isinstance(answer, bytes):
                answers.append(answer)
            else:
                answers += answer
                in_pieces = True
            calls.popleft()
        if answers:
            if self._transport is not None:
                if in_pieces:
                    self._transport.writelines(answers)
                else:
                    self._transport.write(answers[0] if len(answers) == 1 else b"".join(answers))
            self._unsent_bytes = 0
        if self._error is not None or self._half_closed is not None:
            self._close_when_answered()
        # Nearly always there is nothing to regulate.
        if self._backlog or not self._is_reading:
            self._regulate()

    def _close_when_answered(self) -> None:
        if not self._calls and not self._backlog:
            self.close()

    def _go_on(self) -> None:
        """Take up what had to wait, unless sending the answers before it shows that the client is
        gone: who joined now would be a ghost."""
        self.send()
        self._is_resuming = False
        transport = self._transport
        if transport is None or transport.is_closing() or self._held is not None or self._is_choked:
            return
        self._is_sending = True
        frames = list(self._backlog)
        self._backlog.clear()
        try:
            self._take(frames)
        except ProtocolError as error:
            self._refuse(error)
        self.send()

    def _regulate(self) -> None:
        """Read on only while what has been read finds room: the socket is the buffer."""
        if self._transport is None:
            return
        if (
            self._backlog
            and self._held is None
            and not self._is_choked
            and len(self._calls) < CALLS_IN_FLIGHT_MAX
            and not self._is_resuming
        ):
            self._is_resuming = True
            self._loop.call_soon(self._go_on)
        room = not self._backlog and not self._is_choked
        if room != self._is_reading:
            self._is_reading = room
            if room:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()
