"""Client quotas that a test sets, with librdkafka's clients, which report how long they wait."""

import re
from collections.abc import Mapping

import pytest
from confluent_kafka import Producer
from kohort.testing import BarrierTimeout, Kafka

TILL = {"client-id": "till-1"}


def throttle_times(kafka: Kafka, size: int = 20_000) -> list[float]:
    """Produce a record, and return the throttle times that the producer of till-1 reports."""
    throttled: list[float] = []
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "client.id": "till-1",
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    producer.produce("orders", bytes(size))
    assert producer.flush(10) == 0
    producer.poll(0)
    del producer
    return throttled


@pytest.mark.clients
def test_a_producer_above_its_quota_is_throttled_until_it_is_removed(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    assert throttle_times(kafka) == []
    kafka.security.set_quotas(TILL, {"producer_byte_rate": 1000})
    assert kafka.security.quotas(TILL) == {"producer_byte_rate": 1000}
    assert throttle_times(kafka)[0] > 0
    kafka.security.set_quotas(TILL, {"producer_byte_rate": None})
    assert kafka.security.quotas(TILL) == {}
    assert throttle_times(kafka) == []


@pytest.mark.clients
def test_a_wait_names_the_client_that_is_throttled(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.clock.freeze()
    kafka.security.set_quotas(TILL, {"producer_byte_rate": 1000})
    throttle_times(kafka)
    with pytest.raises(BarrierTimeout, match=r"Client till-1 is throttled for another .* by its q"):
        kafka.wait(lambda: False, "another order", timeout=0.01)
    assert "throttled" in kafka.report()
    kafka.clock.advance(minutes=1)
    assert "throttled" not in kafka.report()


@pytest.mark.clients
def test_a_throttled_client_of_a_fault_is_named(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.clock.freeze()
    kafka.faults.throttle("Produce", ms=20)
    throttle_times(kafka)
    with pytest.raises(BarrierTimeout, match=r"Client till-1 is throttled .* 20 ms by a fault of"):
        kafka.wait(lambda: False, "another order", timeout=0.01)


@pytest.mark.clients
def test_a_default_applies_to_clients_without_their_own_quota(kafka: Kafka) -> None:
    kafka.topic("orders", partitions=1)
    kafka.security.set_quotas({"client-id": None}, {"producer_byte_rate": 1000})
    kafka.security.set_quotas(TILL, {"producer_byte_rate": 1_000_000})
    assert throttle_times(kafka) == []
    kafka.security.set_quotas(TILL, {"producer_byte_rate": None})
    assert throttle_times(kafka)[0] > 0


def test_other_quotas_of_the_entity_stay(kafka: Kafka) -> None:
    alice = {"user": "alice", "client-id": "till-1"}
    kafka.security.set_quotas(alice, {"producer_byte_rate": 1000, "request_percentage": 12.5})
    kafka.security.set_quotas(alice, {"producer_byte_rate": 2000})
    assert kafka.security.quotas(alice) == {"producer_byte_rate": 2000, "request_percentage": 12.5}
    assert kafka.security.quotas({"user": "alice"}) == {}


def test_quotas_survive_a_restart(kafka: Kafka) -> None:
    kafka.security.set_quotas(TILL, {"consumer_byte_rate": 1000})
    kafka.restart()
    assert kafka.security.quotas(TILL) == {"consumer_byte_rate": 1000}


@pytest.mark.parametrize(
    ("entity", "quotas", "message"),
    [
        ({"clientid": "till-1"}, {}, "Unhandled client quota entity type: clientid"),
        ({}, {}, "Invalid empty client quota entity"),
        (TILL, {"producer_rate": 1}, "Invalid configuration key producer_rate"),
        (TILL, {"producer_byte_rate": 0}, "Quota producer_byte_rate must be greater than 0"),
    ],
)
def test_an_invalid_quota_is_rejected(
    kafka: Kafka, entity: Mapping[str, str], quotas: Mapping[str, float], message: str
) -> None:
    rejected = f"Cannot set quotas {quotas} for {entity}: {message}"
    with pytest.raises(ValueError, match=re.escape(rejected)):
        kafka.security.set_quotas(entity, quotas)
    assert kafka.security.quotas(entity) == {}
