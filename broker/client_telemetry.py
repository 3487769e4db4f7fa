"""Client instances (KIP-714) and their metrics subscriptions, which determine the metrics that a
client pushes and the push interval.

Metrics are discarded, because there is no receiver for them. Upstream: ClientMetricsManager,
ClientMetricsInstance.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Any, Final, NamedTuple
from uuid import UUID

from crc32c import crc32c

from ..assignors.ordering import UINT32_MASK, bucket, bucket_count, string_hash
from ..protocol.errors import ApiError, ErrorCode
from ..protocol.primitives import uuid_text
from ..topics.configs.client_metrics import (
    CLIENT_METRICS_KEYS,
    INTERVAL_MS_DEFAULT,
    parse_patterns,
)
from ..topics.configs.config_def import InvalidConfigValue
from ..topics.configs.effective import Configs
from .event_loop.timers import Clock

INSTANCES_MAX: Final = 16_384  # about 400 bytes each (upstream: CACHE_MAX_SIZE)
# An instance expires after three push intervals without a request, but not before EXPIRY_MS_MIN.
EXPIRY_MS_MIN: Final = 60_000
EXPIRY_INTERVALS: Final = 3
ALL_METRICS: Final = "*"
COMPRESSION_TYPES: Final = range(5)
# After these errors, a client may immediately request its subscription again.
_RETRIED: Final = (ErrorCode.unknown_subscription_id, ErrorCode.unsupported_compression_type)

Attributes = Mapping[str, str]
"""The attributes of a client that patterns can match."""


class Subscription(NamedTuple):
    """A client metrics subscription. `patterns` are compiled regular expressions by attribute, all
    of which must match, or None if an expression is invalid."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Any] | None

    def matches(self, attributes: Attributes) -> bool:
        return self.patterns is not None and all(
            attribute in attributes and pattern.fullmatch(attributes[attribute])
            for attribute, pattern in self.patterns.items()
        )


def _parsed(texts: Mapping[str, str]) -> Subscription:
    values: dict[str, Any] = {
        name: key.parse(texts[name]) if name in texts else key.default
        for name, key in CLIENT_METRICS_KEYS.items()
    }
    patterns: Mapping[str, Any] | None = None
    # Kafka may have stored patterns that kohort rejects (docs/not-implemented.md).
    with contextlib.suppress(InvalidConfigValue):
        patterns = parse_patterns(values["match"] or ())
    return Subscription(values["metrics"] or (), values["interval.ms"], patterns)


@dataclass(slots=True, eq=False)
class ClientInstance:
    id: UUID
    subscription_id: int
    version: int
    """The version of the subscriptions from which the other fields were computed."""
    metrics: tuple[str, ...]
    push_interval_ms: int
    last_get_ms: int = 0
    last_push_ms: int = 0
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.none
    expires_ms: int = 0

    def get(self, now_ms: int) -> None:
        """Record that the client requests its subscription. Raises ApiError."""
        if now_ms - max(self.last_get_ms, self.last_push_ms) >= self.push_interval_ms:
            self.last_get_ms = now_ms
        elif self.last_error not in _RETRIED:
            raise ApiError(ErrorCode.throttling_quota_exceeded)
        self.last_error = ErrorCode.none

    def push(self, request: Any, bytes_max: int, now_ms: int) -> None:
        """Record that the client pushes metrics (kio's PushTelemetryRequest). Raises ApiError."""
        try:
            self._validate_push(request, bytes_max, now_ms)
            self.last_error = ErrorCode.none
        except ApiError as rejection:
            self.last_error = rejection.error
            raise
        finally:
            self.is_terminating = request.terminating

    def _validate_push(self, request: Any, bytes_max: int, now_ms: int) -> None:
        if self.is_terminating:
            raise ApiError(ErrorCode.invalid_request)
        # The first push after a get may come early, because clients add jitter to the interval.
        is_first = self.last_get_ms > self.last_push_ms
        if is_first or now_ms - self.last_push_ms >= self.push_interval_ms:
            self.last_push_ms = now_ms
        elif not request.terminating:
            raise ApiError(ErrorCode.throttling_quota_exceeded)
        if request.subscription_id != self.subscription_id:
            raise ApiError(ErrorCode.unknown_subscription_id)
        if request.compression_type not in COMPRESSION_TYPES:
            raise ApiError(ErrorCode.unsupported_compression_type)
        if len(request.metrics) > bytes_max:
            raise ApiError(ErrorCode.telemetry_too_large)


