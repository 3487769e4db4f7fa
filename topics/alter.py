"""What configurations may be changed to: AlterConfigs and IncrementalAlterConfigs, for topics and
for the broker (upstream: ConfigurationControlManager, DynamicBrokerConfig). Each raises Refused.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ..protocol.errors import ErrorCode
from .config_def import ConfigDef, ConfigType, InvalidConfigValue, integer_of, text_of
from .config_keys import BROKER_SYNONYMS, TOPIC_KEYS
from .configs import EVERY_BROKER, MIN_INSYNC_REPLICAS, checked
from .errors import Refused
from .names import invalid_name
from .registry import Topics

__all__ = [
    "ELSEWHERE",
    "Change",
    "Operation",
    "Resource",
    "alter",
    "check_distinct",
    "not_kept",
    "replace",
]


class Resource(IntEnum):
    """What a configuration belongs to, in the wire's numbers."""

    TOPIC = 2
    BROKER = 4


# Kinds that Kafka has and kohort has not, in words for people.
ELSEWHERE: Final = {8: "broker loggers", 16: "client metrics", 32: "groups"}


class Operation(IntEnum):
    """KIP-339."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Change(NamedTuple):
    key: str
    operation: int
    text: str | None


# What is looked up whenever it is needed, and so may be changed while the broker runs.
CHANGEABLE: Final = {
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "max.connections",
    "producer.id.expiration.ms",
}.union(name for names in BROKER_SYNONYMS.values() for name, _ in names)


def check_distinct(resource: tuple[int, str], times: Mapping[tuple[int, str], int]) -> None:
    """Whether a request names the resource once."""
    if times[resource] > 1:
        raise Refused(ErrorCode.invalid_request, "Each resource must appear at most once.")


def not_kept(kind: int) -> Refused:
    """What to say to a resource that is neither a topic nor the broker."""
    known = ELSEWHERE.get(kind)
    if known is None:
        return Refused(ErrorCode.invalid_request, f"Unknown resource type {kind}")
    complaint = f"This broker keeps no configurations of {known} (resource type {kind})."
    return Refused(ErrorCode.invalid_request, complaint)


def alter(
    topics: Topics,
    node_id: int,
    resource: tuple[int, str],
    changes: Iterable[Change],
    *,
    validate_only: bool,
) -> None:
    """Changes some keys of the resource and leaves the others. `node_id`: which node is asked, as
    each changes its own configurations alone."""
    changes = list(changes)
    _check_changes(changes)
    kind, name = resource
    if kind == Resource.TOPIC:
        _check_topic_name(name)
        _check_operations(changes, "Unknown operation {} for config {}")
        topic = topics.get(name)
        overrides = _changed(TOPIC_KEYS, topic.overrides if topic else {}, changes)
        _configure_topic(topics, name, overrides, validate_only)
    else:
        own = _broker_name(node_id, resource)
        _check_operations(changes, "Unknown operations type {}")
        configs = topics.configs
        before = configs.dynamic.get(own, {}) if own else configs.every_broker
        overrides = _changed(configs.broker.config_def, before, changes)
        names = [each.key for each in changes]
        _configure_broker(topics, own, overrides, names, validate_only)


def replace(
    topics: Topics,
    node_id: int,
    resource: tuple[int, str],
    changes: Iterable[Change],
    *,
    validate_only: bool,
) -> None:
    """Gives the resource these keys and takes all others back. `node_id` as in `alter`."""
    changes = list(changes)
    _check_changes(changes)
    kind, name = resource
    overrides = {each.key: each.text or "" for each in changes}
    if kind == Resource.TOPIC:
        _check_topic_name(name)
        _configure_topic(topics, name, overrides, validate_only)
    else:
        own = _broker_name(node_id, resource)
        _configure_broker(topics, own, overrides, list(overrides), validate_only)


def _configure_topic(
    topics: Topics, name: str, overrides: Mapping[str, str], validate_only: bool
) -> None:
    try:
        good = checked(topics.configs, overrides)
    except InvalidConfigValue as error:
        raise Refused(ErrorCode.invalid_config, str(error)) from error
    topic = topics.get(name)
    if topic is None:
        complaint = f"The topic '{name}' does not exist."
        raise Refused(ErrorCode.unknown_topic_or_partition, complaint)
    if not validate_only and good != topic.overrides:
        topics.configure(topic, good)


def _configure_broker(
    topics: Topics,
    name: str,
    overrides: Mapping[str, str],
    changed: list[str],
    validate_only: bool,
) -> None:
    """`changed`: the keys that the request names. Upstream looks at the values in the broker, and
    only then asks the controller, which keeps the replicas in sync as they are."""
    keys = topics.configs.broker.config_def
    _check_changeable(keys, [key for key in changed if key in overrides])
    try:
        for key, text in overrides.items():
            keys[key].parse(text)
    except InvalidConfigValue as error:
        raise Refused(ErrorCode.invalid_request, str(error)) from error
    _check_in_sync(name, changed)
    if name == EVERY_BROKER and MIN_INSYNC_REPLICAS not in overrides:
        complaint = f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled."
        raise Refused(ErrorCode.invalid_config, complaint)
    if not validate_only:
        topics.configure_broker(name, overrides)


def _check_changes(changes: list[Change]) -> None:
    if any(times > 1 for times in Counter(each.key for each in changes).values()):
        raise Refused(ErrorCode.invalid_request, "Error due to duplicate config keys")
    if empty := [c.key for c in changes if c.text is None and c.operation != Operation.DELETE]:
        complaint = f"Null value not supported for : {', '.join(empty)}"
        raise Refused(ErrorCode.invalid_request, complaint)


def _check_operations(changes: Iterable[Change], complaint: str) -> None:
    for key, operation, _ in changes:
        if operation not in tuple(Operation):
            raise Refused(ErrorCode.invalid_request, complaint.format(operation, key))


def _changed(
    keys: ConfigDef, before: Mapping[str, str], changes: Iterable[Change]
) -> dict[str, str]:
    after = dict(before)
    for key, operation, text in changes:
        if operation == Operation.DELETE:
            after.pop(key, None)
        elif operation == Operation.SET:
            after[key] = text or ""
        else:
            after[key] = _changed_list(keys, before, Change(key, operation, text))
    return after


def _changed_list(keys: ConfigDef, before: Mapping[str, str], change: Change) -> str:
    key = keys.get(change.key)
    operation = Operation(change.operation)
    if key is None or key.type is not ConfigType.LIST:
        raise Refused(ErrorCode.invalid_config, _no_list(keys, change.key, operation))
    # What is nowhere set begins as the definition has it, whatever the broker was started with.
    current = before.get(key.name, text_of(key.default)) or ""
    items = dict.fromkeys(filter(None, current.split(",")))
    for item in _split(change.text or ""):
        if operation is Operation.APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


def _no_list(keys: ConfigDef, name: str, operation: Operation) -> str:
    """The controller looks at topics, the broker at brokers, and each has words of its own."""
    if keys is TOPIC_KEYS:
        return f"Can't {operation.name} to key {name} because its type is not LIST."
    if name not in keys:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _split(text: str) -> list[str]:
    """String.split: without the empty items at the end, but of nothing there is one empty item."""
    if not text:
        return [""]
    items = text.rstrip(",")
    return items.split(",") if items else []


def _check_topic_name(name: str) -> None:
    if not name:
        raise Refused(ErrorCode.invalid_request, "Default topic resources are not allowed.")
    if complaint := invalid_name(name):
        raise Refused(ErrorCode.invalid_topic_exception, complaint)


def _broker_name(node_id: int, resource: tuple[int, str]) -> str:
    """Under which name the broker's values are kept."""
    kind, name = resource
    if kind != Resource.BROKER:
        raise not_kept(kind)
    if name == EVERY_BROKER:
        return name
    number = integer_of(name)
    if number == node_id:
        return str(node_id)
    if number is None:
        complaint = f"Node id must be an integer, but it is: {name}"
    else:
        complaint = f"Unexpected broker id, expected {node_id}, but received {name}"
    raise Refused(ErrorCode.invalid_request, complaint)


def _check_in_sync(name: str, keys: Iterable[str]) -> None:
    """KIP-966: all brokers count the replicas that are in sync alike."""
    if name != EVERY_BROKER and MIN_INSYNC_REPLICAS in keys:
        complaint = f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled."
        raise Refused(ErrorCode.invalid_config, complaint)


def _check_changeable(keys: ConfigDef, names: Iterable[str]) -> None:
    names = list(names)
    if unknown := [name for name in names if name not in keys]:
        raise Refused(ErrorCode.invalid_request, f"Unknown broker config name: {unknown[0]}")
    fixed = [name for name in names if name not in CHANGEABLE or keys[name].read_only]
    if fixed:
        complaint = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise Refused(ErrorCode.invalid_request, complaint)
