"""Configuration changes. Each change sets, removes or edits the value of one key (KIP-339)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ...protocol.errors import ApiError, ErrorCode
from .config_def import ConfigDef, ConfigType, format_value
from .group_configs import GROUP_KEYS
from .topic_keys import TOPIC_KEYS


class Operation(IntEnum):
    """Kinds of changes, with their protocol ids."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


OPERATIONS: Final = frozenset(Operation)
# Replication quotas, which Kafka defines separately from the broker's other keys (upstream:
# DynamicConfig.Broker).
_QUOTAS: Final = (
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)


class ConfigChange(NamedTuple):
    key: str
    operation: int
    text: str | None


def check_changes(changes: list[ConfigChange]) -> None:
    """Raise ApiError if a key is changed twice, or if a value is missing."""
    if any(count > 1 for count in Counter(each.key for each in changes).values()):
        raise ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    if nulls := [c.key for c in changes if c.text is None and c.operation != Operation.DELETE]:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise ApiError(ErrorCode.invalid_request, message)


def check_operations(changes: Iterable[ConfigChange], message: str) -> None:
    """Raise ApiError for an unknown operation. `message` has placeholders for the operation's
    number and the key."""
    for key, operation, _ in changes:
        if operation not in OPERATIONS:
            raise ApiError(ErrorCode.invalid_request, message.format(operation, key))


def changed(
    keys: ConfigDef, before: Mapping[str, str], changes: Iterable[ConfigChange]
) -> dict[str, str]:
    """Return the values after the changes. Raises ApiError if a key does not support its change."""
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
    # Without a dynamic value, the change applies to the default, not to the static value.
    current = before.get(key.name, format_value(key.default)) or ""
    items = dict.fromkeys(filter(None, current.split(",")))
    for item in _split(change.text or ""):
        if operation is Operation.APPEND:
            items[item] = None
        else:
            items.pop(item, None)
    return ",".join(items)


def _not_a_list(keys: ConfigDef, name: str, operation: Operation) -> str:
    """Return the error message. In Kafka, the controller validates topic and group configs, and the
    broker validates broker configs, with different messages."""
    # `keys` is empty for client metrics, whose types Kafka's controller does not know.
    if keys is TOPIC_KEYS or keys is GROUP_KEYS or not keys:
        return f"Can't {operation.name} to key {name} because its type is not LIST."
    if name not in keys or name in _QUOTAS:
        return f"Unknown config name: {name}"
    return f"Config value {operation.name.lower()} is not allowed for config key: {name}"


def _split(text: str) -> list[str]:
    """Like Java's String.split: empty items at the end are dropped, but "" yields one item."""
    if not text:
        return [""]
    items = text.rstrip(",")
    return items.split(",") if items else []
