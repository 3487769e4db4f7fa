"""The keys of client metrics subscriptions (KIP-714): type, default, validation.

Upstream: ClientMetricsConfigs. broker/client_telemetry.py applies subscriptions.
"""

from collections.abc import Mapping
from typing import Any, Final

import re2

from ...protocol.budgets import REGEX_BYTES_MAX
from ...protocol.errors import ApiError, ErrorCode
from .config_def import ConfigKey, ConfigType, InvalidConfigValue, Value, config_def, no_empty_items
from .regexes import compile_regex

INTERVAL_MS_MIN: Final = 100
INTERVAL_MS_MAX: Final = 3_600_000
INTERVAL_MS_DEFAULT: Final = 300_000
ATTRIBUTES: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)

CLIENT_METRICS_KEYS: Final = config_def(
    (
        ConfigKey(
            "metrics",
            ConfigType.LIST,
            (),
            no_empty_items,
            "Prefixes of metric names. `*` stands for all names.",
        ),
        ConfigKey(
            "interval.ms",
            ConfigType.INT,
            INTERVAL_MS_DEFAULT,
            doc="How often clients push metrics.",
        ),
        ConfigKey(
            "match",
            ConfigType.LIST,
            (),
            no_empty_items,
            "Regular expressions for client attributes: `client_id=orders-.*`.",
        ),
    )
)


def validate_subscription(overrides: Mapping[str, str]) -> None:
    """Raise ApiError or InvalidConfigValue for invalid configs, with Kafka's messages."""
    for name in overrides:
        if name not in CLIENT_METRICS_KEYS:
            message = f"Unknown client metrics configuration: {name}"
            raise ApiError(ErrorCode.invalid_request, message)
    values = {name: CLIENT_METRICS_KEYS[name].parse(text) for name, text in overrides.items()}
    interval_ms = values.get("interval.ms", INTERVAL_MS_DEFAULT)
    assert isinstance(interval_ms, int)
    if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX:
        raise ApiError(
            ErrorCode.invalid_request,
            f"Invalid value {interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS_MIN} and {INTERVAL_MS_MAX} (1 hour)",
        )
    parse_patterns(values.get("match", ()))


def parse_patterns(patterns: Value) -> dict[str, Any]:
    """Return the compiled regular expression for each attribute. Raises InvalidConfigValue."""
    assert isinstance(patterns, tuple)
    parsed: dict[str, tuple[str, str]] = {}
    for pattern in patterns:
        attribute, _, expression = (part.strip() for part in pattern.partition("="))
        if attribute not in ATTRIBUTES or not expression or "=" in expression:
            raise InvalidConfigValue(f"Illegal client matching pattern: {pattern}")
        parsed[attribute] = pattern, expression
    if sum(len(pattern.encode()) for pattern in patterns) > REGEX_BYTES_MAX:
        raise InvalidConfigValue(f"Client matching patterns exceed {REGEX_BYTES_MAX} bytes")
    return {attribute: _compiled(*each) for attribute, each in parsed.items()}


def _compiled(pattern: str, expression: str) -> Any:
    try:
        return compile_regex(expression)
    except re2.error:
        raise InvalidConfigValue(f"Illegal client matching pattern: {pattern}") from None
