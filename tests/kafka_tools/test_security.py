"""Java's clients on brokers with TLS, with the settings of `client_config`."""

from pathlib import Path
from typing import Any, get_args

import pytest
from kohort.testing.kafka import Kafka
from kohort.testing.security import Mechanism

from .tools import Result, Tools


def escaped(value: str) -> str:
    """In a properties file."""
    return value.replace("\\", "\\\\")


def topics(jars: Path, folder: Path, properties: dict[str, Any]) -> Result:
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={escaped(value)}\n" for key, value in properties.items()))
    bootstrap = properties["bootstrap.servers"]
    return Tools(jars, bootstrap).run("topics", "--list", "--command-config", file)


def test_a_client_that_trusts_the_authority_connects(kafka_jars: Path, tmp_path: Path) -> None:
    with Kafka(security="SSL") as kafka:
        kafka.topic("orders")
        properties = kafka.security.client_config(library="java")
        assert topics(kafka_jars, tmp_path, properties).lines() == ["orders"]
        assert str(kafka.history.requests[-1].principal) == "User:ANONYMOUS"


def test_the_name_in_its_certificate_is_its_principal(kafka_jars: Path, tmp_path: Path) -> None:
    with Kafka(security="SSL", config={"ssl.client.auth": "required"}) as kafka:
        kafka.topic("orders")
        alice = kafka.security.client_certificate("alice")
        properties = kafka.security.client_config(library="java", certificate=alice)
        assert topics(kafka_jars, tmp_path, properties).lines() == ["orders"]
        principal = str(kafka.history.requests[-1].principal)
        assert principal == "User:CN=alice,OU=test broker,O=kohort"


def test_a_client_that_does_not_trust_it_is_refused(kafka_jars: Path, tmp_path: Path) -> None:
    with Kafka(security="SSL") as kafka:
        properties = kafka.security.client_config(library="java")
        untrusting = {"bootstrap.servers", "security.protocol"}
        result = topics(kafka_jars, tmp_path, {key: properties[key] for key in sorted(untrusting)})
        assert result.status == 1
        assert "SSL handshake failed" in result.output


@pytest.mark.parametrize("mechanism", get_args(Mechanism))
def test_users_authenticate_with_each_mechanism(
    kafka_jars: Path, tmp_path: Path, mechanism: Any
) -> None:
    with Kafka(security="SASL_SSL", users={"alice": 'a"\\,:b'}) as kafka:
        kafka.topic("orders")
        properties = kafka.security.client_config("alice", library="java", mechanism=mechanism)
        assert topics(kafka_jars, tmp_path, properties).lines() == ["orders"]
        assert str(kafka.history.requests[-1].principal) == "User:alice"
