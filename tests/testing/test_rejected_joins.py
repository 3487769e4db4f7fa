"""Explanations why clients were rejected, with librdkafka's consumers."""

import re
from contextlib import closing

import pytest
from kohort.testing import BarrierTimeout, Kafka

from .conftest import NewService, Service

pytestmark = pytest.mark.clients


def check_explained(kafka: Kafka, sentence: str, api: str = "ConsumerGroupHeartbeat") -> None:
    """Check that the sentence is in the message of a wait, in `explain` and in the test's
    report."""
    kafka.wait(
        lambda: any(each.errors for each in kafka.history.requests_of(api)), "a rejected join"
    )
    group = kafka.group("billing")
    with pytest.raises(BarrierTimeout, match=re.escape(sentence)):
        group.wait_stable(members=2, timeout=0.01)
    assert sentence in group.explain()
    assert sentence in kafka.report()


def test_an_invalid_regular_expression_is_explained(kafka: Kafka) -> None:
    with closing(Service(kafka, "billing", r"^(order)\1", group_protocol="consumer")):
        check_explained(
            kafka,
            "Client service was rejected by group billing (ConsumerGroupHeartbeat: "
            r"INVALID_REGULAR_EXPRESSION): SubscribedTopicRegex `(^(order)\1)` is not a valid "
            "regular expression: invalid escape sequence. The broker uses the syntax of RE2, which "
            "has no backreferences and no lookaround.",
        )


def test_an_unknown_assignor_is_explained(kafka: Kafka, new_service: NewService) -> None:
    new_service("first", group_protocol="consumer", group_remote_assignor="sticky")
    check_explained(
        kafka,
        "Client first was rejected by group billing (ConsumerGroupHeartbeat: "
        "UNSUPPORTED_ASSIGNOR): ServerAssignor sticky is not supported. Supported assignors: "
        "uniform, range. Change or remove group.remote.assignor of the client.",
    )


@pytest.mark.kafka(config={"group.coordinator.rebalance.protocols": "classic"})
def test_a_disabled_consumer_protocol_is_explained(kafka: Kafka, new_service: NewService) -> None:
    new_service("first", group_protocol="consumer")
    check_explained(
        kafka,
        "Client first was rejected by group billing (ConsumerGroupHeartbeat: "
        "UNSUPPORTED_VERSION). group.coordinator.rebalance.protocols is classic: add consumer, or "
        "set group.protocol of the client to classic.",
    )


@pytest.mark.parametrize(
    ("profile", "lacks"), [("kafka-3.9", "supports only v0"), ("kafka-2.8", "does not support it")]
)
def test_a_profile_without_the_consumer_protocol_is_explained(profile: str, lacks: str) -> None:
    with Kafka(profile=profile) as kafka:
        kafka.topic("orders", partitions=1)
        service = Service(kafka, "billing", "orders", group_protocol="consumer")
        kafka.wait_request("FindCoordinator")
        explanation = kafka.group("billing").explain()
        service.close()
    assert (
        "With group.protocol=consumer, a client needs ConsumerGroupHeartbeat (librdkafka: v1). "
        f"Profile {profile} {lacks}. Use profile kafka-4.x, or set group.protocol "
        "of the client to classic."
    ) in explanation


@pytest.mark.kafka(config={"group.consumer.migration.policy": "disabled"})
def test_a_disabled_migration_is_explained(kafka: Kafka, new_service: NewService) -> None:
    new_service("first", group_protocol="classic")
    kafka.group("billing").wait_stable(members=1)
    new_service("second", group_protocol="consumer")
    check_explained(
        kafka,
        "Client second was rejected by group billing (ConsumerGroupHeartbeat: "
        "GROUP_ID_NOT_FOUND): Cannot upgrade classic group billing to consumer group because "
        "online upgrade is disabled. group.consumer.migration.policy is disabled: set it to "
        "bidirectional, or close the classic members first.",
    )


@pytest.mark.parametrize(
    ("protocol", "api", "text"),
    [
        ("classic", "JoinGroup", ". Close another member, or increase group.max.size (1)."),
        (
            "consumer",
            "ConsumerGroupHeartbeat",
            (
                ": The consumer group has reached its maximum capacity of 1 members."
                " Close another member, or increase group.consumer.max.size (1)."
            ),
        ),
    ],
)
@pytest.mark.kafka(config={"group.max.size": 1, "group.consumer.max.size": 1})
def test_a_full_group_is_explained(
    kafka: Kafka, new_service: NewService, protocol: str, api: str, text: str
) -> None:
    new_service("first", group_protocol=protocol)
    kafka.group("billing").wait_stable(members=1)
    new_service("second", group_protocol=protocol)
    kafka.wait_request(api, client_id="second")
    rejected = f"Client second was rejected by group billing ({api}: GROUP_MAX_SIZE_REACHED){text}"
    kafka.wait(lambda: rejected in kafka.group("billing").explain(), rejected)


def test_a_session_timeout_out_of_range_is_explained(kafka: Kafka, new_service: NewService) -> None:
    hour = 3_600_000
    new_service("first", session_timeout_ms=hour, max_poll_interval_ms=hour)
    check_explained(
        kafka,
        "Client first was rejected by group billing (JoinGroup: INVALID_SESSION_TIMEOUT). Its "
        "session.timeout.ms is 3600000, but must be between group.min.session.timeout.ms (1) and "
        "group.max.session.timeout.ms (1800000).",
        "JoinGroup",
    )


def test_members_without_a_common_assignor_are_explained(
    kafka: Kafka, new_service: NewService
) -> None:
    new_service("first", partition_assignment_strategy="range")
    kafka.group("billing").wait_stable(members=1)
    new_service("second", partition_assignment_strategy="roundrobin")
    rejected = (
        "Client second was rejected by group billing (JoinGroup: INCONSISTENT_GROUP_PROTOCOL). Its "
        "protocol type is consumer and its assignors are roundrobin "
        "(partition.assignment.strategy). All members need the same type and one assignor in "
        "common."
    )
    kafka.wait(lambda: rejected in kafka.group("billing").explain(), rejected)


@pytest.mark.kafka(config={"group.consumer.max.size": 1})
def test_a_client_that_has_joined_since_is_not_named(kafka: Kafka, new_service: NewService) -> None:
    group = kafka.group("billing")
    first = new_service("first", group_protocol="consumer")
    group.wait_stable(members=1)
    rejected = new_service("second", group_protocol="consumer")
    kafka.wait(lambda: "Client second was rejected" in group.explain(), "a rejected join")
    first.close()
    rejected.close()
    new_service("second", group_protocol="consumer")
    group.wait_stable(members=1)
    kafka.wait(lambda: "rejected" not in group.explain(), "the rejected connection to be closed")


def test_an_error_of_a_fault_is_no_rejection(kafka: Kafka, new_service: NewService) -> None:
    fault = kafka.faults.answer("ConsumerGroupHeartbeat", error="GROUP_MAX_SIZE_REACHED")
    new_service("first", group_protocol="consumer")
    fault.wait()
    assert "rejected" not in kafka.group("billing").explain()
