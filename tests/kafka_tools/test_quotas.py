"""kafka-configs sets and lists client quotas."""

import uuid

import pytest

from .tools import Tools


@pytest.fixture
def name() -> str:
    return f"tools-{uuid.uuid4().hex[:8]}"


def test_quotas_of_users_and_clients_are_set_listed_and_deleted(tools: Tools, name: str) -> None:
    entity = ("--entity-type", "users", "--entity-name", name)
    both = (*entity, "--entity-type", "clients", "--entity-name", "app")
    quotas = "producer_byte_rate=1024,request_percentage=12.5"
    added = tools.run("configs", "--alter", *entity, "--add-config", quotas)
    assert added.lines() == [f"Completed updating config for user {name}."]
    tools.run("configs", "--alter", *both, "--add-config", "consumer_byte_rate=2048")

    (of_user,) = tools.run("configs", "--describe", *entity).lines()
    shown, _, values = of_user.partition(" are ")
    assert shown == f"Quota configs for user-principal '{name}'"
    assert sorted(values.split(", ")) == ["producer_byte_rate=1024.0", "request_percentage=12.5"]
    (of_both,) = tools.run("configs", "--describe", *both).lines()
    assert of_both == (
        f"Quota configs for user-principal '{name}', client-id 'app' are consumer_byte_rate=2048.0"
    )

    deleted = ("--delete-config", "producer_byte_rate,request_percentage")
    assert tools.run("configs", "--alter", *entity, *deleted).status == 0
    assert tools.run("configs", "--describe", *entity).lines() == []
    assert tools.run("configs", "--alter", *both, "--delete-config", "consumer_byte_rate").lines()


def test_default_and_ip_quotas_are_set_and_listed(tools: Tools) -> None:
    defaults = ("--entity-type", "clients", "--entity-default")
    address = ("--entity-type", "ips", "--entity-name", "10.9.8.7")
    for entity, quota, shown in (
        (defaults, "controller_mutation_rate=1000000", "the default client-id"),
        (address, "connection_creation_rate=50", "ip '10.9.8.7'"),
    ):
        key, _, value = quota.partition("=")
        assert tools.run("configs", "--alter", *entity, "--add-config", quota).status == 0
        (line,) = tools.run("configs", "--describe", *entity).lines()
        assert line == f"Quota configs for {shown} are {key}={float(value)}"
        tools.run("configs", "--alter", *entity, "--delete-config", key)


def test_invalid_quotas_are_rejected_with_kafkas_message(tools: Tools, name: str) -> None:
    entity = ("--entity-type", "users", "--entity-name", name)
    invalid = tools.run("configs", "--alter", *entity, "--add-config", "producer_byte_rate=0")
    assert invalid.status == 1
    assert "Quota producer_byte_rate must be greater than 0" in invalid.output
