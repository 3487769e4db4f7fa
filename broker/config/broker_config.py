"""BrokerConfig: the keys of Kafka's server.properties, with validated values and their origins.

Precedence, highest first: flags, `-o`, environment (KAFKA_...), file, default. An invalid setting
raises `ConfigError` with a one-line message; a setting without effect yields a warning.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Self, cast

from ...topics.configs.config_def import (
    HIDDEN,
    ConfigKey,
    ConfigSource,
    ConfigType,
    InvalidConfigValue,
    Value,
    format_value,
)
from ...topics.configs.effective import static_number
from ..security.principal import ANONYMOUS
from .keys import ALL_KEYS, BROKER_KEYS, Durability, is_ignored, listener_key, similar_key
from .listeners import EXAMPLE, Listener, SecurityProtocol, parse_listeners, reachable
from .sources import (
    VARIABLE_PREFIX,
    ConfigError,
    RawSetting,
    from_environment,
    from_file,
    from_overrides,
)

# Some methods are named after types, which they shadow inside the class.
Int = int
Bool = bool
Str = str


class Setting(NamedTuple):
    """A key's value and its origin: `-o`, an environment variable, a file, a flag, `default`."""

    value: Value
    origin: str


_DEFAULTS: Final = {key: Setting(each.default, "default") for key, each in ALL_KEYS.items()}


