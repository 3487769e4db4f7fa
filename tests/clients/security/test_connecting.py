"""Real clients on each kind of listener, with the settings of `client_config`."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest
from kohort.testing.kafka import Kafka
from kohort.testing.security import Mechanism

from .conftest import Config

PASSWORD = 'a:l,i c\\"e'
CONFIG = {
    "listeners": ",".join(
        f"{name}://127.0.0.1:0" for name in ("SSL", "MUTUAL", "SASL_PLAINTEXT", "SASL_SSL")
    ),
    "listener.security.protocol.map": (
        "SSL:SSL,MUTUAL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "listener.name.mutual.ssl.client.auth": "required",
    "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/L",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
}
Connect = Callable[[Config], None]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    with Kafka(security="SASL_SSL", users={"alice": PASSWORD}, config=CONFIG) as kafka:
        yield kafka


def principal(kafka: Kafka) -> str:
    """Return the principal of the last request."""
    return str(kafka.history.requests[-1].principal)


@pytest.mark.parametrize("mechanism", get_args(Mechanism))
@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_users_authenticate_with_a_password(
    kafka: Kafka, connect: Connect, library: Any, listener: str, mechanism: Any
) -> None:
    security = kafka.security
    connect(
        security.client_config("alice", library=library, mechanism=mechanism, listener=listener)
    )
    assert principal(kafka) == "User:alice"


@pytest.mark.parametrize("listener", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_users_authenticate_with_a_token(
    kafka: Kafka, connect: Connect, library: Any, listener: str
) -> None:
    security = kafka.security
    connect(
        security.client_config("carol", library=library, mechanism="OAUTHBEARER", listener=listener)
    )
    assert principal(kafka) == "User:carol"


def test_a_client_needs_no_certificate(kafka: Kafka, connect: Connect, library: Any) -> None:
    connect(kafka.security.client_config(library=library, listener="SSL"))
    assert principal(kafka) == "User:ANONYMOUS"


def test_the_name_in_its_certificate_is_the_principal_of_a_client(
    kafka: Kafka, connect: Connect, library: Any
) -> None:
    dave = kafka.security.client_certificate("Dave")
    connect(kafka.security.client_config(library=library, certificate=dave, listener="MUTUAL"))
    assert principal(kafka) == "User:dave"


def test_a_client_trusts_the_same_authority_after_a_restart(
    kafka: Kafka, connect: Connect, library: Any
) -> None:
    config = kafka.security.client_config(library=library, listener="SSL")
    kafka.crash()
    connect(config)
