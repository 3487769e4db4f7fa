"""An interceptor for `--log-level debug`: logs one line per request and one per response.

    < k12 Heartbeat v4 #17 orders/consumer-1 (rdkafka at /127.0.0.1)
    > k12 Heartbeat #17 rebalance_in_progress, 16 bytes, 0.4 ms

#17 is the correlation id. Errors of individual topics and partitions are not shown.
"""

import logging
import time
from typing import Any

from ...protocol.messages import response_decoder
from .request import Channel, RequestContext, Route
from .wrapped_channel import WrappedChannel

_log = logging.getLogger("kohort.requests")


class RequestLog:
    def needs_decoded(self, route: Route) -> bool:  # noqa: ARG002
        return False

    def handle(self, context: RequestContext, node: Any) -> None:
        request, route = context.request, context.route
        group_id = getattr(request, "group_id", None)
        member_id = getattr(request, "member_id", None)
        group = (
            "" if group_id is None else f" {group_id}/{member_id}" if member_id else f" {group_id}"
        )
        client = f"{context.client_id or 'no client id'} at {context.client_host}"
        name = f"k{route.api.key:02} {route.api.name}"
        _log.debug(
            "< %s v%d #%d%s (%s)", name, route.version, context.correlation_id, group, client
        )
        context.channel = _LoggedChannel(context.channel, name)
        route.handle(context, node)


def request_log() -> RequestLog | None:
    """Return the interceptor, or None unless DEBUG is enabled."""
    return RequestLog() if _log.isEnabledFor(logging.DEBUG) else None


class _LoggedChannel(WrappedChannel):
    """Logs the response."""

    def __init__(self, channel: Channel, name: str) -> None:
        super().__init__(channel)
        self._name = name
        self._begin = time.perf_counter()

    def response_ready(self, context: RequestContext) -> None:
        duration_ms = (time.perf_counter() - self._begin) * 1000
        shown = _summary(context)
        _log.debug("> %s #%d %s, %.1f ms", self._name, context.correlation_id, shown, duration_ms)
        super().response_ready(context)


def _summary(context: RequestContext) -> str:
    """Summarize the response: error code and size."""
    frame, route = context.response_bytes, context.route
    if not frame:
        return "no response"
    error = getattr(response_decoder(route.api.key, route.version)(frame), "error_code", None)
    return f"{len(frame)} bytes" if error is None else f"{error.name}, {len(frame)} bytes"
