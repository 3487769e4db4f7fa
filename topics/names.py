"""Valid, internal and reserved topic names. Upstream: internals.Topic."""

import re
from typing import Final

from .configs.config_def import InvalidConfigValue, Value

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTION_TOPIC: Final = "__transaction_state"
SHARE_TOPIC: Final = "__share_group_state"
KAFKA_METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of Kafka's controllers. In kohort, the log of the topic registry replaces it."""
# Reserved, because the registry's folder is next to the topic folders.
REGISTRY_TOPIC: Final = "__kohort_topics"
# Kafka's limit. With `-<partition>` (up to five digits), a folder name is at most 255 bytes long.
NAME_LENGTH_MAX: Final = 249
VALID: Final = re.compile(r"[a-zA-Z0-9._-]++", re.ASCII)


def topic_name_error(name: str) -> str | None:
    """Return why `name` is invalid, in Kafka's wording, or None if it is valid."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length 249"
    elif not VALID.fullmatch(name):
        reason = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    elif name == REGISTRY_TOPIC:
        reason = f"'{name}' is reserved by the broker"
    else:
        return None
    return f"Topic name is invalid: {reason}"


def validate_topic_name(name: str, value: Value) -> None:
    """Validate a config value that names a topic. "" is allowed. Raises InvalidConfigValue."""
    if value and (error := topic_name_error(str(value))):
        raise InvalidConfigValue.of(name, value, error)
    if is_internal(str(value)):
        raise InvalidConfigValue.of(name, value, "The topic is reserved by the broker")


def collision_key(name: str) -> str:
    """Return a key that ignores the difference between '.' and '_', as Kafka's metrics do."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether the topic is internal, so that clients may not write to it."""
    return is_reserved(name) or name == SHARE_TOPIC


def is_reserved(name: str) -> bool:
    """Whether the topic belongs to a coordinator, so that only the broker may create it."""
    return name in (OFFSETS_TOPIC, TRANSACTION_TOPIC)
