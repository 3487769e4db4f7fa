"""AlterConfigs and IncrementalAlterConfigs, for topics, groups and the broker.

Upstream: ConfigurationControlManager, DynamicBrokerConfig. Each function raises ApiError.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ..protocol.errors import ApiError, ErrorCode
from .broker_loggers import alter_loggers
from .client_metrics import validate_subscription
from .config_def import (
    ConfigDef,
    ConfigType,
    InvalidConfigValue,
    StaticBrokerConfig,
    Value,
    format_value,
    parse_integer,
)
from .config_keys import TOPIC_KEYS
from .configs import EVERY_BROKER, MIN_INSYNC_REPLICAS, validate_overrides
from .group_configs import GROUP_KEYS, validate_dynamic_bounds, validate_group_overrides
from .names import topic_name_error
from .registry import TopicRegistry


class ResourceType(IntEnum):
    """Resource types, with their protocol ids."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """KIP-339."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS: Final = frozenset(Operation)


class ConfigChange(NamedTuple):
    key: str
    operation: int
    text: str | None


# Keys that can be set for a single listener, with its prefix (KIP-402, KIP-612).
_OF_LISTENER: Final = re.compile(
    r"listener\.name\.[^.]++\.(max\.connections|max\.connection\.creation\.rate)"
)
# Dynamic in Kafka; in kohort listeners are fixed.
_LISTENER_MAP: Final = "listener.security.protocol.map"


def alter_configs(
    topics: TopicRegistry,
    node_id: int,
    resource: tuple[int, str],
    changes: Iterable[ConfigChange],
    *,
    replace: bool,
    validate_only: bool,
    authorize: Callable[[], None] = lambda: None,
) -> None:
    """Change some keys of the resource; with `replace`, reset all others. `node_id` is the node
    that received the request; each node changes only its own configuration. `authorize` raises
    ApiError if the client is not authorized. It is called where a Kafka broker would forward the
    request to its controller, which authorizes it."""
    changes = list(changes)
    _check_changes(changes)
    kind, name = resource
    if kind == ResourceType.TOPIC:
        authorize()
        _check_topic_name(name)
        _check_operations(changes, "Unknown operation {} for config {}")
        topic = topics.get(name)
        before = {} if replace or topic is None else topic.overrides
        _configure_topic(topics, name, _changed(TOPIC_KEYS, before, changes), validate_only)
    elif kind == ResourceType.GROUP:
        authorize()
        _check_operations(changes, "Unknown operation {} for config {}")
        before = {} if replace else topics.configs.groups.get(name, {})
        _configure_group(topics, name, _changed(GROUP_KEYS, before, changes), validate_only)
    elif kind == ResourceType.CLIENT_METRICS:
        authorize()
        _check_operations(changes, "Unknown operation {} for config {}")
        before = {} if replace else topics.configs.client_metrics.get(name, {})
        # Kafka's controller does not know the types of these keys: none is a list.
        _configure_client_metrics(topics, name, _changed({}, before, changes), validate_only)
    elif kind == ResourceType.BROKER_LOGGER and not replace:
        authorize()
        _check_node(node_id, name, "Unexpected node id. Expected {}, but received {}")
        _check_operations(changes, "Unknown operation {} for config {}")
        alter_loggers(changes, validate_only=validate_only)
    elif kind == ResourceType.BROKER:
        target = EVERY_BROKER if name == EVERY_BROKER else str(node_id)
        if target:
            _check_node(node_id, name, "Unexpected broker id, expected {}, but received {}")
        overrides = _changed_broker(topics, target, changes, replace=replace)
        names = [each.key for each in changes]
        _configure_broker(topics, target, overrides, names, authorize, validate_only=validate_only)
    else:
        raise ApiError(ErrorCode.invalid_request, f"Unknown resource type {kind}")


def _changed_broker(
    topics: TopicRegistry, resource: str, changes: Iterable[ConfigChange], *, replace: bool
) -> dict[str, str]:
    _check_operations(changes, "Unknown operations type {}")
    configs = topics.configs
    stored = configs.dynamic.get(resource, {}) if resource else configs.every_broker
    return _changed(configs.broker.config_def, {} if replace else stored, changes)


def _check_topic_name(name: str) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    if message := topic_name_error(name):
        raise ApiError(ErrorCode.invalid_topic_exception, message)


