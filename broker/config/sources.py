"""The sources of settings: a properties file, environment variables, `key=value` overrides.

Each source yields (key, text, origin); values are parsed elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from ...java_properties import parse_properties

VARIABLE_PREFIX: Final = "KAFKA_"
# Variables read by Kafka's start scripts and images, not broker keys.
SCRIPT_VARIABLES: Final = re.compile(
    r"KAFKA_(VERSION|HOME|HEAP_OPTS|OPTS|DEBUG|JMX_\w+|JVM_\w+|GC_\w+|LOG4J_\w+|TOOLS_\w+)"
)


class ConfigError(ValueError):
    """An invalid setting. The message is one line."""


class RawSetting(NamedTuple):
    """A setting as it was written, with its origin."""

    key: str
    text: str
    origin: str


def key_of(variable: str) -> str:
    """Return the key that an environment variable sets, as in Kafka's images: KAFKA_NUM_PARTITIONS
    sets num.partitions. `__` stands for `_`, `___` for `-`."""
    name = variable.removeprefix(VARIABLE_PREFIX).lower().replace("___", "-").replace("__", "\0")
    return name.replace("_", ".").replace("\0", "_")


def from_environment(env: Mapping[str, str]) -> Iterator[RawSetting]:
    for variable, text in sorted(env.items()):
        if variable.startswith(VARIABLE_PREFIX) and not SCRIPT_VARIABLES.fullmatch(variable):
            yield RawSetting(key_of(variable), text, variable)


def from_overrides(overrides: Iterable[str]) -> Iterator[RawSetting]:
    for override in overrides:
        key, sign, text = override.partition("=")
        if not sign or not key.strip():
            raise ConfigError(
                f"invalid override '{override}' (from -o): "
                "expected key=value, for example num.partitions=6."
            )
        yield RawSetting(key.strip(), text, "-o")


def from_file(path: Path) -> Iterator[RawSetting]:
    """Read a file in Java's properties format. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the properties file {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read the properties file {path}: it is not UTF-8.") from error
    try:
        for key, value in parse_properties(text):
            yield RawSetting(key, value, str(path))
    except ValueError as error:
        raise ConfigError(f"{error} (from {path}): expected \\u and four hex digits.") from error
