"""Authentication that fails because a test wants it to."""

import asyncio
import ssl
from functools import partial
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError
from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaAdminClient
from kohort.broker.config.keys import STANDARD_AUTHORIZER
from kohort.testing import BarrierTimeout, Kafka
from support.wire import Client

SECURED = pytest.mark.kafka(security="SASL_SSL", users={"alice": "alice-secret"})


def connect(kafka: Kafka) -> list[str]:
    """Connect a client that retries, and return its errors."""
    problems: list[str] = []
    config = kafka.security.client_config("alice", library="confluent")
    quick = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 10, "log_level": 0}
    client = AdminClient({**config, **quick, "error_cb": lambda each: problems.append(str(each))})
    assert client.list_topics(timeout=10).brokers
    client.poll(0)
    return problems


@SECURED
def test_the_protocol_has_the_form_that_the_library_documents(kafka: Kafka) -> None:
    libraries = ("confluent", "kafka-python", "java")
    confluent, python, java = (
        kafka.security.client_config("alice", library=each) for each in libraries
    )
    assert confluent["security.protocol"] == "sasl_ssl"
    assert python["security_protocol"] == java["security.protocol"] == "SASL_SSL"


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


@pytest.mark.parametrize("api", ["AlterConfigs", "IncrementalAlterConfigs"])
def test_the_history_has_no_values_of_sensitive_keys(kafka: Kafka, api: str) -> None:
    jaas = "listener.name.plaintext.plain.sasl.jaas.config"
    secret = {"ssl.key.password": "secret-1", jaas: "secret-2", "kohort.users": "alice:secret-3"}
    given = {**secret, "unknown.password": "secret-4", "log.retention.ms": "60000"}
    with Client(kafka.bootstrap_servers) as client:
        configs = [{"name": name, "value": value} for name, value in given.items()]
        broker = {"resource_type": 4, "resource_name": "1", "configs": configs}
        topic = {**broker, "resource_type": 2, "resource_name": "orders", "configs": configs[-1:]}
        client.call(api, 1, resources=[broker, topic], validate_only=True)
    (request,) = kafka.history.requests_of(api)
    of_broker, of_topic = (
        {each.name: each.value for each in resource.configs}
        for resource in request.message.resources
    )
    assert of_broker == dict.fromkeys(given, "[hidden]") | {"log.retention.ms": "60000"}
    assert of_topic == {"log.retention.ms": "60000"}
    assert "secret-" not in kafka.report()
    assert "secret-" not in str(request.response)


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
    denied = kafka.wait_request("FindCoordinator", group="billing")
    kafka.wait(lambda: denied.errors)
    with pytest.raises(BarrierTimeout) as timeout:
        kafka.group("billing").wait_stable(members=1, timeout=0.1)
    consumer.close()
    assert "User:alice may not DESCRIBE GROUP billing (FindCoordinator): no ACL allows it." in str(
        timeout.value
    )


# --- connections that fail

WITHOUT_CA = {"ssl.ca.location": None}
NO_SASL = {"security.protocol": "SSL", "client.id": "billing"}
NO_TLS = {"security.protocol": "SASL_PLAINTEXT"}


def fail_to_connect(config: dict[str, Any]) -> None:
    slow = {"reconnect.backoff.ms": 5_000, "log_level": 0}  # one attempt
    settings = {key: value for key, value in config.items() if value is not None}
    with pytest.raises(KafkaException):
        AdminClient({**settings, **slow}).list_topics(timeout=0.5)