def _configure_topic(
    topics: TopicRegistry, name: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    try:
        valid = validate_overrides(topics.configs, overrides)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    topic = topics.get(name)
    if topic is None:
        message = f"The topic '{name}' does not exist."
        raise ApiError(ErrorCode.unknown_topic_or_partition, message)
    if not validate_only and valid != topic.overrides:
        topics.configure(topic, valid)


def _configure_group(
    topics: TopicRegistry, group_id: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    """The group need not exist, and its deletion does not delete its configuration."""
    if not group_id:
        raise ApiError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    try:
        validate_group_overrides(topics.configs.broker, overrides)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    if not validate_only and overrides != topics.configs.groups.get(group_id, {}):
        topics.configure_group(group_id, overrides)


def _configure_client_metrics(
    topics: TopicRegistry, name: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    if not name:
        raise ApiError(ErrorCode.invalid_request, "Subscription name can't be empty")
    try:
        validate_subscription(overrides)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error
    if not validate_only and overrides != topics.configs.client_metrics.get(name, {}):
        topics.configure_client_metrics(name, overrides)


def _configure_broker(
    topics: TopicRegistry,
    resource: str,
    overrides: Mapping[str, str],
    changed: list[str],
    authorize: Callable[[], None],
    *,
    validate_only: bool,
) -> None:
    """`changed` are the keys in the request. As in Kafka, the broker's validation of values comes
    first, then the controller's validation of min.insync.replicas."""
    keys = topics.configs.broker.config_def
    _check_dynamic(keys, [key for key in changed if key in overrides])
    try:
        # As in Kafka, unknown keys may have any value.
        values = {
            name: key.parse(text)
            for name, text in overrides.items()
            if (key := keys.get(_for_all(name))) is not None
        }
        validate_dynamic_bounds(topics.configs.broker, values)
        _validate_connection_limits(topics.configs.broker, values)
    except InvalidConfigValue as error:
        raise ApiError(ErrorCode.invalid_request, str(error)) from error
    authorize()
    # KIP-966: min.insync.replicas must be the same for all brokers.
    if resource != EVERY_BROKER and MIN_INSYNC_REPLICAS in changed:
        message = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise ApiError(ErrorCode.invalid_config, message)
    if resource == EVERY_BROKER and MIN_INSYNC_REPLICAS not in overrides:
        message = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise ApiError(ErrorCode.invalid_config, message)
    if not validate_only:
        topics.configure_broker(resource, overrides)


def _check_changes(changes: list[ConfigChange]) -> None:
    if any(count > 1 for count in Counter(each.key for each in changes).values()):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    if nulls := [c.key for c in changes if c.text is None and c.operation != Operation.DELETE]:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise ApiError(ErrorCode.invalid_request, message)


def _check_operations(changes: Iterable[ConfigChange], message: str) -> None:
    for key, operation, _ in changes:
        if operation not in OPERATIONS:
            raise ApiError(ErrorCode.invalid_request, message.format(operation, key))


def _changed(
    keys: ConfigDef, before: Mapping[str, str], changes: Iterable[ConfigChange]
) -> dict[str, str]:
    after = dict(before)
    for change in changes:
        if change.operation == Operation.DELETE:
            after.pop(change.key, None)
        elif change.operation == Operation.SET:
            after[change.key] = change.text or ""
        else:
            after[change.key] = _changed_list(keys, before, change)
    return after


def _changed_list(keys: ConfigDef, before: Mapping[str, str], change: ConfigChange) -> str:
    key = keys.get(change.key)
    operation = Operation(change.operation)
    if key is None or key.type is not ConfigType.LIST:
        raise ApiError(ErrorCode.invalid_config, _not_a_list(keys, change.key, operation))
    # Without a dynamic value, the change starts from the default, not from the broker's static
    # value.
    current = before.get(key.name, format_value(key.default)) or ""
    items = dict.fromkeys(filter(None, current.split(",")))
    for item in _split(change.text or ""):
        if operation is Operation.APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


def _not_a_list(keys: ConfigDef, name: str, operation: Operation) -> str:
    """Return the error message; in Kafka, topic and group configs are validated by the controller
    and broker configs by the broker, with different messages."""
    if keys is TOPIC_KEYS or keys is GROUP_KEYS or not keys:
        return f"Can't {operation.name} to key {name} because its type is not LIST."
    if name not in keys:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _split(text: str) -> list[str]:
    """Like Java's String.split, which drops empty trailing items; an empty string yields one
    item."""
    if not text:
        return [""]
    items = text.rstrip(",")
    return items.split(",") if items else []


def _check_node(node_id: int, name: str, message: str) -> None:
    number = parse_integer(name)
    if number is None:
        message = f"Node id must be an integer, but it is: {name}"
    if number != node_id:
        raise ApiError(ErrorCode.invalid_request, message.format(node_id, name))


def _check_dynamic(keys: ConfigDef, names: list[str]) -> None:
    fixed = [name for name in names if _is_fixed(keys, name)]
    if fixed:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise ApiError(ErrorCode.invalid_request, message)


def _is_fixed(keys: ConfigDef, name: str) -> bool:
    """Whether a key cannot change while the broker runs. Other keys of listeners than the limits
    are about TLS and SASL, and can in Kafka."""
    key = keys.get(_for_all(name))
    if key is None:
        return name.startswith("listener.name.")
    return key.read_only or name == _LISTENER_MAP


def _validate_connection_limits(broker: StaticBrokerConfig, values: Mapping[str, Value]) -> None:
    per_ip, overrides = "max.connections.per.ip", "max.connections.per.ip.overrides"
    if values.get(per_ip, broker[per_ip]) == 0 and not values.get(overrides, broker[overrides]):
        message = f"{per_ip} can be set to zero only if {overrides} property is set."
        raise InvalidConfigValue(f"requirement failed: {message}")
    for name, value in values.items():
        # Zero is allowed at startup only, as in Kafka.
        if _for_all(name) == "max.connection.creation.rate" and value == 0:
            error = "org.apache.kafka.common.config.ConfigException"
            message = f"Invalid value {error}: Invalid max.connection.creation.rate 0"
            raise InvalidConfigValue(f"{message} for configuration Invalid dynamic configuration")


def _for_all(name: str) -> str:
    """Return the key that is set for one listener, without the prefix; other keys as they are."""
    match = _OF_LISTENER.fullmatch(name)
    return name if match is None else match[1]
