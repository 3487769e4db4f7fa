"""Which names a topic may have (upstream: org.apache.kafka.common.internals.Topic)."""

import re
from typing import Final

from .config_def import InvalidConfigValue, Value

__all__ = [
    "OFFSETS_TOPIC",
    "REGISTRY_TOPIC",
    "collision_key",
    "invalid_name",
    "is_internal",
    "topic_name",
]

OFFSETS_TOPIC: Final = "__consumer_offsets"
# The folder of the registry's own log lies beside those of the topics and would clash.
REGISTRY_TOPIC: Final = "__kohort_topics"
# Kafka's limit: with `-<partition>` and a suffix a folder's name stays within 255 bytes.
NAME_LENGTH_MAX: Final = 249
LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def invalid_name(name: str) -> str | None:
    """What is wrong with `name`, in Kafka's words, or None."""
    if not name:
        complaint = "the empty string is not allowed"
    elif name in (".", ".."):
        complaint = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        complaint = f"the length of '{name}' is longer than the max allowed length 249"
    elif not LEGAL.fullmatch(name):
        complaint = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    elif name == REGISTRY_TOPIC:
        complaint = f"'{name}' is kept by the broker itself"
    else:
        return None
    return f"Topic name is invalid: {complaint}"


def topic_name(name: str, value: Value) -> None:
    """Of a key whose value names a topic of its own; "" names none. Raises InvalidConfigValue."""
    if value and (complaint := invalid_name(str(value))):
        raise InvalidConfigValue.of(name, value, complaint)
    if value == OFFSETS_TOPIC:
        raise InvalidConfigValue.of(name, value, "is kept by the broker itself")


def collision_key(name: str) -> str:
    """Equal for names that differ only in '.' and '_', which Kafka's metrics cannot tell apart."""
    return name.replace(".", "_")


def is_internal(name: str) -> bool:
    """Whether clients may read a topic but not write to it."""
    return name == OFFSETS_TOPIC
