"""What a topic's configuration comes to: its own overrides, the broker's values, the defaults."""

from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Final, NamedTuple, Protocol

from .config_def import ConfigDef, ConfigSource, InvalidConfigValue, Value, text_of
from .config_keys import BROKER_SYNONYMS, TOPIC_KEYS

__all__ = [
    "EVERY_BROKER",
    "MIN_INSYNC_REPLICAS",
    "BrokerSettings",
    "Configs",
    "Described",
    "Synonym",
    "TopicSettings",
    "checked",
    "described",
]


class BrokerSettings(Protocol):
    """The broker's own keys, as it was started (broker/config/broker_config.py)."""

    config_def: ConfigDef

    def __contains__(self, key: object, /) -> bool: ...

    def __getitem__(self, key: str, /) -> Value: ...

    def source(self, key: str, /) -> ConfigSource: ...


class Synonym(NamedTuple):
    """One place that gives a value to a key; DescribeConfigs lists them strongest first."""

    name: str
    value: Value
    source: ConfigSource
    factor: int = 1

    @property
    def in_topic_unit(self) -> Value:
        """The value in the unit of the topic's key; -1, never, is -1 in every unit."""
        if self.factor == 1 or not isinstance(self.value, int):
            return self.value
        return self.value * self.factor if self.value >= 0 else -1


class TopicSettings(NamedTuple):
    """What the way of a record looks at, read once per topic and change of its configuration."""

    max_message_bytes: int
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compacted: bool
    deletes: bool
    flush_messages: int
    flush_ms: int
    segment_bytes: int
    segment_ms: int
    index_interval_bytes: int
    preallocate: bool
    retention_ms: int
    retention_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float


