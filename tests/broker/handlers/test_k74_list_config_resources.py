"""ListConfigResources: the broker and its topics."""

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from support.broker import World

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def world() -> World:
    world = World()
    world.make("orders")
    world.make("bills")
    return world


def listed(world: World, *types: int) -> Any:
    return world.ask("ListConfigResources", 1, resource_types=types)


@pytest.mark.parametrize(
    ("types", "found"),
    [
        ((), [("1", BROKER), ("orders", TOPIC), ("bills", TOPIC)]),
        ((TOPIC,), [("orders", TOPIC), ("bills", TOPIC)]),
        ((BROKER, GROUP), [("1", BROKER)]),
        ((BROKER_LOGGER, CLIENT_METRICS, GROUP), []),
    ],
)
def test_the_requested_types_are_listed(
    world: World, types: tuple[int, ...], found: list[tuple[str, int]]
) -> None:
    response = listed(world, *types)
    resources = [(each.resource_name, each.resource_type) for each in response.config_resources]
    assert (response.error_code, resources) == (ErrorCode.none, found)


def test_every_node_that_is_up_is_listed(world: World) -> None:
    world.node.cluster.up.append(SimpleNamespace(node_id=2))
    response = listed(world, BROKER)
    assert [each.resource_name for each in response.config_resources] == ["1", "2"]


def test_unknown_types_are_rejected(world: World) -> None:
    response = listed(world, TOPIC, 99)
    assert (response.error_code, response.config_resources) == (ErrorCode.unsupported_version, ())


def test_v0_requests_client_metrics_only(world: World) -> None:
    response = world.ask("ListConfigResources", 0)
    assert (response.error_code, response.config_resources) == (ErrorCode.none, ())
