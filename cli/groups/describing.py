"""What a coordinator tells of a group, classic or of KIP-848, in the words of rows.py."""

from collections.abc import Mapping
from typing import Any, Final

from kafka import errors as kafka_errors
from kafka.protocol.api_message import ApiMessage

from ...testing.described import describe_error
from .errors import GROUP_ID_NOT_FOUND, Refusal, refusal
from .rows import Group, Member, Partition

# What passes by itself, and is asked again.
PASSING: Final = (
    kafka_errors.CoordinatorLoadInProgressError,
    kafka_errors.CoordinatorNotAvailableError,
    kafka_errors.NotCoordinatorError,
    kafka_errors.KafkaConnectionError,
    kafka_errors.NodeNotReadyError,
)


# kafka-python 3 has all messages but this one; it reads our schemas as it reads its own.
class ConsumerGroupDescribeRequest(ApiMessage, load_json=__package__):
    pass


class ConsumerGroupDescribeResponse(ApiMessage, load_json=__package__):
    pass


def classic(told: Mapping[str, Any]) -> Group | Refusal:
    """A group of kafka-python's describe_groups; raises what passes."""
    error = describe_error(told["error"])
    if error is not None:
        return _refused(error.code, error.message)
    members = tuple(_classic_member(member) for member in told["members"])
    return Group(told["group_id"], told["group_state"], told["protocol_data"], members)


def _classic_member(told: Mapping[str, Any]) -> Member:
    # Empty bytes while the group has no assignment.
    topics = (told["member_assignment"] or {}).get("assigned_partitions", ())
    return Member(
        told["member_id"],
        told.get("group_instance_id"),
        told["client_host"],
        told["client_id"],
        tuple(Partition(topic["topic"], n) for topic in topics for n in topic["partitions"]),
    )


def consumer(told: Mapping[str, Any]) -> Group | Refusal | None:
    """A group of a ConsumerGroupDescribe answer, None where it is no such group; raises what
    passes."""
    if told["error_code"] == GROUP_ID_NOT_FOUND:
        return None
    if told["error_code"]:
        return _refused(told["error_code"], told["error_message"])
    return Group(
        told["group_id"],
        told["group_state"],
        told["assignor_name"],
        tuple(_consumer_member(member) for member in told["members"]),
        told["group_epoch"],
        told["assignment_epoch"],
    )


def _consumer_member(told: Mapping[str, Any]) -> Member:
    def partitions(assignment: Mapping[str, Any]) -> tuple[Partition, ...]:
        topics = assignment["topic_partitions"]
        return tuple(
            Partition(topic["topic_name"], n) for topic in topics for n in topic["partitions"]
        )

    # Since version 1: 0 a classic member, 1 one of KIP-848, -1 not known.
    kind = told.get("member_type", -1)
    return Member(
        told["member_id"],
        told["instance_id"],
        told["client_host"],
        told["client_id"],
        partitions(told["assignment"]),
        told["member_epoch"],
        partitions(told["target_assignment"]),
        None if kind < 0 else kind == 1,
    )


def _refused(code: int, message: str | None) -> Refusal:
    error = _error_type(code)
    if issubclass(error, PASSING):
        raise error(message)
    # Brokers may say which group, and what it is instead.
    return refused(code)._replace(message=message) if message else refused(code)


def refused(code: int) -> Refusal:
    """A broker's error, in Kafka's words."""
    error = _error_type(code)
    return refusal(code, error.message or "UNKNOWN", error.description or "")


def _error_type(code: int) -> Any:
    by_code: Any = kafka_errors.for_code
    return by_code(code)
