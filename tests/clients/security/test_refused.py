"""The errors of real clients that cannot connect, and the broker's log lines: the table in
docs/security.md."""

import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider
from kohort.testing.kafka import Kafka
from kohort.testing.security import Security
from support.sasl import OAUTH_MODULE, unsecured_token

from .conftest import Config, Refused
from .test_connecting import CONFIG, PASSWORD, Connect

Sees = dict[str, str]
"""Library -> a part of its exception or of a log message."""
PYTHON = ("kafka-python", "aiokafka")


# --- settings with mistakes


def invalid_token() -> str:
    """Return a token that no broker accepts: it has expired, and has no name."""
    return unsecured_token({"sub": "", "exp": 0})


class KafkaPythonToken(AbstractTokenProvider):
    def token(self) -> str:
        return invalid_token()


class AiokafkaToken(AioTokenProvider):
    async def token(self) -> str:
        return invalid_token()


def with_invalid_token(security: Security, *, library: Any, listener: str) -> Config:
    config = security.client_config(
        "carol", library=library, listener=listener, mechanism="OAUTHBEARER"
    )
    if library in PYTHON:
        token = KafkaPythonToken if library == "kafka-python" else AiokafkaToken
        return {**config, "sasl_oauth_token_provider": token()}
    if library == "confluent":
        del config["enable.sasl.oauthbearer.unsecure.jwt"], config["sasl.oauthbearer.config"]
        return {**config, "oauth_cb": lambda _: (invalid_token(), time.time() + 3600)}
    # Java's client creates the token itself, always with a name, but the name can be in another
    # claim.
    claim = 'unsecuredLoginPrincipalClaimName="other" unsecuredLoginStringClaim_other="carol"'
    return {**config, "sasl.jaas.config": f"{OAUTH_MODULE} required {claim};"}


def with_password(config: Config, library: str, user: str, password: str) -> Config:
    if library in PYTHON:
        return {**config, "sasl_plain_username": user, "sasl_plain_password": password}
    if library == "confluent":
        return {**config, "sasl.username": user, "sasl.password": password}
    module = config["sasl.jaas.config"].split()[0]
    login = f'{module} required username="{user}" password="{password}";'
    return {**config, "sasl.jaas.config": login}


def with_protocol(config: Config, library: str, protocol: str) -> Config:
    changed = {
        **config,
        "security_protocol" if library in PYTHON else "security.protocol": protocol,
    }
    if library == "aiokafka" and protocol.endswith("SSL"):
        changed.setdefault("ssl_context", ssl.create_default_context())
    return changed


def impatient(config: Config, library: str) -> Config:
    """Shorten the time (a minute) for which Java's client retries if it is disconnected."""
    if library != "java":
        return config
    return {**config, "default.api.timeout.ms": "1000", "request.timeout.ms": "500"}


def without_authority(config: Config, library: str) -> Config:
    """Return settings with which the client trusts only the machine's authorities."""
    trust = ("ssl.ca.location", "ssl_cafile", "ssl_context", "ssl.truststore.location")
    changed = {key: value for key, value in config.items() if key not in trust}
    changed.pop("ssl.truststore.type", None)
    if library == "aiokafka":
        changed["ssl_context"] = ssl.create_default_context()
    return changed


# --- tests


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    config = {**CONFIG, "listeners": f"PLAINTEXT://127.0.0.1:0,{CONFIG['listeners']}"}
    config["listener.security.protocol.map"] += ",PLAINTEXT:PLAINTEXT"
    with Kafka(security="SASL_SSL", users={"alice": PASSWORD}, config=config) as kafka:
        yield kafka


@pytest.fixture
def refused(
    connect: Connect, library: str, caplog: pytest.LogCaptureFixture
) -> Callable[..., None]:
    """`refused(kafka, config, sees, logs)`: the client reports and the broker logs these texts, and
    the history has the reason."""

    def check(kafka: Kafka, config: Config, sees: Sees, logs: str) -> None:
        caplog.clear()
        before = len(kafka.history.failed_connections)
        with pytest.raises(Refused) as raised:
            connect(config)
        assert sees[library] in str(raised.value)
        kafka.wait(lambda: logs in caplog.text, f"the log line {logs!r}")
        assert "secret" not in caplog.text
        line = next(each for each in caplog.messages if logs in each)
        failed = kafka.history.failed_connections[before:]
        assert any(each.reason.removeprefix("TLS handshake: ") in line for each in failed)

    return check


