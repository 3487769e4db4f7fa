"""The steps of docs/kafka-folders.md, both ways in a row: a folder of Kafka's is served by us, who
go on writing; then what we wrote is put into a new folder of Kafka's."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka_process import KafkaFolder

from .asking import ask, said_of_groups
from .test_takeover import of_groups, serving

pytestmark = [pytest.mark.java, pytest.mark.slow]

SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "4096",  # allocated ahead: to be copied in no time
}
MISLEADING = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint")


def go_on_writing(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
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
    alone = Consumer({"bootstrap.servers": address, "group.id": group_id})
    alone.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)
    alone.close()


def topics_of(address: str) -> dict[str, int]:
    topics = ask(address, "Metadata", 12, {"topics": None})["topics"]
    return {topic["name"]: len(topic["partitions"]) for topic in topics}


def values_of(address: str, topics: dict[str, int]) -> dict[str, list[bytes | None]]:
    """Every record that a new consumer is given, by partition."""
    alone = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )
    found: dict[str, list[bytes | None]] = {}
    for topic, count in topics.items():
        for index in range(count if topic != "__consumer_offsets" else 0):
            partition = TopicPartition(topic, index, 0)
            _, end = alone.get_watermark_offsets(partition, 30)
            alone.assign([partition])
            values = found.setdefault(f"{topic}-{index}", [])
            while alone.position([partition])[0].offset < end:
                message = alone.poll(30)
                assert message is not None, (partition, end)
                values.append(message.value())
                if message.offset() == end - 1:
                    break
    alone.close()
    return found


def moved(ours: Path, kafka: KafkaFolder, topics: dict[str, int]) -> None:
    """Steps 2 to 6."""
    kafka.format()
    with kafka.running() as address:
        admin = AdminClient({"bootstrap.servers": address})
        made = admin.create_topics(
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
        for each in made.values():
            each.result()
    for name, count in topics.items():
        for index in range(count):
            theirs = kafka.data / f"{name}-{index}"
            for path in theirs.iterdir():
                if path.name != "partition.metadata":
                    path.unlink()
            for path in (ours / theirs.name).glob("*.log"):
                shutil.copy(path, theirs)
    for name in MISLEADING:
        (kafka.data / name).unlink()
    if (ours / "log-start-offset-checkpoint").exists():
        shutil.copy(ours / "log-start-offset-checkpoint", kafka.data)


def test_offsets_and_records_go_from_kafka_to_us_and_on_to_another_kafka(
    data: Path, said: dict[str, Any], kafka_jars: Path, tmp_path: Path
) -> None:
    groups = [*said["committed"], "written-by-kohort", "member-of-kohort"]
    with serving(data) as address:
        go_on_writing(address)
        ours, topics = said_of_groups(address, groups), topics_of(address)
        values = values_of(address, topics)
    (tmp_path / "kafka").mkdir()
    kafka = KafkaFolder(kafka_jars, tmp_path / "kafka", SETTINGS)
    moved(data, kafka, topics)
    with kafka.running() as address:
        kafkas = said_of_groups(address, groups)
        for key, expected in of_groups(ours).items():
            assert of_groups(kafkas)[key] == expected
        assert values_of(address, topics) == values
        commit(address, "plain", 8)
    assert "stray" not in kafka.log.read_text()


def test_kafka_goes_on_where_we_stopped_and_we_do_on_a_copy_made_while_it_runs(
    data: Path, said: dict[str, Any], kafka_jars: Path, tmp_path: Path
) -> None:
    """It makes indexes that fit, though its own files beside our records are older."""
    groups = [*said["committed"], "written-by-kohort", "written-by-kafka"]
    with serving(data) as address:
        go_on_writing(address)
        ours = said_of_groups(address, groups)
        topics = topics_of(address)
        values = values_of(address, topics)
    for name in ("__kohort_topics-0", "events"):
        (data / name).rename(tmp_path / name)
    kafka = KafkaFolder(kafka_jars, tmp_path, SETTINGS)
    with kafka.running() as address:
        kafkas = said_of_groups(address, groups)
        assert of_groups(kafkas)["committed"] == of_groups(ours)["committed"]
        assert values_of(address, topics) == values
        commit(address, "written-by-kafka", 5)
        kafkas = said_of_groups(address, groups)
        shutil.copytree(data, copy := tmp_path / "copy")
    with serving(copy) as address:
        assert of_groups(said_of_groups(address, groups)) == of_groups(kafkas)
        assert values_of(address, topics) == values
