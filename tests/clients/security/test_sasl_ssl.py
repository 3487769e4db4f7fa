"""Real clients and SASL_SSL, with the settings of `client_config`."""

from typing import Any, get_args

import pytest
from kohort.testing.kafka import Kafka
from kohort.testing.security import Mechanism

from .connecting import CLIENTS, Refused

USERS = {"alice": "alice-secret", "bob": 'b:o,b \\"'}


@pytest.mark.kafka(security="SASL_SSL", users=USERS)
@pytest.mark.parametrize("mechanism", get_args(Mechanism))
def test_users_authenticate_with_each_mechanism(kafka: Kafka, library: Any, mechanism: Any) -> None:
    for name in USERS:
        config = kafka.security.client_config(name, library=library, mechanism=mechanism)
        assert CLIENTS[library](config) == 1
        assert str(kafka.history.requests[-1].principal) == f"User:{name}"


@pytest.mark.kafka(security="SASL_SSL", users=USERS)
def test_a_wrong_password_is_refused(
    kafka: Kafka, library: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = kafka.security.client_config("alice", library=library)
    for key in ("sasl.password", "sasl_plain_password"):
        if key in config:
            config[key] = "wrong"
    with pytest.raises(Refused):
        CLIENTS[library](config)
    problem = "Failed authentication with /127.0.0.1 (Authentication failed: Invalid username or"
    kafka.wait(lambda: problem in caplog.text, "the log line")


def test_settings_are_rejected_that_no_broker_can_accept(kafka: Kafka) -> None:
    with pytest.raises(ValueError, match="Unknown security 'TLS': use one of PLAINTEXT, SSL"):
        Kafka(security="TLS")
    with pytest.raises(ValueError, match="security='SSL' has no users: use SASL_SSL"):
        Kafka(security="SSL", users=USERS)
    with pytest.raises(ValueError, match="Unknown user 'carol'; the users: none"):
        kafka.security.client_config("carol", library="confluent")
    with pytest.raises(ValueError, match="Unknown library 'librdkafka': use one of confluent"):
        kafka.security.client_config(library="librdkafka")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Unknown listener 'b'; the listeners: PLAINTEXT"):
        kafka.security.client_config(library="java", listener="b")
    with pytest.raises(RuntimeError, match=r"No started listener uses TLS: use Kafka\(security="):
        _ = kafka.security.ca_file


def test_fake_members_do_everything_without_authentication() -> None:
    with Kafka(security="SASL_SSL", users=USERS) as kafka:
        kafka.topic("orders", partitions=1)
        member = kafka.fake_member("billing", ["orders"])
        kafka.group("billing").wait_stable(1)
        assert member.errors == []
