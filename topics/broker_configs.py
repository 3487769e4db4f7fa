"""Validates changes to a broker's configuration: the changed keys and their values.

Upstream: DynamicBrokerConfig, in its order and with its messages. In Kafka, the broker validates
the values, and the controller then validates min.insync.replicas.
"""

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from typing import Final

from ..protocol.budgets import MIB
from ..protocol.errors import ApiError, ErrorCode
from .configs.config_def import ConfigDef, ConfigKey, ConfigType, InvalidConfigValue, Value
from .configs.effective import CORDONED_LOG_DIRS, EVERY_BROKER, MIN_INSYNC_REPLICAS, Configs
from .configs.group_configs import validate_dynamic_bounds
from .registry import TopicRegistry
from .registry_log import BrokerConfigRecord

_OF_LISTENER: Final = re.compile(r"listener\.name\.([^.]*+)\.(.*+)", re.DOTALL)
# TLS files and passwords, which can be set only per listener.
_ONLY_OF_LISTENER: Final = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
# Other keys whose values brokers cannot share.
_OF_ONE_BROKER: Final = (
    CORDONED_LOG_DIRS,
    "listener.security.protocol.map",
    "listeners",
    "principal.builder.class",
)
_NETWORK_THREADS: Final = "num.network.threads"
# Keys whose values all brokers can share, even with the prefix of a listener.
_LIMITS_OF_LISTENER: Final = ("max.connections", "max.connection.creation.rate")
_OF_ANY_LISTENER: Final = (*_LIMITS_OF_LISTENER, _NETWORK_THREADS)
# Thread counts, which a change can at most double or halve.
_THREADS: Final = (
    "background.threads",
    "num.io.threads",
    _NETWORK_THREADS,
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
_CLEANER_THREADS: Final = "log.cleaner.threads"


def configure_broker(
    topics: TopicRegistry,
    node_id: int,
    resource: str,
    overrides: Mapping[str, str],
    named: Collection[str],
    authorize: Callable[[], None],
    *,
    validate_only: bool,
) -> None:
    """Replace the dynamic values of a node or, if `resource` is EVERY_BROKER, of all nodes. `named`
    contains the keys in the request. `authorize` is called before the checks that Kafka's
    controller makes. Raises ApiError."""
    try:
        _validate(topics, topics.configs.at(node_id), resource, overrides, named)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_request, str(error)) from error
    authorize()
    # KIP-966: min.insync.replicas must be the same for all brokers.
    if resource != EVERY_BROKER and MIN_INSYNC_REPLICAS in named:
        message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise ApiError(ErrorCode.invalid_config, message)
    if resource == EVERY_BROKER and MIN_INSYNC_REPLICAS not in overrides:
        message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise ApiError(ErrorCode.invalid_config, message)
    if not validate_only:
        topics.change(BrokerConfigRecord(resource, overrides))


def _validate(
    topics: TopicRegistry,
    before: Configs,
    resource: str,
    overrides: Mapping[str, str],
    named: Collection[str],
) -> None:
    keys = before.broker.config_def
    _reject("Cannot update these configs dynamically", _fixed(keys, overrides, named))
    _reject(
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        (name for name in overrides if name in _ONLY_OF_LISTENER),
    )
    values = _parsed(keys, overrides)
    if resource == EVERY_BROKER:
        _reject(
            "Cannot update these configs at default cluster level, broker id must be specified",
            (name for name in overrides if _belongs_to_one_broker(keys, name)),
        )
    _reject(
        "Cannot update these configs dynamically",
        (name for name in named if name in values and _is_read_at_startup(before, name, values)),
    )
    validate_dynamic_bounds(before.broker, values)
    after = before.with_dynamic(resource, overrides)
    _validate_requirements(after, values)
    _validate_cordoned(values, (topics.log_dir, *before.log_dirs))
    _validate_reconfiguration(before, after, overrides, values)


def _reject(problem: str, names: Iterable[str]) -> None:
    if rejected := list(names):
        raise InvalidConfigValue(f"{problem}: [{', '.join(rejected)}]")


def _fixed(keys: ConfigDef, overrides: Collection[str], named: Iterable[str]) -> Iterator[str]:
    """Yield the keys that cannot change while a broker runs. A key with a listener's prefix is
    never yielded, even if Kafka does not know it."""
    for name in named:
        key = keys.get(name)
        if name in overrides and key is not None and key.read_only:
            yield name


def key_of(keys: ConfigDef, name: str) -> ConfigKey | None:
    """Return the key that `name` sets, possibly for one listener or one of its mechanisms."""
    match = _OF_LISTENER.fullmatch(name)
    if match is None:
        return keys.get(name)
    return keys.get(match[2]) or keys.get(match[2].partition(".")[2])


def _parsed(keys: ConfigDef, overrides: Mapping[str, str]) -> dict[str, Value]:
    """Return the parsed values by name. As in Kafka, unknown keys and read-only keys of a listener
    are not validated here, so they are omitted."""
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        key = key_of(keys, name)
        if key is None or (key.read_only and not key.at_startup):
            continue
        values[name] = key.parse(text)
        if key.type is ConfigType.CLASS and values[name] != key.default:
            # kohort cannot load Java classes.
            reason = f"Class {text} could not be found."
            raise InvalidConfigValue.of(key.name, text, reason)
    return values


def _belongs_to_one_broker(keys: ConfigDef, name: str) -> bool:
    if match := _OF_LISTENER.fullmatch(name):
        return match[2] not in _OF_ANY_LISTENER
    return name in _OF_ONE_BROKER or (name.startswith(("ssl.", "sasl.")) and name in keys)


