"""How a broker for tests is set up: Kafka's own keys, some of them with other values."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from ..broker.config import BrokerConfig

Preset = Literal["instant", "kafka"]

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


def with_preset(config: "BrokerConfig", preset: str) -> "BrokerConfig":
    """The preset's values where nobody has given one. Raises ValueError."""
    for key, value in preset_named(preset).items():
        if config.origin(key) == "default":
            config = config.changed(key, value, f"preset {preset}")
    return config