DISCONNECTED = {
    "confluent": "Disconnected: connection closed by peer",
    "kafka-python": "socket disconnected",
    "aiokafka": "closed",
    "java": "TimeoutException: Timed out waiting for a node assignment",
}


def messages(mechanism: str) -> tuple[Sees, str]:
    """Return the errors of clients and the log message of the broker for a wrong password."""
    reason = "Authentication failed: Invalid username or password"
    if mechanism != "PLAIN":
        reason = (
            "Authentication failed during authentication due to invalid credentials with SASL "
            f"mechanism {mechanism}"
        )
    sees = {
        "confluent": f"SASL authentication error: {reason}",
        # With Kafka too, kafka-python loses the response if the connection is closed before the
        # response is read.
        "kafka-python": "KafkaTimeoutError('Unable to bootstrap from 127.0.0.1:",
        "aiokafka": f"[Error 58] SaslAuthenticationFailed: {reason}",
        "java": f"SaslAuthenticationException: {reason}",
    }
    return sees, f"Failed authentication with /127.0.0.1 ({reason})"


@pytest.mark.parametrize(
    ("listener", "mechanism", "user"),
    [
        ("SASL_PLAINTEXT", "PLAIN", "alice"),
        ("SASL_SSL", "PLAIN", "zoe"),
        ("SASL_SSL", "SCRAM-SHA-256", "alice"),
        ("SASL_PLAINTEXT", "SCRAM-SHA-512", "zoe"),
    ],
)
def test_a_wrong_password_and_an_unknown_user(
    kafka: Kafka, refused: Any, library: Any, listener: str, mechanism: Any, user: str
) -> None:
    config = kafka.security.client_config(
        "alice", library=library, mechanism=mechanism, listener=listener
    )
    refused(kafka, with_password(config, library, user, "wrong-secret"), *messages(mechanism))


def test_an_invalid_token(kafka: Kafka, refused: Any, library: Any) -> None:
    sees = {
        "confluent": '{"status":"invalid_token"}',
        "kafka-python": "KafkaTimeoutError('Unable to bootstrap from 127.0.0.1:",
        "aiokafka": "Unable to bootstrap",
        "java": 'SaslAuthenticationException: {"status":"invalid_token"}',
    }
    logs = '({"status":"invalid_token"})'
    if library == "aiokafka":  # aiokafka mistakes the error for the end of the exchange
        logs = "(Unexpected Kafka request of type METADATA during SASL authentication.)"
    config = with_invalid_token(kafka.security, library=library, listener="SASL_SSL")
    refused(kafka, config, sees, f"Failed authentication with /127.0.0.1 {logs}")


def test_a_mechanism_that_is_not_enabled(refused: Any, library: Any) -> None:
    sees = {
        "confluent": "Unsupported SASL mechanism: broker's supported mechanisms: SCRAM-SHA-256",
        "kafka-python": "KafkaTimeoutError('Unable to bootstrap from 127.0.0.1:",
        "aiokafka": "UnsupportedSaslMechanism",
        "java": "UnsupportedSaslMechanismException: Client SASL mechanism 'PLAIN' not enabled",
    }
    enabled = {"sasl.enabled.mechanisms": "SCRAM-SHA-256"}
    with Kafka(security="SASL_SSL", users={"alice": PASSWORD}, config=enabled) as kafka:
        config = kafka.security.client_config("alice", library=library)
        refused(kafka, config, sees, "(Unsupported SASL mechanism PLAIN)")


def test_a_client_without_sasl(kafka: Kafka, refused: Any, library: Any) -> None:
    config = kafka.security.client_config(library=library, listener="SASL_PLAINTEXT")
    config = impatient(with_protocol(config, library, "PLAINTEXT"), library)
    logs = "Unexpected Kafka request of type METADATA during SASL handshake."
    refused(kafka, config, DISCONNECTED, logs)


