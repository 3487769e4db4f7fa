"""Typed configuration keys: parsing, validation, and messages for invalid values.

Each kind of resource (broker, topics, groups, client metrics) has a `ConfigDef`, a set of keys. The
error messages are taken from Kafka's ConfigDef.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Final, Protocol, TypeAlias

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. Lists are tuples. None means that the key has no value (`log.retention.ms`)."""

Validator = Callable[[str, Value], None]
"""Called with a key's name and a parsed value. Raises InvalidConfigValue."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigType(IntEnum):
    """Types as numbered in DescribeConfigs (KIP-569)."""

    UNKNOWN = 0
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
    """Sources as numbered in DescribeConfigs (KIP-226)."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


class InvalidConfigValue(ValueError):
    """A value that is invalid for its key, with Kafka's message."""

    @classmethod
    def of(cls, name: str, value: Value, reason: str) -> "InvalidConfigValue":
        """Return an error with Kafka's usual message and the reason."""
        # Java prints a list in brackets.
        shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else format_value(value)
        return cls(f"Invalid value {shown} for configuration {name}: {reason}")


BOUNDS: Final[Mapping[ConfigType, tuple[int, int]]] = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-INT_MAX - 1, INT_MAX),
    ConfigType.LONG: (-LONG_MAX - 1, LONG_MAX),
}
# 64-bit numbers have at most nineteen digits. Longer strings are rejected without being parsed.
INTEGER: Final = re.compile(r"([+-]?)(?=\d)0*+(\d{0,19})")
# Double.parseDouble's grammar.
DECIMAL: Final = re.compile(
    r"[+-]?(NaN|Infinity|([0-9]++\.?[0-9]*+|\.[0-9]++)([eE][+-]?[0-9]++)?[fFdD]?)"
)
HEXADECIMAL: Final = re.compile(
    r"([+-]?0x([0-9a-f]++\.?|[0-9a-f]*+\.[0-9a-f]++)p[+-]?[0-9]++)[fd]?", re.IGNORECASE
)
# Characters removed by String.trim (not the no-break space).
BLANK: Final = "".join(map(chr, range(ord(" ") + 1)))
# The characters of Java's \s, which are removed around the commas of a list.
WHITESPACE: Final = " \t\n\r\f\v"


HIDDEN: Final = "[hidden]"
"""Shown instead of a password."""


def format_value(value: Value) -> str | None:
    """Format a value as Java would write it in a properties file."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _decimal_text(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _decimal_text(value: float) -> str:
    """Like Double.toString, which uses an exponent for numbers below 0.001 and from 10^7 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    digits, _, exponent = f"{Decimal(str(value)).normalize():E}".partition("E")
    return f"{digits}{'' if '.' in digits else '.0'}E{int(exponent)}"


def parse_integer(text: str, kind: ConfigType = ConfigType.INT) -> int | None:
    """Like Integer.parseInt and Long.parseLong (digits of any script). Return None if Java would
    throw an exception."""
    low, high = BOUNDS[kind]
    match = INTEGER.fullmatch(text)
    value = int(f"{match[1]}{match[2] or 0}") if match else None
    return value if value is not None and low <= value <= high else None


def parse_decimal(text: str) -> float | None:
    """Like Double.parseDouble. Return None if Java would throw an exception."""
    if match := HEXADECIMAL.fullmatch(text):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return -math.inf if text.startswith("-") else math.inf
    return float(text.rstrip("fFdD")) if DECIMAL.fullmatch(text) else None


