"""Intercepts every request between its connection and its handler, and its response.

Each request is recorded. If a hook (a fault, a hold) is set for its API, the request is decoded and
passed to the hooks in order. Otherwise the request cache recognizes a repeated request, as in
`kohort serve`, and its message is created only when a test reads it.

A hook returns False to pass on the request, or True to take it over. A hook that takes over calls
    hold      to mute the connection until `resume` (pass on the request) or `handle` (handle it)
    respond   to respond with another message instead of handling the request
    abort     to close the connection
With either return value, the hook may set `on_response`. The response is then withheld until the
hook calls `send`, which sends the response, or other bytes instead.

Outside the harness, a broker has an interceptor only for its request log (`--log-level debug`).
"""

import logging
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol, Self, cast
from uuid import UUID

from ..broker.cluster import Node
from ..broker.network.connection import Connection
from ..broker.network.request import RequestContext, Route
from ..broker.network.wrapped_channel import WrappedChannel
from .recorded_request import RecordedRequest, full_fetch, without_secrets

_log = logging.getLogger("kohort.testing")


class InterceptedRequest(WrappedChannel):
    """A request and its response, between the request context and its connection (Channel in
    broker/network/request.py)."""

    def __init__(
        self,
        record: RecordedRequest,
        context: RequestContext,
        node: Node,
        interception: "Interception",
        is_stale: Callable[[], bool],
    ) -> None:
        super().__init__(context.channel)
        self.record = record
        self.context = context
        self.node = node
        self.connection = cast("Connection", context.channel)
        self.on_response: Callable[[], None] | None = None
        """Called instead of sending the response, which is withheld until `send`."""
        self._interception = interception
        self._seen_by: list[Hook] = []
        self._is_stale = is_stale

    # --- for hooks

    def hold(self) -> None:
        """Handle neither this request nor later requests on its connection until `resume` or
        `handle` is called."""
        self.connection.mute(self.context)
        self.connection.end_long(self.context)

    def resume(self) -> None:
        """Pass the request to the remaining hooks, and handle it unless a hook takes it over. Does
        nothing if the client has disconnected."""
        if self.is_disconnected:
            return
        for hook in list(self._interception.hooks):
            if hook not in self._seen_by:
                self._seen_by.append(hook)
                if hook.intercept(self):
                    return
        self.handle()

    def handle(self) -> None:
        """Handle the request, even if the client has disconnected, unless the broker has
        crashed."""
        if self._is_stale():
            return
        if self.record.api == "Metadata":
            names = [each.name for each in self.context.request.topics or () if each.name]
            view = self.node.view
            self.record.missing_topics = tuple(each for each in names if view.get(each) is None)
        self._interception.current = self.record
        try:
            self.context.route.handle(self.context, self.node)
        except Exception:
            _log.exception("Handling %s failed", self.record)
            self.abort()
            self.connection.end_long(self.context)
        finally:
            self._interception.current = None

    def respond(self, message: Any) -> None:
        """Respond with this message instead of any earlier response."""
        self.on_response = None
        self.context.respond(message)

    def send(self, frame: bytes | None = None) -> None:
        """Send the withheld response, or these bytes instead."""
        self.context.response = self.record.response_frame if frame is None else frame
        self.connection.response_ready(self.context)

    def abort(self) -> None:
        """Close the connection immediately."""
        self.connection.abort()

    def call_later(self, ms: int, function: Callable[[], None]) -> None:
        """Call a function after `ms` milliseconds of wall-clock time."""
        timers = self.node.client_timers
        timers.call_at(timers.now_ms() + ms, function)

    # --- for the request context, whose channel is this object

    def response_ready(self, context: RequestContext) -> None:
        if self._is_stale():
            return
        record, frame = self.record, context.response_bytes
        record.topic_names.of(self.node)  # the response may name newer topics
        record.response_frame, record.response_at_ms = frame, self.node.clock.now_ms()
        if self.on_response is None:
            self.connection.response_ready(context)
        else:
            # Withdraw the response, so that no flush sends it, and mute the connection.
            context.response = None
            self.connection.mute(context)
            self.connection.end_long(context)
            self.on_response()
        # If on_response has called `respond`, the other response has already been recorded.
        if record.response_frame is frame:
            self._interception.on_record(record)


class Hook(Protocol):
    def wants(self, api: str) -> bool:
        """Whether `intercept` must be called with requests of this API."""

    def intercept(self, request: InterceptedRequest) -> bool:
        """Return True to take over the request."""


class Interception:
    """The state that the interceptors of a test's brokers share. `on_record` is called with each
    request on arrival, and again when it has a response."""

    def __init__(self, on_record: Callable[[RecordedRequest], None]) -> None:
        self.hooks: list[Hook] = []
        self.on_record = on_record
        self.current: RecordedRequest | None = None
        """The request being handled: the cause of events that are recorded now."""
        self._numbers = count(1)
        # Connections, each with its first request.
        self._connections: dict[Connection, RecordedRequest] = {}
        self._connection_numbers = count(1)

    @property
    def open_connections(self) -> set[int]:
        return {each.connection for each in self._connections.values()}

    def connections_of(self, client_id: str | None, node_id: int | None) -> list[Connection]:
        """Return the open connections between a client and a node (None: any client or node)."""
        return [
            connection
            for connection, first in self._connections.items()
            if client_id in (None, first.client_id) and node_id in (None, first.node_id)
        ]

    def intercept(
        self,
        context: RequestContext,
        node: Node,
        is_stale: Callable[[], bool],
        topic_names: "_TopicNames",
    ) -> None:
        api = context.route.api
        message = full_fetch(context, node) if api.name == "Fetch" else context.request
        connection = cast("Connection", context.channel)
        first = self._connections.get(connection)
        record = RecordedRequest(
            number=next(self._numbers),
            at_ms=node.clock.now_ms(),
            node_id=node.node_id,
            api_key=api.key,
            version=context.version,
            client_id=context.client_id,
            client_host=context.client_host,
            principal=context.client.principal,
            cached_message=without_secrets(api.name, message),
            varying=tuple(number for (number,) in context.numbers),
            topic_names=topic_names.of(node),
            connection=next(self._connection_numbers) if first is None else first.connection,
        )
        if first is None:
            self._connections[connection] = record
            connection.on_lost.append(lambda: self._forget(connection))
        request = InterceptedRequest(record, context, node, self, is_stale)
        context.channel = request
        self.on_record(record)
        if self.is_wanted(api.name):
            request.resume()
        else:
            request.handle()

    def _forget(self, connection: Connection) -> None:
        del self._connections[connection]

    def is_wanted(self, api: str) -> bool:
        return any(hook.wants(api) for hook in self.hooks)


class BrokerInterceptor:
    """The interceptor of one broker. It implements Interceptor of broker/network/request.py.
    `is_stale` returns True once the broker has been replaced or has crashed."""

    def __init__(self, interception: Interception, is_stale: Callable[[], bool]) -> None:
        self._interception = interception
        self._is_stale = is_stale
        self._topic_names = _TopicNames()

    def needs_decoded(self, route: Route) -> bool:
        return self._interception.is_wanted(route.api.name)

    def handle(self, context: RequestContext, node: Any) -> None:
        self._interception.intercept(context, node, self._is_stale, self._topic_names)


class _TopicNames(dict[UUID, str]):
    """One broker's topic names by topic id, including deleted topics. Does not refer to the broker,
    so that recorded requests do not keep its disk in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._version = -1

    def of(self, node: Node) -> Self:
        version = node.topics.created_version
        if version != self._version:
            self._version = version
            self.update((each.id, each.name) for each in node.topics)
        return self
