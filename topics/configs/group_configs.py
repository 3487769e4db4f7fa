"""Every group key of Kafka 4.3: type, default, bounds, and the validation of overrides.

Upstream: GroupConfig. kohort lacks share and streams groups, so their keys are validated, stored
and described, but have no effect.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from .config_def import (
    LONG_MAX,
    ConfigKey,
    ConfigType,
    InvalidConfigValue,
    StaticBrokerConfig,
    Validator,
    Value,
    at_least,
    config_def,
    one_of,
)

_NO_SHARE_GROUPS: Final = "there are no share groups"
_NO_STREAMS_GROUPS: Final = "there are no streams groups"

# The syntax of java.time.Duration.parse, with the digits of a Long.
_DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d{1,19})D)?"
    r"(T(?=[+\-\d])(?:([+-]?\d{1,19})H)?(?:([+-]?\d{1,19})M)?"
    r"(?:([+-]?\d{1,19})(?:[.,](\d{0,9}))?S)?)?",
    re.ASCII | re.IGNORECASE,
)
_BY_DURATION: Final = "by_duration:"


def _offset_reset(name: str, value: Value) -> None:
    """Upstream: ShareGroupAutoOffsetResetStrategy."""
    assert isinstance(value, str)
    is_duration = value.startswith(_BY_DURATION) and _is_duration(value.removeprefix(_BY_DURATION))
    if value not in ("earliest", "latest") and not is_duration:
        reason = (
            f"Invalid value `{value}` for configuration {name}. The value must be either "
            "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise InvalidConfigValue.of(name, value, reason)


def _is_duration(text: str) -> bool:
    """Whether Java can parse the duration and the duration is not negative."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.group(2, 3)):
        return False
    sign, days, _, hours, minutes, seconds, fraction = match.groups()
    whole = (
        int(days or 0) * 86_400
        + int(hours or 0) * 3_600
        + int(minutes or 0) * 60
        + int(seconds or 0)
    )
    nanos = int((fraction or "").ljust(9, "0")) * (-1 if (seconds or "").startswith("-") else 1)
    total_nanos = (whole * 10**9 + nanos) * (-1 if sign == "-" else 1)
    return 0 <= total_nanos <= LONG_MAX * 10**9


def _key(
    type_: ConfigType, name: str, default: Value, check: Validator | None, doc: str
) -> ConfigKey:
    reasons = {"share": _NO_SHARE_GROUPS, "streams": _NO_STREAMS_GROUPS}
    return ConfigKey(
        name, type_, default, check, doc, no_effect=reasons.get(name.partition(".")[0], "")
    )


def _int(name: str, default: int, low: int, doc: str) -> ConfigKey:
    return _key(ConfigType.INT, name, default, at_least(low), doc)


_SESSION: Final = "Time without a heartbeat after which a member is removed."
_HEARTBEAT: Final = "Time between a member's heartbeats. The broker sends it in its responses."
_ASSIGNMENT: Final = "Minimum time between a group's target assignments (KIP-1263)."