def _is_read_at_startup(configs: Configs, name: str, values: Mapping[str, Value]) -> bool:
    """Whether the new value must be rejected, because kohort reads the key only at startup. The
    current value is accepted, except for two kinds of keys. For a single listener, Kafka reads a
    TLS file again even if its location is unchanged. A password is always rejected, because this
    check precedes authorization, and its result would show whether a guess is right."""
    key = key_of(configs.broker.config_def, name)
    if key is None or not key.at_startup:
        return False
    if key.name != name or key.type is ConfigType.PASSWORD:
        return True
    return values[name] != configs.broker[name]


def _validate_requirements(after: Configs, values: Mapping[str, Value]) -> None:
    """Validate values that depend on other values. Kafka also does this at startup."""
    per_ip, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    if after.broker_number(per_ip) == 0 and not after.broker_text(overrides):
        message = f"{per_ip} can be set to zero only if {overrides} property is set."
        raise InvalidConfigValue(f"requirement failed: {message}")
    threads, buffer = _CLEANER_THREADS, "log.cleaner.dedupe.buffer.size"
    if threads in values or buffer in values:
        if after.broker_number(threads) == 0:
            raise InvalidConfigValue("/ by zero")
        if after.broker_number(buffer) // after.broker_number(threads) <= MIB:
            message = f"{buffer} must be at least 1MB per cleaner thread."
            raise InvalidConfigValue(f"requirement failed: {message}")


def _validate_cordoned(values: Mapping[str, Value], log_dirs: Container[str]) -> None:
    cordoned = values.get(CORDONED_LOG_DIRS) or ()
    assert isinstance(cordoned, tuple)
    if "*" in cordoned:
        if len(cordoned) > 1:
            raise InvalidConfigValue(
                f"requirement failed: When {CORDONED_LOG_DIRS} is set to *, it must not contain "
                "other values"
            )
    elif missing := [each for each in cordoned if each not in log_dirs]:
        raise InvalidConfigValue(
            f"requirement failed: All entries in {CORDONED_LOG_DIRS} must be present in log.dirs "
            f"or log.dir. Missing entries : {', '.join(missing)}"
        )


def _validate_reconfiguration(
    before: Configs, after: Configs, overrides: Mapping[str, str], values: Mapping[str, Value]
) -> None:
    """Validate values that the parts of a broker may reject while they run (upstream: the
    implementations of Reconfigurable and BrokerReconfigurable). The first error is reported."""
    for problem in _problems(before, after, overrides, values):
        error = f"org.apache.kafka.common.config.ConfigException: {problem}"
        message = f"Invalid value {error} for configuration Invalid dynamic configuration"
        raise InvalidConfigValue(message)


def _problems(
    before: Configs, after: Configs, overrides: Mapping[str, str], values: Mapping[str, Value]
) -> Iterator[str]:
    reporters = after.broker.config_def["metric.reporters"]
    if values.get(reporters.name, reporters.default) not in (reporters.default, ()):
        yield (
            "Validation of dynamic config update of Set(metric.reporters) failed with class class "
            "kafka.server.DynamicMetricsReporters"
        )
    for name in _THREADS:
        old, new = before.broker_number(name), after.broker_number(name)
        yield from _problems_of_threads(name, old, new)
    old, new = before.broker_number(_CLEANER_THREADS), after.broker_number(_CLEANER_THREADS)
    if new < old // 2:
        yield f"Log cleaner threads cannot be reduced to less than half the current value {old}"
    if new > old * 2:
        yield (
            f"Log cleaner threads cannot be increased to more than double the current value {old}"
        )
    for unit in ("ms", "bytes"):
        yield from _problems_of_local_retention(after, unit)
    yield from _problems_of_listeners(before, overrides, values)


def _problems_of_threads(name: str, old: int, new: int) -> Iterator[str]:
    problem = f"Dynamic thread count update validation failed for {name}={new}, value should"
    if new < old // 2:
        yield f"{problem} be at least half the current value {old}"
    if new > old * 2:
        yield f"{problem} not be greater than double the current value {old}"


def _problems_of_local_retention(after: Configs, unit: str) -> Iterator[str]:
    local, total = f"log.local.retention.{unit}", f"log.retention.{unit}"
    local_value, total_value = after.broker_number(local), after.value(f"retention.{unit}", {})
    assert isinstance(total_value, int)
    problem = f"Invalid value {local_value} for configuration {local}: Value must not be"
    if total_value == -1 or local_value == -2:
        return
    if local_value == -1:
        yield f"{problem} -1 as {total} value is set as {total_value}."
    elif local_value > total_value:
        yield f"{problem} more than {total} property value: {total_value}"


def _problems_of_value(key: ConfigKey, text: str) -> Iterator[str]:
    try:
        key.parse(text)
    except InvalidConfigValue as invalid:
        yield str(invalid)


def _problems_of_listeners(
    before: Configs, overrides: Mapping[str, str], values: Mapping[str, Value]
) -> Iterator[str]:
    """Yield problems with limits of all listeners, and with limits, thread counts and read-only
    keys of an existing listener. A limit of zero is allowed only at startup."""
    for name, text in overrides.items():
        match = _OF_LISTENER.fullmatch(name)
        if match is not None and match[1] not in before.listener_names:
            continue
        base, value = name if match is None else match[2], values.get(name)
        key = before.broker.config_def.get(base)
        if key is not None and name not in values:
            yield from _problems_of_value(key, text)
        if base in _LIMITS_OF_LISTENER and value == 0:
            yield f"Invalid {base} 0"
        if match is not None and base == _NETWORK_THREADS:
            texts = before.dynamic_texts(name)
            old = key.parse(texts[0][0]) if key and texts else before.broker_number(base)
            assert isinstance(old, int)
            assert isinstance(value, int)
            yield from _problems_of_threads(base, old, value)
