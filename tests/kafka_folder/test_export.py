"""The steps of docs/kafka-folders.md from Kafka to kohort and back.

kohort imports Kafka's folder and writes to it; then Kafka serves its files.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from support.kafka_process import KafkaFolder

from . import consumer_groups
from .group_requests import call, group_state
from .test_import import normalized, serving

pytestmark = [pytest.mark.java, pytest.mark.slow]

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "log.index.size.max.bytes": "4096",  # preallocated, and copied by the tests
}
CHECKPOINTS = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint")


def write_with_kohort(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0})
    for number in range(6):
        producer.produce("orders", b"written by kohort %d" % number, partition=number % 3)
    assert producer.flush(30) == 0
    commit(address, "plain", 7)
    commit(address, "written-by-kohort", 3)
    member = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "member-of-kohort",
            "auto.offset.reset": "earliest",
        }
    )
    member.subscribe(["orders"])
    message = member.poll(30)
    assert message is not None
    assert message.error() is None
    member.commit(asynchronous=False)
    member.close()


def commit(address: str, group_id: str, offset: int) -> None:
    standalone = Consumer({"bootstrap.servers": address, "group.id": group_id})
    standalone.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    standalone.close()


def topics_of(address: str) -> dict[str, int]:
    topics = call(address, "Metadata", 12, {"topics": None})["topics"]
    return {topic["name"]: len(topic["partitions"]) for topic in topics}


def values_of(address: str, topics: dict[str, int]) -> dict[str, list[bytes | None]]:
    """Return the values of all records by partition."""
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )
    found: dict[str, list[bytes | None]] = {}
    for topic, count in topics.items():
        for index in range(count if topic != "__consumer_offsets" else 0):
            partition = TopicPartition(topic, index, 0)
            _, end = reader.get_watermark_offsets(partition, 30)
            reader.assign([partition])
            values = found.setdefault(f"{topic}-{index}", [])
            while reader.position([partition])[0].offset < end:
                message = reader.poll(30)
                assert message is not None, (partition, end)
                values.append(message.value())
                if message.offset() == end - 1:
                    break
    reader.close()
    return found


def move_to_kafka(kohort_data: Path, kafka: KafkaFolder, topics: dict[str, int]) -> None:
    """Steps 2 to 6 of the documentation."""
    kafka.format()
    with kafka.running() as address:
        admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        created = admin.create_topics(
            [
                NewTopic(
                    name,
                    count,
                    1,
                    config={"cleanup.policy": "compact"} if name == "__consumer_offsets" else {},
                )
                for name, count in topics.items()
            ]
        )
        for each in created.values():
            each.result()
    for name, count in topics.items():
        for index in range(count):
            partition = kafka.data / f"{name}-{index}"
            for path in partition.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for path in (kohort_data / partition.name).glob("*.log"):
                shutil.copy(path, partition)
    for name in CHECKPOINTS:
        (kafka.data / name).unlink()
    if (kohort_data / "log-start-offset-checkpoint").exists():
        shutil.copy(kohort_data / "log-start-offset-checkpoint", kafka.data)


def offset_by_topic_id(address: str, group_id: str) -> int:
    """Return the offset of orders-0, as returned to clients that identify topics by id."""
    (topic,) = call(address, "Metadata", 12, {"topics": [{"name": "orders"}]})["topics"]
    asked = {"topic_id": UUID(topic["topic_id"]), "partition_indexes": (0,)}
    group = {"group_id": group_id, "topics": (asked,), "member_epoch": -1}
    response = call(address, "OffsetFetch", 10, {"groups": [group]})
    (partition,) = response["groups"][0]["topics"][0]["partitions"]
    assert partition["error_code"] == "none"
    offset: int = partition["committed_offset"]
    return offset


def test_offsets_and_records_move_from_kafka_to_kohort_and_to_another_kafka(
    kafka_data: Path,
    kafka_responses: dict[str, Any],
    kafka_jars: Path,
    kafka_tool: Callable[..., str],
    tmp_path: Path,
) -> None:
    groups = [*kafka_responses["committed"], "written-by-kohort", "member-of-kohort"]
    with serving(kafka_data) as address:
        write_with_kohort(address)
        expected, topics = group_state(address, groups), topics_of(address)
        values = values_of(address, topics)
        assert offset_by_topic_id(address, "written-by-kohort") == 3
    (tmp_path / "kafka").mkdir()
    kafka = KafkaFolder(kafka_jars, tmp_path / "kafka", SETTINGS)
    move_to_kafka(kafka_data, kafka, topics)
    with kafka.running() as address:
        assert normalized(group_state(address, groups)) == normalized(expected)
        assert values_of(address, topics) == values
        commit(address, "plain", 8)
        assert offset_by_topic_id(address, "written-by-kohort") == -1
        tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        reset = ("--reset-offsets", "--all-groups", "--all-topics", "--to-current", "--execute")
        kafka_tool(tool, "--bootstrap-server", address, *reset)
        assert offset_by_topic_id(address, "written-by-kohort") == 3
        assert_member_is_assigned_again(address)
    assert "stray" not in kafka.log.read_text()


def assert_member_is_assigned_again(address: str) -> None:
    """The topics have other ids."""
    member = consumer_groups.Member(address, "kafka-dynamic", "a")
    member.epoch = 3
    assert member.heartbeat()["member_epoch"] == 3  # it has to revoke the unknown partitions
    assert member.assigned == {}
    assert member.reconcile()["member_epoch"] == 4
    topics = call(address, "Metadata", 12, {"topics": None})["topics"]
    ids = {topic["name"]: topic["topic_id"] for topic in topics}
    assert member.assigned.keys() == {ids["orders"]}


def test_kafka_continues_on_kohorts_folder_and_kohort_on_a_live_copy(
    kafka_data: Path, kafka_responses: dict[str, Any], kafka_jars: Path, tmp_path: Path
) -> None:
    """Kafka rebuilds its indexes, which do not cover kohort's records."""
    groups = [*kafka_responses["committed"], "written-by-kohort", "written-by-kafka"]
    with serving(kafka_data) as address:
        write_with_kohort(address)
        expected = group_state(address, groups)
        topics = topics_of(address)
        values = values_of(address, topics)
    for name in ("__kohort_topics-0", "events"):
        (kafka_data / name).rename(tmp_path / name)
    kafka = KafkaFolder(kafka_jars, tmp_path, SETTINGS)
    with kafka.running() as address:
        found = group_state(address, groups)
        assert normalized(found)["committed"] == normalized(expected)["committed"]
        assert values_of(address, topics) == values
        commit(address, "written-by-kafka", 5)
        expected = group_state(address, groups)
        shutil.copytree(kafka_data, copy := tmp_path / "copy")
    with serving(copy) as address:
        assert normalized(group_state(address, groups)) == normalized(expected)
        assert values_of(address, topics) == values


def test_consumer_groups_of_kohort_continue_in_kafka_as_in_kohort(
    kafka_data: Path, kafka_jars: Path, tmp_path: Path
) -> None:
    with serving(kafka_data) as address:
        consumer_groups.create(address, "kohort")
        expected = consumer_groups.described(address, "kohort")
    shutil.copytree(kafka_data, copy := tmp_path / "copy")
    with serving(copy) as address:
        assert consumer_groups.described(address, "kohort") == expected
        resumed = consumer_groups.resume(address, "kohort")
    for name in ("__kohort_topics-0", "events"):
        (kafka_data / name).rename(tmp_path / name)
    with KafkaFolder(kafka_jars, tmp_path, SETTINGS).running() as address:
        assert consumer_groups.described(address, "kohort") == expected
        assert consumer_groups.resume(address, "kohort") == resumed