# Resource names of the broker's dynamic values: "" is every broker (KIP-226).
EVERY_BROKER: Final = ""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class Configs:
    """Resolves topic and broker keys. `dynamic` (resource name -> key -> text) is written by the
    registry alone; the resource is a node id or EVERY_BROKER."""

    def __init__(self, broker: BrokerSettings, node_id: int) -> None:
        self.broker = broker
        self.node_id = node_id
        self.dynamic: dict[str, dict[str, str]] = {}

    def at(self, node_id: int, broker: BrokerSettings | None = None) -> "Configs":
        """The same as another node sees them, which may have been started in another way."""
        if node_id == self.node_id:
            return self
        seen = Configs(broker or self.broker, node_id)
        seen.dynamic = self.dynamic
        return seen

    def dynamic_texts(self, name: str) -> list[tuple[str, ConfigSource]]:
        """The broker key's values that were set while a broker ran, the strongest first."""
        places = (
            (self.dynamic.get(str(self.node_id), {}), ConfigSource.DYNAMIC_BROKER),
            (self.every_broker, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        )
        return [(texts[name], source) for texts, source in places if name in texts]

    @property
    def every_broker(self) -> dict[str, str]:
        """The dynamic values of every broker. Since 4.1 Kafka's clusters are born with one: the
        controller writes down its min.insync.replicas (KIP-966)."""
        given = self.dynamic.get(EVERY_BROKER, {})
        in_sync = text_of(self.broker[MIN_INSYNC_REPLICAS])
        return given if in_sync is None else {MIN_INSYNC_REPLICAS: in_sync, **given}

    def broker_number(self, name: str) -> int:
        """The value of broker key `name` that is in force."""
        value = self._places(((name, 1),))[0].value
        assert isinstance(value, int)
        return value

    def broker_synonyms(self, name: str) -> list[Synonym]:
        """Every place that gives broker key `name` a value, the strongest first."""
        together = (names for names in BROKER_SYNONYMS.values() if (name, 1) in names)
        return _from(name, self._places(next(together, ((name, 1),))))

    def synonyms(self, key: str, overrides: Mapping[str, str]) -> list[Synonym]:
        """Every place that gives topic key `key` a value, the strongest first."""
        names = BROKER_SYNONYMS.get(key, ())
        places = self._places(names)
        if names and names[0][0] not in self.broker:
            # A broker's key that is not taken here (log.local.retention.ms) has the topic's.
            places = [Synonym(names[0][0], TOPIC_KEYS[key].default, ConfigSource.DEFAULT)]
        told = _from(names[0][0], places) if names else []
        return self._overridden(key, overrides) + told

    def value(self, key: str, overrides: Mapping[str, str]) -> Value:
        """The value of topic key `key` that is in force."""
        places = self._overridden(key, overrides) + self._places(BROKER_SYNONYMS.get(key, ()))
        for synonym in places:
            if synonym.value is not None:
                return synonym.in_topic_unit
        return TOPIC_KEYS[key].default

    def _overridden(self, key: str, overrides: Mapping[str, str]) -> list[Synonym]:
        if key not in overrides:
            return []
        return [Synonym(key, TOPIC_KEYS[key].parse(overrides[key]), ConfigSource.DYNAMIC_TOPIC)]

    def _places(self, names: Iterable[tuple[str, int]]) -> list[Synonym]:
        """Every place that gives one of these broker keys a value, the strongest first."""
        keys = [(self.broker.config_def[n], factor) for n, factor in names if n in self.broker]
        dynamic = [
            Synonym(key.name, key.parse(text), source, factor)
            for key, factor in keys
            for text, source in self.dynamic_texts(key.name)
        ]
        static = [
            Synonym(key.name, self.broker[key.name], ConfigSource.STATIC_BROKER, factor)
            for key, factor in keys
            if self.broker.source(key.name) is not ConfigSource.DEFAULT
        ]
        defaults = [
            Synonym(key.name, key.default, ConfigSource.DEFAULT, factor)
            for key, factor in keys
            if key.default is not None
        ]
        return dynamic + static + defaults

    def settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        """All that the way of a record looks at, for a topic with these overrides."""

        def number(key: str) -> int:
            value = self.value(key, overrides)
            assert isinstance(value, int)
            return value

        policy = self.value("cleanup.policy", overrides)
        ratio = self.value("min.cleanable.dirty.ratio", overrides)
        assert isinstance(policy, tuple)
        assert isinstance(ratio, (int, float))
        return TopicSettings(
            max_message_bytes=number("max.message.bytes"),
            log_append_time=self.value("message.timestamp.type", overrides) == "LogAppendTime",
            timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
            timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
            compacted="compact" in policy,
            deletes="delete" in policy,
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            index_interval_bytes=number("index.interval.bytes"),
            preallocate=bool(self.value("preallocate", overrides)),
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            delete_retention_ms=number("delete.retention.ms"),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=number("max.compaction.lag.ms"),
            min_cleanable_dirty_ratio=ratio,
        )


def checked(configs: Configs, overrides: Mapping[str, str | None]) -> dict[str, str]:
    """The overrides of a topic if all are allowed; raises InvalidConfigValue in Kafka's words."""
    good = {name: text for name, text in overrides.items() if text is not None}
    if nulls := [name for name in overrides if name not in good]:
        raise InvalidConfigValue(f"Null value not supported for topic configs: {','.join(nulls)}")
    if strangers := [name for name in good if name not in TOPIC_KEYS]:
        raise InvalidConfigValue(f"Unknown topic config name: {strangers[0]}")
    for key in TOPIC_KEYS.values():
        if key.name in good:
            key.parse(good[key.name])
    low = configs.value("min.compaction.lag.ms", good)
    high = configs.value("max.compaction.lag.ms", good)
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise InvalidConfigValue(
            f"conflict topic config setting min.compaction.lag.ms ({low})"
            f" > max.compaction.lag.ms ({high})"
        )
    if configs.value("remote.storage.enable", good):
        raise InvalidConfigValue(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return good


def _from(name: str, places: Iterable[Synonym]) -> list[Synonym]:
    """What is told of them: what goes before the first that has this very name is left out, so
    log.retention.hours is told where log.retention.ms is set, and there alone (upstream:
    ConfigHelper.configSynonyms)."""
    return list(dropwhile(lambda place: place.name != name, places))


class Described(NamedTuple):
    """A topic key as clients are told it."""

    name: str
    text: str | None
    source: ConfigSource
    synonyms: list[Synonym]


def described(configs: Configs, key: str, overrides: Mapping[str, str]) -> Described:
    """What topic key `key` comes to for a topic with these overrides, and who said so."""
    synonyms = configs.synonyms(key, overrides)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return Described(key, text_of(configs.value(key, overrides)), source, synonyms)
