"""Real clients and TLS: certificates that they trust or not, and certificates of their own."""

import ssl
from typing import Any

import pytest
from kohort.testing.kafka import Kafka

from .connecting import CLIENTS, Refused


@pytest.mark.kafka(security="SSL")
def test_a_client_that_trusts_the_authority_connects(kafka: Kafka, library: Any) -> None:
    assert CLIENTS[library](kafka.security.client_config(library=library)) == 1
    assert str(kafka.history.requests[-1].principal) == "User:ANONYMOUS"


@pytest.mark.kafka(security="SSL")
def test_a_client_that_does_not_trust_it_is_refused(
    kafka: Kafka, library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = kafka.security.client_config(library=library)
    for key in ("ssl.ca.location", "ssl_cafile", "ssl_context"):
        config.pop(key, None)
    if library == "aiokafka":
        config["ssl_context"] = ssl.create_default_context()
    with pytest.raises(Refused):
        CLIENTS[library](config)
    # asyncio closes the connection without the alert.
    problem = "the client has disconnected" if library == "aiokafka" else "it does not trust"
    problem = f"Failed authentication with /127.0.0.1 (SSL handshake failed): {problem}"
    kafka.wait(lambda: problem in caplog.text, "the log line")


@pytest.mark.kafka(security="SSL")
def test_a_client_of_an_expired_certificate_is_refused(kafka: Kafka, library: Any) -> None:
    config = kafka.security.client_config(library=library)
    kafka.clock.advance(days=396)
    assert CLIENTS[library](dict(config)) == 1
    kafka.clock.advance(days=2)
    with pytest.raises(Refused):
        CLIENTS[library](config)


@pytest.mark.kafka(security="SSL")
def test_a_client_without_tls_is_refused(
    kafka: Kafka, library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = kafka.security.client_config(library=library)
    config["security.protocol" if library == "confluent" else "security_protocol"] = "PLAINTEXT"
    with pytest.raises(Refused):
        CLIENTS[library](config)
    problem = "(SSL handshake failed): it does not use TLS"
    kafka.wait(lambda: problem in caplog.text, "the log line")


def test_a_client_with_tls_is_refused_by_a_listener_without(
    kafka: Kafka, library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = kafka.security.client_config(library=library)
    config["security.protocol" if library == "confluent" else "security_protocol"] = "SSL"
    if library == "aiokafka":
        config["ssl_context"] = ssl.create_default_context()
    with pytest.raises(Refused):
        CLIENTS[library](config)
    problem = "the client uses TLS, but this listener does not"
    kafka.wait(lambda: problem in caplog.text, "the log line")


MUTUAL = {"ssl.client.auth": "required", "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L"}


@pytest.mark.kafka(security="SSL", config=MUTUAL)
def test_the_name_in_its_certificate_is_the_principal_of_a_client(
    kafka: Kafka, library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    security = kafka.security
    alice = security.client_certificate("Alice")
    assert CLIENTS[library](security.client_config(library=library, certificate=alice)) == 1
    assert str(kafka.history.requests[-1].principal) == "User:alice"
    for certificate in (None, security.client_certificate("bob", valid=False)):
        caplog.clear()
        with pytest.raises(Refused):
            CLIENTS[library](security.client_config(library=library, certificate=certificate))
        problem = "it has no certificate" if certificate is None else "its certificate is not valid"
        kafka.wait(lambda problem=problem: problem in caplog.text, "the log line")


@pytest.mark.kafka(security="SSL")
def test_a_client_trusts_the_same_authority_after_a_restart(kafka: Kafka, library: Any) -> None:
    config = kafka.security.client_config(library=library)
    kafka.crash()
    assert CLIENTS[library](config) == 1
