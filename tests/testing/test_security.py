"""Authentication that fails because a test wants it to."""

import pytest
from confluent_kafka.admin import AdminClient
from kohort.testing.kafka import Kafka

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
