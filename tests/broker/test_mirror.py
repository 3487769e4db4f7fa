"""The mirror: the offsets topic under a second name, for clients that see no internal topics."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition
from kohort.broker.config.broker_config import BrokerConfig
from kohort.broker.config.sources import ConfigError
from kohort.testing import Kafka
from support.running_broker import BrokerThread

pytestmark = pytest.mark.clients
MIRROR = "offsets-log"
PARTITIONS = 2


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    config = {"kohort.offsets.mirror": MIRROR, "offsets.topic.num.partitions": str(PARTITIONS)}
    with Kafka(config=config) as kafka:
        orders = kafka.topic("orders", partitions=1)
        orders.produce(["one", "two"])
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
        )
        with contextlib.closing(consumer):
            next(consumer)
            consumer.commit()
        yield kafka


def records_of(kafka: Kafka, topic: str) -> list[tuple[int, int, bytes]]:
    """Return (partition, offset, key) of all records."""
    consumer = KafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, exclude_internal_topics=False
    )
    with contextlib.closing(consumer):
        partitions = [KafkaPythonPartition(topic, number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        found: list[tuple[int, int, bytes]] = []
        ends = sum(consumer.end_offsets(partitions).values())
        while len(found) < ends:
            for batch in consumer.poll(100).values():
                found += [(each.partition, each.offset, each.key) for each in batch]
    return sorted(found)


def test_the_mirror_has_the_records_of_the_offsets_topic(kafka: Kafka) -> None:
    records = records_of(kafka, MIRROR)
    assert len(records) > 2
    assert records == records_of(kafka, "__consumer_offsets")


async def test_consumers_of_all_topics_receive_the_mirror(kafka: Kafka) -> None:
    expected = records_of(kafka, MIRROR)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        consumer.subscribe([MIRROR])
        found = []
        while len(found) < len(expected):
            for batch in (await consumer.getmany(timeout_ms=100)).values():
                found += [(each.partition, each.offset, each.key) for each in batch]
        assert sorted(found)[: len(expected)] == expected
    finally:
        await consumer.stop()

    reader = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    with contextlib.closing(reader):
        reader.subscribe([MIRROR])
        record = None
        while record is None:
            record = reader.poll(0.1)
        (stored,) = reader.commit(record, asynchronous=False)
        assert (stored.topic, stored.error) == (MIRROR, None)
    assert kafka.group("reader").committed(MIRROR, record.partition()) == record.offset() + 1


def test_the_mirror_is_listed_as_an_ordinary_topic(kafka: Kafka) -> None:
    consumer = KafkaConsumer(bootstrap_servers=kafka.bootstrap_servers)
    with contextlib.closing(consumer):
        assert consumer.topics() == {"orders", MIRROR}
        assert consumer.partitions_for_topic(MIRROR) == set(range(PARTITIONS))
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    resource = ConfigResource(ConfigResource.Type.TOPIC, MIRROR)
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(10)["cleanup.policy"].value == "compact"


def test_the_mirror_cannot_be_written_created_or_deleted(kafka: Kafka) -> None:
    errors: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    producer.produce(MIRROR, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    assert errors[0].code() == KafkaError.TOPIC_EXCEPTION
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
    with pytest.raises(KafkaException) as created:
        admin.create_topics([NewTopic(MIRROR, 1)])[MIRROR].result(10)
    assert created.value.args[0].code() == KafkaError.TOPIC_EXCEPTION
    with pytest.raises(KafkaException) as deleted:
        admin.delete_topics([MIRROR])[MIRROR].result(10)
    assert deleted.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert len(records_of(kafka, MIRROR)) > 2


def test_an_invalid_mirror_name_is_rejected() -> None:
    for name in ("a b", "__consumer_offsets"):
        with pytest.raises(ConfigError, match=r"kohort\.offsets\.mirror"):
            BrokerConfig({"kohort.offsets.mirror": name})


def test_a_mirror_name_that_a_topic_has_is_rejected_at_the_start(tmp_path: Path) -> None:
    with BrokerThread({}, data_dir=tmp_path / "data", durability="os") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(10)
    config = {"kohort.offsets.mirror": "orders"}
    with (
        pytest.raises(ConfigError, match="topic orders already exists"),
        BrokerThread(config, data_dir=tmp_path / "data", durability="os"),
    ):
        pass
