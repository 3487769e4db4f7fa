"""Configurations of test brokers: Kafka's keys, some with other defaults."""

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from ..broker.config.broker_config import BrokerConfig
from ..broker.config.listeners import SecurityProtocol
from ..broker.config.sources import ConfigError
from ..broker.config.users import format_users
from ..protocol.framing import address

Preset = Literal["instant", "kafka"]
Config = Mapping[str, str | float | bool]
"""Kafka's keys and values; numbers and bools are converted to text."""

# The history needs an event for each accepted commit.
_COMMON: Final = {"kohort.events": "all"}

PRESETS: Final[Mapping[str, Mapping[str, str]]] = {
    # No rebalance waits for more members, and no session timeout is too short. A member of
    # the consumer protocol (KIP-848) receives a new assignment with its next heartbeat, within
    # 100 ms (below Kafka's minimum). No client has to retry after its request created a topic.
    "instant": {
        **_COMMON,
        "kohort.auto.create.immediate": "true",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "1",
        "group.consumer.min.session.timeout.ms": "1",
        "group.consumer.min.heartbeat.interval.ms": "1",
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.assignment.interval.ms": "0",
    },
    "kafka": _COMMON,
}


def new_config(
    preset: str,
    nodes: int,
    profile: str,
    given: Config,
    origins: Mapping[str, str] | None = None,
) -> BrokerConfig:
    """Create a configuration in which `given` overrides the preset. Messages mention the `origins`
    of keys. Raises ValueError for an unknown preset, and ConfigError for invalid values and for
    keys that Kafka does not have, because a test must not rely on a setting without effect."""
    own = {"kohort.nodes": str(nodes), "kohort.profile": profile}
    texts = {**own, **config_texts(given)}
    settings = _settings(preset)
    of_preset = {key: _origin(preset) for key in settings if key not in texts}
    config = BrokerConfig({**settings, **texts}, {**of_preset, **(origins or {})})
    for message in config.unknown_keys():
        raise ConfigError(message)
    return config


def config_texts(config: Config) -> dict[str, str]:
    """Convert values to the format of Kafka's properties files: `true`, `1000`. Raises TypeError
    for other types."""
    return {key: _to_text(key, value) for key, value in config.items()}


def _to_text(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():  # 1e9 for an integer key
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"{key} must be a string, a number or a bool, not {value!r}")


def security_texts(protocol: str, users: Mapping[str, str], host: str, port: int) -> dict[str, str]:
    """Return the configuration of a broker with one listener of this protocol. Raises ValueError
    for an unknown protocol, and for users with a protocol that does not authenticate them. Raises
    TypeError or ValueError unless user names and passwords are non-empty strings."""
    check_known("security", protocol, SecurityProtocol)
    _check_users(users)
    if users and not SecurityProtocol(protocol).uses_sasl:
        raise ValueError(f"security={protocol!r} has no users: use SASL_SSL or SASL_PLAINTEXT")
    if protocol == SecurityProtocol.PLAINTEXT:
        return {}
    texts = {"listeners": f"{protocol}://{address(host, port)}"}
    return {**texts, "kohort.users": format_users(users)} if users else texts


def _check_users(users: object) -> None:
    """Raise TypeError or ValueError for invalid users. The messages must not contain passwords."""
    example = 'use users={"alice": "alice-secret"}'
    if not isinstance(users, Mapping):
        raise TypeError(f"users is a {type(users).__name__}, not a dict: {example}")
    for name, password in users.items():
        if not isinstance(name, str):
            raise TypeError(f"user name {name!r} is not a string: {example}")
        if not isinstance(password, str):
            kind = type(password).__name__
            raise TypeError(f"the password of user {name!r} is {kind}, not a string: {example}")
        if not name or not password:
            raise ValueError(f"user {name!r} has no {'password' if name else 'name'}: {example}")


def check_known(what: str, name: str, known: Iterable[str]) -> None:
    """Raise ValueError for an unknown name."""
    names = list(known)
    if name not in names:
        raise ValueError(f"Unknown {what} {name!r}: use one of {', '.join(names)}")


def with_preset(config: BrokerConfig, preset: str) -> BrokerConfig:
    """Return the configuration with the preset's values for keys that are not set. Raises
    ValueError for an unknown preset."""
    for key, value in _settings(preset).items():
        if config.origin(key) == "default":
            config = config.changed(key, value, _origin(preset))
    return config


def _settings(preset: str) -> Mapping[str, str]:
    check_known("preset", preset, PRESETS)
    return PRESETS[preset]


def _origin(preset: str) -> str:
    return f"preset {preset}"
