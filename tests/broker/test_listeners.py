"""Nodes with several listeners: clients get the addresses of the listener that they use."""

import pytest
from kohort.testing.kafka import Kafka
from support.wire import Client, is_refused

LISTENERS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
}


def addresses(kafka: Kafka, listener: str) -> list[tuple[str, int]]:
    nodes = kafka.call(lambda broker: broker.listener_addresses)
    return [each[listener] for each in nodes.values()]


def text(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def brokers(address: tuple[str, int]) -> list[tuple[str, int]]:
    with Client(text(address)) as client:
        metadata = client.call("Metadata", 12, topics=[])
        cluster = client.call("DescribeCluster", 0)
    described = [(each["host"], each["port"]) for each in metadata["brokers"]]
    assert described == [(each["host"], each["port"]) for each in cluster["brokers"]]
    return described


def coordinator(address: tuple[str, int]) -> tuple[str, str, int]:
    with Client(text(address)) as client:
        response = client.call("FindCoordinator", 4, coordinator_keys=["g"])
    (found,) = response["coordinators"]
    return found["error_code"], found["host"], found["port"]


@pytest.mark.parametrize("listener", ["INSIDE", "OUTSIDE"])
def test_a_client_gets_the_addresses_of_its_listener(listener: str) -> None:
    with Kafka(config=LISTENERS, nodes=2) as kafka:
        own = addresses(kafka, listener)
        assert brokers(own[0]) == own
        error, *found = coordinator(own[1])
        assert error == "none"
        assert tuple(found) in own
    assert len(set(own)) == 2


def test_all_listeners_keep_their_addresses_in_a_restart() -> None:
    with Kafka(config=LISTENERS) as kafka:
        before = kafka.call(lambda broker: broker.listener_addresses)
        kafka.restart()
        assert kafka.call(lambda broker: broker.listener_addresses) == before
        with kafka.broker_down(1):
            assert all(is_refused(text(each)) for each in before[1].values())
        assert [brokers(each) for each in before[1].values()] == [
            [each] for each in before[1].values()
        ]


def test_a_listener_that_is_not_advertised_has_no_brokers() -> None:
    config = {**LISTENERS, "advertised.listeners": "OUTSIDE://kafka.test:7"}
    with Kafka(config=config) as kafka:
        (inside,), (outside,) = addresses(kafka, "INSIDE"), addresses(kafka, "OUTSIDE")
        assert brokers(outside) == [("kafka.test", 7)]
        assert brokers(inside) == []
        assert coordinator(inside) == ("coordinator_not_available", "", -1)
