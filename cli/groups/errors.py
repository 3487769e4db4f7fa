"""Errors with the names and messages of Kafka's Java classes, which scripts match.

Source: org.apache.kafka.common.protocol.Errors of Kafka 4.3.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

GROUP_ID_NOT_FOUND: Final = 69


class UsageError(Exception):
    """Invalid flags or values. The exit code is 1."""


class CommandError(Exception):
    """A failure of the action. kafka-consumer-groups prints the message and exits with 0."""


class NotConnected(CommandError):
    """No broker responded, or a broker rejected the client. The exit code is 1, unlike in
    kafka-consumer-groups."""


class BrokerError(NamedTuple):
    """An error that a broker returned."""

    code: int
    name: str
    """The name in Kafka's protocol, such as `NON_EMPTY_GROUP`."""
    exception: str
    """The Java class, such as `GroupNotEmptyException`."""
    message: str

    def __str__(self) -> str:
        return f"org.apache.kafka.common.errors.{self.exception}: {self.message}"


class RequestFailed(CommandError):
    """An error that a broker returned for the whole request."""

    def __init__(self, error: BrokerError) -> None:
        super().__init__(str(error))
        self.error = error


_ERRORS: Final[Mapping[int, tuple[str, str]]] = {
    3: ("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
    14: (
        "COORDINATOR_LOAD_IN_PROGRESS",
        "The coordinator is loading and hence can't process requests.",
    ),
    15: ("COORDINATOR_NOT_AVAILABLE", "The coordinator is not available."),
    16: ("NOT_COORDINATOR", "This is not the correct coordinator."),
    24: ("INVALID_GROUP_ID", "The configured groupId is invalid."),
    25: ("UNKNOWN_MEMBER_ID", "The coordinator is not aware of this member."),
    29: ("TOPIC_AUTHORIZATION_FAILED", "Topic authorization failed."),
    30: ("GROUP_AUTHORIZATION_FAILED", "Group authorization failed."),
    68: ("NON_EMPTY_GROUP", "The group is not empty."),
    GROUP_ID_NOT_FOUND: ("GROUP_ID_NOT_FOUND", "The group id does not exist."),
    86: (
        "GROUP_SUBSCRIBED_TO_TOPIC",
        (
            "Deleting offsets of a topic is forbidden while the consumer group is actively "
            "subscribed to it."
        ),
    ),
    128: ("INVALID_REGULAR_EXPRESSION", "The regular expression is not valid."),
}
# Java classes whose names cannot be derived from the error names.
_EXCEPTIONS: Final = {
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorizationException",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorizationException",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorizationException",
    "NON_EMPTY_GROUP": "GroupNotEmptyException",
    "INVALID_REGULAR_EXPRESSION": "InvalidRegularExpression",
}


def broker_error(code: int, name: str, message: str) -> BrokerError:
    """Return the error with Kafka's texts. `name` and `message` are for codes without a text."""
    name, message = _ERRORS.get(code, (name, message))
    derived = "".join(word.capitalize() for word in name.split("_")) + "Exception"
    return BrokerError(code, name, _EXCEPTIONS.get(name, derived), message)