def explanation(kafka: Kafka) -> str:
    """The message of a wait for a client that cannot connect."""
    kafka.wait(lambda: kafka.history.failed_connections)
    with pytest.raises(BarrierTimeout) as timeout:
        kafka.wait_request("Fetch", timeout=0.01)
    return str(timeout.value)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (
            {"sasl.password": "wrong"},
            (
                "1 connection from rdkafka failed: Authentication failed: Invalid username or "
                "password: the users of this broker: alice; "
                "kafka.security.client_config(…) contains their passwords."
            ),
        ),
        (
            WITHOUT_CA,
            (
                "1 connection failed: TLS handshake: the client does not trust the broker's "
                "certificate (TLSV1_ALERT_UNKNOWN_CA): pass ssl.ca.location={ca}, or all of "
                "kafka.security.client_config(…)."
            ),
        ),
        (
            NO_SASL,
            (
                "1 connection from billing failed: Unexpected Kafka request of type METADATA "
                "during SASL handshake: set security.protocol=SASL_SSL, sasl.mechanism and a user, "
                "or use all of kafka.security.client_config(…)."
            ),
        ),
        (
            NO_TLS,
            (
                "1 connection failed: TLS handshake: the client does not use TLS "
                "(WRONG_VERSION_NUMBER): set security.protocol=SASL_SSL, or use all of "
                "kafka.security.client_config(…)."
            ),
        ),
    ],
)
@SECURED
def test_a_wait_explains_why_clients_could_not_connect(
    kafka: Kafka, changed: dict[str, Any], sentence: str
) -> None:
    config = kafka.security.client_config("alice", library="confluent")
    fail_to_connect({**config, **changed})
    text = explanation(kafka)
    assert sentence.format(ca=kafka.security.ca_file) in text
    assert "No client has sent" not in text
    assert "needs a longer poll" not in text
    assert f"  ! {kafka.history.failed_connections[0]}" in kafka.report()
    assert sentence.format(ca=kafka.security.ca_file) in kafka.group("billing").explain()


@SECURED
def test_a_client_that_has_authenticated_since_is_not_explained(kafka: Kafka) -> None:
    config = kafka.security.client_config("alice", library="confluent")
    fail_to_connect({**config, "client.id": "billing", "sasl.password": "wrong"})
    fail_to_connect({**config, "client.id": "orders", "sasl.password": "wrong"})
    assert "1 connection from billing failed: " in explanation(kafka)
    client = AdminClient({**config, "client.id": "billing", "log_level": 0})
    assert client.list_topics(timeout=10).brokers
    assert "1 connection from billing failed: " not in explanation(kafka)
    assert "1 connection from orders failed: " in explanation(kafka)


