"""Offsets that a producer commits in a transaction, for the group of a consumer."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from kohort.testing import Kafka
from kohort.testing.timeline import member_names

from .conftest import NewProducer

pytestmark = pytest.mark.clients

NewReader = Callable[..., Consumer]


@pytest.fixture
def new_reader(kafka: Kafka) -> Iterator[NewReader]:
    """A consumer of `orders`, with two records, that has read both."""
    kafka.topic("orders", partitions=1).produce(["a", "b"])
    created: list[Consumer] = []

    def new(protocol: str = "classic") -> Consumer:
        session = {} if protocol == "consumer" else {"heartbeat.interval.ms": 50}
        consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": "svc",
                "group.protocol": protocol,
                "client.id": "app",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "reconnect.backoff.ms": 1,
                "retry.backoff.ms": 10,
                "log_level": 0,
                **session,
            }
        )
        created.append(consumer)
        consumer.subscribe(["orders"])
        for value in (b"a", b"b"):
            message = consumer.poll(10)
            assert message is not None
            assert message.value() == value
        return consumer

    yield new
    for each in created:
        each.close()


def send(producer: Producer, reader: Consumer | object, offset: int) -> None:
    """Begin a transaction with an offset of `orders`. `reader`: or its metadata."""
    metadata = reader.consumer_group_metadata() if isinstance(reader, Consumer) else reader
    producer.begin_transaction()
    producer.send_offsets_to_transaction([TopicPartition("orders", 0, offset)], metadata)


def test_a_member_does_not_get_the_name_of_the_producer_that_commits_for_it(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader, protocol: str
) -> None:
    send(new_producer(), new_reader(protocol), 1)
    (commit,) = kafka.history.requests_of("TxnOffsetCommit")
    until = [each for each in kafka.history.requests if each.number <= commit.number]
    name = member_names(until)[commit.member_id or ""]
    assert name.startswith("app")


def test_a_member_is_not_connected_through_the_producer_that_commits_for_it(
    kafka: Kafka, new_producer: NewProducer, new_reader: NewReader
) -> None:
    producer, reader = new_producer(), new_reader()
    metadata = reader.consumer_group_metadata()
    kafka.faults.drop("LeaveGroup")
    reader.close()
    send(producer, metadata, 1)
    assert " has disconnected without leaving the group" in kafka.group("svc").explain()
