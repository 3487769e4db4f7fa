"""Authentication that fails because a test wants it to."""

import pytest
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.testing import BarrierTimeout, Kafka

SECURED = pytest.mark.kafka(security="SASL_SSL", users={"alice": "alice-secret"})


def connect(kafka: Kafka) -> list[str]:
    """Connect a client that tries again, and return the problems that it had."""
    problems: list[str] = []
    config = kafka.security.client_config("alice", library="confluent")
    quick = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 10}
    client = AdminClient({**config, **quick, "error_cb": lambda each: problems.append(str(each))})
    assert client.list_topics(timeout=10).brokers
    client.poll(0)
    return problems


@SECURED
def test_a_client_connects_again_after_a_handshake_that_was_dropped(kafka: Kafka) -> None:
    kafka.security.drop_handshakes(times=2)
    problems = connect(kafka)
    assert "SSL" in problems[0]
    assert kafka.history.requests


@SECURED
def test_authentication_fails_as_often_as_a_fault_says(kafka: Kafka) -> None:
    assert connect(kafka) == []
    fault = kafka.faults.answer("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED", times=2)
    assert "SASL authentication error" in connect(kafka)[0]
    fault.wait(times=2)


@SECURED
def test_the_history_has_no_secrets(kafka: Kafka) -> None:
    admin = AdminClient(
        kafka.security.client_config("alice", library="confluent", mechanism="PLAIN")
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    carol = UserScramCredentialUpsertion("carol", info, b"carol-secret", b"salt")
    admin.alter_user_scram_credentials([carol])["carol"].result(timeout=10)
    authenticated = kafka.history.requests_of("SaslAuthenticate")[0].message
    altered = kafka.history.requests_of("AlterUserScramCredentials")[0].message
    assert authenticated.auth_bytes == b""
    assert [(each.name, each.salted_password) for each in altered.upsertions] == [("carol", b"")]


AUTHORIZED = pytest.mark.kafka(
    security="SASL_PLAINTEXT",
    users={"alice": "alice-secret"},
    config={"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"},
)


@AUTHORIZED
def test_an_explanation_names_what_a_client_may_not_do(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1).produce(["tea"])
    consumer = Consumer(
        {
            **kafka.security.client_config("alice", library="confluent"),
            "group.id": "billing",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["orders"])
    consumer.poll(0.5)
    with pytest.raises(BarrierTimeout) as timeout:
        kafka.group("billing").wait_stable(members=1, timeout=0.1)
    consumer.close()
    assert "User:alice may not DESCRIBE GROUP billing (FindCoordinator): no ACL allows it." in str(
        timeout.value
    )


@SECURED
def test_an_explanation_names_a_client_that_could_not_authenticate(kafka: Kafka) -> None:
    config = kafka.security.client_config("alice", library="confluent")
    client = AdminClient({**config, "sasl.password": "wrong", "reconnect.backoff.ms": 500})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    with pytest.raises(BarrierTimeout) as timeout:
        kafka.wait_request("Metadata", timeout=0.1)
    problem = "could not authenticate: Authentication failed: Invalid username or password."
    assert problem in str(timeout.value)


def test_settings_are_rejected_that_no_broker_can_accept(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="Unknown security 'TLS': use one of PLAINTEXT, SSL"):
        Kafka(security="TLS")
    with pytest.raises(ValueError, match="security='SSL' has no users: use SASL_SSL"):
        Kafka(security="SSL", users={"alice": "alice-secret"})
    with pytest.raises(ValueError, match="Unknown user 'carol'; the users: none"):
        kafka.security.client_config("carol", library="confluent")
    with pytest.raises(ValueError, match="Unknown library 'librdkafka': use one of confluent"):
        kafka.security.client_config(library="librdkafka")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown mechanism 'SCRAM': use one of PLAIN, SCRAM-SHA"):
        kafka.security.client_config("carol", library="java", mechanism="SCRAM")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown listener 'b'; the listeners: PLAINTEXT"):
        kafka.security.client_config(library="java", listener="b")
    with pytest.raises(RuntimeError, match=r"No started listener uses TLS: use Kafka\(security="):
        _ = kafka.security.ca_file


def test_fake_members_do_everything_without_authentication() -> None:
    with Kafka(security="SASL_SSL", users={"alice": "alice-secret"}) as kafka:
        kafka.topic("orders", partitions=1)
        member = kafka.fake_member("billing", ["orders"])
        kafka.group("billing").wait_stable(1)
        assert member.errors == []
