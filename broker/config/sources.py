"""Where settings are written: a properties file, environment variables, `key=value` texts.

Each source gives (key, text, origin) triples; what a text means is not decided here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["ConfigError", "Given", "from_environment", "from_file", "from_overrides", "key_of"]

# Variables that Kafka's start scripts and images read themselves; they name no broker key.
SCRIPT_VARIABLES: Final = re.compile(
    r"KAFKA_(VERSION|HOME|HEAP_OPTS|OPTS|DEBUG|JMX_\w+|JVM_\w+|GC_\w+|LOG4J_\w+|TOOLS_\w+)"
)
SEPARATOR: Final = re.compile(r"(?<!\\)\s*[=:]\s*|(?<!\\)\s+")
ESCAPES: Final[Mapping[str, str]] = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class ConfigError(ValueError):
    """A setting that cannot be; the message is one sentence for the person who wrote it."""


class Given(NamedTuple):
    """A setting as it was written, and where."""

    key: str
    text: str
    origin: str


def key_of(variable: str) -> str:
    """KAFKA_NUM_PARTITIONS -> num.partitions, by the rule of Kafka's images (`__` is `_`)."""
    words = variable.removeprefix("KAFKA_").lower().replace("___", "-").replace("__", "\0")
    return words.replace("_", ".").replace("\0", "_")


def from_environment(env: Mapping[str, str]) -> Iterator[Given]:
    for variable, text in sorted(env.items()):
        if variable.startswith("KAFKA_") and not SCRIPT_VARIABLES.fullmatch(variable):
            yield Given(key_of(variable), text, variable)


def from_overrides(overrides: Iterable[str]) -> Iterator[Given]:
    for override in overrides:
        key, sign, text = override.partition("=")
        if not sign or not key.strip():
            raise ConfigError(f"-o {override}: write it as key=value, as in -o num.partitions=6.")
        yield Given(key.strip(), text, "-o")


def from_file(path: Path) -> Iterator[Given]:
    """Java's properties format: `#` and `!` begin comments, `\\` at the end continues a line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}): give --config a readable properties file."
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text: give --config a properties file.") from error
    for line in _logical_lines(text):
        parts = SEPARATOR.split(line, maxsplit=1)
        value = parts[1] if len(parts) == 2 else ""
        try:
            yield Given(_unescaped(parts[0]), _unescaped(value), str(path))
        except ValueError as error:
            raise ConfigError(
                f"{path}: {error} in {line!r}: write \\u and four hex digits."
            ) from error


def _logical_lines(text: str) -> Iterator[str]:
    gathered = ""
    for raw in text.splitlines():
        line = raw.lstrip()
        if not gathered and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            gathered += line[:-1]
            continue
        yield gathered + line
        gathered = ""
    if gathered:
        yield gathered


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        if code == "u":
            raise ValueError("malformed \\u escape")  # as java.util.Properties
        return chr(int(code[1:], 16)) if len(code) > 1 else ESCAPES.get(code, code)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", plain, text)