class ClientTelemetry:
    """The client instances of a node. `new_id()` returns a random UUID."""

    def __init__(self, configs: Configs, clock: Clock, new_id: Callable[[], UUID]) -> None:
        self._configs, self._clock, self._new_id = configs, clock, new_id
        # Least recently used first.
        self._instances: dict[UUID, ClientInstance] = {}
        self._version = 0
        self._subscriptions: list[Subscription] = []
        # The configs of the parsed subscriptions. A changed subscription gets a new dictionary.
        self._texts: list[Mapping[str, str]] = []

    def __len__(self) -> int:
        return len(self._instances)

    def clear(self) -> None:
        """Drop all instances, because the node has stopped."""
        self._instances.clear()

    def remove(self, instance_id: UUID) -> None:
        """Remove an instance, because the connection that created it was closed."""
        self._instances.pop(instance_id, None)

    def instance(
        self, instance_id: UUID | None, attributes: Attributes
    ) -> tuple[ClientInstance, bool]:
        """Return the instance, and whether it was created. A change to any subscription resets the
        instance. A new client, whose `instance_id` is None, gets an id."""
        self._update_subscriptions()
        now_ms = self._clock.now_ms()
        found = None if instance_id is None else self._instances.pop(instance_id, None)
        is_new = found is None or found.expires_ms <= now_ms
        if found is None or is_new or found.version < self._version:
            found = self._created(instance_id or self._new_id(), attributes)
        expiry_ms = max(EXPIRY_MS_MIN, EXPIRY_INTERVALS * found.push_interval_ms)
        found.expires_ms = now_ms + expiry_ms
        self._instances[found.id] = found
        if len(self._instances) > INSTANCES_MAX:
            del self._instances[next(iter(self._instances))]
        return found, is_new

    def _update_subscriptions(self) -> None:
        texts: list[Mapping[str, str]] = [*self._configs.client_metrics.values()]
        if len(texts) == len(self._texts) and all(map(is_, texts, self._texts)):
            return
        self._version += 1
        # Parsing thousands of subscriptions takes a second, so only changed ones are parsed.
        parsed = dict(zip(map(id, self._texts), self._subscriptions, strict=True))
        self._subscriptions = [parsed.get(id(each)) or _parsed(each) for each in texts]
        self._texts = texts

    def _created(self, instance_id: UUID, attributes: Attributes) -> ClientInstance:
        attributes = {**attributes, "client_instance_id": uuid_text(instance_id.bytes)}
        matching = [each for each in self._subscriptions if each.matches(attributes)]
        metrics = dict.fromkeys(name for each in matching for name in each.metrics)
        interval_ms = min([INTERVAL_MS_DEFAULT, *(each.interval_ms for each in matching)])
        ordered = (ALL_METRICS,) if ALL_METRICS in metrics else _hash_order(metrics)
        subscription_id = _subscription_id(ordered, interval_ms, instance_id)
        return ClientInstance(instance_id, subscription_id, self._version, ordered, interval_ms)


def _hash_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the order of Java's HashSet, which subscription ids depend on."""
    listed = list(names)
    buckets = bucket_count(len(listed))
    return tuple(sorted(listed, key=lambda name: bucket(string_hash(name), buckets)))


def _subscription_id(metrics: tuple[str, ...], interval_ms: int, instance_id: UUID) -> int:
    """Upstream: ClientMetricsManager.computeSubscriptionId; Uuid.hashCode."""
    checksum = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode("utf-8", "surrogatepass"))
    halves = instance_id.int >> 64 ^ instance_id.int
    unsigned = (checksum ^ halves >> 32 ^ halves) & UINT32_MASK
    return unsigned - (1 << 32) if unsigned >> 31 else unsigned