def split_list(text: str) -> tuple[str, ...]:
    """Like Java's `split("\\s*,\\s*", -1)` of a trimmed string, in linear time."""
    return tuple(item.strip(WHITESPACE) for item in text.split(","))


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A configuration key. A `nullable` key may be unset. A `read_only` key cannot change while the
    broker runs. `no_effect` is the reason why a key that is accepted and validated has no effect.
    An `at_startup` key can change in Kafka, but kohort reads it only when it starts.
    DescribeConfigs returns an `internal` key only if it is set. With `repeats`, a list may contain
    duplicate items."""

    name: str
    type: ConfigType
    default: Value
    validator: Validator | None = None
    doc: str = ""
    nullable: bool = False
    read_only: bool = False
    no_effect: str = ""
    internal: bool = False
    at_startup: bool = False
    repeats: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether kohort reads the key only when it starts."""
        return self.read_only or self.at_startup

    def parse(self, text: str) -> Value:
        """Parse and validate a value. Raises InvalidConfigValue with Kafka's message."""
        value = self._typed(text, text.strip(BLANK))
        self.check(value)
        return value

    def check(self, value: Value) -> None:
        """Validate a value of the right type. Raises InvalidConfigValue."""
        if value is None:
            if not self.nullable:
                raise InvalidConfigValue.of(self.name, value, "Value must be non-null")
        elif self.validator is not None:
            self.validator(self.name, value)

    def _typed(self, text: str, trimmed: str) -> Value:
        if self.type is ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise InvalidConfigValue.of(
                    self.name, text, "Expected value to be either true or false"
                )
            return trimmed.lower() == "true"
        if self.type is ConfigType.LIST:
            items = split_list(trimmed) if trimmed else ()
            # Kafka removes duplicates from most of the lists that it validates.
            keeps = self.repeats or self.validator is None
            return items if keeps else tuple(dict.fromkeys(items))
        number = f"Not a number of type {self.type.name}"
        if self.type is ConfigType.DOUBLE:
            if (decimal := parse_decimal(trimmed)) is None:
                raise InvalidConfigValue.of(self.name, text, number)
            return decimal
        if self.type in BOUNDS:
            if (integer := parse_integer(trimmed, self.type)) is None:
                raise InvalidConfigValue.of(self.name, text, number)
            return integer
        return trimmed


ConfigDef: TypeAlias = Mapping[str, ConfigKey]
"""Keys by name, in the order of declaration."""


class StaticBrokerConfig(Protocol):
    """The broker's configuration at startup."""

    config_def: ConfigDef

    def __contains__(self, key: object, /) -> bool: ...

    def __getitem__(self, key: str, /) -> Value: ...

    def get(self, key: str, default: Value, /) -> Value: ...

    def source(self, key: str, /) -> ConfigSource: ...


def config_def(keys: Iterable[ConfigKey]) -> ConfigDef:
    """Return the keys by name. Names must be unique and defaults valid."""
    defined: dict[str, ConfigKey] = {}
    for key in keys:
        assert key.name not in defined, f"{key.name} is declared twice"
        key.check(key.default)
        defined[key.name] = key
    return defined


def at_least(low: float) -> Validator:
    """Return a validator for a minimum."""
    return between(low, math.inf)


def between(low: float, high: float) -> Validator:
    """Return a validator for an inclusive range."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int | float)
        if value < low:
            raise InvalidConfigValue.of(name, value, f"Value must be at least {low}")
        if value > high:
            raise InvalidConfigValue.of(name, value, f"Value must be no more than {high}")

    return check


def one_of(*allowed: str) -> Validator:
    """Return a validator that accepts only these strings."""

    def check(name: str, value: Value) -> None:
        if value not in allowed:
            reason = f"String must be one of: {', '.join(allowed)}"
            raise InvalidConfigValue.of(name, value, reason)

    return check


def one_of_ignoring_case(*allowed: str) -> Validator:
    """Return a validator that accepts only these strings, ignoring case."""
    lower = {each.lower() for each in allowed}

    def check(name: str, value: Value) -> None:
        assert isinstance(value, str)
        if value.lower() not in lower:
            reason = f"String must be one of (case insensitive): {', '.join(allowed)}"
            raise InvalidConfigValue.of(name, value, reason)

    return check


def list_of(*allowed: str, may_be_empty: bool = True) -> Validator:
    """Return a validator for lists that contain only these items."""
    check_item = one_of(*allowed)

    def check(name: str, value: Value) -> None:
        assert isinstance(value, tuple)
        no_empty_items(name, value)
        if not value and not may_be_empty:
            raise InvalidConfigValue(
                f"Configuration '{name}' must not be empty. "
                f"Valid values include: [{', '.join(allowed)}]"
            )
        for item in value:
            check_item(name, item)

    return check


def no_empty_items(name: str, value: Value) -> None:
    """Validate that a list has no empty items."""
    if isinstance(value, tuple) and "" in value:
        raise InvalidConfigValue(f"Configuration '{name}' values must not be empty.")


def not_empty(name: str, value: Value) -> None:
    """Validate that a string is not empty, or that a list is not empty and has no empty items."""
    no_empty_items(name, value)
    if value in ("", ()):
        raise InvalidConfigValue.of(name, value, "String must be non-empty")
