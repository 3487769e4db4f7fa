"""ListConfigResources: the broker, its topics, and groups with configurations."""

from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kohort.topics.registry_log import ClientMetricsRecord, GroupConfigRecord
from support.broker import BrokerHarness

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


@pytest.fixture
def broker() -> BrokerHarness:
    broker = BrokerHarness()
    broker.create_topic("orders")
    broker.create_topic("bills")
    broker.topics.change(GroupConfigRecord("billing", {"consumer.session.timeout.ms": "50000"}))
    broker.topics.change(ClientMetricsRecord("latency", {"interval.ms": "1000"}))
    return broker


def listed(broker: BrokerHarness, *types: int) -> Any:
    return broker.call("ListConfigResources", resource_types=types)


@pytest.mark.parametrize(
    ("types", "found"),
    [
        (
            (),
            [
                *(("1", BROKER), ("1", BROKER_LOGGER), ("orders", TOPIC), ("bills", TOPIC)),
                *(("billing", GROUP), ("latency", CLIENT_METRICS)),
            ],
        ),
        ((TOPIC,), [("orders", TOPIC), ("bills", TOPIC)]),
        ((BROKER, GROUP), [("1", BROKER), ("billing", GROUP)]),
        ((BROKER_LOGGER, CLIENT_METRICS), [("1", BROKER_LOGGER), ("latency", CLIENT_METRICS)]),
    ],
)
def test_the_requested_types_are_listed(
    broker: BrokerHarness, types: tuple[int, ...], found: list[tuple[str, int]]
) -> None:
    response = listed(broker, *types)
    resources = [(each.resource_name, each.resource_type) for each in response.config_resources]
    assert (response.error_code, resources) == (ErrorCode.none, found)


def test_every_node_that_is_up_is_listed() -> None:
    response = listed(BrokerHarness(nodes=2), BROKER)
    assert [each.resource_name for each in response.config_resources] == ["1", "2"]
