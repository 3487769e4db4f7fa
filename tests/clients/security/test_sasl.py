"""Real clients that authenticate with SASL, and what they see if that fails."""

import asyncio
import contextlib
import gc
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka.errors import KafkaError
from kafka.net.sasl.oauth import AbstractTokenProvider
from kohort.testing.kafka import Kafka
from support.sasl import unsecured_token

SECONDS = 10
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "kohort.users": "alice:alice-secret",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
}
Settings = dict[str, Any]


class Refused(Exception):
    """The client cannot connect."""


def token_for(user: str) -> str:
    now = time.time()
    return unsecured_token({"sub": user, "iat": now - 1, "exp": now + 3600})


def brokers_of_confluent(address: str, mechanism: str, user: str, password: str) -> int:
    problems: list[str] = []
    config: Settings = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "reconnect.backoff.ms": 500,
        "error_cb": lambda error: problems.append(error.str()),
    }
    if mechanism == "OAUTHBEARER":
        config["oauth_cb"] = lambda _: (token_for(user) if user else "junk", time.time() + 3600)
    else:
        config |= {"sasl.username": user, "sasl.password": password}
    client = AdminClient(config)
    for _ in range(SECONDS):
        client.poll(0)  # calls the callbacks
        try:
            return len(client.list_topics(timeout=1).brokers)
        except KafkaException:
            client.poll(0)
            if problems:
                break
    raise Refused(problems[0])


class KafkaPythonToken(AbstractTokenProvider):
    def __init__(self, user: str) -> None:
        self.user = user

    def token(self) -> str:
        return token_for(self.user) if self.user else "junk"


class AiokafkaToken(AioTokenProvider):
    def __init__(self, user: str) -> None:
        self.user = user

    async def token(self) -> str:
        return token_for(self.user) if self.user else "junk"


def python_settings(address: str, mechanism: str, user: str, password: str) -> Settings:
    settings: Settings = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return settings
    return {**settings, "sasl_plain_username": user, "sasl_plain_password": password}


def brokers_of_kafka_python(address: str, mechanism: str, user: str, password: str) -> int:
    settings = python_settings(address, mechanism, user, password)
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = KafkaPythonToken(user)
    try:
        client = KafkaAdminClient(**settings, bootstrap_timeout_ms=3000)
    except KafkaError as error:
        problem = str(error)
    else:
        with contextlib.closing(client):
            return len(client.describe_cluster()["brokers"])
    gc.collect()  # it leaves its sockets open; the warnings are ignored during this test
    raise Refused(problem)


def brokers_of_aiokafka(address: str, mechanism: str, user: str, password: str) -> int:
    async def connect() -> int:
        settings = python_settings(address, mechanism, user, password)
        if mechanism == "OAUTHBEARER":
            settings["sasl_oauth_token_provider"] = AiokafkaToken(user)
        client = AIOKafkaAdminClient(**settings)
        try:
            await client.start()
            return len((await client.describe_cluster())["brokers"])
        except AioError as error:
            raise Refused(str(error)) from error
        finally:
            await client.close()

    return asyncio.run(connect())


CLIENTS: dict[str, Callable[[str, str, str, str], int]] = {
    "confluent": brokers_of_confluent,
    "kafka-python": brokers_of_kafka_python,
    "aiokafka": brokers_of_aiokafka,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(config=CONFIG) as kafka:
        yield kafka


@pytest.fixture(params=CLIENTS)
def library(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> str:
    # Tracebacks in its records would keep the sockets that it leaves open.
    caplog.set_level(logging.CRITICAL, "kafka")
    caplog.set_level(logging.INFO)
    name: str = request.param
    return name


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_is_served(kafka: Kafka, library: str, mechanism: str) -> None:
    assert CLIENTS[library](kafka.bootstrap_servers, mechanism, "alice", "alice-secret") == 1


def refused(
    kafka: Kafka, library: str, credentials: tuple[str, str, str], caplog: pytest.LogCaptureFixture
) -> tuple[str, list[str]]:
    """Return what the client sees, and what the broker logs."""
    with pytest.raises(Refused) as raised:
        CLIENTS[library](kafka.bootstrap_servers, *credentials)
    seen = str(raised.value) + "".join(
        each.getMessage() for each in caplog.records if each.name.startswith("aiokafka")
    )
    logged = [each.getMessage() for each in caplog.records if each.name == "kohort.connection"]
    assert "secret" not in "".join(logged)
    return seen, logged


HIDDEN = (
    "Authentication failed during authentication due to invalid credentials with SASL mechanism"
)


@pytest.mark.parametrize(
    ("mechanism", "user", "message"),
    [
        ("PLAIN", "alice", "Authentication failed: Invalid username or password"),
        ("PLAIN", "zoe", "Authentication failed: Invalid username or password"),
        ("SCRAM-SHA-256", "zoe", f"{HIDDEN} SCRAM-SHA-256"),
        ("SCRAM-SHA-512", "alice", f"{HIDDEN} SCRAM-SHA-512"),
    ],
)
def test_a_wrong_password_and_an_unknown_user_are_refused(
    kafka: Kafka,
    library: str,
    mechanism: str,
    user: str,
    message: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen, logged = refused(kafka, library, (mechanism, user, "wrong-secret"), caplog)
    assert f"Failed authentication with /127.0.0.1 ({message})" in logged
    if library != "kafka-python":  # it reports a timeout
        assert message in seen


def test_an_invalid_token_is_refused(
    kafka: Kafka, library: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, logged = refused(kafka, library, ("OAUTHBEARER", "", ""), caplog)
    reason = '{"status":"invalid_token"}'
    if library == "aiokafka":  # it takes the error for the end of the exchange
        reason = "Unexpected Kafka request of type METADATA during SASL authentication."
    assert f"Failed authentication with /127.0.0.1 ({reason})" in logged


def test_a_mechanism_that_is_not_enabled_is_refused(
    library: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**CONFIG, "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"}
    with Kafka(config=config) as kafka:
        seen, logged = refused(kafka, library, ("PLAIN", "alice", "alice-secret"), caplog)
    assert "Failed authentication with /127.0.0.1 (Unsupported SASL mechanism PLAIN)" in logged
    if library == "confluent":
        assert "broker's supported mechanisms: SCRAM-SHA-256,SCRAM-SHA-512" in seen
    if library == "aiokafka":
        assert "UnsupportedSaslMechanismError" in seen
