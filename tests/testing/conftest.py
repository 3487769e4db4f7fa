"""Clients for the tests of the harness: they know their offsets and are in no group."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition
from kohort.testing import Kafka


class Committer:
    """A librdkafka consumer that commits what it is told to, and asks what is committed."""

    def __init__(self, kafka: Kafka, group: str = "billing", client_id: str = "committer") -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "group.id": group,
                "client.id": client_id,
                "enable.auto.commit": False,
                "reconnect.backoff.ms": 1,
                "reconnect.backoff.max.ms": 20,
                "retry.backoff.ms": 10,
                "log_level": 0,
            }
        )

    def commit(self, offset: int, topic: str = "orders", partition: int = 0) -> None:
        """Raises KafkaException."""
        place = TopicPartition(topic, partition, offset)
        done = self.consumer.commit(offsets=[place], asynchronous=False)
        assert done is not None
        assert done[0].error is None

    def committed(self, topic: str = "orders", partition: int = 0) -> int:
        found = self.consumer.committed([TopicPartition(topic, partition)], timeout=10)
        return int(found[0].offset)


@pytest.fixture
def committer(kafka: Kafka) -> Iterator[Committer]:
    kafka.topic("orders", partitions=2)
    committer = Committer(kafka)
    yield committer
    committer.consumer.close()


@pytest.fixture
def new_committer(kafka: Kafka) -> Iterator[Callable[..., Committer]]:
    kafka.topic("orders", partitions=2)
    made: list[Committer] = []

    def new(**how: str) -> Committer:
        made.append(Committer(kafka, **how))
        return made[-1]

    yield new
    for each in made:
        each.consumer.close()
