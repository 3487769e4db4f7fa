"""The libraries' admin clients: topics, partitions, configs, records."""

from collections.abc import Callable

import pytest

from .adapter import Admin, BrokerError, Client, ConsumerSettings, Message, Partition
from .conftest import MakeTopic
from .consumers import until

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40


def assert_rejected(code: int, call: Callable[..., object], *args: object) -> None:
    with pytest.raises(BrokerError) as error:
        call(*args)
    assert error.value.code == code


def test_a_deleted_topic_that_is_created_again_is_empty(
    client: Client, admin: Admin, topic_name: str
) -> None:
    for _ in range(2):
        admin.create_topic(topic_name)
        until(lambda: topic_name in admin.topics(), "it is listed")
        assert client.produce(topic_name, [Message(b"first", partition=0)]) == [(0, 0)]
        admin.delete_topic(topic_name)
        until(lambda: topic_name not in admin.topics(), "it is not listed")


def test_invalid_topics_are_rejected_with_kafkas_errors(
    admin: Admin, new_topic: MakeTopic, topic_name: str
) -> None:
    assert_rejected(TOPIC_ALREADY_EXISTS, admin.create_topic, new_topic())
    assert_rejected(INVALID_PARTITIONS, admin.create_topic, topic_name, 0)
    assert_rejected(INVALID_TOPIC_EXCEPTION, admin.create_topic, "no such name!")
    assert_rejected(INVALID_CONFIG, admin.create_topic, topic_name, 1, {"retention.ms": "soon"})
    assert topic_name not in admin.topics()


def test_partitions_are_added_and_cannot_be_removed(admin: Admin, new_topic: MakeTopic) -> None:
    topic = new_topic(2)
    admin.add_partitions(topic, 5)
    until(lambda: admin.partition_count(topic) == 5, "the topic has five partitions")
    assert_rejected(INVALID_PARTITIONS, admin.add_partitions, topic, 3)
    assert admin.partition_count(topic) == 5


def test_topic_configs_are_described_and_altered(admin: Admin, new_topic: MakeTopic) -> None:
    topic = new_topic(1, **{"retention.ms": "3600000"})
    configs = admin.topic_configs(topic)
    assert configs["retention.ms"] == "3600000"
    assert configs["cleanup.policy"] == "delete"
    admin.alter_topic_configs(topic, {"retention.ms": "7200000", "max.message.bytes": "20000"})
    until(
        lambda: admin.topic_configs(topic)["retention.ms"] == "7200000",
        "the new value is described",
    )
    assert admin.topic_configs(topic)["max.message.bytes"] == "20000"


def test_an_altered_limit_takes_effect(client: Client, admin: Admin, new_topic: MakeTopic) -> None:
    topic = new_topic(1, **{"max.message.bytes": "1000"})
    assert client.produce(topic, [Message(b"x" * 500, partition=0)]) == [(0, 0)]
    with pytest.raises(Exception, match=r"(?i)size|large|MSG_SIZE"):
        client.produce(topic, [Message(b"x" * 5_000, partition=0)])
    admin.alter_topic_configs(topic, {"max.message.bytes": "10000"})
    until(lambda: admin.topic_configs(topic)["max.message.bytes"] == "10000", "the limit is raised")
    assert client.produce(topic, [Message(b"x" * 5_000, partition=0)]) == [(0, 1)]


def test_invalid_configs_are_rejected_and_change_nothing(
    admin: Admin, new_topic: MakeTopic
) -> None:
    topic = new_topic(1)
    before = admin.topic_configs(topic)
    assert_rejected(INVALID_CONFIG, admin.alter_topic_configs, topic, {"no.such.key": "1"})
    assert_rejected(INVALID_CONFIG, admin.alter_topic_configs, topic, {"retention.ms": "soon"})
    assert admin.topic_configs(topic) == before


def test_the_cluster_and_its_brokers_configs_are_described(client: Client, admin: Admin) -> None:
    host, port = client.bootstrap.rsplit(":", 1)
    assert (host, int(port)) in admin.brokers()
    configs = admin.broker_configs()
    assert configs["offsets.topic.num.partitions"] is not None
    assert configs["group.initial.rebalance.delay.ms"] == "0"


def test_a_consumer_behind_deleted_records_continues_after_them(
    client: Client, admin: Admin, new_topic: MakeTopic
) -> None:
    partition = Partition(new_topic(1), 0)
    # Each record has its own batch, so that a batch ends at the offset of the deletion.
    for value in (b"0", b"1", b"2", b"3"):
        client.produce(partition.topic, [Message(value, partition=0)])
    assert admin.delete_records(partition, 2) == 2
    assert_rejected(OFFSET_OUT_OF_RANGE, admin.delete_records, partition, 5)
    consumer = client.consumer(ConsumerSettings())
    try:
        consumer.assign(partition)
        assert consumer.beginning_offset(partition) == 2
        for _ in range(2):
            values: list[bytes | None] = []

            def has_read_two(values: list[bytes | None] = values) -> bool:
                values.extend(record.value for record in consumer.poll())
                return len(values) >= 2

            until(has_read_two, "the remaining records are read")
            assert values == [b"2", b"3"]
            consumer.seek(partition, 0)
    finally:
        consumer.close()
