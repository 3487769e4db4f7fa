"""Sends the responses of connections, once per iteration of the event loop."""

from collections.abc import Callable
from typing import Protocol

from ..event_loop.watchdog import seconds
from .turns import Turns


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
