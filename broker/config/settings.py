"""A set of keys with typed values, and who gave each. Changed only by `BrokerConfig`."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...topics.config_def import ConfigDef, ConfigSource, Value, text_of

__all__ = ["Setting", "Settings"]

# The getters below carry the names of the types they give, and so hide these inside the class.
Int = int
Bool = bool
Str = str


class Setting(NamedTuple):
    """A key's value and who gave it: `-o`, an environment variable, a file, a flag, `default`."""

    value: Value
    origin: str


class Settings(Mapping[str, Value]):
    """Key -> value of a `ConfigDef`; `int`, `bool`, … give a value that the key's type promises."""

    def __init__(self, keys: ConfigDef) -> None:
        self.keys_known = keys
        self._settings = {name: Setting(key.default, "default") for name, key in keys.items()}

    def __getitem__(self, key: Str) -> Value:
        return self._settings[key].value

    def __iter__(self) -> Iterator[Str]:
        return iter(self._settings)

    def __len__(self) -> Int:
        return len(self._settings)

    def origin(self, key: Str) -> Str:
        """Who gave this value, in words for people."""
        return self._settings[key].origin

    def source(self, key: Str) -> ConfigSource:
        """Who gave this value, as DescribeConfigs tells it."""
        default = self._settings[key].origin == "default"
        return ConfigSource.DEFAULT if default else ConfigSource.STATIC_BROKER

    def text(self, key: Str) -> Str | None:
        """The value as a configuration file would say it; None where there is none."""
        return text_of(self[key])

    def int(self, key: Str) -> Int:
        value = self[key]
        assert type(value) is Int, f"{key} is not a whole number"
        return value

    def bool(self, key: Str) -> Bool:
        value = self[key]
        assert type(value) is Bool, f"{key} is neither true nor false"
        return value

    def str(self, key: Str) -> Str:
        """A text; empty where the key has no value."""
        value = self[key]
        assert value is None or type(value) is Str, f"{key} is not a text"
        return value or ""

    def list(self, key: Str) -> tuple[Str, ...]:
        """A list's items; none where the key has no value."""
        value = self[key]
        assert value is None or isinstance(value, tuple), f"{key} is not a list"
        return value or ()
