"""kafka-configs sets and lists client quotas."""

import uuid

from .tools import Tools


def test_quotas_of_users_and_clients_are_set_listed_and_deleted(tools: Tools) -> None:
    name = f"tools-{uuid.uuid4().hex[:8]}"
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