class BrokerConfig(Mapping[str, Value]):
    """The value of every key in ALL_KEYS. `int`, `bool`, … return a value of the key's type.
    `BrokerConfig({"num.partitions": "6"})` is for tests, `load` for the command line."""

    config_def = ALL_KEYS

    def __init__(
        self, values: Mapping[Str, Str] | None = None, origins: Mapping[Str, Str] | None = None
    ) -> None:
        """`values` override the defaults. `origins` contains origins by key; the default is `code`.
        Raises ConfigError."""
        of = origins or {}
        self._settings = dict(_DEFAULTS)
        # Values by full name: listener.name.NAME.KEY.
        self._of_listeners: dict[Str, Setting] = {}
        self._unknown: dict[Str, RawSetting] = {}
        given = (values or {}).items()
        self._set([RawSetting(key, text, of.get(key, "code")) for key, text in given])

    @classmethod
    def load(
        cls,
        file: Path | None = None,
        env: Mapping[Str, Str] | None = None,
        overrides: Iterable[Str] = (),
    ) -> Self:
        """Load from a server.properties file, the environment and key=value overrides. Raises
        ConfigError for an unreadable file, an invalid setting, or an unknown key that begins with
        `kohort.`."""
        config = cls()
        settings = [*from_environment(env or {}), *from_overrides(overrides)]
        config._set([*from_file(file), *settings] if file else settings)
        return config

    def changed(self, key: Str, text: Str, origin: Str) -> Self:
        """Return a copy with one more setting, which overrides earlier ones. Raises ConfigError."""
        changed = copy.copy(self)
        changed._settings, changed._unknown = dict(self._settings), dict(self._unknown)
        changed._of_listeners = dict(self._of_listeners)
        changed._set([RawSetting(key, text, origin)])
        return changed

    def of_node(self, node_id: Int) -> Self:
        """Return the configuration of another node of this process."""
        return self.changed("node.id", Str(node_id), "--nodes")

    def for_listener(self, listener: Listener, mechanism: Str = "") -> Self:
        """Return a copy in which the values of this listener, set with its prefix
        (`listener.name.client.ssl.client.auth`, KIP-103), replace the general ones. The values of a
        SASL `mechanism` (`listener.name.client.plain.sasl.jaas.config`) replace both."""
        own = copy.copy(self)
        own._settings = dict(self._settings)
        own._override(listener.prefix)
        if mechanism:
            # As in Kafka, the key is read only with a prefix.
            own._settings["sasl.jaas.config"] = Setting(None, "default")
            own._override(f"{listener.prefix}{mechanism.lower()}.")
        return own

    def _override(self, prefix: Str) -> None:
        for name, setting in self._of_listeners.items():
            if (key := name.removeprefix(prefix)) in BROKER_KEYS:
                self._settings[key] = setting

    def of_listener(self, listener: Listener, key: Str) -> Value:
        """Return the value that was set with the prefix of this listener, or None."""
        setting = self._of_listeners.get(listener.prefix + key)
        return None if setting is None else setting.value

    @property
    def of_listeners(self) -> Mapping[Str, Value]:
        """The values that were set with the prefix of any listener, by full name."""
        return {name: setting.value for name, setting in self._of_listeners.items()}

    # --- values by key

    def __getitem__(self, key: Str) -> Value:
        return self._settings[key].value

    def __iter__(self) -> Iterator[Str]:
        return iter(self._settings)

    def __len__(self) -> Int:
        return len(self._settings)

    def origin(self, key: Str) -> Str:
        return self._settings[key].origin

    def source(self, key: Str) -> ConfigSource:
        """Return the origin as DescribeConfigs reports it."""
        default = self._settings[key].origin == "default"
        return ConfigSource.DEFAULT if default else ConfigSource.STATIC_BROKER

    def text(self, key: Str) -> Str | None:
        """Return the value in properties syntax, or None if it is unset. Passwords are hidden."""
        value = self[key]
        if value is not None and ALL_KEYS[key].type is ConfigType.PASSWORD:
            return HIDDEN
        return format_value(value)

    # Each of these methods rejects keys that clients can change, because their values at startup
    # may be outdated. Read such keys with the `Configs` of the node (topics/configs/effective.py),
    # for example by `broker_number`.

    def int(self, key: Str) -> Int:
        value = self._fixed(key)
        assert type(value) is Int, f"{key} is not an integer"
        return value

    def bool(self, key: Str) -> Bool:
        value = self._fixed(key)
        assert type(value) is Bool, f"{key} is not a boolean"
        return value

    def str(self, key: Str) -> Str:
        """Return the value, or "" if it is unset."""
        value = self._fixed(key)
        assert value is None or type(value) is Str, f"{key} is not a string"
        return value or ""

    def list(self, key: Str) -> tuple[Str, ...]:
        """Return the value, or () if it is unset."""
        value = self._fixed(key)
        assert value is None or isinstance(value, tuple), f"{key} is not a list"
        return value or ()

    def _fixed(self, key: Str) -> Value:
        assert ALL_KEYS[key].is_fixed, f"{key} is dynamic: read it with the node's Configs"
        return self[key]

    # --- values that need more than one key

    @property
    def node_id(self) -> Int:
        return self.int("node.id")

    @property
    def durability(self) -> Durability:
        return cast("Durability", self["kohort.durability"])

    @property
    def data_dir(self) -> Path | None:
        """The data folder, or None with durability `none`, which keeps all data in memory."""
        if self.durability == "none":
            return None
        (folder,) = self.list("log.dirs") or self.list("log.dir")
        return Path(folder).expanduser()

    @property
    def listeners(self) -> tuple[Listener, ...]:
        """The addresses to listen on, at least one. Port 0 means any free port; an empty host means
        all interfaces."""
        return self._parse_listeners("listeners")

    @property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The listeners with the addresses that clients receive. Port 0 stands for the bound port.
        The default is the listener's address or, for a listener on all interfaces, the host name,
        as in Kafka."""
        key = "advertised.listeners"
        if not self.list(key):
            return tuple(each._replace(host=reachable(each.host)) for each in self.listeners)
        advertised = self._parse_listeners(key)
        names = [each.name for each in self.listeners]
        for each in advertised:
            if each.is_on_all_interfaces:
                raise ConfigError(
                    f"no host that clients can connect to in {key} (from {self.origin(key)}): "
                    f"expected one, for example {EXAMPLE}."
                )
            if each.name not in names:
                raise ConfigError(
                    f"{each.name} in {key} (from {self.origin(key)}) is not a listener: "
                    f"the listeners are {', '.join(names)}."
                )
        return advertised

    def _parse_listeners(self, key: Str) -> tuple[Listener, ...]:
        ignored = self.list("controller.listener.names")
        protocols = self.str("listener.security.protocol.map")
        where = f"{key} (from {self.origin(key)})"
        nodes = self.int("kohort.nodes") if key == "listeners" else 0
        return parse_listeners(self.list(key), ignored, protocols, nodes, where)

    # --- problems

    def warnings(self) -> Iterator[Str]:
        """Yield warnings about settings without effect, such as a misspelled key, and about
        listeners on which no user can authenticate."""
        for problem in self.unknown_keys():
            yield problem if problem.endswith("?") else f"{problem[:-1]}; it is ignored."
        ignored = [key for key in self._unknown if is_ignored(key)]
        if ignored:
            yield f"configuration keys without effect in kohort: {', '.join(sorted(ignored))}."
        if self["sasl.jaas.config"] is not None:
            yield (
                f"sasl.jaas.config (from {self.origin('sasl.jaas.config')}) has no effect, as in "
                "Kafka: prefix it with listener.name.NAME.MECHANISM., in lower case."
            )
        yield from self._security_warnings()
        if self.data_dir is not None:
            return
        for key in ("log.dir", "log.dirs", "kohort.events", "kohort.cache.offsets"):
            text, origin = self.text(key), self.origin(key)
            if origin != "default" and text not in (None, "off", "0"):
                yield f"{key}={text} (from {origin}) has no effect with durability none."

    def _security_warnings(self) -> Iterator[Str]:
        listeners, super_users = self.listeners, self.str("super.users")
        if all(each.protocol.uses_sasl for each in listeners) and not any(
            map(self._has_users, listeners)
        ):
            names = ", ".join(each.name for each in listeners)
            yield (
                f"no user can authenticate on {names}, except SCRAM users that are stored already: "
                "set kohort.users (kohort serve --user NAME:PASSWORD, Kafka(users={...}))."
            )
        is_anonymous = all(each.protocol is SecurityProtocol.PLAINTEXT for each in listeners)
        if is_anonymous and super_users and str(ANONYMOUS) not in super_users:
            yield (
                f"super.users={super_users} (from {self.origin('super.users')}) has no effect: all "
                f"clients are {ANONYMOUS} with the protocol PLAINTEXT. Choose SASL_SSL or "
                "SASL_PLAINTEXT (--security, security=)."
            )

    def _has_users(self, listener: Listener) -> Bool:
        """Whether clients of a listener with SASL can authenticate without stored SCRAM users."""
        if self["kohort.users"] is not None:
            return True
        mechanisms = self.for_listener(listener).list("sasl.enabled.mechanisms")
        return "OAUTHBEARER" in mechanisms or any(
            self.for_listener(listener, each)["sasl.jaas.config"] is not None for each in mechanisms
        )

    def unknown_keys(self, *, in_environment: Bool = True) -> Iterator[Str]:
        """Yield one line for each key that is unknown to both kohort and Kafka. Without
        `in_environment`, environment variables such as KAFKA_BOOTSTRAP_SERVERS, which may be for
        other programs, are ignored."""
        for key, _, origin in self._unknown.values():
            is_variable = origin.startswith(VARIABLE_PREFIX)
            if not is_ignored(key) and (in_environment or not is_variable):
                yield _unknown_key(key, origin, "")

    def _set(self, settings: Iterable[RawSetting]) -> None:
        for setting in settings:
            key, _, origin = setting
            if key in BROKER_KEYS:
                self._settings[key] = Setting(_parse(setting), origin)
            elif (own := listener_key(key)) is not None:
                # Listener names are always in lower case in these keys.
                name = key.removesuffix(own).lower() + own
                value = _parse(setting, replace(ALL_KEYS[own], name=key))
                self._of_listeners[name] = Setting(value, origin)
            elif key.startswith("kohort."):
                own = ", ".join(key for key in BROKER_KEYS if key.startswith("kohort."))
                raise ConfigError(_unknown_key(key, origin, f": expected one of {own}"))
            else:
                self._unknown[key] = setting
                if key in ALL_KEYS:
                    self._settings[key] = Setting(_parse(setting), origin)
        self._unify_node_id()
        self._validate()

    def _unify_node_id(self) -> None:
        """Give `node.id` and its older name `broker.id` the value of the one that was set
        (upstream: AbstractKafkaConfig.populateSynonyms)."""
        node, broker = self._settings["node.id"], self._settings["broker.id"]
        is_broker_set = broker.origin not in ("default", "node.id") and self.int("broker.id") >= 0
        if is_broker_set and node.origin in ("default", "broker.id"):
            self._settings["node.id"] = Setting(broker.value, "broker.id")
        else:
            self._settings["broker.id"] = Setting(node.value, "node.id")

    def _validate(self) -> None:
        """Validate constraints across keys, and the syntax of values."""
        folders = "log.dirs" if self.list("log.dirs") else "log.dir"
        count = len(self.list(folders))
        if count != 1:
            raise ConfigError(
                f"{count} folders in {folders} (from {self.origin(folders)}): expected one."
            )
        low, high = "group.min.session.timeout.ms", "group.max.session.timeout.ms"
        if self.int(low) > self.int(high):
            raise ConfigError(
                f"{low}={self.int(low)} (from {self.origin(low)}) is above "
                f"{high}={self.int(high)} (from {self.origin(high)}): lower it, or raise the other."
            )
        self._validate_consumer_groups()
        if self["max.connections.per.ip"] == 0 and not self["max.connections.per.ip.overrides"]:
            raise ConfigError(
                f"max.connections.per.ip=0 (from {self.origin('max.connections.per.ip')}) needs "
                "max.connections.per.ip.overrides: set that key, or raise the limit."
            )
        _ = self.advertised_listeners
        nodes = self.int("kohort.nodes")
        last_port = max(each.port for each in self.listeners) + nodes - 1
        if last_port > 65535:
            raise ConfigError(
                f"the last of {nodes} nodes would listen on port {last_port}: "
                "choose a lower first port, or 0 for any free ports."
            )

    def _validate_consumer_groups(self) -> None:
        """Validate with Kafka's messages (upstream: GroupCoordinatorConfig)."""
        number = partial(static_number, self)
        for name in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            key, low, high = (f"group.consumer.{bound}{name}" for bound in ("", "min.", "max."))
            self._require(number(high) >= number(low), high, "greater than or equal to", low)
            self._require(number(key) >= number(low), key, "greater than or equal to", low)
            self._require(number(key) <= number(high), key, "less than or equal to", high)
        key, session = "group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"
        self._require(number(key) < number(session), key, "less than", session)

    def _require(self, holds: Bool, key: Str, relation: Str, other: Str) -> None:
        if not holds:
            raise ConfigError(
                f"{key} must be {relation} {other}: they are {self[key]} (from "
                f"{self.origin(key)}) and {self[other]} (from {self.origin(other)})."
            )


def _unknown_key(key: str, origin: str, otherwise: str) -> str:
    hint = similar_key(key) or f"{otherwise}."
    return f"unknown configuration key '{key}' (from {origin}){hint}"


def _parse(setting: RawSetting, key: ConfigKey | None = None) -> Value:
    key = key or ALL_KEYS[setting.key]
    if key.nullable and not setting.text.strip():
        return None  # `advertised.listeners=` in a file
    try:
        return key.parse(setting.text)
    except InvalidConfigValue as error:
        raise ConfigError(f"{error} (from {setting.origin}).") from error
