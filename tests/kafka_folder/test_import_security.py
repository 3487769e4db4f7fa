"""SCRAM users, ACLs, client quotas and configurations of groups and client metrics in a Kafka
folder (record.py)."""

import contextlib
import json
import logging
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kohort.log.files import DiskFiles
from kohort.topics.kafka_metadata import read_metadata
from support.running_broker import BrokerThread
from support.sasl import ScramClient
from support.wire import Client

from .record import AUTHORIZER, SECURITY_TARGET, security_state


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with tarfile.open(SECURITY_TARGET) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path / "data"


@contextlib.contextmanager
def serving(data: Path, **config: str) -> Iterator[str]:
    with BrokerThread({**AUTHORIZER, **config}, data_dir=data, durability="fsync") as broker:
        yield broker.bootstrap


def test_users_acls_quotas_and_configs_equal_kafkas_also_after_a_restart(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The second start reads them from kohort's registry."""
    expected = json.loads((data.parent / "responses.json").read_text())
    assert [len(expected[each]) for each in ("users", "acls", "quotas", "configs")] == [2, 3, 3, 3]
    caplog.set_level(logging.WARNING, logger="kohort")
    for _ in range(2):
        with serving(data) as address:
            assert security_state(address) == expected
    counts = (
        "3 SCRAM credentials, 3 ACLs, 3 entities with quotas, 1 groups with configurations, "
        "1 client metrics subscriptions"
    )
    assert [f"no kohort registry: imported {counts}" in text for text in caplog.messages] == [True]


def test_configurations_of_groups_that_the_broker_rejects_are_not_imported(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="kohort")
    with serving(data, **{"group.consumer.max.session.timeout.ms": "48000"}) as address:
        configs = security_state(address)["configs"]
    values = {each["resource_name"]: each["configs"][0]["value"] for each in configs}
    assert (values["billing"], values["latency"]) == ("45000", "60000")
    assert "The configurations of billing are not imported: consumer.session" in caplog.text


def test_users_authenticate_and_have_their_permissions(data: Path) -> None:
    def authenticate(client: Client, user: str, password: str, mechanism: str) -> str:
        scram = ScramClient(user, password, mechanism)
        client.call("SaslHandshake", 1, mechanism=mechanism)
        first = client.call("SaslAuthenticate", 2, auth_bytes=scram.first())
        if first["error_code"] != "none":
            return str(first["error_code"])
        final = scram.final(first["auth_bytes"])
        return str(client.call("SaslAuthenticate", 2, auth_bytes=final)["error_code"])

    def describe(client: Client) -> Any:
        return client.call("DescribeGroups", 5, groups=["billing"])["groups"][0]["error_code"]

    listeners = {"listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    logins = {
        ("alice", "alice-secret", "SCRAM-SHA-256"): "none",
        ("alice", "alice-secret", "SCRAM-SHA-512"): "none",
        ("bob", "bob-secret", "SCRAM-SHA-256"): "group_authorization_failed",
        ("bob", "replaced", "SCRAM-SHA-256"): None,
        ("deleted", "deleted-secret", "SCRAM-SHA-256"): None,
    }
    delay = {"connection.failed.authentication.delay.ms": "0"}
    with serving(data, **listeners, **delay) as address:
        for login, expected in logins.items():
            with Client(address) as client:
                error = authenticate(client, *login)
                if expected is None:
                    assert error == "sasl_authentication_failed", login
                else:
                    assert (error, describe(client)) == ("none", expected), login


def test_truncated_security_records_are_undecodable(data: Path) -> None:
    metadata = read_metadata(data, DiskFiles())
    assert metadata is not None
    for record in (
        b"\x01\x0b\x00\x06alice",
        b"\x01\x0e\x00\x02\x05user",
        b"\x01\x12\x00" + bytes(9),
    ):
        with pytest.raises(ValueError, match=r"exceeds|unexpected end"):
            metadata.apply(record)
