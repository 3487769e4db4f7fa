"""ListConfigResources: the broker and its topics."""

from types import SimpleNamespace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from topic_world import World

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
def test_what_is_asked_for_is_listed(
    world: World, types: tuple[int, ...], found: list[tuple[str, int]]
) -> None:
    answer = listed(world, *types)
    resources = [(each.resource_name, each.resource_type) for each in answer.config_resources]
    assert (answer.error_code, resources) == (ErrorCode.none, found)


def test_every_node_that_is_up_is_listed(world: World) -> None:
    world.node.cluster.up.append(SimpleNamespace(node_id=2))
    answer = listed(world, BROKER)
    assert [each.resource_name for each in answer.config_resources] == ["1", "2"]


def test_unknown_types_are_refused(world: World) -> None:
    answer = listed(world, TOPIC, 99)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.unsupported_version, ())


def test_v0_asks_for_client_metrics_alone(world: World) -> None:
    answer = world.ask("ListConfigResources", 0)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.none, ())
