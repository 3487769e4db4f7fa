"""A fault for one of several clients, by client id: it applies to all of its connections."""

import asyncio
from collections.abc import Callable

import kafka as kafka_python
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, TopicPartition
from kohort.testing import Kafka

pytestmark = pytest.mark.clients


def read_with_kafka_python(servers: str, client_id: str) -> bytes:
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=servers, client_id=client_id, auto_offset_reset="earliest"
    )
    consumer.assign([kafka_python.TopicPartition("orders", 0)])
    value: bytes = next(consumer).value
    consumer.close()
    return value


def read_with_librdkafka(servers: str, client_id: str) -> bytes:
    settings = {"bootstrap.servers": servers, "group.id": "any", "log_level": 0}
    consumer = Consumer({**settings, "client.id": client_id, "enable.auto.commit": False})
    consumer.assign([TopicPartition("orders", 0, 0)])
    message = consumer.poll(20)
    assert message is not None
    consumer.close()
    value = message.value()
    assert isinstance(value, bytes)
    return value


def read_with_aiokafka(servers: str, client_id: str) -> bytes:
    async def read() -> bytes:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, client_id=client_id, auto_offset_reset="earliest"
        )
        consumer.assign([AioTopicPartition("orders", 0)])
        async with consumer:
            value: bytes = (await consumer.getone()).value
            return value

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_with_kafka_python, read_with_librdkafka, read_with_aiokafka])
def test_a_client_id_filter_matches_one_client(
    kafka: Kafka, read: Callable[[str, str], bytes]
) -> None:
    kafka.topic("orders", partitions=1).produce(["tea"])
    fault = kafka.faults.drop("Fetch", client_id="till-1", times=2)
    for client_id in ("till-2", "till-1", "till-11"):
        assert read(kafka.bootstrap_servers, client_id) == b"tea"
    assert [each.client_id for each in fault.fired] == ["till-1", "till-1"]
    # The client reconnects after each fault.
    assert fault.fired[0].connection != fault.fired[1].connection
