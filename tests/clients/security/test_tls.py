"""Real clients and TLS: certificates that they trust or not, and certificates of their own."""

import asyncio
import contextlib
import gc
import logging
import ssl
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kohort.testing.kafka import Kafka

ATTEMPTS = 20
Config = dict[str, Any]


class Refused(Exception):
    """The client cannot connect."""


def brokers_of_confluent(config: Config) -> int:
    problems: list[str] = []
    client = AdminClient({**config, "error_cb": lambda error: problems.append(error.str())})
    for _ in range(ATTEMPTS):
        try:
            return len(client.list_topics(timeout=0.5).brokers)
        except KafkaException:
            client.poll(0)
            if problems:
                raise Refused(problems[0]) from None
    raise Refused("no response")


def brokers_of_kafka_python(config: Config) -> int:
    try:
        client = KafkaAdminClient(**config, bootstrap_timeout_ms=2000)
    except KafkaError as error:
        problem = str(error)
    else:
        with contextlib.closing(client):
            return len(client.describe_cluster()["brokers"])
    gc.collect()  # it leaves its sockets open; the warnings are ignored during this test
    raise Refused(problem)


def brokers_of_aiokafka(config: Config) -> int:
    async def connect() -> int:
        client = AIOKafkaAdminClient(**config)
        try:
            await client.start()
            return len((await client.describe_cluster())["brokers"])
        except KafkaConnectionError as error:
            raise Refused(str(error)) from error
        finally:
            await client.close()

    return asyncio.run(connect())


CLIENTS: dict[str, Callable[[Config], int]] = {
    "confluent": brokers_of_confluent,
    "kafka-python": brokers_of_kafka_python,
    "aiokafka": brokers_of_aiokafka,
}


@pytest.fixture(params=CLIENTS)
def library(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Any:
    # Tracebacks in its records would keep the sockets that it leaves open.
    caplog.set_level(logging.CRITICAL, "kafka")
    caplog.set_level(logging.INFO)
    return request.param


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
