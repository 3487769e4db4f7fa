"""Where settings are written: a properties file, environment variables, `key=value` overrides.

Each source yields (key, text, origin); values are parsed elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = [
    "VARIABLE_PREFIX",
    "ConfigError",
    "RawSetting",
    "from_environment",
    "from_file",
    "from_overrides",
    "key_of",
]

VARIABLE_PREFIX: Final = "KAFKA_"
# Variables read by Kafka's start scripts and images, not broker keys.
SCRIPT_VARIABLES: Final = re.compile(
    r"KAFKA_(VERSION|HOME|HEAP_OPTS|OPTS|DEBUG|JMX_\w+|JVM_\w+|GC_\w+|LOG4J_\w+|TOOLS_\w+)"
)
SEPARATOR: Final = re.compile(r"(?<!\\)\s*[=:]\s*|(?<!\\)\s+")
ESCAPES: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ConfigError(ValueError):
    """An invalid setting. The message is one line: the problem, the value with its origin, the
    remedy."""


class RawSetting(NamedTuple):
    """A setting as it was written, and where."""

    key: str
    text: str
    origin: str


def key_of(variable: str) -> str:
    """KAFKA_NUM_PARTITIONS -> num.partitions, by the rule of Kafka's images (`__` is `_`)."""
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
    """Java's properties format: `#` and `!` begin comments, `\\` at the end continues a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read the properties file {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read the properties file {path}: it is not UTF-8.") from error
    for line in _logical_lines(text):
        parts = SEPARATOR.split(line, maxsplit=1)
        value = parts[1] if len(parts) == 2 else ""
        try:
            yield RawSetting(_unescape(parts[0]), _unescape(value), str(path))
        except ValueError as error:
            raise ConfigError(
                f"{error} in {line!r} (from {path}): expected \\u and four hex digits."
            ) from error


def _logical_lines(text: str) -> Iterator[str]:
    logical = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not logical and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            logical += line[:-1]
            continue
        yield logical + line
        logical = ""
    if logical:
        yield logical


def _unescape(text: str) -> str:
    def character(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ValueError("malformed \\u escape")  # the message of java.util.Properties
        return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", character, text)
