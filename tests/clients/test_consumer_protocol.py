"""Features of the consumer protocol (KIP-848) alone: static members that are not fenced by their
successors, and migrations while records are produced. All other tests of this folder also run with
this protocol."""

import threading
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from .adapter import ConsumerSettings, Message, Record
from .conftest import MakeConsumer, MakeTopic, NewGroup
from .consumers import BackgroundConsumer, Consumers, partitions_of, until
from .librdkafka import Librdkafka, LibrdkafkaConsumer, LibrdkafkaConsumerProtocol

LIBRDKAFKA_FATAL = -150
PARTITIONS = 6


@pytest.fixture
def client(bootstrap: str) -> LibrdkafkaConsumerProtocol:
    return LibrdkafkaConsumerProtocol(bootstrap)


class OneByOne(LibrdkafkaConsumer):
    """A consumer that receives one record at a time. Several records might include records of
    partitions that it has just lost, which the new owner also reads."""

    def poll(self, max_records: int = 1) -> list[Record]:
        return super().poll(1)


@pytest.fixture
def member(bootstrap: str, group: str) -> Iterator[Callable[[bool], BackgroundConsumer]]:
    """`member(is_modern)` returns a member of either protocol that commits automatically."""
    created: list[BackgroundConsumer] = []

    def create(is_modern: bool) -> BackgroundConsumer:
        settings = ConsumerSettings(group, auto_commit=True)
        consumer = OneByOne(bootstrap, settings, is_consumer_protocol=is_modern)
        created.append(BackgroundConsumer(consumer))
        return created[-1]

    yield create
    for each in created:
        each.close()


class Production:
    """Produces numbered records in the background until it is stopped."""

    def __init__(self, client: Librdkafka, topic: str) -> None:
        self._client, self._topic = client, topic
        self._is_stopping = threading.Event()
        self.values: list[bytes] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopping.is_set():
            values = [b"record %d" % (len(self.values) + n) for n in range(PARTITIONS)]
            messages = [Message(value, partition=n) for n, value in enumerate(values)]
            self._client.produce(self._topic, messages)
            self.values += values

    def stop(self) -> list[bytes]:
        self._is_stopping.set()
        self._thread.join()
        return self.values


def test_a_second_member_with_the_instance_id_of_a_live_one_is_rejected(
    new_topic: MakeTopic, new_group: NewGroup, consumer: MakeConsumer, group: str
) -> None:
    topic = new_topic(2)
    (older,) = new_group(topic, 2, group_instance_id="same").all
    newer = consumer(group, group_instance_id="same")
    newer.subscribe(topic)
    until(lambda: newer.error_code == LIBRDKAFKA_FATAL, "the newer member is rejected")
    assert older.assignment() == set(partitions_of(topic, 2))


def test_a_rolling_upgrade_and_downgrade_loses_and_repeats_no_record(
    client: LibrdkafkaConsumerProtocol,
    new_topic: MakeTopic,
    member: Callable[[bool], BackgroundConsumer],
    group: str,
) -> None:
    topic = new_topic(PARTITIONS)
    members = Consumers(*(member(False) for _ in range(3)))
    for each in members.all:
        each.subscribe(topic)
    members.until_shared(partitions_of(topic, PARTITIONS), [2, 2, 2])
    production = Production(client, topic)
    admin = AdminClient({"bootstrap.servers": client.bootstrap, "log_level": 0})

    def is_stable() -> bool:
        described = admin.describe_consumer_groups([group])[group].result()
        return len(described.members) == 3 and described.state is ConsumerGroupState.STABLE

    def replace(successor: BackgroundConsumer) -> None:
        members.close(members.all[0])
        successor.subscribe(topic)
        members.add(successor)
        # A member that has not confirmed the previous change cannot commit after a downgrade.
        members.until(is_stable, "all members have confirmed their assignment")
        members.until_shared(partitions_of(topic, PARTITIONS), [2, 2, 2])

    try:
        for is_modern in (True, True, True, False, False, False):
            replace(member(is_modern))
    finally:
        sent = production.stop()
    members.until_values(sent)
    assert sorted(members.values()) == sorted(sent)
