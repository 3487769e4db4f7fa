"""How real clients behave when they exceed a quota.

The first 10 s of a quota are not throttled (quota.window.num). Later throttle times are below 1 s.
"""

import logging
from collections.abc import Iterator

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer
from kafka import KafkaConsumer, KafkaProducer
from kohort.testing import Kafka

RATE = 100_000.0
# Ten values exceed the size that is not throttled by 4 %.
VALUES = [bytes([number]) * 104_000 for number in range(10)]
TIMEOUT_SECONDS = 60


@pytest.fixture
def kafka() -> Iterator[Kafka]:
    with Kafka() as kafka:
        kafka.topic("orders", partitions=1)
        yield kafka


def throttle_times(kafka: Kafka, api: str) -> list[float]:
    """Return the throttle times in responses, in seconds, except zero."""
    requests = kafka.history.requests_of(api)
    times = [each.response.throttle_time.total_seconds() for each in requests if each.response]
    return [each for each in times if each]


def values(kafka: Kafka) -> list[bytes | None]:
    return [each.value for each in kafka.topic("orders").records()]


def fill(kafka: Kafka) -> None:
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, acks=1) as producer:
        for value in VALUES:
            producer.send("orders", value).get(TIMEOUT_SECONDS)


def test_librdkafka_reports_the_throttle_time_of_a_producer(kafka: Kafka) -> None:
    kafka.security.set_quotas({"client-id": "till"}, {"producer_byte_rate": RATE})
    events: list[confluent_kafka.ThrottleEvent] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "client.id": "till",
            "throttle_cb": events.append,
        }
    )
    for value in VALUES:
        producer.produce("orders", value)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    while not events:
        producer.poll(TIMEOUT_SECONDS)
    assert events[0].throttle_time in throttle_times(kafka, "Produce")
    assert values(kafka) == VALUES


def test_kafka_python_logs_the_throttle_time_of_a_consumer(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka")  # the command line disables these messages
    fill(kafka)
    kafka.security.set_quotas({"client-id": "reader"}, {"consumer_byte_rate": RATE})
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        client_id="reader",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=300_000,
    )
    received = [next(consumer).value for _ in VALUES]
    consumer.close()
    assert received == VALUES
    (first, *_) = throttle_times(kafka, "Fetch")
    assert f"FetchResponse throttled by broker ({first * 1000:.0f} ms)" in caplog.text


async def test_aiokafka_gets_every_record_despite_its_quota(kafka: Kafka) -> None:
    fill(kafka)
    kafka.security.set_quotas({"client-id": "reader"}, {"consumer_byte_rate": RATE})
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        client_id="reader",
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=300_000,
    ) as consumer:
        assert [(await consumer.getone()).value for _ in VALUES] == VALUES
    assert throttle_times(kafka, "Fetch")


def test_a_throttled_client_does_not_delay_another(kafka: Kafka) -> None:
    kafka.security.set_quotas({"client-id": "till"}, {"producer_byte_rate": 1.0})
    slow = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "client.id": "till", "log_level": 0}
    )
    slow.produce("orders", b"x" * 1000)
    assert slow.flush(TIMEOUT_SECONDS) == 0
    slow.produce("orders", b"never handled")
    slow.poll(0)
    fill(kafka)
    assert values(kafka) == [b"x" * 1000, *VALUES]
    slow.purge()
