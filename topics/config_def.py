"""Typed configuration keys: what a text means, which values are allowed, what is said when not.

One `ConfigKey` per key, gathered in a `ConfigDef`. Topics and the broker use the same machinery,
and the texts are those that Kafka's own `ConfigDef` puts into INVALID_CONFIG answers.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Final

__all__ = [
    "INT_MAX",
    "LONG_MAX",
    "ConfigDef",
    "ConfigKey",
    "ConfigSource",
    "ConfigType",
    "InvalidConfigValue",
    "Validator",
    "Value",
    "at_least",
    "between",
    "integer_of",
    "no_empty_items",
    "not_empty",
    "one_of",
    "some_of",
    "text_of",
]

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. Lists are tuples; None is a key without value (`log.retention.ms`)."""

Validator = Callable[[str, Value], None]
"""Called with a key's name and a parsed value; raises InvalidConfigValue when it is not allowed."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """The numbers that DescribeConfigs writes (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Who gave a value, in the numbers that DescribeConfigs writes (KIP-226)."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class InvalidConfigValue(ValueError):
    """A text that its key does not take; the message is the whole sentence Kafka gives."""

    @classmethod
    def of(cls, name: str, value: Value, complaint: str) -> "InvalidConfigValue":
        """Kafka's usual sentence around what is wrong with this value of this key."""
        # Java prints a list in brackets; everything else as it is configured.
        shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else text_of(value)
        return cls(f"Invalid value {shown} for configuration {name}: {complaint}")


BOUNDS: Final[Mapping[ConfigType, tuple[int, int]]] = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-INT_MAX - 1, INT_MAX),
    ConfigType.LONG: (-LONG_MAX - 1, LONG_MAX),
}
# Nineteen digits hold every 64-bit number; more are refused before they are computed.
INTEGER: Final = re.compile(r"([+-]?)0*(\d{1,19})")
# As Double.parseDouble has them, but for its hexadecimal ones.
DECIMAL: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?)"
)
# What String.trim takes away; a no-break space stays.
BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
COMMA: Final = re.compile(r"\s*,\s*", re.ASCII)


def text_of(value: Value) -> str | None:
    """A value as a configuration file would say it, and as Java writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _decimal_text(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _decimal_text(value: float) -> str:
    """Double.toString: with an exponent below 0.001 and from ten million on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    digits, _, exponent = f"{Decimal(str(value)).normalize():E}".partition("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"


def integer_of(text: str, kind: ConfigType = ConfigType.INT) -> int | None:
    """As Integer.parseInt and Long.parseLong: digits of any script; None where they throw."""
    low, high = BOUNDS[kind]
    match = INTEGER.fullmatch(text)
    value = int("".join(match.groups())) if match else None
    return value if value is not None and low <= value <= high else None


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key: its type, its default and which values it takes.

    `nullable` keys may be without a value. `read_only` ones are fixed while a broker runs. `idle`
    says of a key that is taken, checked and told, why nothing depends on it.
    """

    name: str
    type: ConfigType
    default: Value
    validator: Validator | None = None
    doc: str = ""
    nullable: bool = False
    read_only: bool = False
    idle: str = ""

    def parse(self, text: str) -> Value:
        """The value that `text` means; raises InvalidConfigValue with Kafka's sentence."""
        value = self._typed(text, text.strip(BLANK))
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Raises InvalidConfigValue when a value of the right type is not allowed here."""
        if value is None:
            if not self.nullable:
                raise InvalidConfigValue.of(self.name, value, "Value must be non-null")
        elif self.validator is not None:
            self.validator(self.name, value)

    def text(self, value: Value) -> str | None:
        """A value of this key as a configuration file would say it."""
        return text_of(value)

    def _typed(self, text: str, trimmed: str) -> Value:
        if self.type is ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise self._mistyped(text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        if self.type is ConfigType.LIST:
            return tuple(COMMA.split(trimmed)) if trimmed else ()
        number = f"Not a number of type {self.type.name}"
        if self.type is ConfigType.DOUBLE:
            if not DECIMAL.fullmatch(trimmed):
                raise self._mistyped(text, number)
            return float(trimmed.rstrip("fFdD"))
        if self.type in BOUNDS:
            if (integer := integer_of(trimmed, self.type)) is None:
                raise self._mistyped(text, number)
            return integer
        return trimmed

    def _mistyped(self, text: str, complaint: str) -> InvalidConfigValue:
        return InvalidConfigValue.of(self.name, text, complaint)


class ConfigDef(Mapping[str, ConfigKey]):
    """The keys that belong together, by name, in the order they were declared."""

    def __init__(self, keys: Iterable[ConfigKey]) -> None:
        self._keys: dict[str, ConfigKey] = {}
        for key in keys:
            assert key.name not in self._keys, f"{key.name} is declared twice"
            key.check(key.default)
            self._keys[key.name] = key

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def defaults(self) -> dict[str, Value]:
        """Every key with its default."""
        return {name: key.default for name, key in self._keys.items()}


def at_least(low: float) -> Validator:
    """Numbers from `low` on."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low:
            raise InvalidConfigValue.of(name, value, f"Value must be at least {low}")

    return check


def between(low: float, high: float) -> Validator:
    """Numbers from `low` to `high`, both allowed."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low:
            raise InvalidConfigValue.of(name, value, f"Value must be at least {low}")
        if value > high:
            raise InvalidConfigValue.of(name, value, f"Value must be no more than {high}")

    return check


def one_of(*allowed: str) -> Validator:
    """One of these strings."""

    def check(name: str, value: Value) -> None:
        if value not in allowed:
            complaint = f"String must be one of: {', '.join(allowed)}"
            raise InvalidConfigValue.of(name, value, complaint)

    return check


def some_of(*allowed: str) -> Validator:
    """A list with no other items than these."""
    check_item = one_of(*allowed)

    def check(name: str, value: Value) -> None:
        assert isinstance(value, tuple)
        no_empty_items(name, value)
        for item in value:
            check_item(name, item)

    return check


def no_empty_items(name: str, value: Value) -> None:
    """Lists of any items but empty ones."""
    if isinstance(value, tuple) and "" in value:
        raise InvalidConfigValue(f"Configuration '{name}' values must not be empty.")


def not_empty(name: str, value: Value) -> None:
    """Strings with at least one character, lists with at least one item, none of them empty."""
    no_empty_items(name, value)
    if value in ("", ()):
        raise InvalidConfigValue.of(name, value, "String must be non-empty")
