"""Real clients that authenticate with SASL, and what they see if that fails."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider
from kohort.testing.kafka import Kafka
from support.sasl import unsecured_token

from .connecting import CLIENTS, Config, Refused

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
CONFIG = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "kohort.users": "alice:alice-secret",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
}


def token_for(user: str) -> str:
    now = time.time()
    return unsecured_token({"sub": user, "iat": now - 1, "exp": now + 3600})


def confluent_settings(address: str, mechanism: str, user: str, password: str) -> Config:
    settings: Config = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "reconnect.backoff.ms": 500,
    }
    if mechanism == "OAUTHBEARER":
        token = token_for(user) if user else "junk"
        return {**settings, "oauth_cb": lambda _: (token, time.time() + 3600)}
    return {**settings, "sasl.username": user, "sasl.password": password}


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


def python_settings(token: type, address: str, mechanism: str, user: str, password: str) -> Config:
    settings: Config = {
        "bootstrap_servers": address,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**settings, "sasl_oauth_token_provider": token(user)}
    return {**settings, "sasl_plain_username": user, "sasl_plain_password": password}


SETTINGS: dict[str, Callable[[str, str, str, str], Config]] = {
    "confluent": confluent_settings,
    "kafka-python": partial(python_settings, KafkaPythonToken),
    "aiokafka": partial(python_settings, AiokafkaToken),
}


def brokers(library: str, *how: str) -> int:
    return CLIENTS[library](SETTINGS[library](*how))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(config=CONFIG) as kafka:
        yield kafka


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_is_served(kafka: Kafka, library: str, mechanism: str) -> None:
    assert brokers(library, kafka.bootstrap_servers, mechanism, "alice", "alice-secret") == 1


def refused(
    kafka: Kafka, library: str, credentials: tuple[str, str, str], caplog: pytest.LogCaptureFixture
) -> tuple[str, list[str]]:
    """Return what the client sees, and what the broker logs."""
    with pytest.raises(Refused) as raised:
        brokers(library, kafka.bootstrap_servers, *credentials)
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
