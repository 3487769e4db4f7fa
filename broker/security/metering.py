"""Measures requests while there are client quotas, and throttles clients. The response contains the
throttle time, and the connection is muted for this time after the response (KIP-219).

`request_percentage` is a percentage of the event loop's time. It does not include decoding
requests, sending responses, or work after the handler has returned.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from ...protocol.apis import SASL_AUTHENTICATE, SASL_HANDSHAKE
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages import with_throttle_time
from ...topics.configs.config_def import INT_MAX
from ..event_loop.watchdog import seconds
from ..network.request import RequestContext, Route
from ..network.wrapped_channel import WrappedChannel
from .principal import INTERNAL
from .quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, REQUEST_PERCENTAGE, Client

PRODUCE: Final = 0
# Authentication is not throttled, because Kafka authenticates clients before quotas apply.
UNTHROTTLED: Final = frozenset({SASL_HANDSHAKE, SASL_AUTHENTICATE})


def metered(route: Route) -> Route:
    """Return the route with a handler that measures its requests."""
    return replace(route, handle=partial(_handle, route.handle))


def _handle(handle: Callable[[Any, Any], None], context: RequestContext, node: Any) -> None:
    if context.client.principal == INTERNAL or context.route.api.key in UNTHROTTLED:
        handle(context, node)
        return
    meter = context.meter = Meter(context, node)
    context.channel = meter
    handle(context, node)
    meter.handled()


class Meter(WrappedChannel):
    """The channel of a request whose client may have quotas."""

    def __init__(self, context: RequestContext, node: Any) -> None:
        super().__init__(context.channel)
        self._context = context
        self._quotas = node.security.quotas
        self._client = Client(node.node_id, self.client.principal.name, context.client_id or "")
        self._throttle_ms = 0
        self._is_recorded = False
        self._begin, self._seconds = seconds(), 0.0

    def handled(self) -> None:
        """Called when the handler has returned. The response may follow later."""
        self._seconds = seconds() - self._begin

    # --- for handlers

    @property
    def fetch_bytes_max(self) -> int:
        """The maximum number of bytes that a Fetch may return. A larger response would always cause
        throttling."""
        return int(min(INT_MAX, self._quotas.bytes_max(self._client)))

    def is_over_quota(self, fetched_bytes: int) -> bool:
        """Record the size of a Fetch response. Return whether the client is throttled; if so, the
        response must contain no records."""
        self._record_request()
        throttle_ms = self._quotas.record(CONSUMER_BYTE_RATE, self._client, fetched_bytes)
        self._throttle(throttle_ms)
        if self._throttle_ms:
            # The client gets a response without records instead.
            self._quotas.record(CONSUMER_BYTE_RATE, self._client, -fetched_bytes)
        return self._throttle_ms > 0

    def record_mutations(self, partitions: int, *, is_strict: bool) -> None:
        """Record that the request creates or deletes partitions. Raises ApiError if the client is
        over its quota and `is_strict`, that is, if the API version supports
        THROTTLING_QUOTA_EXCEEDED (KIP-599)."""
        throttle_ms = self._quotas.record_mutations(self._client, partitions, is_strict=is_strict)
        self._throttle(throttle_ms)
        if throttle_ms and is_strict:
            raise ApiError(ErrorCode.throttling_quota_exceeded)

    def allows_auto_creation(self, partitions: int) -> bool:
        """Return whether the client is within its quota, so that its Metadata request may create
        partitions; if so, record them. The request is not throttled."""
        return not self._quotas.record_mutations(self._client, partitions, is_strict=True)

    def _throttle(self, throttle_ms: int) -> None:
        self._throttle_ms = max(self._throttle_ms, throttle_ms)

    def _record_request(self) -> None:
        """Record the request once, even if an injected fault replaces its response."""
        if self._is_recorded:
            return
        self._is_recorded = True
        context, record = self._context, self._quotas.record
        is_produce = context.route.api.key == PRODUCE
        if is_produce:
            self._throttle(record(PRODUCER_BYTE_RATE, self._client, context.size_bytes))
        # As in Kafka, requests without a response do not count towards request_percentage.
        if not is_produce or context.request.acks != 0:
            percentage = 100 * (self._seconds or seconds() - self._begin)
            self._throttle(record(REQUEST_PERCENTAGE, self._client, percentage))

    # --- for the request context, as its channel

    def response_ready(self, context: RequestContext) -> None:
        self._record_request()
        throttle_ms, response, route = self._throttle_ms, context.response, context.route
        # All responses are bytes, except Fetch responses with records. A throttled client gets no
        # records.
        if throttle_ms and response and isinstance(response, bytes):
            context.response = with_throttle_time(
                route.api.key, route.version, response, throttle_ms
            )
        super().response_ready(context)
        if throttle_ms:
            self.throttle(throttle_ms)
