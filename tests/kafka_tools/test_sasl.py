"""Kafka's Java client authenticates with SASL, and kafka-configs creates SCRAM credentials."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kohort.testing.kafka import Kafka

from .tools import Tools

MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule"
SCRAM = f"{MODULES}.scram.ScramLoginModule"
USERS = ("--entity-type", "users")

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def run(kafka_jars: Path, tmp_path: Path) -> Iterator[Run]:
    """`run(mechanism, jaas, *args)`: exit status and output of kafka-configs."""
    config = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "kohort.users": "admin:admin-secret",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    }
    with Kafka(config=config) as kafka:
        tools = Tools(kafka_jars, kafka.bootstrap_servers)

        def configs(mechanism: str, jaas: str, *args: str) -> tuple[int, str]:
            properties = tmp_path / "client.properties"
            properties.write_text(
                "security.protocol=SASL_PLAINTEXT\n"
                f"sasl.mechanism={mechanism}\n"
                f"sasl.jaas.config={jaas};\n"
            )
            result = tools.run("configs", "--command-config", properties, *USERS, *args)
            return result.status, result.output

        yield configs


def login(module: str, user: str, password: str) -> str:
    return f'{module} required username="{user}" password="{password}"'


@pytest.mark.clients
def test_a_user_that_kafka_configs_creates_can_authenticate(run: Run) -> None:
    admin = login(PLAIN, "admin", "admin-secret")
    alice = ("--entity-name", "alice")
    for added in (
        "SCRAM-SHA-256=[iterations=8192,password=alice-secret]",
        "SCRAM-SHA-512=[password=x]",
    ):
        status, output = run("PLAIN", admin, "--alter", *alice, "--add-config", added)
        assert status == 0, output
    for mechanism, password in (("SCRAM-SHA-256", "alice-secret"), ("SCRAM-SHA-512", "x")):
        status, output = run(mechanism, login(SCRAM, "alice", password), "--describe")
        assert "SCRAM credential configs for user-principal 'alice' are " in output
        assert "SCRAM-SHA-256=iterations=8192" in output
        assert "SCRAM-SHA-512=iterations=4096" in output
    status, output = run("PLAIN", admin, "--alter", *alice, "--delete-config", "SCRAM-SHA-256")
    assert status == 0, output
    status, output = run("SCRAM-SHA-256", login(SCRAM, "alice", "alice-secret"), "--describe")
    assert status == 1
    assert (
        "SaslAuthenticationException: Authentication failed during authentication due to invalid "
        "credentials with SASL mechanism SCRAM-SHA-256"
    ) in output
