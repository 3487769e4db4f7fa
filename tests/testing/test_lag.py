"""How far a group is behind, by what its clients commit; and that no wait is needed to ask."""

import contextlib
import threading
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kohort.log.group_commit import Durability
from kohort.testing import AsyncKafka, Kafka


def read_two_with_kafka_python(servers: str) -> None:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=servers, group_id="billing", auto_offset_reset="earliest"
    )
    for _ in range(2):
        next(consumer)
    consumer.close(autocommit=True)


def read_two_with_librdkafka(servers: str) -> None:
    config = {"bootstrap.servers": servers, "group.id": "billing", "auto.offset.reset": "earliest"}
    consumer = Consumer(config)
    consumer.subscribe(["orders"])
    read = 0
    while read < 2:
        read += len(consumer.consume(2 - read, timeout=1))
    consumer.close()


@pytest.mark.clients
@pytest.mark.parametrize("read_two", [read_two_with_kafka_python, read_two_with_librdkafka])
def test_what_a_group_has_not_read_is_its_lag(
    kafka: Kafka, read_two: Callable[[str], None]
) -> None:
    orders = kafka.topic("orders", partitions=2)
    orders.produce(["a", "b", "c", "d", "e"], partition=1)
    group = kafka.group("billing")
    assert (group.lag("orders"), group.lag("orders", 0)) == (5, 0)
    read_two(kafka.bootstrap_servers)
    assert (group.lag("orders"), group.lag("orders", 1)) == (3, 3)
    orders.produce(["f"], partition=0)
    assert (group.lag("orders"), group.lag("orders", 0)) == (4, 1)


@pytest.mark.clients
async def test_an_async_test_asks_it_as_well(async_kafka: AsyncKafka) -> None:
    async_kafka.topic("orders", partitions=1).produce(["a", "b", "c"])
    group = async_kafka.group("billing")
    async with AIOKafkaConsumer(
        "orders",
        bootstrap_servers=async_kafka.bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        for left in (2, 1):
            await consumer.getone()
            # What is committed is where the consumer stands, however many were fetched.
            await consumer.commit()
            assert group.lag("orders") == left


def test_of_what_is_not_there_nobody_is_behind(kafka: Kafka) -> None:
    group = kafka.group("billing")
    with pytest.raises(LookupError, match="there is no topic orders"):
        group.lag("orders")
    kafka.topic("orders", partitions=1)
    with pytest.raises(LookupError, match="there is no partition orders-1"):
        group.lag("orders", 1)


@pytest.mark.clients
def test_what_was_deleted_is_nobodys_lag_before_the_first_commit(kafka: Kafka) -> None:
    orders = kafka.topic("orders", partitions=1)
    orders.produce(["a", "b", "c"])
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers)) as admin:
        admin.delete_records({TopicPartition("orders", 0): 2})
    assert orders.start_offset(0) == 2
    assert kafka.group("billing").lag("orders") == 1


@pytest.mark.parametrize("durability", ["none", "os", "fsync"])
def test_what_is_committed_is_told_while_the_next_commit_is_written(
    durability: Durability,
) -> None:
    with Kafka(durability=durability) as kafka:
        kafka.topic("orders", partitions=1)
        puppet = kafka.puppet("billing", topics=["orders"])
        puppet.commit("orders", 0, 1)
        is_over = threading.Event()

        def commit() -> None:
            offset = 1
            while not is_over.is_set():
                offset += 1
                puppet.commit("orders", 0, offset)

        committing = threading.Thread(target=commit)
        committing.start()
        group = kafka.group("billing")
        try:
            told = [(group.committed("orders", 0), group.offsets) for _ in range(500)]
        finally:
            is_over.set()
            committing.join()
    assert all(committed and offsets for committed, offsets in told)