HANDSHAKE = "Failed authentication with /127.0.0.1 (SSL handshake failed): {}"
UNTRUSTED = {
    "confluent": "certificate verify failed: broker certificate could not be verified",
    "kafka-python": "certificate verify failed: unable to get local issuer certificate",
    "aiokafka": "certificate verify failed: unable to get local issuer certificate",
    "java": "SslAuthenticationException: SSL handshake failed; javax.net.ssl."
    "SSLHandshakeException: PKIX path building failed",
}


@pytest.mark.parametrize(("listener", "user"), [("SSL", None), ("SASL_SSL", "alice")])
def test_an_authority_that_the_client_does_not_trust(
    kafka: Kafka, refused: Any, library: Any, listener: str, user: str | None
) -> None:
    config = kafka.security.client_config(user, library=library, listener=listener)
    # asyncio closes the connection without the alert.
    problem = (
        "the client has disconnected" if library == "aiokafka" else "the client does not trust"
    )
    refused(kafka, without_authority(config, library), UNTRUSTED, HANDSHAKE.format(problem))


EXPIRED = {
    **UNTRUSTED,
    **dict.fromkeys(("kafka-python", "aiokafka"), "certificate has expired"),
    "java": "CertificateExpiredException: NotAfter",
}


def test_an_expired_certificate_of_the_broker(connect: Connect, refused: Any, library: Any) -> None:
    with Kafka(security="SSL") as kafka:
        config = kafka.security.client_config(library=library)
        kafka.clock.advance(days=396)
        connect(config)
        kafka.clock.advance(days=2)
        problem = {"aiokafka": "the client has disconnected", "java": "the client does not trust"}
        logs = problem.get(library, "the broker's certificate has expired")
        refused(kafka, config, EXPIRED, HANDSHAKE.format(logs))


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_a_client_without_tls_on_a_listener_with_tls(
    kafka: Kafka, refused: Any, library: Any, protocol: str
) -> None:
    user = "alice" if protocol == "SASL_SSL" else None
    config = kafka.security.client_config(user, library=library, listener=protocol)
    plain = "SASL_PLAINTEXT" if user else "PLAINTEXT"
    config = impatient(with_protocol(config, library, plain), library)
    refused(kafka, config, DISCONNECTED, HANDSHAKE.format("the client does not use TLS"))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_client_with_tls_on_a_listener_without_tls(
    kafka: Kafka, refused: Any, library: Any, protocol: str
) -> None:
    user = "alice" if protocol == "SASL_PLAINTEXT" else None
    config = kafka.security.client_config(user, library=library, listener=protocol)
    config = impatient(with_protocol(config, library, "SASL_SSL" if user else "SSL"), library)
    sees = {
        **DISCONNECTED,
        "confluent": "SSL connection closed by peer: connecting to a PLAINTEXT broker listener?",
        "kafka-python": "EOF occurred in violation of protocol",
        "aiokafka": "Unable to bootstrap",
    }
    refused(kafka, config, sees, "the client uses TLS, but this listener does not")


ALERTS = {
    "confluent": "alert certificate {}: SSL alert number",
    "kafka-python": "ALERT_CERTIFICATE_{}",
    "aiokafka": "closed",  # aiokafka ignores alerts
    "java": "SslAuthenticationException: Failed to process post-handshake messages; "
    "javax.net.ssl.SSLHandshakeException: Received fatal alert: certificate_{}",
}


@pytest.mark.parametrize("alert", ["required", "expired"])
def test_a_client_with_no_certificate_and_with_an_expired_one(
    kafka: Kafka, refused: Any, library: Any, alert: str
) -> None:
    if alert == "required":
        certificate = None
        problem = "the client has no certificate, which ssl.client.auth requires"
    else:
        certificate = kafka.security.client_certificate("eve", valid=False)
        problem = "the client's certificate is not valid for this listener (certificate has"
    config = kafka.security.client_config(
        library=library, certificate=certificate, listener="MUTUAL"
    )
    shown = alert.upper() if library == "kafka-python" else alert
    sees = {library: ALERTS[library].format(shown)}
    refused(kafka, config, sees, HANDSHAKE.format(problem))
