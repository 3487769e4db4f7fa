"""Resolves the effective configuration of topics and groups: overrides, broker values, defaults."""

import logging
from collections.abc import Iterable, Mapping
from itertools import dropwhile
from typing import Any, Final, NamedTuple

from ...protocol.budgets import MIB
from ..names import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from .config_def import (
    ConfigDef,
    ConfigSource,
    InvalidConfigValue,
    StaticBrokerConfig,
    Value,
    format_value,
)
from .group_configs import BOUNDS_OF_BROKER_KEYS, GROUP_KEYS, GroupBound, broker_synonym, limits
from .topic_keys import BROKER_SYNONYMS, INTERNAL_SEGMENT_BYTES, TOPIC_KEYS

_log = logging.getLogger("kohort.topics")

# Resource name of cluster-wide dynamic broker configs (KIP-226).
EVERY_BROKER: Final = ""
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
CORDONED_LOG_DIRS: Final = "cordoned.log.dirs"


def static_number(broker: StaticBrokerConfig, key: str) -> int:
    value = broker[key]
    assert isinstance(value, int)
    return value


class ConfigSynonym(NamedTuple):
    """A source of a key's value. `factor` converts the value to the topic key's unit. For a dynamic
    broker value, `text` is the value as the client wrote it."""

    name: str
    value: Value
    source: ConfigSource
    factor: int = 1
    text: str | None = None

    @property
    def in_topic_unit(self) -> Value:
        """The value in the unit of the topic key. -1 (unlimited) is not converted."""
        if self.factor == 1 or not isinstance(self.value, int):
            return self.value
        return self.value * self.factor if self.value >= 0 else -1


class TopicSettings(NamedTuple):
    """The values needed for producing, fetching and maintenance, parsed once per change. Fields are
    named after their keys, with underscores."""

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
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @property
    def compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def has_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"


