"""Configurations of brokers for tests: Kafka's own keys, some with other values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from ..broker.config.broker_config import BrokerConfig, ConfigError
from ..log.group_commit import Durability

Preset = Literal["instant", "kafka"]
Config = Mapping[str, str | float | bool]
"""Kafka's keys and values; numbers and bools are converted to text."""

# The history needs an event for each accepted commit.
_COMMON: Final = {"kohort.events": "all"}

PRESETS: Final[Mapping[Preset, Mapping[str, str]]] = MappingProxyType(
    {
        # No rebalance waits for further members, and no session timeout is too short.
        "instant": {
            **_COMMON,
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1",
        },
        "kafka": _COMMON,
    }
)


def new_config(
    nodes: int, profile: str, given: Config, origins: Mapping[str, str] | None = None
) -> BrokerConfig:
    """Create the configuration; `origins` of keys appear in messages. Raises ConfigError, also for
    a key that Kafka does not have: the test would rely on a setting without effect."""
    own = {"kohort.nodes": str(nodes), "kohort.profile": profile}
    config = BrokerConfig({**own, **config_texts(given)}, origins)
    for message in config.unknown_keys():
        raise ConfigError(message)
    return config


def config_texts(config: Config) -> dict[str, str]:
    """Convert values to the form in Kafka's files: `true`, `1000`. Raises TypeError for other
    types."""
    return {key: _to_text(key, value) for key, value in config.items()}


def _to_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # 1e9 for a key with integers
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{key} must be a string, a number or a bool, not {value!r}")


def check_durability(name: str) -> None:
    """Raise ValueError for an unknown durability."""
    known = get_args(Durability)
    if name not in known:
        raise ValueError(f"Unknown durability {name!r}: use one of {', '.join(known)}")


def with_preset(config: BrokerConfig, preset: str) -> BrokerConfig:
    """Set the preset's values for keys that are not set. Raises ValueError for an unknown
    preset."""
    settings = next((values for name, values in PRESETS.items() if name == preset), None)
    if settings is None:
        raise ValueError(f"Unknown preset {preset!r}: use one of {', '.join(PRESETS)}")
    for key, value in settings.items():
        if config.origin(key) == "default":
            config = config.changed(key, value, f"preset {preset}")
    return config