def test_a_client_with_tls_on_a_listener_without_is_explained(kafka: Kafka) -> None:
    fail_to_connect({"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "SSL"})
    sentence = "the client uses TLS, but this listener does not: set security.protocol=PLAINTEXT"
    assert sentence in explanation(kafka)


@pytest.mark.kafka(
    security="SASL_PLAINTEXT",
    users={"alice": "alice-secret"},
    config={"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"},
)
def test_a_client_with_a_mechanism_that_is_not_enabled_is_explained(kafka: Kafka) -> None:
    fail_to_connect(kafka.security.client_config("alice", library="confluent"))
    assert (
        "1 connection from rdkafka failed: Unsupported SASL mechanism PLAIN: set sasl.mechanism to "
        "one of SCRAM-SHA-256, SCRAM-SHA-512."
    ) in explanation(kafka)


@pytest.mark.kafka(security="SSL", config={"ssl.client.auth": "required"})
def test_a_client_without_a_certificate_is_explained(kafka: Kafka) -> None:
    fail_to_connect(kafka.security.client_config(library="confluent"))
    sentence = "the client has no certificate, which ssl.client.auth requires ("
    assert sentence in explanation(kafka)
    assert 'pass one of kafka.security.client_certificate("NAME")' in explanation(kafka)


@pytest.mark.kafka(security="SSL")
def test_clients_that_send_no_alert_are_explained(kafka: Kafka) -> None:
    """asyncio disconnects without the alert."""
    config = kafka.security.client_config(library="aiokafka")
    config["ssl_context"] = ssl.create_default_context()

    async def connect() -> None:
        client = AIOKafkaAdminClient(**config)
        with pytest.raises(KafkaConnectionError):
            await client.start()
        await client.close()

    asyncio.run(connect())
    ca_file = kafka.security.ca_file
    assert f"if the client lacks the certificate, pass ssl.ca.location={ca_file}" in explanation(
        kafka
    )


@pytest.mark.kafka(
    security="SASL_PLAINTEXT",
    users={"alice": "alice-secret"},
    config={"sasl.enabled.mechanisms": "OAUTHBEARER"},
)
def test_tokens_are_valid_after_the_clock_was_advanced_by_a_year(kafka: Kafka) -> None:
    client_config = partial(kafka.security.client_config, "bob", mechanism="OAUTHBEARER")
    kafka.clock.advance(days=365)
    assert AdminClient(client_config(library="confluent")).list_topics(timeout=10).brokers
    KafkaAdminClient(**client_config(library="kafka-python")).close()
    kafka.clock.advance(days=9.5 * 365)
    fail_to_connect(client_config(library="confluent"))
    sentence = "the times in a token are compared with kafka.clock"
    assert sentence in explanation(kafka)


@SECURED
def test_a_client_whose_authentication_a_fault_rejects_is_explained(kafka: Kafka) -> None:
    kafka.faults.answer("SaslAuthenticate", "SASL_AUTHENTICATION_FAILED")
    fail_to_connect(kafka.security.client_config("alice", library="confluent"))
    with pytest.raises(BarrierTimeout, match="rdkafka could not authenticate: SASL_AUTH"):
        kafka.wait_request("Fetch", timeout=0.01)


def test_settings_are_rejected_that_no_broker_can_accept(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="Unknown security 'TLS': use one of PLAINTEXT, SSL"):
        Kafka(security="TLS")
    with pytest.raises(ValueError, match="security='SSL' has no users: use SASL_SSL"):
        Kafka(security="SSL", users={"alice": "alice-secret"})
    with pytest.raises(ValueError, match="Unknown user 'carol'; known users: none"):
        kafka.security.client_config("carol", library="confluent")
    with pytest.raises(ValueError, match="Unknown library 'librdkafka': use one of confluent"):
        kafka.security.client_config(library="librdkafka")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown mechanism 'SCRAM': use one of PLAIN, SCRAM-SHA"):
        kafka.security.client_config("carol", library="java", mechanism="SCRAM")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown listener 'b'; use one of PLAINTEXT"):
        kafka.security.client_config(library="java", listener="b")
    with pytest.raises(RuntimeError, match=r"No started listener uses TLS: use Kafka\(security="):
        _ = kafka.security.ca_file


@pytest.mark.parametrize("user", ["alice smith", 'al"ice', "al\\ice", "al\tice"])
def test_a_user_for_whom_librdkafka_cannot_create_a_token_is_rejected(user: str) -> None:
    settings = {"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}
    with Kafka(security="SASL_PLAINTEXT", users={"a": "b"}, config=settings) as kafka:
        client_config = partial(kafka.security.client_config, mechanism="OAUTHBEARER")
        with pytest.raises(ValueError, match="librdkafka cannot create a token for user 'al"):
            client_config(user, library="confluent")
        assert client_config("élise", library="confluent")
        assert client_config(user, library="java")


EXAMPLE = r'use users={"alice": "alice-secret"}$'


@pytest.mark.parametrize(
    ("users", "message"),
    [
        (["alice"], "^users is a list, not a dict: "),
        ("alice:secret", "^users is a str, not a dict: "),
        ({"alice": 1}, "^the password of user 'alice' is int, not a string: "),
        ({1: "secret"}, "^user name 1 is not a string: "),
        ({"alice": ""}, "^user 'alice' has no password: "),
        ({"": "secret"}, "^user '' has no name: "),
    ],
)
def test_users_that_are_no_names_and_passwords_are_rejected(users: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message + EXAMPLE) as raised:
        Kafka(security="SASL_SSL", users=users)
    assert ": secret" not in str(raised.value)


def test_a_broker_whose_users_are_missing_is_warned_about() -> None:
    with pytest.warns(UserWarning, match="no user can authenticate on SASL_PLAINTEXT"):
        Kafka(security="SASL_PLAINTEXT")


def test_faults_of_tls_are_rejected_by_a_broker_without(kafka: Kafka) -> None:
    for fault in (kafka.security.drop_handshakes, kafka.security.expire_certificates):
        with pytest.raises(RuntimeError, match=r"No started listener uses TLS: use Kafka\(secur"):
            fault()


@pytest.mark.kafka(security="SSL")
def test_certificates_that_have_expired_may_expire_again(kafka: Kafka) -> None:
    kafka.security.expire_certificates()
    kafka.security.expire_certificates()
    assert kafka.call(lambda broker: broker.tls["SSL"].ca_file) == kafka.security.ca_file


def test_users_of_the_configuration_are_known() -> None:
    config = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0", "kohort.users": "alice:alice-secret"}
    assert Kafka(config=config).security.users == {"alice": "alice-secret"}


def test_fake_members_do_everything_without_authentication() -> None:
    with Kafka(security="SASL_SSL", users={"alice": "alice-secret"}) as kafka:
        kafka.topic("orders", partitions=1)
        member = kafka.fake_member("billing", ["orders"])
        kafka.group("billing").wait_stable(1)
        assert member.errors == []
