"""The libraries' own admin clients: topics, partitions, configs, offsets."""

from collections.abc import Callable

import pytest

from .adapter import Admin, Client, ConsumerSettings, Message, Place, RefusedError
from .stories import until

MakeTopic = Callable[..., str]

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_TOPIC_EXCEPTION = 17
TOPIC_ALREADY_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_CONFIG = 40


def refused(code: int, call: Callable[..., object], *args: object) -> None:
    with pytest.raises(RefusedError) as error:
        call(*args)
    assert error.value.code == code


def test_a_topic_is_created_listed_and_deleted(admin: Admin, topic_name: str) -> None:
    admin.create_topic(topic_name, 3)
    until(lambda: topic_name in admin.topics(), "it is listed")
    assert admin.partition_count(topic_name) == 3
    admin.delete_topic(topic_name)
    until(lambda: topic_name not in admin.topics(), "it is gone")
    refused(UNKNOWN_TOPIC_OR_PARTITION, admin.delete_topic, topic_name)


def test_a_deleted_topic_that_is_created_again_is_empty(
    client: Client, admin: Admin, topic_name: str
) -> None:
    for _ in range(2):
        admin.create_topic(topic_name)
        until(lambda: topic_name in admin.topics(), "it is listed")
        assert client.produce(topic_name, [Message(b"first", partition=0)]) == [(0, 0)]
        admin.delete_topic(topic_name)
        until(lambda: topic_name not in admin.topics(), "it is gone")


def test_a_topic_that_cannot_be_created_is_refused_with_kafkas_reason(
    admin: Admin, new_topic: MakeTopic, topic_name: str
) -> None:
    refused(TOPIC_ALREADY_EXISTS, admin.create_topic, new_topic())
    refused(INVALID_PARTITIONS, admin.create_topic, topic_name, 0)
    refused(INVALID_TOPIC_EXCEPTION, admin.create_topic, "no such name!")
    refused(INVALID_CONFIG, admin.create_topic, topic_name, 1, {"retention.ms": "soon"})
    assert topic_name not in admin.topics()


def test_partitions_are_added_but_never_taken_away(admin: Admin, new_topic: MakeTopic) -> None:
    topic = new_topic(2)
    admin.add_partitions(topic, 5)
    until(lambda: admin.partition_count(topic) == 5, "five partitions are there")
    refused(INVALID_PARTITIONS, admin.add_partitions, topic, 3)
    assert admin.partition_count(topic) == 5


def test_topic_configs_are_told_and_altered(admin: Admin, new_topic: MakeTopic) -> None:
    topic = new_topic(1, **{"retention.ms": "3600000"})
    told = admin.topic_configs(topic)
    assert told["retention.ms"] == "3600000"
    assert told["cleanup.policy"] == "delete"
    admin.alter_topic_configs(topic, {"retention.ms": "7200000", "max.message.bytes": "20000"})
    until(lambda: admin.topic_configs(topic)["retention.ms"] == "7200000", "the new value is told")
    assert admin.topic_configs(topic)["max.message.bytes"] == "20000"


def test_an_altered_limit_is_obeyed(client: Client, admin: Admin, new_topic: MakeTopic) -> None:
    topic = new_topic(1, **{"max.message.bytes": "1000"})
    assert client.produce(topic, [Message(b"x" * 500, partition=0)]) == [(0, 0)]
    with pytest.raises(Exception, match=r"(?i)size|large|MSG_SIZE"):
        client.produce(topic, [Message(b"x" * 5_000, partition=0)])
    admin.alter_topic_configs(topic, {"max.message.bytes": "10000"})
    until(lambda: admin.topic_configs(topic)["max.message.bytes"] == "10000", "the limit is raised")
    assert client.produce(topic, [Message(b"x" * 5_000, partition=0)]) == [(0, 1)]


def test_configs_that_cannot_be_are_refused_and_change_nothing(
    admin: Admin, new_topic: MakeTopic
) -> None:
    topic = new_topic(1)
    before = admin.topic_configs(topic)
    refused(INVALID_CONFIG, admin.alter_topic_configs, topic, {"no.such.key": "1"})
    refused(INVALID_CONFIG, admin.alter_topic_configs, topic, {"retention.ms": "soon"})
    assert admin.topic_configs(topic) == before


def test_the_cluster_and_its_brokers_configs_are_told(client: Client, admin: Admin) -> None:
    host, port = client.bootstrap.rsplit(":", 1)
    assert (host, int(port)) in admin.brokers()
    told = admin.broker_configs()
    assert told["offsets.topic.num.partitions"] is not None
    assert told["group.initial.rebalance.delay.ms"] == "0"


def test_records_are_deleted_and_whoever_was_behind_goes_on_after_them(
    client: Client, admin: Admin, new_topic: MakeTopic
) -> None:
    place = Place(new_topic(1), 0)
    # One by one, so that a batch ends where the deletion does.
    for value in (b"0", b"1", b"2", b"3"):
        client.produce(place.topic, [Message(value, partition=0)])
    assert admin.delete_records(place, 2) == 2
    refused(OFFSET_OUT_OF_RANGE, admin.delete_records, place, 5)
    consumer = client.consumer(ConsumerSettings())
    try:
        consumer.assign(place)
        assert consumer.beginning_offset(place) == 2
        for _ in range(2):
            values: list[bytes | None] = []

            def has_read_two(values: list[bytes | None] = values) -> bool:
                values.extend(record.value for record in consumer.poll())
                return len(values) >= 2

            until(has_read_two, "what is left is read")
            assert values == [b"2", b"3"]
            consumer.seek(place, 0)
    finally:
        consumer.close()
