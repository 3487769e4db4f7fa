"""Schedules connections on the event loop. All connections send their responses once per iteration,
and busy connections take turns."""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ..event_loop.watchdog import seconds

# Maximum time that connections may take in one iteration of the event loop. A read can contain
# thousands of small requests that take a millisecond each. Ordinary pipelined requests take less.
TURN_SECONDS: Final = 0.01


class Turns:
    """Calls the waiting callbacks in order, one per iteration of the event loop. `turn_seconds`
    limits how long requests are handled in one iteration; the remaining requests wait for the next
    turn of their connection."""

    def __init__(
        self,
        call_soon: Callable[[Callable[[], None]], object],
        turn_seconds: float = TURN_SECONDS,
    ) -> None:
        self.call_soon = call_soon
        self._turn_seconds = turn_seconds
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def share_seconds(self) -> float:
        """How long a connection's requests may take now; less if other connections wait."""
        return self._turn_seconds / (1 + len(self._waiting))

    def wait(self, callback: Callable[[], None], *, first: bool = False) -> None:
        """Call `callback` in its turn, or, if `first`, before all waiting callbacks."""
        if not self._waiting:
            self.call_soon(self._next)
        if first:
            self._waiting.appendleft(callback)
        else:
            self._waiting.append(callback)

    def _next(self) -> None:
        callback = self._waiting.popleft()
        if self._waiting:
            self.call_soon(self._next)
        callback()


class Sender(Protocol):
    """The part of a connection that sends."""

    last_active: float

    def send(self) -> None: ...
    def write_stream(self) -> None: ...


class Outbox:
    """Connections with responses that are ready to be sent. Each iteration of the event loop sends
    all ready responses, but only one part of a large response."""

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._connections: list[Sender] = []
        self._streaming = Turns(call_soon)

    def add(self, connection: Sender) -> None:
        if not self._connections:
            self._call_soon(self.send)
        self._connections.append(connection)

    def send(self) -> None:
        connections, self._connections = self._connections, []
        now = seconds()
        for connection in connections:
            connection.last_active = now
            connection.send()

    def add_stream(self, connection: Sender) -> None:
        self._streaming.wait(connection.write_stream)