GROUP_KEYS: Final = config_def(
    (
        _int("consumer.session.timeout.ms", 45000, 1, _SESSION),
        _int("consumer.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
        _int("consumer.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
        _int("share.session.timeout.ms", 45000, 1, _SESSION),
        _int("share.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
        _int(
            "share.record.lock.duration.ms",
            30000,
            1000,
            "How long a consumer keeps an acquired record locked.",
        ),
        _int("share.delivery.count.limit", 5, 2, "Maximum number of deliveries of a record."),
        _int(
            "share.partition.max.record.locks",
            2000,
            100,
            "Maximum number of acquired records per partition.",
        ),
        _key(
            ConfigType.STRING,
            "share.auto.offset.reset",
            "latest",
            _offset_reset,
            "Where a share group starts: `earliest`, `latest` or `by_duration:PnDTnHnMn.nS`.",
        ),
        _key(
            ConfigType.STRING,
            "share.isolation.level",
            "read_uncommitted",
            one_of("read_committed", "read_uncommitted"),
            "Whether records of aborted transactions are delivered.",
        ),
        _key(
            ConfigType.BOOLEAN,
            "share.renew.acknowledge.enable",
            True,
            None,
            "Whether members can renew a record's lock.",
        ),
        _int("share.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
        _int("streams.session.timeout.ms", 45000, 1, _SESSION),
        _int("streams.heartbeat.interval.ms", 5000, 1, _HEARTBEAT),
        _int("streams.num.standby.replicas", 0, 0, "Standby replicas of each task."),
        _int(
            "streams.initial.rebalance.delay.ms",
            3000,
            0,
            "How long an empty group waits for more members.",
        ),
        _int("streams.assignment.interval.ms", 1000, 0, _ASSIGNMENT),
    )
)

_WITHOUT_BROKER_KEY: Final = frozenset(
    {"share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable"}
)


def broker_synonym(key: str) -> str | None:
    """Return the broker key that defines the default of a group key."""
    return None if key in _WITHOUT_BROKER_KEY else f"group.{key}"


class GroupBound(NamedTuple):
    """The broker keys that bound a group key. If the broker lacks these keys, `low` and `high` are
    the bounds."""

    key: str
    low_key: str
    high_key: str
    low: int = 0
    high: int = 0


def _bound(key: str, low: int = 0, high: int = 0) -> GroupBound:
    kind, _, name = key.partition(".")
    return GroupBound(key, f"group.{kind}.min.{name}", f"group.{kind}.max.{name}", low, high)


# In the order in which Kafka checks them.
GROUP_BOUNDS: Final = (
    _bound("consumer.heartbeat.interval.ms"),
    _bound("consumer.session.timeout.ms"),
    _bound("consumer.assignment.interval.ms"),
    _bound("share.heartbeat.interval.ms", 5000, 15000),
    _bound("share.session.timeout.ms", 45000, 60000),
    _bound("share.record.lock.duration.ms", 15000, 60000),
    _bound("share.delivery.count.limit", 2, 10),
    _bound("share.partition.max.record.locks", 100, 4000),
    _bound("share.assignment.interval.ms", 0, 15000),
    _bound("streams.heartbeat.interval.ms", 5000, 15000),
    _bound("streams.session.timeout.ms", 45000, 60000),
    _bound("streams.num.standby.replicas", 0, 2)._replace(
        high_key="group.streams.max.standby.replicas"
    ),
    _bound("streams.assignment.interval.ms", 0, 15000),
)

BOUNDS_OF_BROKER_KEYS: Final = {f"group.{bound.key}": bound for bound in GROUP_BOUNDS}


def validate_group_overrides(broker: StaticBrokerConfig, overrides: Mapping[str, str]) -> None:
    """Raise InvalidConfigValue with Kafka's message for invalid overrides of a group (upstream:
    GroupConfig.validate)."""
    if unknown := [name for name in overrides if name not in GROUP_KEYS]:
        raise InvalidConfigValue(f"Unknown group config name: {unknown[0]}")
    values = {
        name: key.parse(overrides[name]) for name, key in GROUP_KEYS.items() if name in overrides
    }
    for bound in GROUP_BOUNDS:
        if bound.key in values:
            _check_bound(broker, bound, bound.key, values[bound.key])
    for kind in ("consumer", "share", "streams"):
        keys = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        session_ms, heartbeat_ms = (
            values.get(key, broker.get(f"group.{key}", GROUP_KEYS[key].default)) for key in keys
        )
        assert isinstance(session_ms, int)
        assert isinstance(heartbeat_ms, int)
        if session_ms <= heartbeat_ms:
            raise InvalidConfigValue(f"{keys[0]} must be greater than {keys[1]}")


def validate_dynamic_bounds(broker: StaticBrokerConfig, values: Mapping[str, Value]) -> None:
    """Raise InvalidConfigValue if a broker key's value, which is a group key's default, is outside
    the group key's bounds."""
    for name, value in values.items():
        if (bound := BOUNDS_OF_BROKER_KEYS.get(name)) is not None:
            _check_bound(broker, bound, name, value)


def _check_bound(broker: StaticBrokerConfig, bound: GroupBound, name: str, value: Value) -> None:
    low, high = limits(broker, bound)
    assert isinstance(value, int)
    if value < low:
        raise InvalidConfigValue(f"{name} must be greater than or equal to {bound.low_key}")
    if value > high:
        raise InvalidConfigValue(f"{name} must be less than or equal to {bound.high_key}")


def limits(broker: StaticBrokerConfig, bound: GroupBound) -> tuple[int, int]:
    low = broker.get(bound.low_key, bound.low)
    high = broker.get(bound.high_key, bound.high)
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high
