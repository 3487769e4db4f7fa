"""`--log-level debug`: a line per request and one per answer. Without it, nothing of this is in
the way: the broker is then made with plain `Routes`.

    < k12 Heartbeat v4 #17 orders/consumer-1 (rdkafka at /127.0.0.1)
    > k12 Heartbeat #17 rebalance_in_progress, 16 bytes, 0.4 ms

#17 is the client's own number, the correlation id. What an answer says of single topics and
partitions is not looked at.
"""

import logging
import time
from typing import Any

from ..protocol.messages import response_decoder
from .request import Channel, RequestContext
from .routes import Route, Routes

_log = logging.getLogger("kohort.requests")


def new_routes() -> Routes:
    """Traced ones, if anybody wants to read of requests."""
    return LoggedRoutes() if _log.isEnabledFor(logging.DEBUG) else Routes()


class LoggedRoutes(Routes):
    """Routes whose handlers and writers tell of what they are given."""

    def __missing__(self, asked: tuple[int, int]) -> Route:
        route = super().__missing__(asked)
        name = f"k{route.api.key:02} {route.api.name}"

        def handle(call: RequestContext, node: Any) -> None:
            request = call.request
            group = getattr(request, "group_id", None)
            member = getattr(request, "member_id", None)
            whose = "" if group is None else f" {group}/{member}" if member else f" {group}"
            client = f"{call.client_id or 'nameless'} at {call.client_host}"
            _log.debug("< %s v%d #%d%s (%s)", name, asked[1], call.correlation_id, whose, client)
            call.origin = _Traced(call.origin, route, name)
            # What it returns is dropped: the next request shall come this way too, and be told of.
            route.handle(call, node)

        traced = route._replace(handle=handle)
        if asked in self:
            self[asked] = traced
        return traced


class _Traced:
    """Stands between a call and its connection, and sees the answer go by."""

    def __init__(self, origin: Channel, route: Route, name: str) -> None:
        self._origin = origin
        self._route = route
        self._name = name
        self._begun = time.perf_counter()
        self.client_host = origin.client_host

    @property
    def client_software(self) -> str | None:
        return self._origin.client_software

    @client_software.setter
    def client_software(self, software: str | None) -> None:
        self._origin.client_software = software

    @property
    def is_gone(self) -> bool:
        return self._origin.is_gone

    def answered(self, call: RequestContext) -> None:
        took_ms = (time.perf_counter() - self._begun) * 1000
        told = _told(self._route, frame) if (frame := call.frame) else "no answer is wanted"
        _log.debug("> %s #%d %s, %.1f ms", self._name, call.correlation_id, told, took_ms)
        self._origin.answered(call)

    def hold(self, call: RequestContext) -> None:
        self._origin.hold(call)

    def end(self, reason: str) -> None:
        self._origin.end(reason)


def _told(route: Route, frame: bytes) -> str:
    """An answer in a few words, read as its client reads it."""
    message = response_decoder(route.api.key, route.version)(frame)
    error = getattr(message, "error_code", None)
    return f"{len(frame)} bytes" if error is None else f"{error.name}, {len(frame)} bytes"
