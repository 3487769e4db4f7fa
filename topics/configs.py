"""The effective configuration of a topic: its overrides, the broker's values, the defaults."""

from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Any, Final, NamedTuple, Protocol

from .config_def import ConfigDef, ConfigSource, InvalidConfigValue, Value, format_value
from .config_keys import BROKER_SYNONYMS, TOPIC_KEYS

# Resource name of cluster-wide dynamic broker configs (KIP-226).
EVERY_BROKER: Final = ""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


class StaticBrokerConfig(Protocol):
    """The broker's static configuration."""

    config_def: ConfigDef

    def __contains__(self, key: object, /) -> bool: ...

    def __getitem__(self, key: str, /) -> Value: ...

    def source(self, key: str, /) -> ConfigSource: ...


def static_number(broker: StaticBrokerConfig, key: str) -> int:
    value = broker[key]
    assert isinstance(value, int)
    return value


class ConfigSynonym(NamedTuple):
    """A source of a key's value. `factor` converts it to the unit of the topic key."""

    name: str
    value: Value
    source: ConfigSource
    factor: int = 1

    @property
    def in_topic_unit(self) -> Value:
        """-1 (unlimited) is not converted."""
        if self.factor == 1 or not isinstance(self.value, int):
            return self.value
        return self.value * self.factor if self.value >= 0 else -1


class TopicSettings(NamedTuple):
    """The keys needed to produce, fetch and maintain, parsed once per change. Fields are named
    after their keys, with underscores."""

    cleanup_policy: tuple[str, ...]
    delete_retention_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def has_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


class Configs:
    """Resolves topic and broker keys. `dynamic` is modified by the registry only: resource name (a
    node id or EVERY_BROKER) -> key -> text."""

    def __init__(self, broker: StaticBrokerConfig, node_id: int) -> None:
        self.broker = broker
        self.node_id = node_id
        self.dynamic: dict[str, dict[str, str]] = {}

    def at(self, node_id: int, broker: StaticBrokerConfig | None = None) -> "Configs":
        """Return the configs of another node, which may have a different static config."""
        if node_id == self.node_id:
            return self
        other = Configs(broker or self.broker, node_id)
        other.dynamic = self.dynamic
        return other

    @property
    def every_broker(self) -> dict[str, str]:
        """Cluster-wide dynamic broker configs. Since Kafka 4.1 the controller always stores
        min.insync.replicas here (KIP-966)."""
        stored = self.dynamic.get(EVERY_BROKER, {})
        in_sync = format_value(self.broker[MIN_INSYNC_REPLICAS])
        return stored if in_sync is None else {MIN_INSYNC_REPLICAS: in_sync, **stored}

    def broker_number(self, name: str) -> int:
        """The effective value of a broker key."""
        value = self._sources(((name, 1),))[0].value
        assert isinstance(value, int)
        return value

    def broker_synonyms(self, name: str) -> list[ConfigSynonym]:
        """Every source of a broker key's value, in order of precedence."""
        related = (names for names in BROKER_SYNONYMS.values() if (name, 1) in names)
        return _listed(name, self._sources(next(related, ((name, 1),))))

    def synonyms(self, key: str, overrides: Mapping[str, str]) -> list[ConfigSynonym]:
        """Every source of a topic key's value, in order of precedence."""
        names = BROKER_SYNONYMS.get(key, ())
        sources = self._sources(names)
        if names and names[0][0] not in self.broker:
            # Broker keys that kohort lacks default to the topic's default.
            sources = [ConfigSynonym(names[0][0], TOPIC_KEYS[key].default, ConfigSource.DEFAULT)]
        listed = _listed(names[0][0], sources) if names else []
        return self._override(key, overrides) + listed

    def value(self, key: str, overrides: Mapping[str, str]) -> Value:
        """The effective value of a topic key."""
        sources = self._override(key, overrides) + self._sources(BROKER_SYNONYMS.get(key, ()))
        for synonym in sources:
            if synonym.value is not None:
                return synonym.in_topic_unit
        return TOPIC_KEYS[key].default

    def _override(self, key: str, overrides: Mapping[str, str]) -> list[ConfigSynonym]:
        if key not in overrides:
            return []
        value = TOPIC_KEYS[key].parse(overrides[key])
        return [ConfigSynonym(key, value, ConfigSource.DYNAMIC_TOPIC)]

    def _sources(self, names: Iterable[tuple[str, int]]) -> list[ConfigSynonym]:
        """Every source of a value for these broker keys, in order of precedence."""
        keys = [(self.broker.config_def[n], factor) for n, factor in names if n in self.broker]
        stored = (
            (self.dynamic.get(str(self.node_id), {}), ConfigSource.DYNAMIC_BROKER),
            (self.every_broker, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        )
        dynamic = [
            ConfigSynonym(key.name, key.parse(texts[key.name]), source, factor)
            for key, factor in keys
            for texts, source in stored
            if key.name in texts
        ]
        static = [
            ConfigSynonym(key.name, self.broker[key.name], ConfigSource.STATIC_BROKER, factor)
            for key, factor in keys
            if self.broker.source(key.name) is not ConfigSource.DEFAULT
        ]
        defaults = [
            ConfigSynonym(key.name, key.default, ConfigSource.DEFAULT, factor)
            for key, factor in keys
            if key.default is not None
        ]
        return dynamic + static + defaults

    def settings(self, overrides: Mapping[str, str]) -> TopicSettings:
        """The settings of a topic with these overrides."""
        values: dict[str, Any] = {
            field: self.value(field.replace("_", "."), overrides) for field in TopicSettings._fields
        }
        return TopicSettings(**values)


def validate_overrides(configs: Configs, overrides: Mapping[str, str | None]) -> dict[str, str]:
    """Return a topic's overrides if valid. Raises InvalidConfigValue with Kafka's message."""
    valid = {name: text for name, text in overrides.items() if text is not None}
    if nulls := [name for name in overrides if name not in valid]:
        raise InvalidConfigValue(f"Null value not supported for topic configs: {','.join(nulls)}")
    if unknown := [name for name in valid if name not in TOPIC_KEYS]:
        raise InvalidConfigValue(f"Unknown topic config name: {unknown[0]}")
    for key in TOPIC_KEYS.values():
        if key.name in valid:
            key.parse(valid[key.name])
    low = configs.value("min.compaction.lag.ms", valid)
    high = configs.value("max.compaction.lag.ms", valid)
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise InvalidConfigValue(
            f"conflict topic config setting min.compaction.lag.ms ({low})"
            f" > max.compaction.lag.ms ({high})"
        )
    if configs.value("remote.storage.enable", valid):
        raise InvalidConfigValue(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return valid


def _listed(name: str, sources: Iterable[ConfigSynonym]) -> list[ConfigSynonym]:
    """Drop sources before the first one with exactly this name: log.retention.hours is listed only
    if log.retention.ms is set (upstream: ConfigHelper.configSynonyms)."""
    return list(dropwhile(lambda source: source.name != name, sources))


# The minimum of a topic's segment.bytes; offsets.topic.segment.bytes may be lower.
_SEGMENT_BYTES_MIN: Final = 1024 * 1024


def offsets_topic(broker: StaticBrokerConfig) -> tuple[int, dict[str, str]]:
    """Return (number of partitions, overrides) of the offsets topic (upstream:
    GroupCoordinatorService.groupMetadataTopicConfigs)."""
    segment_bytes = max(static_number(broker, "offsets.topic.segment.bytes"), _SEGMENT_BYTES_MIN)
    return static_number(broker, "offsets.topic.num.partitions"), {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(segment_bytes),
    }
