"""What goes wrong, in Kafka's words: Java's class of an error and its text, by error code.

Scripts look for these lines. They are Kafka 4.3's (org.apache.kafka.common.protocol.Errors).
"""

from typing import Final, NamedTuple

GROUP_ID_NOT_FOUND: Final = 69


class UsageError(Exception):
    """Flags that do not go together, or a value that is no such thing: exit code 1."""


class CommandError(Exception):
    """What the command failed from; Kafka's tool prints it and ends with 0."""


class Refusal(NamedTuple):
    """An error of a broker."""

    code: int
    name: str
    """As in Kafka's protocol: `NON_EMPTY_GROUP`."""
    exception: str
    """Java's class: `GroupNotEmptyException`."""
    message: str

    def __str__(self) -> str:
        return f"org.apache.kafka.common.errors.{self.exception}: {self.message}"


class RefusedError(CommandError):
    """A broker said no."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


REFUSALS: Final = {
    refusal.code: refusal
    for refusal in (
        Refusal(
            3,
            "UNKNOWN_TOPIC_OR_PARTITION",
            "UnknownTopicOrPartitionException",
            "This server does not host this topic-partition.",
        ),
        Refusal(
            14,
            "COORDINATOR_LOAD_IN_PROGRESS",
            "CoordinatorLoadInProgressException",
            "The coordinator is loading and hence can't process requests.",
        ),
        Refusal(
            15,
            "COORDINATOR_NOT_AVAILABLE",
            "CoordinatorNotAvailableException",
            "The coordinator is not available.",
        ),
        Refusal(
            16, "NOT_COORDINATOR", "NotCoordinatorException", "This is not the correct coordinator."
        ),
        Refusal(
            24, "INVALID_GROUP_ID", "InvalidGroupIdException", "The configured groupId is invalid."
        ),
        Refusal(
            25,
            "UNKNOWN_MEMBER_ID",
            "UnknownMemberIdException",
            "The coordinator is not aware of this member.",
        ),
        Refusal(
            29,
            "TOPIC_AUTHORIZATION_FAILED",
            "TopicAuthorizationException",
            "Topic authorization failed.",
        ),
        Refusal(
            30,
            "GROUP_AUTHORIZATION_FAILED",
            "GroupAuthorizationException",
            "Group authorization failed.",
        ),
        Refusal(68, "NON_EMPTY_GROUP", "GroupNotEmptyException", "The group is not empty."),
        Refusal(
            GROUP_ID_NOT_FOUND,
            "GROUP_ID_NOT_FOUND",
            "GroupIdNotFoundException",
            "The group id does not exist.",
        ),
        Refusal(
            86,
            "GROUP_SUBSCRIBED_TO_TOPIC",
            "GroupSubscribedToTopicException",
            "Deleting offsets of a topic is forbidden while the consumer group is actively "
            "subscribed to it.",
        ),
    )
}


def refusal(code: int, name: str = "UNKNOWN", message: str = "") -> Refusal:
    """Kafka's words for the error; `name` and `message` are for codes that are not in the table."""
    known = REFUSALS.get(code)
    if known is not None:
        return known
    words = (word.capitalize() for word in name.split("_"))
    return Refusal(code, name, f"{''.join(words)}Exception", message)