class ConsumerGroupConfig(NamedTuple):
    """The settings of a group of the consumer protocol. Fields are named after their keys, without
    `consumer.` and with underscores."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class Configs:
    """Resolves topic, group and broker keys. Only the registry modifies the overrides."""

    def __init__(self, broker: StaticBrokerConfig, node_id: int) -> None:
        self.broker = broker
        self.node_id = node_id
        self.dynamic: dict[str, dict[str, str]] = {}
        """Texts by resource name (a node id or EVERY_BROKER) and key."""
        self.groups: dict[str, dict[str, str]] = {}
        """Texts by group id and key, for groups with overrides."""
        self.client_metrics: dict[str, dict[str, str]] = {}
        """Texts by subscription and key."""
        # Effective values by node and group id (None for all groups without overrides).
        self._consumer_groups: dict[tuple[int, str | None], ConsumerGroupConfig] = {}

    def at(self, node_id: int, broker: StaticBrokerConfig | None = None) -> "Configs":
        """Return the configs of another node, which may have a different static config."""
        if node_id == self.node_id:
            return self
        other = Configs(broker or self.broker, node_id)
        other.dynamic, other.groups = self.dynamic, self.groups
        other.client_metrics = self.client_metrics
        other._consumer_groups = self._consumer_groups
        return other

    def with_dynamic(self, resource: str, texts: Mapping[str, str]) -> "Configs":
        """Return the broker's configuration with these dynamic values of a node or of EVERY_BROKER,
        and without the overrides of groups and client metrics."""
        changed = Configs(self.broker, self.node_id)
        changed.dynamic = {**self.dynamic, resource: dict(texts)}
        return changed

    # --- changes, by the registry

    def configure_broker(self, resource: str, texts: Mapping[str, str]) -> None:
        self.dynamic[resource] = dict(texts)
        self._consumer_groups.clear()

    def configure_group(self, group_id: str, texts: Mapping[str, str]) -> None:
        if texts:
            self.groups[group_id] = dict(texts)
        else:
            self.groups.pop(group_id, None)
        self._consumer_groups.clear()

    def configure_client_metrics(self, name: str, texts: Mapping[str, str]) -> None:
        if texts:
            self.client_metrics[name] = dict(texts)
        else:
            self.client_metrics.pop(name, None)

    def clear(self) -> None:
        """Remove all configs that clients have set, except the overrides of topics."""
        for overrides in (self.dynamic, self.groups, self.client_metrics, self._consumer_groups):
            overrides.clear()

    # --- broker keys

    @property
    def every_broker(self) -> dict[str, str]:
        """Cluster-wide dynamic broker configs. Since Kafka 4.1, the controller always stores
        min.insync.replicas here (KIP-966)."""
        stored = self.dynamic.get(EVERY_BROKER, {})
        in_sync = format_value(self.broker[MIN_INSYNC_REPLICAS])
        return stored if in_sync is None else {MIN_INSYNC_REPLICAS: in_sync, **stored}

    def broker_number(self, name: str) -> int:
        """Return the effective value of a numeric broker key."""
        value = self._broker_value(name)
        assert isinstance(value, int)
        return value

    def broker_text(self, name: str) -> str:
        """Return the effective value of a broker key of type string."""
        value = self._broker_value(name)
        assert isinstance(value, str)
        return value

    def _broker_value(self, name: str) -> Value:
        return self.effective(self._sources(((name, 1),))[0])

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """The configured data folders; kohort uses one."""
        folders = self.broker["log.dirs"] or self.broker["log.dir"]
        assert isinstance(folders, tuple)
        return folders

    @property
    def cordoned(self) -> tuple[str, ...]:
        """Data folders in which no new partition may be placed (KIP-1066), or `*`."""
        folders = self._broker_value(CORDONED_LOG_DIRS)
        assert isinstance(folders, tuple)
        return folders

    @property
    def listener_names(self) -> frozenset[str]:
        """Listener names, as in the prefixes of their keys."""
        listeners = self.broker["listeners"]
        assert isinstance(listeners, tuple)
        return frozenset(each.partition("://")[0].strip().lower() for each in listeners)

    def dynamic_texts(self, name: str) -> list[tuple[str, ConfigSource]]:
        """Return the dynamic values of any broker key, in order of precedence."""
        stored = (
            (self.dynamic.get(str(self.node_id), {}), ConfigSource.DYNAMIC_BROKER),
            (self.every_broker, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        )
        return [(texts[name], source) for texts, source in stored if name in texts]

    def broker_synonyms(self, name: str) -> list[ConfigSynonym]:
        """Return every source of a broker key's value, in order of precedence."""
        related = (names for names in BROKER_SYNONYMS.values() if (name, 1) in names)
        return _listed(name, self._sources(next(related, ((name, 1),))))

    def effective(self, synonym: ConfigSynonym) -> Value:
        """Return the effective value. A broker's value outside its bounds is replaced by the
        nearest bound, because the bounds may have been different when it was stored (upstream:
        GroupCoordinatorConfig.clampDynamicConfigs)."""
        bound = BOUNDS_OF_BROKER_KEYS.get(synonym.name)
        if bound is None or not isinstance(synonym.value, int):
            return synonym.value
        return self._clamped(bound, synonym.value)

    # --- topics

    def synonyms(self, key: str, overrides: Mapping[str, str]) -> list[ConfigSynonym]:
        """Return every source of a topic key's value, in order of precedence."""
        names = BROKER_SYNONYMS.get(key, ())
        sources = self._sources(names)
        if names and names[0][0] not in self.broker:
            # The topic's default is used for broker keys that kohort lacks.
            sources = [ConfigSynonym(names[0][0], TOPIC_KEYS[key].default, ConfigSource.DEFAULT)]
        listed = _listed(names[0][0], sources) if names else []
        return _override(TOPIC_KEYS, key, overrides, ConfigSource.DYNAMIC_TOPIC) + listed

    def value(self, key: str, overrides: Mapping[str, str]) -> Value:
        """Return the effective value of a topic key."""
        override = _override(TOPIC_KEYS, key, overrides, ConfigSource.DYNAMIC_TOPIC)
        for synonym in override + self._sources(BROKER_SYNONYMS.get(key, ())):
            if synonym.value is not None:
                return synonym.in_topic_unit
        return TOPIC_KEYS[key].default

    def _sources(self, names: Iterable[tuple[str, int]]) -> list[ConfigSynonym]:
        """Return every source of a value for these broker keys, in order of precedence."""
        keys = [(self.broker.config_def[n], factor) for n, factor in names if n in self.broker]
        dynamic = [
            ConfigSynonym(key.name, key.parse(text), source, factor, text)
            for key, factor in keys
            for text, source in self.dynamic_texts(key.name)
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
        """Return the settings of a topic with these overrides."""
        values: dict[str, Any] = {
            field: self.value(field.replace("_", "."), overrides) for field in TopicSettings._fields
        }
        if INTERNAL_SEGMENT_BYTES in overrides:
            values["segment_bytes"] = self.value(INTERNAL_SEGMENT_BYTES, overrides)
        return TopicSettings(**values)

    # --- groups

    def group_synonyms(self, key: str, overrides: Mapping[str, str]) -> list[ConfigSynonym]:
        """Return every source of a group key's value, in order of precedence."""
        override = _override(GROUP_KEYS, key, overrides, ConfigSource.DYNAMIC_GROUP)
        name = broker_synonym(key)
        if name is not None and name in self.broker:
            return override + self.broker_synonyms(name)
        # The group's default is used for broker keys that kohort lacks.
        return [
            *override,
            ConfigSynonym(name or key, GROUP_KEYS[key].default, ConfigSource.DEFAULT),
        ]

    def consumer_group(self, group_id: str) -> ConsumerGroupConfig:
        """Return the effective values for a group of the consumer protocol, which are cached."""
        at = self.node_id, group_id if group_id in self.groups else None
        resolved = self._consumer_groups.get(at)
        if resolved is None:
            fields = (field.replace("_", ".") for field in ConsumerGroupConfig._fields)
            numbers = [self._group_number(group_id, f"consumer.{field}") for field in fields]
            resolved = self._consumer_groups[at] = ConsumerGroupConfig(*numbers)
        return resolved

    def _group_number(self, group_id: str, key: str) -> int:
        text = self.groups.get(group_id, {}).get(key)
        if text is None:
            return self.broker_number(f"group.{key}")
        stored = GROUP_KEYS[key].parse(text)
        assert isinstance(stored, int)
        # The bounds may have changed since the value was set (upstream: GroupConfig.evaluate).
        effective = self._clamped(BOUNDS_OF_BROKER_KEYS[f"group.{key}"], stored)
        if effective != stored:
            _log.warning(
                "Group config %s=%d of group %s is outside the broker's bounds: "
                "its effective value is %d",
                *(key, stored, group_id, effective),
            )
        return effective

    def _clamped(self, bound: GroupBound, value: int) -> int:
        low, high = limits(self.broker, bound)
        return min(max(value, low), high)


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


def _override(
    keys: ConfigDef, key: str, overrides: Mapping[str, str], source: ConfigSource
) -> list[ConfigSynonym]:
    if key not in overrides:
        return []
    return [ConfigSynonym(key, keys[key].parse(overrides[key]), source)]


def _listed(name: str, sources: Iterable[ConfigSynonym]) -> list[ConfigSynonym]:
    """Drop sources before the first one with exactly this name. For example, among the sources of
    log.retention.ms, log.retention.hours is listed only if log.retention.ms itself is set
    (upstream: ConfigHelper.configSynonyms)."""
    return list(dropwhile(lambda source: source.name != name, sources))


# The minimum of a topic's segment.bytes. offsets.topic.segment.bytes may be lower.
_SEGMENT_BYTES_MIN: Final = MIB

# The overrides of each internal topic, and the broker keys for its partition count and segment size
# (upstream: groupMetadataTopicConfigs, transactionTopicConfigs and shareGroupStateTopicConfigs).
_INTERNAL_TOPICS: Final = {
    OFFSETS_TOPIC: (
        {"cleanup.policy": "compact", "compression.type": "producer"},
        "offsets.topic.num.partitions",
        "offsets.topic.segment.bytes",
    ),
    TRANSACTION_TOPIC: (
        {"cleanup.policy": "compact", "compression.type": "uncompressed"},
        "transaction.state.log.num.partitions",
        "transaction.state.log.segment.bytes",
    ),
    SHARE_TOPIC: (
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.segment.bytes",
    ),
}


def internal_topic(broker: StaticBrokerConfig, name: str) -> tuple[int, dict[str, str]]:
    """Return (number of partitions, overrides) of an internal topic."""
    overrides, partitions_key, segment_bytes_key = _INTERNAL_TOPICS[name]
    segment_bytes = max(static_number(broker, segment_bytes_key), _SEGMENT_BYTES_MIN)
    partitions = static_number(broker, partitions_key)
    return partitions, {**overrides, "segment.bytes": str(segment_bytes)}
