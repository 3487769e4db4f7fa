"""How a broker for tests is set up: Kafka's own keys, some of them with other values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, get_args

from ..broker.config.broker_config import BrokerConfig, ConfigError
from ..log.group_commit import Durability

Preset = Literal["instant", "kafka"]
Config = Mapping[str, str | float | bool]
"""Kafka's keys; numbers and bools stand for their texts."""

_ALWAYS: Final = {
    # Each accepted commit is an event: the history of a test has them.
    "kohort.events": "all",
}

PRESETS: Final[Mapping[Preset, Mapping[str, str]]] = MappingProxyType(
    {
        # Nothing waits for latecomers, and no client is told that its timeout is too short.
        "instant": {
            **_ALWAYS,
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1",
        },
        # What a production broker does, but for the history.
        "kafka": _ALWAYS,
    }
)


def preset_named(name: str) -> Mapping[str, str]:
    """Raises ValueError."""
    for known, settings in PRESETS.items():
        if known == name:
            return settings
    raise ValueError(f"there is no preset {name}; there is: {', '.join(PRESETS)}")


def new_config(nodes: int, profile: str, given: Config) -> BrokerConfig:
    """Raises ConfigError, for a key that no Kafka knows as well: a test would rest on a setting
    that it has not."""
    own = {"kohort.nodes": str(nodes), "kohort.profile": profile}
    config = BrokerConfig({**own, **texts_of(given)})
    for sentence in config.unknown_keys():
        raise ConfigError(sentence)
    return config


def texts_of(config: Config) -> dict[str, str]:
    """As Kafka's files have them: `true`, `1000`. Raises TypeError for what has no such text."""
    return {key: _text_of(key, value) for key, value in config.items()}


def _text_of(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # 1e9 for a key that takes whole numbers
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{key} is {value!r}: a setting is a text, a number or a bool")


def check_durability(name: str) -> None:
    """Raises ValueError."""
    known = get_args(Durability)
    if name not in known:
        raise ValueError(f"there is no durability {name}; there is: {', '.join(known)}")


def with_preset(config: BrokerConfig, preset: str) -> BrokerConfig:
    """The preset's values where nobody has given one. Raises ValueError."""
    for key, value in preset_named(preset).items():
        if config.origin(key) == "default":
            config = config.changed(key, value, f"preset {preset}")
    return config
