"""Between the socket and the handlers: every request passes here, and so does its answer.

What is not asked for costs nothing: only a broker of the harness is made with these routes.
"""

import logging
from collections.abc import Callable
from itertools import count
from typing import Any, Self, cast
from uuid import UUID

from ..broker.cluster import Node
from ..broker.connection import Connection
from ..broker.request import RequestContext, Route
from ..topics.registry import Topics
from .asked import Asked
from .spelled_out import FETCH, spelled_out

_log = logging.getLogger("kohort.testing")


class Passage:
    """A request on its way in, and its answer on its way out. The call takes it for its connection
    (broker/request.py's Channel)."""

    def __init__(
        self,
        asked: Asked,
        call: RequestContext,
        node: Node,
        steering: "Steering",
        is_over: Callable[[], bool],
    ) -> None:
        self.asked = asked
        self.call = call
        self.node = node
        self.connection = cast("Connection", call.channel)
        self.client_host = call.client_host
        self.on_answer: Callable[[], None] | None = None
        """Called once the answer is there, which is then kept back until `deliver`."""
        self._steering = steering
        self._seen_by: list[Keeper] = []
        self._is_over = is_over

    # --- for who steers

    def keep(self) -> None:
        """The request is not handled before `go_on`; what its client sends after it waits."""
        self.connection.mute(self.call)

    def go_on(self) -> None:
        """Handle it, unless somebody who has not seen it yet keeps it. Nothing happens for a client
        that has gone meanwhile."""
        if self.is_disconnected:
            return
        for keeper in list(self._steering.keepers):
            if keeper not in self._seen_by:
                self._seen_by.append(keeper)
                if keeper(self):
                    return
        self.handle()

    def handle(self) -> None:
        """Handle it, whether or not anybody is there to be answered; not by a broker that has
        died."""
        if self._is_over():
            return
        self._steering.handled = self.asked
        try:
            self.call.route.handle(self.call, self.node)
        except Exception:
            _log.exception("Handling %s failed", self.asked)
            self.cut()
        finally:
            self._steering.handled = None

    def reply(self, message: Any) -> None:
        """Answer with this, whatever was answered before."""
        self.on_answer = None
        self.call.respond(message)

    def deliver(self, answer: bytes | None = None) -> None:
        """Let the answer go out, or these bytes instead of it."""
        self.call.response = self.asked.answer if answer is None else answer
        self.connection.response_ready(self.call)

    def cut(self) -> None:
        """Break the connection, at once."""
        self.connection.abort()

    def later(self, ms: int, what: Callable[[], None]) -> None:
        """Call it after so many milliseconds of wall time."""
        self.node.client_timers.call_at(self.node.client_timers.now_ms() + ms, what)

    # --- what the call sees of its connection

    @property
    def client_software(self) -> str | None:
        return self.connection.client_software

    @client_software.setter
    def client_software(self, software: str | None) -> None:
        self.connection.client_software = software

    @property
    def is_disconnected(self) -> bool:
        return self.connection.is_disconnected

    def response_ready(self, call: RequestContext) -> None:
        if self._is_over():
            return  # Nothing comes from the dead.
        frame = self.asked.answer = call.response_bytes
        self.asked.answered_ms = self.node.clock.now_ms()
        if self.on_answer is None:
            self.connection.response_ready(call)
        else:
            # Kept back: whatever else its connection sends must not take it along.
            call.response = None
            self.connection.mute(call)
            self.on_answer()
        # `reply` may have put another in its place, of which has been told.
        if self.asked.answer is frame:
            self._steering.told(self.asked)

    def mute(self, call: RequestContext) -> None:
        self.connection.mute(call)

    def close_after_responses(self, reason: str) -> None:
        self.connection.close_after_responses(reason)


Told = Callable[[Asked], None]
Keeper = Callable[[Passage], bool]
"""Looks at a request before it is handled; true: it keeps it, and sees to what becomes of it."""


class Steering:
    """`told` hears of each request when it has arrived, and again when it is answered."""

    def __init__(self, told: Told) -> None:
        self.keepers: list[Keeper] = []
        self.told = told
        self.handled: Asked | None = None
        """What is being handled just now: what is heard meanwhile is decided for it."""
        self._count = 0
        self._connections: dict[Connection, int] = {}
        self._numbers = count(1)
        self._names = _Names()

    def open_connections(self) -> set[int]:
        """Numbers of those that have not gone."""
        return set(self._connections.values())

    def interceptor(self, is_over: Callable[[], bool]) -> "_Interceptor":
        """Of one broker; `is_over`: whether it has died, and is heard no more."""
        self._names.settle()
        self._names = _Names()
        return _Interceptor(self, is_over, self._names)

    def arrived(
        self,
        call: RequestContext,
        node: Node,
        is_over: Callable[[], bool],
        names: "_Names",
    ) -> None:
        self._count += 1
        asked = Asked(
            number=self._count,
            at_ms=node.clock.now_ms(),
            node_id=node.node_id,
            key=call.route.api.key,
            version=call.version,
            client_id=call.client_id,
            client_host=call.client_host,
            message=spelled_out(call, node) if call.route.api.key == FETCH else call.request,
            topic_names=names.of(node),
            connection=self._number_of(call),
        )
        passage = Passage(asked, call, node, self, is_over)
        call.channel = passage
        self.told(asked)
        passage.go_on()

    def _number_of(self, call: RequestContext) -> int:
        connection = cast("Connection", call.channel)
        number = self._connections.get(connection)
        if number is None:
            number = self._connections[connection] = next(self._numbers)
            connection.on_lost.append(lambda: self._lost(connection))
        return number

    def _lost(self, connection: Connection) -> None:
        del self._connections[connection]


class _Interceptor:
    """Of one broker (broker/request.py)."""

    def __init__(self, steering: Steering, is_over: Callable[[], bool], names: "_Names") -> None:
        self._steering = steering
        self._is_over = is_over
        self._names = names

    def needs_decoded(self, route: Route) -> bool:  # noqa: ARG002
        """Every request is kept in the history."""
        return True

    def handle(self, context: RequestContext, node: Any) -> None:
        self._steering.arrived(context, node, self._is_over, self._names)


class _Names:
    """Topic id -> name, of one broker: what is asked of its past must not keep it, and its disk,
    once another has taken its place."""

    def __init__(self) -> None:
        self._topics: Topics | None = None
        self._last: dict[UUID, str] | None = None

    def of(self, node: Node) -> Self:
        if self._last is None:
            self._topics = node.topics
        return self

    def __call__(self, topic_id: Any) -> str | None:
        if self._last is not None:
            return self._last.get(topic_id)
        topic = None if self._topics is None else self._topics.by_id(topic_id)
        return None if topic is None else topic.name

    def settle(self) -> None:
        self._last = {each.id: each.name for each in self._topics or ()}
        self._topics = None
